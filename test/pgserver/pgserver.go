// Package pgserver starts PostgreSQL servers for tests, from Debian's package:
// each in a folder of its own, on a free port of this machine, ended with the
// test or, however that ends, with its process. Only tests and benchmarks use it.
package pgserver

import (
	"bufio"
	"bytes"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	_ "github.com/jackc/pgx/v5/stdlib" // to execute and query

	"lehr.dev/test/freeport"
)

// Server is a PostgreSQL server, or the place of one that does not run.
type Server struct {
	t           Bed
	bin, folder string
	port        int
	who         *syscall.Credential
	process     *exec.Cmd
	ended       chan struct{}
	databases   atomic.Int64
}

// Bed is what a server is needed for: a test, or whatever else says how it went
// and cleans up at its end.
type Bed interface {
	Helper()
	Fatal(args ...any)
	Fatalf(format string, args ...any)
	Skip(args ...any)
	Cleanup(func())
}

// New makes an empty server that does not run yet. Those of one test have system
// identifiers of their own, those of two tests may share one. Without PostgreSQL the test
// is skipped, but not in CI.
func New(t testing.TB) *Server {
	t.Helper()
	if testing.Short() {
		t.Skip("not in the short run: it starts PostgreSQL")
	}
	return For(t)
}

// For makes an empty server for whatever needs one.
func For(t Bed) *Server {
	t.Helper()
	matches, _ := filepath.Glob("/usr/lib/postgresql/*/bin/initdb")
	if len(matches) == 0 {
		const message = "there is no PostgreSQL to test with (apt-get install postgresql)"
		if os.Getenv("CI") != "" {
			t.Fatal(message)
		}
		t.Skip("SKIPPED: " + message)
	}
	s := place(t, filepath.Dir(matches[len(matches)-1]))
	s.fill()
	return s
}

// empty is an archive of an empty cluster, made once in a process: to unpack it takes a
// fifth of the processor time of initdb. In memory, since nobody would remove a folder.
var empty struct {
	mutex   sync.Mutex
	archive []byte
	// unpacked is what has had a cluster of the archive. A second one of the same test is
	// made by initdb: no two that one test compares have the same system identifier.
	unpacked map[Bed]bool
}

// fill makes the server's folder that of an empty cluster.
func (s *Server) fill() {
	s.t.Helper()
	empty.mutex.Lock()
	defer empty.mutex.Unlock()
	if empty.archive != nil && !empty.unpacked[s.t] {
		empty.unpacked[s.t] = true
		s.feed(empty.archive, "tar", "-xf", "-")
		return
	}
	s.run("initdb", "-D", s.data(), "-U", "owner", "-A", "trust", "--no-sync", "-E", "UTF8", "--locale", "C")
	if empty.archive == nil {
		empty.archive = s.feed(nil, "tar", "-cf", "-", filepath.Base(s.data()))
		empty.unpacked = map[Bed]bool{s.t: true}
	}
}

// feed gives input to a program that runs in the server's folder, as its user, and returns what it prints.
func (s *Server) feed(input []byte, program string, arguments ...string) []byte {
	s.t.Helper()
	command := exec.Command(program, arguments...)
	command.Dir, command.SysProcAttr = s.folder, &syscall.SysProcAttr{Credential: s.who}
	var failure bytes.Buffer
	command.Stdin, command.Stderr = bytes.NewReader(input), &failure
	output, err := command.Output()
	if err != nil {
		s.t.Fatalf("%s: %v\n%s", program, err, failure.Bytes())
	}
	return output
}

// place is a folder and a port for a server, ended with the test.
func place(t Bed, bin string) *Server {
	t.Helper()
	s := &Server{t: t, bin: bin}
	var err error
	// Its user must be able to enter the folder, so it is none of the test's.
	if s.folder, err = os.MkdirTemp("", "lehr-postgres-"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		s.Crash()
		os.RemoveAll(s.folder)
	})
	if os.Geteuid() == 0 { // PostgreSQL refuses to run as root.
		s.who = unprivileged(t)
		if err := os.Chown(s.folder, int(s.who.Uid), int(s.who.Gid)); err != nil {
			t.Fatal(err)
		}
	}
	s.port = freeport.Row(t, 1)
	return s
}

func (s *Server) data() string { return filepath.Join(s.folder, "data") }

// run runs one of PostgreSQL's programs to its end.
func (s *Server) run(program string, arguments ...string) {
	s.t.Helper()
	_ = s.output(program, arguments...)
}

// Tool runs one of PostgreSQL's programs, such as pg_dump, to its end.
func (s *Server) Tool(program string, arguments ...string) {
	s.t.Helper()
	s.run(program, arguments...)
}

