package demo

import (
	"context"
	"database/sql"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	_ "modernc.org/sqlite"

	"lehr.dev/examples/shakespeare"
)

// vigil watches, all the time, that something is never so.
type vigil struct {
	mu    sync.Mutex
	looks int
	found string
	stop  func()
}

// watch begins a vigil; wrong says what is not as it must be.
func (s *stage) watch(ctx context.Context, wrong func(context.Context) string) *vigil {
	ctx, cancel := context.WithCancel(ctx)
	v := &vigil{}
	var running sync.WaitGroup
	running.Go(func() {
		for sleep(ctx, 5*time.Millisecond) {
			found := wrong(ctx)
			v.mu.Lock()
			if ctx.Err() == nil {
				v.looks++
				if v.found == "" {
					v.found = found
				}
			}
			v.mu.Unlock()
		}
	})
	v.stop = func() { cancel(); running.Wait() }
	return v
}

// kept ends a vigil and tells what it saw.
func (s *stage) kept(v *vigil, format string, arguments ...any) error {
	v.stop()
	if v.found != "" || v.looks == 0 {
		return fmt.Errorf("seen in %d looks at production: %s", v.looks, v.found)
	}
	s.so("%s (%d looks at production)", fmt.Sprintf(format, arguments...), v.looks)
	return nil
}

// overloaded says when a balancer sends requests to more than there is. Each
// number is read before and after what it is compared with, so that what moves
// between two readings is no false alarm.
func (s *stage) overloaded(c cluster) func(context.Context) string {
	tasks := func() int { return len(s.tasks(c.job(s))) }
	return func(ctx context.Context) string {
		tasksBefore := tasks()
		poolBefore, err := s.upstreams(ctx, c.admin())
		if err != nil {
			return ""
		}
		shares, err := s.shares(ctx)
		if err != nil {
			return ""
		}
		pool, err := s.upstreams(ctx, c.admin())
		if err != nil {
			return ""
		}
		upstreams, most := min(len(poolBefore), len(pool)), max(tasksBefore, tasks())
		switch {
		case shares[c.name] > max(len(poolBefore), len(pool)):
			return fmt.Sprintf("the global balancer sends %d shares to the %d upstreams of cluster %s", shares[c.name], len(pool), c.name)
		case upstreams > most:
			return fmt.Sprintf("the balancer of cluster %s has %d upstreams, and there are %d tasks", c.name, upstreams, most)
		}
		return ""
	}
}

func (s *stage) halveAndDouble(ctx context.Context) error {
	a := s.clusters[0]
	for _, step := range []struct {
		what, order string
		replicas    int
	}{
		{"replicas: 2 in cluster a", "the global balancer's share was lowered before the cluster's balancer, and that before the job shrank", replicas / 2},
		{"replicas: 4 in cluster a", "the job grew first, then its balancer, then the global balancer's share", replicas},
	} {
		load, vigil := s.startLoad(ctx), s.watch(ctx, s.overloaded(a))
		defer load.stop()
		defer vigil.stop()
		if err := s.edit(step.what, func(m *manifest) { m.cluster(a.name).replicas = step.replicas }); err != nil {
			return err
		}
		if err := s.until(ctx, patience, step.what, s.serves("v2")); err != nil {
			return err
		}
		if err := s.kept(vigil, "%s", step.order); err != nil {
			return err
		}
		if err := s.end(load); err != nil {
			return err
		}
	}
	return nil
}

// column reports whether the table of searches has the column "cluster".
func (s *stage) column(ctx context.Context) (ok bool, rows int, err error) {
	db, err := sql.Open("sqlite", "file:"+s.database()+"?mode=ro&_pragma=busy_timeout(5000)")
	if err != nil {
		return false, 0, err
	}
	defer db.Close()
	var columns int
	if err := db.QueryRowContext(ctx, "SELECT count(*) FROM pragma_table_info('searches') WHERE name = 'cluster'").Scan(&columns); err != nil {
		return false, 0, err
	}
	query := "SELECT count(*) FROM searches"
	if columns > 0 {
		query += " WHERE cluster IS NOT NULL"
	}
	err = db.QueryRowContext(ctx, query).Scan(&rows)
	return columns > 0, rows, err
}

