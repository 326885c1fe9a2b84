package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"lehr.dev/test/building"
)

const patience = 5 * time.Minute

// site is a real server with the real plugin, and real (simulated) switches.
type site struct {
	*testing.T
	folder, bin, url string
	serving          *exec.Cmd
}

// newSite copies the example, and starts its switches with faults.
func newSite(t *testing.T, faults string) *site {
	s := &site{T: t, folder: t.TempDir(), bin: t.TempDir()}
	for name, of := range map[string]string{"lehr": "../../cmd/lehr", "lehr-workflow": "../../plugins/workflow", "switches": "."} {
		if err := (building.Program{Of: of}).At(filepath.Join(s.bin, name)); err != nil {
			t.Fatal(err)
		}
	}
	switches := exec.Command(filepath.Join(s.bin, "switches"), "--listen", "127.0.0.1:0", "--reboot", "200ms", "--faults", faults)
	switches.Stderr = os.Stderr
	stdout, err := switches.StdoutPipe()
	if err == nil {
		err = switches.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = switches.Process.Kill()
		_ = switches.Wait()
	})
	line, err := bufio.NewReader(stdout).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	s.url = strings.TrimSpace(strings.TrimPrefix(line, "listening on "))
	for _, name := range []string{"lehr.yaml", "switches.yaml", "switches.star", "upgrade.yaml", "endpoints.yaml"} {
		text, err := os.ReadFile(name)
		if err == nil {
			text = bytes.ReplaceAll(text, []byte("http://127.0.0.1:9180"), []byte(s.url))
			err = os.WriteFile(filepath.Join(s.folder, name), text, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return s
}

func (s *site) command(args ...string) *exec.Cmd {
	command := exec.Command(filepath.Join(s.bin, "lehr"), args...)
	command.Dir = s.folder
	command.Env = append(os.Environ(), "PATH="+s.bin+":"+os.Getenv("PATH"), "HOME="+s.folder, "LEHR_SERVER=", "LEHR_TOKEN=", "LEHR_STORE=", "no_proxy=*")
	return command
}

// serve until the test ends, or until it is killed.
func (s *site) serve() {
	s.Helper()
	s.serving = s.command("serve", "-p", "lehr.yaml", "--sweep", "1s")
	log := &bytes.Buffer{}
	s.serving.Stderr = log
	if err := s.serving.Start(); err != nil {
		s.Fatal(err)
	}
	serving := s.serving
	s.Cleanup(func() {
		_ = serving.Process.Signal(os.Interrupt)
		_ = serving.Wait()
		if s.Failed() {
			s.Logf("the server said:\n%s", log)
		}
	})
}

func (s *site) lehr(args ...string) string {
	s.Helper()
	output, err := s.command(args...).CombinedOutput()
	if err != nil {
		s.Fatalf("lehr %s: %v\n%s", strings.Join(args, " "), err, output)
	}
	return string(output)
}

// see the fabric itself, not what Lehr says of it.
func (s *site) see() summary {
	s.Helper()
	ctx, cancel := context.WithTimeout(s.Context(), patience)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, s.url, nil)
	if err != nil {
		s.Fatal(err)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		s.Fatal(err)
	}
	defer response.Body.Close()
	var seen summary
	if err := json.NewDecoder(response.Body).Decode(&seen); err != nil {
		s.Fatal(err)
	}
	return seen
}

// await something to be seen at the fabric.
func (s *site) await(what string, isSo func(seen summary) bool) summary {
	s.Helper()
	for deadline := time.Now().Add(patience); ; time.Sleep(20 * time.Millisecond) {
		seen := s.see()
		switch {
		case isSo(seen):
			return seen
		case time.Now().After(deadline):
			text, _ := json.Marshal(seen)
			reports, _ := s.command("get", "reports", "-o", "json").CombinedOutput()
			s.Fatalf("%s: it was not so within %s:\n%s\n%s", what, patience, text, reports)
		}
	}
}

func (seen summary) find(name string) *device {
	for _, s := range seen.Switches {
		if s.Name == name {
			return s
		}
	}
	return &device{}
}

// upgraded counts the switches that have the firmware, and are in service.
func (seen summary) upgraded(firmware string) (n int) {
	for _, s := range seen.Switches {
		if s.Firmware == firmware && s.Ports == "up" && s.State == "up" {
			n++
		}
	}
	return n
}

// plugin is the process of lehr-workflow, a child of the server.
func (s *site) plugin() int {
	s.Helper()
	id := s.serving.Process.Pid
	tasks, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", id))
	if err != nil {
		s.Fatal(err)
	}
	for _, task := range tasks {
		text, _ := os.ReadFile(task)
		for _, child := range strings.Fields(string(text)) {
			name, _ := os.ReadFile("/proc/" + child + "/comm")
			if strings.TrimSpace(string(name)) == "lehr-workflow" {
				found, err := strconv.Atoi(child)
				if err != nil {
					s.Fatal(err)
				}
				return found
			}
		}
	}
	s.Fatalf("the server %d has no child lehr-workflow", id)
	return 0
}

// TestUpgrade: all twenty switches get their firmware by the real server and the real plugin, which
// is killed in the middle of a reboot, and so is the server later; the one that does not forward is
// isolated, and somebody is told once; a stop stops.
func TestUpgrade(t *testing.T) {
	if testing.Short() {
		t.Skip("starts real processes")
	}
	s := newSite(t, "s02="+verifyFails+",s03="+answerHeld+",s12="+answerLost)
	s.serve()

	// Killed while a reboot that has begun is not answered.
	s.await("the reboot of s03", func(seen summary) bool { return seen.find("s03").Reboots == 1 && len(seen.Pages) == 1 })
	if err := syscall.Kill(s.plugin(), syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}

	// A stop: nothing more happens, whatever was under way.
	s.await("four switches", func(seen summary) bool { return seen.upgraded("2.0") >= 4 })
	s.lehr("stop", "fabric", "--reason", "the carrier reports an outage")
	for deadline := time.Now().Add(patience); strings.Contains(s.lehr("get", "pushes"), "under way"); {
		if time.Now().After(deadline) {
			t.Fatal("pushes are open after the stop")
		}
	}
	stopped := s.see()
	// Looks go on, so that a second of them shows that none leads to an effect.
	for range 5 {
		s.lehr("get", "assets")
	}
	if seen := s.see(); seen.Effects != stopped.Effects {
		t.Errorf("%d effects came after the stop", seen.Effects-stopped.Effects)
	}
	if n := stopped.upgraded("2.0"); n >= switchCount-1 {
		t.Errorf("%d switches were upgraded before the stop: it shows nothing", n)
	}
	s.lehr("resume", "fabric", "--reason", "the outage is over")

	// The server is killed with its plugin, and another one goes on from what is kept.
	s.await("twelve switches", func(seen summary) bool { return seen.upgraded("2.0") >= 12 })
	_ = s.serving.Process.Kill()
	_ = s.serving.Wait()
	s.serve()

	seen := s.await("nineteen switches, and one that is isolated", func(seen summary) bool {
		return seen.upgraded("2.0") == switchCount-1 && seen.find("s02").Ports == "isolated" && len(seen.Pages) > 0
	})
	for row, n := range seen.MostOut {
		if n > 2 {
			t.Errorf("of row %s, %d switches were out of service at a time", row, n)
		}
	}
	for _, one := range seen.Switches {
		if one.Reboots != 1 {
			t.Errorf("%s rebooted %d times", one.Name, one.Reboots)
		}
	}
	if len(seen.Pages) != 1 || seen.Pages[0].Switch != "s02" {
		t.Errorf("the pager was told %v", seen.Pages)
	}
	report := s.lehr("describe", "report", "switch/s02")
	for _, want := range []string{"run 1 ended in failure because of switch", "is not repeated", "switch: verifying → isolating"} {
		if !strings.Contains(report, want) {
			t.Errorf("the report of s02 does not say %q:\n%s", want, report)
		}
	}
	s.lehr("audit", "verify")

	// Somebody mends it, and says so in intent.
	if seen := s.see(); seen.find("s02").Reboots != 1 || len(seen.Pages) != 1 {
		t.Errorf("s02 was tried again unasked: %+v, %v", seen.find("s02"), seen.Pages)
	}
	s.mend("s02")
	s.await("all twenty", func(seen summary) bool { return seen.upgraded("2.0") == switchCount && seen.find("s02").Reboots == 2 })
}

// mend a switch, and have it upgraded once more.
func (s *site) mend(name string) {
	s.Helper()
	response, err := http.Post(s.url+"/switches/"+name+"/fault", "application/json", strings.NewReader(`{"fault": ""}`))
	if err != nil {
		s.Fatal(err)
	}
	response.Body.Close()
	path := filepath.Join(s.folder, "switches.yaml")
	text, err := os.ReadFile(path)
	if err == nil {
		text = bytes.Replace(text, []byte("rerun: {}"), []byte("rerun:\n  "+name+": {id: OPS-7, reason: the optics are replaced}"), 1)
		err = os.WriteFile(path, text, 0o600)
	}
	if err != nil {
		s.Fatal(err)
	}
}