// Programs is the folder of PostgreSQL's own.
func (s *Server) Programs() string { return s.bin }

// Address is where it listens, running or not.
func (s *Server) Address() string { return fmt.Sprintf("127.0.0.1:%d", s.port) }

// Beside is the place of another server, without data.
func (s *Server) Beside() *Server { return place(s.t, s.bin) }

// Data is the folder of the cluster itself.
func (s *Server) Data() string { return s.data() }

// AsOwner lets a command run as the user who owns the cluster's files.
func (s *Server) AsOwner(command *exec.Cmd) {
	command.SysProcAttr = &syscall.SysProcAttr{Credential: s.who}
}

// Folder is where the server, and who runs it, may write.
func (s *Server) Folder() string { return s.folder }

// output is what one of PostgreSQL's programs prints.
func (s *Server) output(program string, arguments ...string) string {
	s.t.Helper()
	command := exec.Command(filepath.Join(s.bin, program), arguments...)
	command.Dir, command.SysProcAttr = s.folder, &syscall.SysProcAttr{Credential: s.who}
	output, err := command.CombinedOutput()
	if err != nil {
		s.t.Fatalf("%s: %v\n%s", program, err, output)
	}
	return string(output)
}

func unprivileged(t Bed) *syscall.Credential {
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

// Port of this machine on which it listens, running or not.
func (s *Server) Port() int { return s.port }

// URL of a database, which need not exist.
func (s *Server) URL(database string) string {
	return fmt.Sprintf("postgres://owner@127.0.0.1:%d/%s?sslmode=disable", s.port, database)
}

// Start starts the server, and waits until it is ready. Settings are
// name=value.
func (s *Server) Start(settings ...string) {
	s.t.Helper()
	arguments := []string{
		"-D", s.data(), "-c", "listen_addresses=127.0.0.1", "-c", fmt.Sprintf("port=%d", s.port),
		"-c", "unix_socket_directories=" + s.folder, "-c", "fsync=off", "-c", "full_page_writes=off", "-c", "autovacuum=off",
		"-c", "log_min_messages=log",
	}
	for _, setting := range settings {
		arguments = append(arguments, "-c", setting)
	}
	s.process = exec.Command(filepath.Join(s.bin, "postgres"), arguments...)
	s.process.Dir, s.process.SysProcAttr = s.folder, &syscall.SysProcAttr{Pdeathsig: syscall.SIGQUIT, Credential: s.who}
	log, err := s.process.StderrPipe()
	if err != nil {
		s.t.Fatal(err)
	}
	if err := s.process.Start(); err != nil {
		s.t.Fatal(err)
	}
	ready, exit := make(chan struct{}), make(chan struct{})
	s.ended = exit
	go func() {
		defer close(exit)
		for lines := bufio.NewScanner(log); lines.Scan(); {
			if strings.Contains(lines.Text(), "ready to accept") {
				close(ready)
				break
			}
		}
		_, _ = io.Copy(io.Discard, log)
		_ = s.process.Wait() // its error is how it was ended
	}()
	select {
	case <-ready:
	case <-exit:
		s.t.Fatal("PostgreSQL ended before it was ready")
	}
}

// Crash ends the server as a crash would, if it runs.
func (s *Server) Crash() {
	if s.process == nil {
		return
	}
	_ = s.process.Process.Signal(syscall.SIGQUIT)
	<-s.ended
	s.process = nil
}

// Database is the URL of a new, empty one: a schema of its own, which is made
// in a tenth of the time of a database.
func (s *Server) Database() string {
	s.t.Helper()
	name := "test" + strconv.FormatInt(s.databases.Add(1), 10)
	s.Execute(s.URL("postgres"), "CREATE SCHEMA "+name)
	return s.URL("postgres") + "&search_path=" + name
}

// Execute runs a statement at a URL.
func (s *Server) Execute(url, statement string) {
	s.t.Helper()
	db, err := sql.Open("pgx", url)
	if err != nil {
		s.t.Fatal(err)
	}
	defer db.Close()
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	if _, err := db.ExecContext(ctx, statement); err != nil {
		s.t.Fatalf("%s: %v", statement, err)
	}
}

// Query asks for one value at a URL; "" is none, or NULL.
func (s *Server) Query(url, statement string) (string, error) {
	db, err := sql.Open("pgx", url)
	if err != nil {
		return "", err
	}
	defer db.Close()
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	var value sql.NullString
	err = db.QueryRowContext(ctx, statement).Scan(&value)
	if errors.Is(err, sql.ErrNoRows) {
		err = nil
	}
	return value.String, err
}
