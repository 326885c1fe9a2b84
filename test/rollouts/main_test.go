// Package rollouts lets a real server roll releases of the example's frontend out to ten
// clusters of real processes, while users search and a real Prometheus reads what the
// frontends say of themselves: good ones, ones that fail or become slow, without
// Prometheus for a while, without the server, and beside a flag of the same jobs. It judges by production: by what users
// get, and by the processes that run. Nothing imports it.
package rollouts

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"lehr.dev/test/building"
)

// The test binary is also what ends the frontends when a test cannot.
func TestMain(m *testing.M) {
	if len(os.Args) == 3 && os.Args[1] == "production:reap" {
		os.Exit(reap(os.Args[2]))
	}
	os.Exit(m.Run())
}

// startReaper starts a process that outlives the tests, however they end.
func startReaper(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	reaper := exec.Command(self, "production:reap", strconv.Itoa(os.Getpid()))
	reaper.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := reaper.Start(); err != nil {
		t.Fatal(err)
	}
}

// reap waits for the end of a test, and ends the frontends that it left.
func reap(test string) int {
	pid, err := strconv.Atoi(test)
	if err != nil {
		return 1
	}
	if fd, err := unix.PidfdOpen(pid, 0); err == nil {
		for {
			if _, err = unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, -1); err != unix.EINTR {
				break
			}
		}
	}
	for _, f := range frontends(serviceOf(pid)) {
		_ = syscall.Kill(f.pid, syscall.SIGKILL)
	}
	return 0
}

// serviceOf names the service of a test, so that two do not meet.
func serviceOf(pid int) string { return fmt.Sprintf("rollouts-%d", pid) }

// patience bounds every wait; no test waits for it when all is well.
const patience = 5 * time.Minute

// eventually waits for what says what is still missing.
func eventually(t *testing.T, what string, missing func() string) {
	t.Helper()
	why := ""
	for began := time.Now(); time.Since(began) < patience; time.Sleep(100 * time.Millisecond) {
		if why = missing(); why == "" {
			return
		}
	}
	t.Fatalf("not within %s: %s: %s", patience, what, why)
}

// build the programs into a folder.
func build(t *testing.T, folder string) {
	t.Helper()
	for program, from := range map[string]string{"lehr": "./cmd/lehr", "lehr-process": "./plugins/process", "frontend": "./examples/shakespeare/frontend"} {
		if err := (building.Program{Of: filepath.Join("../..", from)}).At(filepath.Join(folder, program)); err != nil {
			t.Fatal(err)
		}
	}
}

// need is where a program is; without it the test is skipped, but not in CI.
func need(t *testing.T, name string) string {
	t.Helper()
	path, err := exec.LookPath(name)
	if err == nil {
		return path
	}
	message := fmt.Sprintf("there is no %s to test with (apt-get install %s)", name, name)
	if os.Getenv("CI") != "" {
		t.Fatal(message)
	}
	t.Skip("SKIPPED: " + message)
	return ""
}

// program is one life of a server.
type program struct {
	*exec.Cmd
	said bytes.Buffer
}

// start a program that ends with the test.
func start(t *testing.T, folder string, environment []string, path string, arguments ...string) *program {
	t.Helper()
	p := &program{Cmd: exec.Command(path, arguments...)}
	p.Dir, p.Env, p.Stdout, p.Stderr = folder, append(os.Environ(), environment...), &p.said, &p.said
	p.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := p.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		p.end(syscall.SIGTERM)
		if t.Failed() {
			t.Logf("%s said at last:\n%s", filepath.Base(path), p.said.Bytes()[max(0, p.said.Len()-8000):])
		}
	})
	return p
}

// end it, and wait until it is gone.
func (p *program) end(by syscall.Signal) {
	if p.ProcessState == nil {
		_ = p.Process.Signal(by)
		_ = p.Wait()
	}
}
