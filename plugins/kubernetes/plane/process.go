package plane

import (
	"bytes"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
)

// process is a program that ends with the test, and may be ended and begun again before.
type process struct {
	t         testing.TB
	program   string
	arguments []string
	command   *exec.Cmd
	log       tail
}

// tail keeps what a program says, of all its runs.
type tail struct {
	mutex sync.Mutex
	text  bytes.Buffer
}

func (l *tail) Write(text []byte) (int, error) {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	return l.text.Write(text)
}

// start begins a program.
func start(t testing.TB, program string, arguments ...string) *process {
	t.Helper()
	p := &process{t: t, program: program, arguments: arguments}
	p.begin()
	t.Cleanup(func() {
		p.end()
		if t.Failed() {
			t.Logf("%s said at last:\n%s", filepath.Base(program), p.log.text.Bytes()[max(0, p.log.text.Len()-3000):])
		}
	})
	return p
}

func (p *process) begin() {
	p.t.Helper()
	p.command = exec.Command(p.program, p.arguments...)
	p.command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	p.command.Stdout, p.command.Stderr = &p.log, &p.log
	if err := p.command.Start(); err != nil {
		p.t.Fatal(err)
	}
}

// end kills the program, and waits until it has ended.
func (p *process) end() {
	if p.command != nil {
		_ = p.command.Process.Kill()
		_ = p.command.Wait()
		p.command = nil
	}
}

func (p *Plane) waitReady() {
	p.Helper()
	p.Wait("the API server to be ready", func() error {
		_, err := p.Ask(http.MethodGet, "/readyz", "", nil)
		return err
	})
}

// Transport reaches the API server, and trusts its certificate.
func (p *Plane) Transport() http.RoundTripper { return p.client.Transport }

// KillServer kills the API server; its storage stays.
func (p *Plane) KillServer() { p.server.end() }

// StartServer begins the API server again, and waits until it is ready.
func (p *Plane) StartServer() {
	p.Helper()
	p.server.begin()
	p.waitReady()
}

// Backup copies the storage, as it is while nothing runs, and returns the copy's folder.
func (p *Plane) Backup() string {
	p.Helper()
	copied := filepath.Join(p.TempDir(), "backup")
	p.exchange(p.data, copied)
	return copied
}

// Restore has the storage be as a backup has it.
func (p *Plane) Restore(backup string) {
	p.Helper()
	p.exchange(backup, p.data)
}

// RestoreBelow does so while the API server runs.
func (p *Plane) RestoreBelow(backup string) {
	p.Helper()
	p.storage.end()
	p.copy(backup, p.data)
	p.storage.begin()
	p.waitReady()
}

// exchange puts a copy of one folder in the place of another, while nothing runs.
func (p *Plane) exchange(from, to string) {
	p.Helper()
	p.server.end()
	p.storage.end()
	p.copy(from, to)
	p.storage.begin()
	p.StartServer()
}

func (p *Plane) copy(from, to string) {
	p.Helper()
	if err := os.RemoveAll(to); err != nil {
		p.Fatal(err)
	}
	if err := os.CopyFS(to, os.DirFS(from)); err != nil {
		p.Fatal(err)
	}
	if err := os.Chmod(to, 0o700); err != nil {
		p.Fatal(err)
	}
}
