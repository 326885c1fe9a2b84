package schedule

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log"
	"maps"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	processpb "lehr.dev/gen/lehr/process/v1"
	"lehr.dev/plugins/process/cron"
	"lehr.dev/plugins/process/job"
)

const (
	// longestWait bounds how long a keeper sleeps: the clock may be set meanwhile.
	longestWait = 30 * time.Second
	// adoptedWait is how often it looks at runs that an earlier keeper started.
	adoptedWait = time.Second
	// mostLogs of runs are kept.
	mostLogs = 20
)

// keeper starts the runs of one schedule.
type keeper struct {
	schedule *processpb.Schedule
	times    *cron.Times
	folder   string
	remember record
	// children are the runs that this keeper started; ends tells of their end.
	children map[time.Time]bool
	ends     chan end
	// stopped says why a run was stopped.
	stopped map[time.Time]string
}

type end struct {
	due    time.Time
	result string
}

// Keep is the keeper's process. It ends when it is told to, and leaves its runs
// to the next one.
func Keep() int {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	log.SetFlags(log.LstdFlags | log.LUTC)
	s, err := kept(os.Getenv(variableKeep))
	if err == nil {
		err = keep(ctx, s)
	}
	if err != nil && ctx.Err() == nil {
		log.Print(err)
		return 1
	}
	return 0
}

func keep(ctx context.Context, s *processpb.Schedule) error {
	k, err := newKeeper(s, time.Now())
	if err != nil {
		return err
	}
	release, err := k.lock(ctx)
	if err != nil {
		return err
	}
	defer release()
	for ctx.Err() == nil {
		if err := k.step(ctx, time.Now()); err != nil {
			// Nothing was started that is not remembered.
			log.Print(err)
		}
		timer := time.NewTimer(k.wait(time.Now()))
		select {
		case <-ctx.Done():
		case e := <-k.ends:
			k.end(e, time.Now())
		case <-timer.C:
		}
		timer.Stop()
	}
	return nil
}

// newKeeper reads what the one before it remembered. The first considers times
// from now on.
func newKeeper(s *processpb.Schedule, now time.Time) (*keeper, error) {
	k := &keeper{schedule: s, folder: s.GetKeeper().GetFolder(), children: map[time.Time]bool{}, ends: make(chan end), stopped: map[time.Time]string{}}
	var err error
	if k.times, err = timesOf(s); err != nil {
		return nil, err
	}
	if err := os.MkdirAll(filepath.Join(k.folder, "runs"), 0o700); err != nil {
		return nil, err
	}
	if k.remember, err = load(k.path()); err != nil {
		return nil, err
	}
	if k.remember.Considered.IsZero() {
		k.remember.Considered = now
		return k, k.remember.save(k.path())
	}
	return k, nil
}

func (k *keeper) path() string { return filepath.Join(k.folder, recordName) }