func (s *stage) schemaFirst(ctx context.Context) error {
	_, before, err := s.column(ctx)
	if err != nil {
		return err
	}
	load := s.startLoad(ctx)
	defer load.stop()
	vigil := s.watch(ctx, func(ctx context.Context) string {
		for _, t := range s.tasks("") {
			if !slices.Contains(t.args, "--version=v3") {
				continue
			}
			if ok, _, err := s.column(ctx); err == nil && !ok {
				return fmt.Sprintf("process %d of v3 runs, and the table has no column for it", t.pid)
			}
		}
		return ""
	})
	defer vigil.stop()
	example, err := shakespeare.Files.ReadFile(schemaFile)
	if err != nil {
		return err
	}
	text := strings.Replace(s.schema(string(example)), "-- lehr: version 1", "-- lehr: version 2", 1)
	text = strings.Replace(text, "words TEXT NOT NULL\n", "words TEXT NOT NULL,\n    cluster TEXT\n", 1)
	if err := s.edit("version: v3, needs_schema: \"2\"", func(m *manifest) { m.version, m.needsSchema = "v3", "2" }); err != nil {
		return err
	}
	s.say("    edit %s: version 2, a column \"cluster\"", schemaFile)
	if err := s.write(schemaFile, text); err != nil {
		return err
	}
	if err := s.until(ctx, patience, "both clusters serve v3", s.serves("v3")); err != nil {
		return err
	}
	if err := s.kept(vigil, "the column was there before the first process that needs it"); err != nil {
		return err
	}
	if err := s.until(ctx, patience, "v3 records the cluster", func(ctx context.Context) string {
		ok, rows, err := s.column(ctx)
		if err != nil || !ok || rows == 0 {
			return fmt.Sprintf("column there: %t, rows with it: %d, %v", ok, rows, err)
		}
		return ""
	}); err != nil {
		return err
	}
	s.so("the searches recorded before, %d of them, are still there, and new ones name their cluster", before)
	return s.end(load)
}

func (s *stage) autoscaler(ctx context.Context) error {
	a := s.clusters[0]
	if err := s.edit("autoscaled: true in cluster a", func(m *manifest) { m.cluster(a.name).autoscaled = true }); err != nil {
		return err
	}
	if err := s.until(ctx, patience, "replicas are left to production", s.showsAsset(a.asset(), "Unmanaged")); err != nil {
		return err
	}
	extra, err := s.scaleUp(ctx, a)
	if err != nil {
		return err
	}
	s.say("    the autoscaler starts task %d of cluster a: process %d", replicas, extra)
	if err := s.untouched(ctx, s.pids()); err != nil {
		return err
	}
	if len(s.tasks(a.job(s))) != replicas+1 {
		return fmt.Errorf("cluster a has %d processes, not %d", len(s.tasks(a.job(s))), replicas+1)
	}
	s.so("it is not fought: %d processes run where the manifest says %d", replicas+1, replicas)
	if err := s.until(ctx, patience, "what is left to production is shown", s.tells("reports", `"unmanaged"`, "the autoscaler's")); err != nil {
		return err
	}
	if err := s.print(ctx, "describe", "report", a.asset()); err != nil {
		return err
	}
	if err := s.edit("autoscaled: false", func(m *manifest) { m.cluster(a.name).autoscaled = false }); err != nil {
		return err
	}
	if err := s.until(ctx, patience, "the manifest's number is kept again", s.serves("v3")); err != nil {
		return err
	}
	if alive(extra) {
		return fmt.Errorf("process %d still runs", extra)
	}
	s.so("without the autoscaler there are %d again", replicas)
	return nil
}

// scaleUp starts one more task, as an autoscaler would.
func (s *stage) scaleUp(ctx context.Context, c cluster) (pid int, err error) {
	like := s.tasks(c.job(s))[0]
	environment, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", like.pid))
	if err != nil {
		return 0, err
	}
	command := exec.Command(like.args[0], like.args[1:]...)
	for i, argument := range command.Args {
		if strings.HasPrefix(argument, "--port=") {
			command.Args[i] = "--port=" + strconv.Itoa(c.port+replicas)
		}
	}
	for _, variable := range strings.Split(strings.TrimRight(string(environment), "\x00"), "\x00") {
		if strings.HasPrefix(variable, "LEHR_TASK=") {
			variable = "LEHR_TASK=" + strconv.Itoa(replicas)
		}
		command.Env = append(command.Env, variable)
	}
	command.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := command.Start(); err != nil {
		return 0, err
	}
	go func() { _ = command.Wait() }()
	return command.Process.Pid, s.until(ctx, patience, "the new task answers", func(ctx context.Context) string {
		_, err := ask(ctx, c.port+replicas)
		if err != nil {
			return err.Error()
		}
		return ""
	})
}

// showsAsset is so when the description of an asset has all of the words.
func (s *stage) showsAsset(asset string, words ...string) func(context.Context) string {
	return func(ctx context.Context) string {
		output, err := s.quietly(ctx, "describe", "asset", asset, "-o", "json")
		if err != nil {
			return err.Error()
		}
		for _, word := range words {
			if !strings.Contains(output, word) {
				return fmt.Sprintf("lehr describe asset %s does not tell of %q", asset, word)
			}
		}
		return ""
	}
}
