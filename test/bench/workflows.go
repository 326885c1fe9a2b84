package main

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"syscall"
	"time"

	"lehr.dev/internal/annealing/workflows"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/ground/loop"
	"lehr.dev/internal/ground/workflow"
	"lehr.dev/internal/store"
	"lehr.dev/internal/store/postgres"
	"lehr.dev/internal/store/sqlite"
	"lehr.dev/test/pgserver"
)

// How many runs wait, how many callers start and step them at once, and for how long the driver
// is watched while nothing happens.
const (
	waitingRuns    = 10_000
	workflowCalls  = 32
	workflowRest   = 10 * time.Second
	approvedOfRuns = 2_000
)

// askingWorkflow waits for a person, for a day at most.
const askingWorkflow = `workflow: v1
name: asks
machines:
  release:
    initial: asking
    states:
      asking: {action: {person: {question: "Release it?", roles: [approver]}, timeout: 24h}}
      yes: {end: success}
      no: {end: failure}
    transitions:
      - {from: asking, to: yes, on: approved}
      - {from: asking, to: no, on: [refused, expired]}
`

// measureWorkflows measures runs that wait, and durable steps, in a file and in a database.
func measureWorkflows(ctx context.Context, _ *site, server *pgserver.Server) error {
	folder, err := os.MkdirTemp("", "lehr-bench-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(folder)
	log := slog.New(slog.DiscardHandler)
	file, err := sqlite.Open(ctx, sqlite.Options{Path: filepath.Join(folder, "lehr.db"), Log: log})
	if err != nil {
		return err
	}
	defer file.Close()
	if err := measureWorkflowsOn(ctx, "sqlite", file); err != nil {
		return err
	}
	database, err := postgres.Open(ctx, postgres.Options{URL: server.Database(), Log: log})
	if err != nil {
		return err
	}
	defer database.Close()
	return measureWorkflowsOn(ctx, "postgres", database)
}

func measureWorkflowsOn(ctx context.Context, engine string, s store.All) error {
	actor := intent.Actor{Name: "bench", Origin: "bench"}
	if err := s.AddPartition(ctx, partition, "/bench/lehr.yaml", "a benchmark", actor); err != nil {
		return err
	}
	lease, err := s.Acquire(ctx, partition, "bench")
	if err != nil {
		return err
	}
	definition, findings := workflow.Read("asks.yaml", []byte(askingWorkflow))
	if definition == nil {
		return fmt.Errorf("the workflow of the benchmark cannot be read: %v", findings)
	}
	start := time.Now()
	if err := inParallel(waitingRuns, func(int) error { return startRun(ctx, s, definition, actor) }); err != nil {
		return err
	}
	machine.figure("workflow_starts_durable_"+engine, waitingRuns/time.Since(start).Seconds(), "starts/s", waitingRuns, byAdmission)

	if err := measureWaitingRuns(ctx, engine, s, lease); err != nil {
		return err
	}
	start = time.Now()
	if err := inParallel(approvedOfRuns, func(i int) error { return approveRun(ctx, s, definition, uint64(i+1), actor) }); err != nil {
		return err
	}
	machine.figure("workflow_transitions_durable_"+engine, approvedOfRuns/time.Since(start).Seconds(), "transitions/s", approvedOfRuns, byAdmission)
	return nil
}

// measureWaitingRuns counts what a driver holds and computes while all runs wait.
func measureWaitingRuns(ctx context.Context, engine string, s store.All, lease store.Lease) error {
	before := liveHeap()
	driver := workflows.New(workflows.Options{Partition: partition, Store: s, Runtime: loop.Real(), Log: slog.New(slog.DiscardHandler)})
	driving, end := context.WithCancel(ctx)
	ended := make(chan error, 1)
	start := time.Now()
	go func() { ended <- driver.Run(driving, lease) }()
	time.Sleep(workflowRest) // It reads them all in that time.
	held := liveHeap() - before
	computed, err := computedByProcess()
	if err != nil {
		end()
		return err
	}
	time.Sleep(workflowRest)
	now, err := computedByProcess()
	end()
	<-ended
	if err != nil {
		return err
	}
	print("workflow_waiting_runs_"+engine, waitingRuns, "runs")
	print("workflow_waiting_run_heap_"+engine, held/waitingRuns, "B")
	print("workflow_waiting_runs_cpu_"+engine, 100*(now-computed).Seconds()/workflowRest.Seconds(), "%")
	print("workflow_waiting_runs_watched_"+engine, time.Since(start).Seconds(), "s")
	return nil
}

func startRun(ctx context.Context, s store.All, definition *workflow.Definition, actor intent.Actor) error {
	now := time.Now()
	result, err := definition.Start(nil, nil, now)
	if err != nil {
		return err
	}
	run := intent.WorkflowRun{Partition: partition, Workflow: definition.Name, Digest: definition.Digest(), Text: askingWorkflow, Started: now, By: actor}
	if err := workflow.UpdateRow(&run, result, now); err != nil {
		return err
	}
	_, err = s.StartWorkflow(ctx, run, workflow.Record(definition, workflow.Run{}, workflow.Event{}, result, actor), intent.Operator)
	return err
}

// approveRun steps a run by a vote, as the server does.
func approveRun(ctx context.Context, s store.All, definition *workflow.Definition, number uint64, actor intent.Actor) error {
	run, err := s.WorkflowRun(ctx, partition, number)
	if err != nil {
		return err
	}
	before, err := workflow.StateOf(run)
	if err != nil {
		return err
	}
	event := workflow.Event{Kind: workflow.EventVote, Key: "release/asking/1", Person: actor.Name, Roles: []string{string(intent.Approver)}, Approves: true}
	result := definition.Step(before, event, time.Now())
	if result.WhyIgnored != "" {
		return fmt.Errorf("the vote on run %d was ignored: %s", number, result.WhyIgnored)
	}
	if err := workflow.UpdateRow(&run, result, time.Now()); err != nil {
		return err
	}
	step := store.WorkflowStep{Run: run, Events: workflow.Record(definition, before, event, result, actor), By: actor}
	_, err = s.StepWorkflowAs(ctx, step, []intent.Role{intent.Approver}, "workflow-vote", "")
	return err
}

// inParallel does n things with as many callers as people and programs may be.
func inParallel(n int, do func(i int) error) error {
	var (
		waiting sync.WaitGroup
		next    = make(chan int)
		failed  = make(chan error, workflowCalls)
	)
	for range workflowCalls {
		waiting.Go(func() {
			for i := range next {
				if err := do(i); err != nil {
					select {
					case failed <- err:
					default:
					}
				}
			}
		})
	}
	for i := range n {
		next <- i
	}
	close(next)
	waiting.Wait()
	select {
	case err := <-failed:
		return err
	default:
		return nil
	}
}

// liveHeap is how many bytes of the heap are in use after a collection.
func liveHeap() float64 {
	runtime.GC()
	runtime.GC()
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	return float64(stats.HeapAlloc)
}

func computedByProcess() (time.Duration, error) {
	var usage syscall.Rusage
	err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage)
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano()), err
}