// lock waits until no other process keeps the schedule.
func (k *keeper) lock(ctx context.Context) (release func(), err error) {
	file, err := os.OpenFile(filepath.Join(k.folder, "lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	for {
		err := unix.Flock(int(file.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		switch {
		case err == nil:
			// The one before may have written since.
			if k.remember, err = load(k.path()); err != nil {
				file.Close()
			}
			return func() { file.Close() }, err
		case !errors.Is(err, unix.EWOULDBLOCK) && !errors.Is(err, unix.EINTR):
			file.Close()
			return nil, fmt.Errorf("locking %s: %w", file.Name(), err)
		}
		select {
		case <-ctx.Done():
			file.Close()
			return nil, ctx.Err()
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// wait until something may be due.
func (k *keeper) wait(now time.Time) time.Duration {
	wait := longestWait
	if next := k.times.Next(k.remember.Considered); !next.IsZero() {
		wait = min(wait, max(next.Sub(now), 0))
	}
	for _, r := range k.remember.Running {
		if !k.children[r.Due] {
			wait = min(wait, adoptedWait)
		}
		if limit := k.schedule.Deadline.AsDuration(); limit > 0 && k.stopped[r.Due] == "" {
			wait = min(wait, max(r.Started.Add(limit).Sub(now), 0))
		}
	}
	return max(wait, 10*time.Millisecond)
}

// step does what is due now.
func (k *keeper) step(ctx context.Context, now time.Time) error {
	if err := k.adopt(now); err != nil {
		return err
	}
	k.limit(ctx, now)
	d := decide(k.times, k.schedule, k.remember.Considered, now, len(k.remember.Running))
	if d.replace {
		for _, r := range k.remember.Running {
			k.stopped[r.Due] = "was stopped for the run of " + d.start.Format(time.RFC3339)
		}
		if err := k.stop(ctx, ""); err != nil {
			return err
		}
	}
	if d.considered.Equal(k.remember.Considered) {
		return nil
	}
	next := k.remember
	next.Considered, next.Skipped = d.considered, next.Skipped+d.skipped
	if d.missed > 0 {
		next.Missed, next.MissedLast = next.Missed+d.missed, d.missedLast
		log.Printf("missed while nothing kept it: %s, the last of %s", count(d.missed), d.missedLast.Format(time.RFC3339))
	}
	if !d.start.IsZero() {
		next.Runs++
		next.Running = append(slices.Clone(next.Running), run{Due: d.start, Started: now})
	}
	// Before the run: it begins at most once, whatever happens.
	if err := next.save(k.path()); err != nil {
		return fmt.Errorf("the run of %s waits, for it cannot be remembered: %w", d.considered.Format(time.RFC3339), err)
	}
	k.remember = next
	if !d.start.IsZero() {
		k.start(d.start, now)
	}
	return nil
}

// adopt finds which runs of an earlier keeper have ended. How, nobody saw.
func (k *keeper) adopt(now time.Time) error {
	if !slices.ContainsFunc(k.remember.Running, func(r run) bool { return !k.children[r.Due] }) {
		return nil
	}
	live := map[string]bool{}
	carriers, err := job.Carriers(variableSchedule, k.schedule.Name)
	if err != nil {
		return err
	}
	for _, c := range carriers {
		live[c.Environment[variableRun]] = true
	}
	for _, r := range slices.Clone(k.remember.Running) {
		if !k.children[r.Due] && !live[r.name()] {
			k.end(end{due: r.Due, result: "ended, or never began, while its keeper was not there to see it"}, now)
		}
	}
	return nil
}

// limit stops runs that take longer than they may.
func (k *keeper) limit(ctx context.Context, now time.Time) {
	deadline := k.schedule.Deadline.AsDuration()
	for _, r := range k.remember.Running {
		if deadline <= 0 || now.Sub(r.Started) < deadline || k.stopped[r.Due] != "" {
			continue
		}
		k.stopped[r.Due] = fmt.Sprintf("was stopped after its deadline of %v", deadline)
		log.Printf("the run of %s %s", r.name(), k.stopped[r.Due])
		go func() {
			if err := k.stop(ctx, r.name()); err != nil && ctx.Err() == nil {
				log.Print(err)
			}
		}()
	}
}

// stop a run, or all of them, with what they started.
func (k *keeper) stop(ctx context.Context, run string) error {
	list := func() ([]job.Carrier, error) {
		carriers, err := job.Carriers(variableSchedule, k.schedule.Name)
		return slices.DeleteFunc(carriers, func(c job.Carrier) bool { return run != "" && c.Environment[variableRun] != run }), err
	}
	return job.StopAll(ctx, list, stopGrace(k.schedule), func(ctx context.Context) error { return ctx.Err() })
}

func (r run) name() string { return r.Due.UTC().Format(time.RFC3339) }

func (k *keeper) log(due time.Time) string {
	return filepath.Join(k.folder, "runs", run{Due: due}.name()+".log")
}

// start the run of a time, in a session of its own.
func (k *keeper) start(due, now time.Time) {
	k.sweep()
	s := k.schedule
	file, err := os.OpenFile(k.log(due), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		k.end(end{due, "could not be started: " + err.Error()}, now)
		return
	}
	defer file.Close()
	command := &exec.Cmd{
		Path: s.Binary, Args: append([]string{s.Binary}, s.Args...), Dir: "/", Stdout: file, Stderr: file,
		Env:         k.environment(due),
		SysProcAttr: &syscall.SysProcAttr{Setsid: true},
	}
	if err := command.Start(); err != nil {
		k.end(end{due, "could not be started: " + err.Error()}, now)
		return
	}
	k.children[due] = true
	log.Printf("the run of %s began, process %d", run{Due: due}.name(), command.Process.Pid)
	go func() {
		result := ""
		if err := command.Wait(); err != nil {
			result = "ended with " + err.Error()
		}
		k.ends <- end{due, result}
	}()
}

// environment of a run: nothing of the keeper's but PATH and HOME.
func (k *keeper) environment(due time.Time) []string {
	variables := map[string]string{}
	for _, name := range []string{"PATH", "HOME"} {
		if value := os.Getenv(name); value != "" {
			variables[name] = value
		}
	}
	maps.Copy(variables, k.schedule.Env)
	variables[variableSchedule], variables[variableRun] = k.schedule.Name, run{Due: due}.name()
	var list []string
	for _, name := range slices.Sorted(maps.Keys(variables)) {
		list = append(list, name+"="+variables[name])
	}
	return list
}

// end notes how a run ended.
func (k *keeper) end(e end, now time.Time) {
	at := slices.IndexFunc(k.remember.Running, func(r run) bool { return r.Due.Equal(e.due) })
	if at < 0 {
		return
	}
	if reason := k.stopped[e.due]; reason != "" {
		e.result = reason
	}
	r := k.remember.Running[at]
	k.remember.Running = slices.Delete(slices.Clone(k.remember.Running), at, at+1)
	k.remember.Last = ended{run: r, Ended: now, Result: e.result, Log: k.log(e.due)}
	if e.result != "" {
		k.remember.Failed++
	}
	delete(k.children, e.due)
	delete(k.stopped, e.due)
	log.Printf("the run of %s ended: %s", r.name(), cmp.Or(e.result, "well"))
	if err := k.remember.save(k.path()); err != nil {
		log.Printf("its end cannot be remembered: %v", err)
	}
}

// sweep removes the logs of old runs: their names are in the order of time.
func (k *keeper) sweep() {
	entries, err := os.ReadDir(filepath.Join(k.folder, "runs"))
	if err != nil {
		return // It is made again, or cannot be written, which is said then.
	}
	for _, entry := range entries[:max(0, len(entries)-mostLogs+1)] {
		_ = os.Remove(filepath.Join(k.folder, "runs", entry.Name()))
	}
}

// compact takes the spaces out of a text in JSON.
func compact(text []byte) string {
	var b bytes.Buffer
	if err := json.Compact(&b, text); err != nil {
		return strings.TrimSpace(string(text))
	}
	return b.String()
}
