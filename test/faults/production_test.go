package faults

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// Production is a folder: one file with a value for each resource, one that
// pushes lock while they work, and a log of everything that pushes ever did.

// Exit codes of the commands, see lehr.command.v1.Command.
const (
	exitInSync  = 0
	exitDiffers = 2
	exitBroken  = 3
	// exitContended: two pushes of one resource at a time (S3).
	exitContended = 4
)

// effect is one line of the log.
type effect struct {
	// Step is "start", "beat" while the push works, "end" after the value
	// was written, or "contended".
	Step     string
	Push     string
	Resource string
	Value    int
	PID      int
	// At is in Unix nanoseconds.
	At int64
}

const effectLog = "effects.log"

func valuePath(folder, resource string) string { return filepath.Join(folder, resource+".value") }

// readValue returns 0 for a resource that is not there yet.
func readValue(folder, resource string) (int, error) {
	content, err := os.ReadFile(valuePath(folder, resource))
	if errors.Is(err, os.ErrNotExist) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	return strconv.Atoi(strings.TrimSpace(string(content)))
}

// diffProgram compares: FOLDER RESOURCE VALUE.
func diffProgram(arguments []string) int {
	folder, resource, wanted := arguments[0], arguments[1], arguments[2]
	have, err := readValue(folder, resource)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return exitBroken
	}
	if strconv.Itoa(have) == wanted {
		return exitInSync
	}
	fmt.Printf("value: %d, should be %s\n", have, wanted)
	return exitDiffers
}

// pushProgram changes production, slowly: FOLDER RESOURCE VALUE.
func pushProgram(arguments []string) int {
	folder, resource := arguments[0], arguments[1]
	value, err := strconv.Atoi(arguments[2])
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return exitBroken
	}
	record := func(step string) error {
		return appendEffect(folder, effect{
			Step: step, Push: os.Getenv("LEHR_PUSH"), Resource: resource, Value: value, PID: os.Getpid(), At: time.Now().UnixNano(),
		})
	}
	lock, err := os.OpenFile(filepath.Join(folder, resource+".lock"), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return exitBroken
	}
	if err := unix.Flock(int(lock.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		fmt.Fprintln(os.Stderr, errors.Join(err, record("contended")))
		return exitContended
	}
	err = record("start")
	for end := time.Now().Add(work(os.Getenv("LEHR_PUSH"))); err == nil && (time.Now().Before(end) || held(folder, resource)); {
		const beat = 4 * time.Millisecond
		time.Sleep(beat)
		err = record("beat")
	}
	if err == nil {
		err = replaceFile(valuePath(folder, resource), fmt.Sprintln(value))
	}
	if err == nil {
		err = record("end")
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return exitBroken
	}
	return 0
}

// held: pushes of the resource do not end by themselves.
func held(folder, resource string) bool {
	_, err := os.Stat(heldPath(folder, resource))
	return err == nil
}

func heldPath(folder, resource string) string { return filepath.Join(folder, resource+".held") }

// work is how long a push takes: most are quick, and some so long that whoever
// outlives its plugin is seen to.
func work(push string) time.Duration {
	const quick, long, longEvery = 80, 1500 * time.Millisecond, 8
	hash := fnv.New32a()
	hash.Write([]byte(push))
	if sum := hash.Sum32(); sum%longEvery > 0 {
		return time.Duration(sum/longEvery%quick) * time.Millisecond
	}
	return long
}

// taskProgram is a process of a job: PORT TEST. It listens on the port, unless
// that is 0, and ends with the test.
func taskProgram(arguments []string) int {
	if arguments[0] != "0" {
		if _, err := net.Listen("tcp", "127.0.0.1:"+arguments[0]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
	}
	test, _ := strconv.Atoi(arguments[1])
	if err := awaitEnd(test); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

// appendEffect writes one line, which is on the disk when it returns.
func appendEffect(folder string, e effect) error {
	line, err := json.Marshal(e)
	if err != nil {
		return err
	}
	file, err := os.OpenFile(filepath.Join(folder, effectLog), os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	defer file.Close()
	if _, err := file.Write(append(line, '\n')); err != nil {
		return err
	}
	if e.Step == "beat" {
		return nil
	}
	return file.Sync()
}

// replaceFile writes a file as a whole or not at all.
func replaceFile(path, content string) error {
	passing := fmt.Sprintf("%s.%d.new", path, os.Getpid())
	if err := os.WriteFile(passing, []byte(content), 0o644); err != nil {
		return err
	}
	return os.Rename(passing, path)
}

// readEffects returns the log, in the order in which it was written.
func readEffects(t *testing.T, folder string) []effect {
	t.Helper()
	content, err := os.ReadFile(filepath.Join(folder, effectLog))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		t.Fatal(err)
	}
	var effects []effect
	for line := range bytes.Lines(content) {
		var e effect
		if err := json.Unmarshal(line, &e); err != nil {
			t.Fatalf("the log of effects has the line %q: %v", line, err)
		}
		effects = append(effects, e)
	}
	return effects
}
