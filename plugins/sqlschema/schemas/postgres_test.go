package schemas

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/jackc/pgx/v5"

	"lehr.dev/test/freeport"
)

// cluster is a PostgreSQL server of this test binary's own.
type cluster struct {
	folder string
	port   int
	// end ends the server and waits for it.
	end func()
}

var (
	theCluster   cluster
	clusterError error
	clusterOnce  sync.Once
	databases    atomic.Int64
)

func TestMain(m *testing.M) {
	if mode := os.Getenv(crashVariable); mode != "" {
		os.Exit(crash(mode))
	}
	forget, err := listForTests()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	status := m.Run()
	forget()
	theCluster.stop()
	os.Exit(status)
}

// startCluster starts the server, once. Without PostgreSQL the test is
// skipped, but not in CI.
func startCluster(t *testing.T) *cluster {
	t.Helper()
	clusterOnce.Do(func() { clusterError = theCluster.start() })
	if clusterError != nil {
		message := fmt.Sprintf("there is no PostgreSQL to test with: %v (apt-get install postgresql)", clusterError)
		if os.Getenv("CI") != "" {
			t.Fatal(message)
		}
		t.Skip(message)
	}
	return &theCluster
}

func (c *cluster) start() error {
	found, err := filepath.Glob("/usr/lib/postgresql/*/bin/initdb")
	if err != nil || len(found) == 0 {
		return fmt.Errorf("no initdb in /usr/lib/postgresql")
	}
	bin := filepath.Dir(found[len(found)-1])
	if c.folder, err = os.MkdirTemp("", "postgres-for-tests-"); err != nil {
		return err
	}
	attributes, err := unprivileged(c.folder)
	if err != nil {
		return err
	}
	password := filepath.Join(c.folder, "password")
	if err := os.WriteFile(password, []byte(superPassword+"\n"), 0o644); err != nil {
		return err
	}
	data := filepath.Join(c.folder, "data")
	initdb := exec.Command(filepath.Join(bin, "initdb"), "-D", data, "-U", "owner", "-A", "scram-sha-256", "--pwfile", password, "--no-sync", "-E", "UTF8", "--locale", "C")
	initdb.SysProcAttr, initdb.Dir = attributes, c.folder
	if out, err := initdb.CombinedOutput(); err != nil {
		return fmt.Errorf("initdb: %w\n%s", err, out)
	}
	for range 5 { // another program may take the port first
		if err = c.serve(filepath.Join(bin, "postgres"), data, attributes); err == nil {
			return nil
		}
	}
	return err
}

// serve starts the server on a free port and waits until it says that it is
// ready. It ends with this process, however that ends.
func (c *cluster) serve(program, data string, attributes *syscall.SysProcAttr) error {
	port, _, err := freeport.Reserve(1)
	if err != nil {
		return err
	}
	c.port = port
	server := exec.Command(program, "-D", data, "-c", "listen_addresses=127.0.0.1", "-c", fmt.Sprintf("port=%d", c.port),
		"-c", "unix_socket_directories="+c.folder, "-c", "fsync=off", "-c", "max_connections=200", "-c", "log_min_messages=log")
	server.Dir, server.SysProcAttr = c.folder, &syscall.SysProcAttr{Pdeathsig: syscall.SIGQUIT}
	if attributes != nil {
		server.SysProcAttr.Credential = attributes.Credential
	}
	log, err := server.StderrPipe()
	if err != nil {
		return err
	}
	ready, ended := make(chan struct{}), make(chan error, 1)
	go func() {
		runtime.LockOSThread() // the thread's end would be the server's
		if err := server.Start(); err != nil {
			ended <- err
			return
		}
		said, once := []string{}, sync.Once{}
		for lines := bufio.NewScanner(log); lines.Scan(); {
			said = append(said, lines.Text())
			if strings.Contains(lines.Text(), "ready to accept connections") {
				once.Do(func() { close(ready) })
			}
			said = said[max(0, len(said)-20):]
		}
		_, _ = io.Copy(io.Discard, log) // a line that is too long ends the loop
		ended <- fmt.Errorf("postgres: %w\n%s", server.Wait(), strings.Join(said, "\n"))
	}()
	select {
	case <-ready:
		c.end = func() {
			_ = server.Process.Signal(syscall.SIGQUIT)
			<-ended
		}
		return nil
	case err := <-ended:
		return err
	}
}

func (c *cluster) stop() {
	if c.end != nil {
		c.end()
	}
	if c.folder != "" {
		_ = os.RemoveAll(c.folder) // left to the system's cleaning, if it fails
	}
}

// unprivileged gives the folder to a user who is not root, for PostgreSQL
// refuses to run as root.
func unprivileged(folder string) (*syscall.SysProcAttr, error) {
	if os.Geteuid() != 0 {
		return nil, nil
	}
	name := "postgres"
	who, err := user.Lookup(name)
	if err != nil {
		if who, err = user.Lookup("nobody"); err != nil {
			return nil, err
		}
	}
	uid, err := strconv.Atoi(who.Uid)
	if err != nil {
		return nil, err
	}
	gid, err := strconv.Atoi(who.Gid)
	if err != nil {
		return nil, err
	}
	return &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}}, os.Chown(folder, uid, gid)
}

const superPassword = "hunter2-is-never-shown"

func (c *cluster) url(user, database string) string {
	return fmt.Sprintf("postgres://%s@127.0.0.1:%d/%s?sslmode=disable", user, c.port, database)
}

func (c *cluster) connect(t *testing.T, user, database string) *pgx.Conn {
	t.Helper()
	config, err := pgx.ParseConfig(c.url(user, database))
	if err != nil {
		t.Fatal(err)
	}
	config.Password = superPassword
	conn, err := pgx.ConnectConfig(context.Background(), config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close(context.Background()) })
	return conn
}

// newPostgres makes a schema of the test's own, in a database that tests share.
func newPostgres(t *testing.T) *ground {
	t.Helper()
	g := newGround(t, startCluster(t), "postgres")
	g.inSchema = fmt.Sprintf("Test %d", databases.Add(1))
	g.exec(t, fmt.Sprintf(`create schema "%[1]s"; set search_path = "%[1]s"`, g.inSchema))
	return g
}

// newDatabase makes a database of the test's own.
func newDatabase(t *testing.T) *ground {
	t.Helper()
	c := startCluster(t)
	name := fmt.Sprintf("test%d", databases.Add(1))
	if _, err := c.connect(t, "owner", "postgres").Exec(context.Background(), "create database "+name); err != nil {
		t.Fatal(err)
	}
	return newGround(t, c, name)
}

func newGround(t *testing.T, c *cluster, name string) *ground {
	t.Helper()
	conn := c.connect(t, "owner", name)
	t.Setenv("LEHR_TEST_PASSWORD", superPassword)
	g := &ground{name: "postgres", url: c.url("owner", name), password: "LEHR_TEST_PASSWORD"}
	g.exec = func(t *testing.T, sql string) {
		t.Helper()
		if _, err := conn.Exec(context.Background(), sql); err != nil {
			t.Fatalf("%s: %v", sql, err)
		}
	}
	g.query = func(t *testing.T, sql string) string {
		t.Helper()
		rows, err := conn.Query(context.Background(), sql)
		if err != nil {
			t.Fatalf("%s: %v", sql, err)
		}
		all, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (string, error) {
			values, err := row.Values()
			return strings.TrimSuffix(fmt.Sprintln(values...), "\n"), err
		})
		if err != nil {
			t.Fatalf("%s: %v", sql, err)
		}
		return strings.Join(all, "|")
	}
	return g
}
