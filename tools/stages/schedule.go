package main

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"
)

// stage is a part of the test command.
type stage struct {
	Name string
	// Purpose is what it shows, for the docs.
	Purpose string
	// After are the stages that must have succeeded before it begins.
	After []string
	Lane  lane
	// Packages whose tests it runs, as the shell words of go test; or Script, what a
	// shell runs in the root of the checkout.
	Packages, Script string
	// Alone: it begins when nothing runs, and nothing begins beside it, for it promises times.
	Alone bool
	// OnDisk: its temporary files lie on the caller's disk, for it is about disks or how soon they have written.
	OnDisk bool
	// Env is set for the packages' tests: NAME=VALUE words; Flags are of go test, beside the
	// usual ones.
	Env, Flags string
}

// command returns what a shell runs.
func (s stage) command() string {
	if s.Packages != "" {
		return s.Env + " " + goTest + s.Flags + " " + s.Packages
	}
	return s.Script
}

// lane is what a stage may run beside.
type lane string

const (
	// computes keeps the cores busy: two such stages at a time, for each has an end in which
	// one package is left. They give way to what waits, for that is judged by real clocks.
	computes lane = "computes"
	// waits is judged by real clocks, for leases, soaks and browsers. One such stage takes a core or
	// more where processes start slowly, and two of them starve what computes, and each other.
	waits lane = "waits"
	// fills computes in virtual time, so it takes what the others leave of the cores: it has
	// the lowest priority, and what real clocks judge runs beside it as if alone.
	fills lane = "fills"
)

// lanes says how many stages of each run at a time.
var lanes = map[lane]int{computes: 2, waits: 1, fills: 1}

// nice returns the priority of a lane, as of nice(1). Only differences count, so what real clocks
// judge keeps the caller's and nothing needs root. Where the kernel groups processes by session
// (sched_autogroup_enabled), nice counts only within one: all stages run in the caller's session.
// What computes keeps a quarter of a core beside each process that is judged: with a fiftieth (nice 15)
// its tests met limits that guard against hangs.
func (l lane) nice() int {
	return map[lane]int{waits: 0, computes: 5, fills: 19}[l]
}

// runner runs one stage and returns what it cost.
type runner func(context.Context, stage) (cost, error)

// runAll runs the stages in the order of the list, as soon as what they come after has
// succeeded and their lane has room. After a failure it goes on with what does not
// depend on it, so that one run tells of all failures. It returns the costs in the order
// of the list, and the names of the stages that failed or could not begin.
func runAll(ctx context.Context, stages []stage, run runner) ([]cost, []string) {
	var (
		mutex    sync.Mutex
		changed  = sync.NewCond(&mutex)
		started  = map[string]bool{}
		ended    = map[string]bool{}
		failures = map[string]bool{}
		costs    = map[string]cost{}
		free     = maps.Clone(lanes)
		running  int
		isAlone  bool
	)
	next := func() (stage, bool) {
		if isAlone {
			return stage{}, false
		}
		for _, s := range stages {
			ready := !slices.ContainsFunc(s.After, func(name string) bool { return !ended[name] || failures[name] })
			if started[s.Name] || !ready || free[s.Lane] == 0 {
				continue
			}
			if s.Alone && running > 0 {
				return stage{}, false // What comes after it in the list waits for it.
			}
			return s, true
		}
		return stage{}, false
	}
	mutex.Lock()
	for ctx.Err() == nil {
		s, ok := next()
		if !ok && running == 0 {
			break // All have ended, or what is left comes after a failure.
		}
		if !ok {
			changed.Wait()
			continue
		}
		started[s.Name] = true
		free[s.Lane]--
		running++
		isAlone = s.Alone
		go func() {
			c, err := run(ctx, s)
			mutex.Lock()
			defer mutex.Unlock()
			ended[s.Name], failures[s.Name], costs[s.Name] = true, err != nil, c
			free[s.Lane]++
			running--
			isAlone = false
			changed.Broadcast()
		}()
	}
	for running > 0 {
		changed.Wait()
	}
	mutex.Unlock()

	var list []cost
	var failed []string
	for _, s := range stages {
		if c, ok := costs[s.Name]; ok {
			list = append(list, c)
		}
		if failures[s.Name] || !ended[s.Name] {
			failed = append(failed, s.Name)
		}
	}
	return list, failed
}

// choose returns the named stages and those that they come after, in the order of the table.
func choose(stages []stage, names []string) ([]stage, error) {
	wanted := map[string]bool{}
	var add func(name string) error
	add = func(name string) error {
		i := slices.IndexFunc(stages, func(s stage) bool { return s.Name == name })
		if i < 0 {
			var names []string
			for _, s := range stages {
				names = append(names, s.Name)
			}
			return fmt.Errorf("there is no stage %q; there are: %s", name, strings.Join(names, ", "))
		}
		wanted[name] = true
		for _, needed := range stages[i].After {
			if err := add(needed); err != nil {
				return err
			}
		}
		return nil
	}
	for _, name := range names {
		if err := add(name); err != nil {
			return nil, err
		}
	}
	return slices.DeleteFunc(slices.Clone(stages), func(s stage) bool { return !wanted[s.Name] }), nil
}

// cost is what a stage cost.
type cost struct {
	Stage string
	// Clock is from its beginning to its end.
	Clock time.Duration
	// Computing is the processor time of its processes and of those that they waited for.
	Computing time.Duration
}
