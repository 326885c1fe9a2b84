package schemas

import (
	"context"
	"fmt"
	"net"
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

	"github.com/jackc/pgx/v5"
)

// cluster is a PostgreSQL server of this test binary's own.
type cluster struct {
	folder string
	port   int
	server *exec.Cmd
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
	status := m.Run()
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
	if c.folder, err = os.MkdirTemp("", "lehr-pg"); err != nil {
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
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	c.port = listener.Addr().(*net.TCPAddr).Port
	if err := listener.Close(); err != nil {
		return err
	}
	start := exec.Command(filepath.Join(bin, "pg_ctl"), "start", "-w", "-D", data, "-l", filepath.Join(data, "log"),
		"-o", fmt.Sprintf("-c listen_addresses=127.0.0.1 -c port=%d -c unix_socket_directories=%s -c fsync=off -c max_connections=200", c.port, c.folder))
	start.SysProcAttr, start.Dir = attributes, c.folder
	if out, err := start.CombinedOutput(); err != nil {
		return fmt.Errorf("pg_ctl start: %w\n%s", err, out)
	}
	c.server = exec.Command(filepath.Join(bin, "pg_ctl"), "stop", "-w", "-m", "immediate", "-D", data)
	c.server.SysProcAttr, c.server.Dir = attributes, c.folder
	return nil
}

func (c *cluster) stop() {
	if c.server != nil {
		_ = c.server.Run() // the folder goes in any case
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
