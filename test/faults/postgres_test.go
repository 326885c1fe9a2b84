package faults

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

// postgres is a PostgreSQL server of a test's own, which can be ended and
// started again. It listens on the loopback address and trusts whom it sees.
type postgres struct {
	*testing.T
	bin, folder string
	port        int
	who         *syscall.Credential
	server      *exec.Cmd
	ended       chan struct{}
}

// newPostgres makes an empty database. Without PostgreSQL the test is skipped,
// but not in CI.
func newPostgres(t *testing.T) *postgres {
	t.Helper()
	found, _ := filepath.Glob("/usr/lib/postgresql/*/bin/initdb")
	if len(found) == 0 {
		const message = "there is no PostgreSQL to test with (apt-get install postgresql)"
		if os.Getenv("CI") != "" {
			t.Fatal(message)
		}
		t.Skip("SKIPPED: " + message)
	}
	p := &postgres{T: t, bin: filepath.Dir(found[len(found)-1])}
	var err error
	// Its user must be able to enter the folder, so it is none of the test's.
	if p.folder, err = os.MkdirTemp("", "postgres-for-faults-"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		p.stop()
		os.RemoveAll(p.folder)
	})
	if os.Geteuid() == 0 { // PostgreSQL refuses to run as root.
		p.who = unprivileged(t)
		if err := os.Chown(p.folder, int(p.who.Uid), int(p.who.Gid)); err != nil {
			t.Fatal(err)
		}
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p.port = listener.Addr().(*net.TCPAddr).Port
	listener.Close()
	initdb := exec.Command(found[len(found)-1], "-D", filepath.Join(p.folder, "data"), "-U", "owner", "-A", "trust", "--no-sync", "-E", "UTF8", "--locale", "C")
	initdb.Dir, initdb.SysProcAttr = p.folder, &syscall.SysProcAttr{Credential: p.who}
	if out, err := initdb.CombinedOutput(); err != nil {
		t.Fatalf("initdb: %v\n%s", err, out)
	}
	return p
}

func unprivileged(t *testing.T) *syscall.Credential {
	t.Helper()
	who, err := user.Lookup("postgres")
	if err != nil {
		if who, err = user.Lookup("nobody"); err != nil {
			t.Fatal(err)
		}
	}
	uid, _ := strconv.ParseUint(who.Uid, 10, 32)
	gid, _ := strconv.ParseUint(who.Gid, 10, 32)
	return &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}
}

func (p *postgres) url() string {
	return fmt.Sprintf("postgres://owner@127.0.0.1:%d/postgres?sslmode=disable", p.port)
}

// start starts the server on its port, and waits until it is ready. It ends
// with this process, however that ends.
func (p *postgres) start() {
	p.Helper()
	p.server = exec.Command(filepath.Join(p.bin, "postgres"), "-D", filepath.Join(p.folder, "data"), "-c", "listen_addresses=127.0.0.1",
		"-c", fmt.Sprintf("port=%d", p.port), "-c", "unix_socket_directories="+p.folder, "-c", "fsync=off", "-c", "log_min_messages=log")
	p.server.Dir, p.server.SysProcAttr = p.folder, &syscall.SysProcAttr{Pdeathsig: syscall.SIGQUIT, Credential: p.who}
	log, err := p.server.StderrPipe()
	if err != nil {
		p.Fatal(err)
	}
	ready, ended := make(chan struct{}), make(chan struct{})
	p.ended = ended
	began := make(chan error, 1)
	go func() {
		defer close(ended)
		err := p.server.Start()
		began <- err
		if err != nil {
			return
		}
		for lines := bufio.NewScanner(log); lines.Scan(); {
			if strings.Contains(lines.Text(), "ready to accept connections") {
				close(ready)
				break
			}
		}
		_, _ = io.Copy(io.Discard, log)
		_ = p.server.Wait() // its error is how it was ended
	}()
	if err := <-began; err != nil {
		p.Fatal(err)
	}
	select {
	case <-ready:
	case <-ended:
		p.Fatal("PostgreSQL ended before it was ready")
	}
}

// stop ends the server as a crash would.
func (p *postgres) stop() {
	if p.server == nil {
		return
	}
	_ = p.server.Process.Signal(syscall.SIGQUIT)
	<-p.ended
	p.server = nil
}

// query asks for one value.
func (p *postgres) query(statement string) (string, error) {
	out, err := exec.Command(filepath.Join(p.bin, "psql"), "-X", "-A", "-t", "-h", "127.0.0.1", "-p", strconv.Itoa(p.port), "-U", "owner", "-d", "postgres", "-c", statement).CombinedOutput()
	return strings.TrimSpace(string(out)), err
}
