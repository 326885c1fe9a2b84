package python_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	pluginpb "lehr.dev/gen/lehr/plugin/v1"
)

// startHolder starts a plugin whose assets are secrets of commands: one that prints, and one
// that hangs after it has written its process number.
func startHolder(t *testing.T) *child {
	t.Helper()
	buildSecretsProgram(t)
	c := startChildWith(t, "holder.py", func(home string) []string {
		for name, content := range map[string]string{
			"key": strings.Repeat("0123456789abcdef", 2), "prints": "echo swordfish of the holder", "hangs": "echo $$ >" + home + "/hanging; exec sleep 1000",
			"lehr-secrets.yaml": fmt.Sprintf("lehr-secrets: v1\nkey: %s/key\nsecrets:\n- {command: prints, run: [/bin/sh, %[1]s/prints], partitions: [p], plugins: [holder]}\n- {command: hangs, run: [/bin/sh, %[1]s/hangs], partitions: [p], plugins: [holder]}\n", home),
		} {
			if err := os.WriteFile(filepath.Join(home, name), []byte(content), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		return []string{"LEHR_SECRET_LIST=" + home + "/lehr-secrets.yaml"}
	})
	return c
}

// processes are the number of the program that reads the secrets, and that of its command.
func (c *child) processes(l *looks) (reader, command int) {
	c.t.Helper()
	answers := l.ask(&pluginpb.DiffBatch{Batch: 1, Assets: []string{"prints", "hangs"}})
	if !strings.Contains(answers["prints"].GetHealth().GetReason(), "secret (digest ") {
		c.t.Fatalf("%+v", answers["prints"])
	}
	if reason := answers["hangs"].GetUnknown().GetReason(); !strings.Contains(reason, "is being read, since") {
		c.t.Fatalf("one that hangs: %+v", answers["hangs"])
	}
	reader = c.childByParent()
	written, err := os.ReadFile(filepath.Join(c.home, "hanging"))
	command, _ = strconv.Atoi(strings.TrimSpace(string(written)))
	if reader == 0 || command == 0 {
		c.t.Fatalf("reader %d, command %d: %v", reader, command, err)
	}
	return reader, command
}

// childByParent looks through all processes: a child belongs to the thread that started it.
func (c *child) childByParent() int {
	entries, _ := filepath.Glob("/proc/[0-9]*/stat")
	for _, entry := range entries {
		content, _ := os.ReadFile(entry)
		_, after, _ := strings.Cut(string(content), ") ")
		if fields := strings.Fields(after); len(fields) > 1 && fields[1] == strconv.Itoa(c.command.Process.Pid) {
			number, _ := strconv.Atoi(filepath.Base(filepath.Dir(entry)))
			return number
		}
	}
	return 0
}

// waitForEnd returns when a process is gone.
func waitForEnd(t *testing.T, what string, number int) {
	t.Helper()
	for begin := time.Now(); ; time.Sleep(10 * time.Millisecond) {
		state, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", number))
		if _, after, _ := strings.Cut(string(state), ") "); err != nil || strings.HasPrefix(after, "Z") {
			return
		}
		if time.Since(begin) > time.Minute {
			t.Fatalf("%s, %d, goes on: %s", what, number, state)
		}
	}
}

// TestWhatReadsSecretsEndsWithThePlugin, killed too, and so does a command that hangs.
func TestWhatReadsSecretsEndsWithThePlugin(t *testing.T) {
	t.Parallel()
	c := startHolder(t)
	reader, command := c.processes(c.look())
	if err := unix.Kill(c.command.Process.Pid, unix.SIGKILL); err != nil {
		t.Fatal(err)
	}
	waitForEnd(t, "lehr-secrets", reader)
	waitForEnd(t, "the command", command)
}

// TestThePluginEndsWithWhatKnowsItsSecrets: without it nobody could tell what is secret.
func TestThePluginEndsWithWhatKnowsItsSecrets(t *testing.T) {
	t.Parallel()
	c := startHolder(t)
	reader, _ := c.processes(c.look())
	if err := unix.Kill(reader, unix.SIGKILL); err != nil {
		t.Fatal(err)
	}
	select {
	case <-c.exited:
	case <-c.context().Done():
		t.Fatal("the plugin goes on")
	}
	if words := c.words.String(); !strings.Contains(words, "the plugin ends, to be started anew") || strings.Contains(words, "swordfish") {
		t.Errorf("its last words: %s", words)
	}
}
