package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"lehr.dev/internal/access"
	"lehr.dev/test/pgserver"
)

// failovers is how often the replica that acts is killed.
const failovers = 12

// team is three servers, each a process, that share a database and act for one
// partition whose asset is a file.
type team struct {
	*site
	lehr, url, production string
	db                    *sql.DB
	members               [3]*exec.Cmd
}

// measureFailover kills the server that acts, with SIGKILL and at any moment of
// its lease, and measures how long it takes until another has the lease, and
// until what was asked for right after the kill has been carried out.
func measureFailover(ctx context.Context, s *site, server *pgserver.Server, programs string) error {
	programs, err := filepath.Abs(programs)
	if err != nil {
		return err
	}
	t := &team{site: s, lehr: filepath.Join(programs, "lehr"), url: server.Database(), production: filepath.Join(s.folder, "production")}
	if t.db, err = sql.Open("pgx", t.url); err != nil {
		return err
	}
	defer t.db.Close()
	if err := t.define(0); err != nil {
		return err
	}
	defer t.end()
	for n := range t.members {
		if err := t.serve(n); err != nil {
			return err
		}
		if err := t.until(time.Minute, t.answers(n)); err != nil {
			return fmt.Errorf("a server did not start: %w", err)
		}
	}
	if err := t.until(time.Minute, t.carriedOut(0)); err != nil {
		return fmt.Errorf("nothing was carried out: %w", err)
	}
	var leases, effects []float64
	for value := range failovers {
		time.Sleep(rand.N(time.Second))
		lease, effect, err := t.failover(ctx, value+1)
		if err != nil {
			return err
		}
		leases, effects = append(leases, lease), append(effects, effect)
	}
	tell := func(what string, values []float64) {
		slices.Sort(values)
		machine.figure("failover_to_"+what+"_p50", values[len(values)/2], "s", 1, byAdmission)
		machine.figure("failover_to_"+what+"_p90", values[len(values)*9/10], "s", 1, byAdmission)
		machine.figure("failover_to_"+what+"_max", values[len(values)-1], "s", 1, byAdmission)
	}
	tell("lease", leases)
	tell("effect", effects)
	return nil
}

func (t *team) failover(ctx context.Context, value int) (lease, effect float64, err error) {
	epoch, holder, err := t.lease(ctx)
	if err != nil {
		return 0, 0, err
	}
	n := slices.IndexFunc(t.members[:], func(c *exec.Cmd) bool { return strings.Contains(holder, fmt.Sprintf(":%d:", c.Process.Pid)) })
	if n < 0 {
		return 0, 0, fmt.Errorf("%q acts, which is none of the servers", holder)
	}
	if err := t.members[n].Process.Kill(); err != nil {
		return 0, 0, err
	}
	start := time.Now()
	_ = t.members[n].Wait() // its error is that it was killed
	if err := t.define(value); err != nil {
		return 0, 0, err
	}
	carriedOut := t.carriedOut(value)
	for deadline := start.Add(time.Minute); effect == 0; time.Sleep(often) {
		if lease == 0 {
			now, _, err := t.lease(ctx)
			if err != nil {
				return 0, 0, err
			}
			if now > epoch {
				lease = time.Since(start).Seconds()
			}
		}
		if done, err := carriedOut(); err != nil {
			return 0, 0, err
		} else if done {
			effect = time.Since(start).Seconds()
		}
		if time.Now().After(deadline) {
			return 0, 0, errors.New("nobody took over within a minute")
		}
	}
	if err := t.serve(n); err != nil {
		return 0, 0, err
	}
	return lease, effect, t.until(time.Minute, t.answers(n))
}

func (t *team) lease(ctx context.Context) (epoch int, holder string, err error) {
	err = t.db.QueryRowContext(ctx, "SELECT epoch, holder FROM partitions WHERE id = 'team'").Scan(&epoch, &holder)
	return epoch, holder, err
}

// carriedOut: production is as was asked for.
func (t *team) carriedOut(value int) func() (bool, error) {
	return func() (bool, error) {
		content, err := os.ReadFile(t.production)
		if errors.Is(err, os.ErrNotExist) {
			return false, nil
		}
		return string(content) == fmt.Sprintf("value %d", value), err
	}
}

func (t *team) store(n int) string {
	return filepath.Join(t.folder, fmt.Sprint("member-", n), "lehr.db")
}

func (t *team) serve(n int) error {
	_ = os.Remove(access.RendezvousPath(t.store(n)))
	c := exec.Command(t.lehr, "serve", "--database", t.url, "--store", t.store(n), "-p", filepath.Join(t.folder, "lehr.yaml"))
	c.Env = append(os.Environ(), "PATH="+filepath.Dir(t.lehr)+":"+os.Getenv("PATH"))
	c.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	t.members[n] = c
	return c.Start()
}

// answers: the server has left word of itself, which it does when it serves.
func (t *team) answers(n int) func() (bool, error) {
	return func() (bool, error) {
		_, err := access.ReadRendezvous(t.store(n))
		return err == nil, nil
	}
}

func (t *team) end() {
	for _, c := range t.members {
		if c != nil && c.Process != nil {
			_ = c.Process.Signal(syscall.SIGTERM)
			_ = c.Wait() // its error is how it was ended
		}
	}
}

// define asks for a value.
func (t *team) define(value int) error {
	for name, content := range map[string]string{
		"web.star": fmt.Sprintf(`def generate(ctx):
    path = %q
    return [asset("web", lehr.command.v1.Command(
        diff = ["/bin/sh", "-c", 'test "$(cat "$1" 2>/dev/null)" = "$(cat)" || exit 2', "sh", path],
        push = ["/bin/sh", "-c", 'cat > "$1"', "sh", path],
        input = "value " + str(yaml("source/value.yaml")["value"]),
    ))]
`, t.production),
		"source/value.yaml": fmt.Sprintf("value: %d\n", value),
		"lehr.yaml": `lehr: v1
partition: team
owner: bench@example.com
mode: enforce
sources:
  value: {dir: source, files: [value.yaml]}
generate:
  web: {starlark: web.star, from: [value]}
plugins:
  Command: {run: lehr-command}
`,
	} {
		path := filepath.Join(t.folder, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return err
		}
		if old, err := os.ReadFile(path); err == nil && string(old) == content {
			continue
		}
		if err := os.WriteFile(path+".new", []byte(content), 0o644); err != nil {
			return err
		}
		if err := os.Rename(path+".new", path); err != nil {
			return err
		}
	}
	return nil
}
