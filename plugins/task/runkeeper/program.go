package runkeeper

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"
	"sync"
	"time"

	"lehr.dev/plugins/task/runrecord"
	"lehr.dev/sdk/serve"
	"lehr.dev/sdk/subprocess"
)

const (
	// What is kept of each stream of the program.
	keptHead, keptTail = 16 << 10, 48 << 10
	// itemOutput is how much of what a failed item wrote is kept.
	itemOutput = 500
	// mostFailed items end a run: what fails so often fails for all.
	mostFailed = 10
	// shownItems are named in how a run ended.
	shownItems = 5
)

// keptVariables are those that a program gets of the plugin's.
var keptVariables = []string{"PATH", "HOME"}

// run runs the program, once or for each item.
func run(ctx context.Context, spec Spec) *runrecord.End {
	startedAt := time.Now()
	var end *runrecord.End
	if len(spec.Items) > 0 {
		end = runItems(ctx, spec)
	} else {
		end = runProgram(ctx, spec, spec.Set)
	}
	end.Took = time.Since(startedAt)
	end.Ended = time.Now()
	return end
}

// runProgram runs the program to its end.
func runProgram(ctx context.Context, spec Spec, set map[string]string) *runrecord.End {
	kept := subprocess.Kept{Head: keptHead, Tail: keptTail}
	result, err := subprocess.New(subprocess.Options{}).Run(ctx, subprocess.Command{
		Argv: spec.Command, Directory: spec.Directory, Input: []byte(spec.Input), Keep: keptVariables, Set: set,
		Limits: subprocess.Limits{Time: spec.Timeout, Grace: spec.Grace, Stdout: kept, Stderr: kept},
	})
	end := &runrecord.End{Ending: runrecord.Well, Stdout: result.Stdout.Text(), Stderr: result.Stderr.Text()}
	switch {
	case errors.Is(err, subprocess.ErrTookTooLong):
		end.Ending, end.Reason = runrecord.CutOff, fmt.Sprintf("it took longer than its timeout of %s", spec.Timeout)
	case ctx.Err() != nil && err != nil:
		end.Ending, end.Reason = runrecord.CutOff, "its keeper was told to stop"
	case err != nil:
		end.Ending, end.Reason = notBegun(err), err.Error()
	case result.Signal != 0:
		end.Ending, end.Code = runrecord.Failed, 128+int32(result.Signal)
	case result.Exit != 0:
		end.Ending, end.Code = runrecord.Failed, int32(result.Exit)
	}
	return end
}

// notBegun is how a run ended of which the error tells: nothing happened where the program
// could not be started as it is; otherwise nobody knows.
func notBegun(err error) runrecord.Ending {
	for _, kind := range []serve.ErrorKind{serve.NotFound, serve.Denied, serve.Invalid} {
		if serve.IsKind(err, kind) {
			return runrecord.NotStarted
		}
	}
	return runrecord.CutOff
}

// runItems runs the program for each item, some at a time, and notes each before it begins and
// when it has ended.
func runItems(ctx context.Context, spec Spec) *runrecord.End {
	items, err := spec.Folder.OpenItems(spec.Batch)
	if err != nil {
		return &runrecord.End{Ending: runrecord.NotStarted, Reason: err.Error()}
	}
	defer items.Close()
	b := &batch{spec: spec, log: items, left: spec.Items}
	var workers sync.WaitGroup
	for range max(1, min(spec.AtOnce, len(spec.Items))) {
		workers.Go(func() {
			for item, ok := b.next(ctx); ok; item, ok = b.next(ctx) {
				b.run(ctx, item)
			}
		})
	}
	workers.Wait()
	return b.end(ctx)
}

// batch is items under way.
type batch struct {
	spec Spec
	log  *runrecord.ItemLog

	mutex sync.Mutex
	left  []string
	done  int
	// failed are those that did not end well; problem is why none can be noted any more.
	failed  []runrecord.Item
	problem error
}

// next takes an item, unless enough have failed or the run is to stop.
func (b *batch) next(ctx context.Context) (item string, ok bool) {
	b.mutex.Lock()
	defer b.mutex.Unlock()
	if len(b.left) == 0 || len(b.failed) >= mostFailed || b.problem != nil || ctx.Err() != nil {
		return "", false
	}
	item, b.left = b.left[0], b.left[1:]
	return item, true
}

func (b *batch) run(ctx context.Context, name string) {
	item := runrecord.Item{Item: name, Run: b.spec.Number}
	if err := b.log.Note(item); err != nil {
		b.take(item, err)
		return
	}
	set := maps.Clone(b.spec.Set)
	set["LEHR_ITEM"] = name
	end := runProgram(ctx, b.spec, set)
	item.Ending, item.Code = end.Ending, end.Code
	if end.Ending != runrecord.Well {
		item.Reason = strings.TrimSpace(end.Reason + " " + end.Said(itemOutput))
	}
	b.take(item, b.log.Note(item))
}

// take counts an item that has ended. With a problem its end is not noted: it counts as cut off.
func (b *batch) take(item runrecord.Item, problem error) {
	b.mutex.Lock()
	defer b.mutex.Unlock()
	switch {
	case problem != nil:
		b.problem = problem
	case item.Ending == runrecord.Well:
		b.done++
	default:
		b.failed = append(b.failed, item)
	}
}

// end sums up.
func (b *batch) end(ctx context.Context) *runrecord.End {
	end := &runrecord.End{Ending: runrecord.Well, Reason: fmt.Sprintf("%d of %d items ended well", b.done, len(b.spec.Items))}
	var shown []string
	for _, item := range b.failed[:min(len(b.failed), shownItems)] {
		shown = append(shown, strings.TrimSpace(fmt.Sprintf("%.100q (%s, code %d) %s", item.Item, item.Ending, item.Code, item.Reason)))
	}
	if len(shown) > 0 {
		end.Reason += fmt.Sprintf("; %d did not: %s", len(b.failed), strings.Join(shown, "; "))
	}
	switch {
	case ctx.Err() != nil:
		end.Ending = runrecord.CutOff
		end.Reason += "; its keeper was told to stop"
	case b.problem != nil:
		end.Ending = runrecord.CutOff
		end.Reason += "; " + b.problem.Error()
	case len(b.failed) > 0:
		end.Ending, end.Code = runrecord.Failed, b.failed[0].Code
		if len(b.left) > 0 {
			end.Reason += fmt.Sprintf("; %d were not begun after that", len(b.left))
		}
	case b.spec.Left > 0:
		end.Ending = runrecord.Failed
		end.Reason += fmt.Sprintf("; %d others are not done and may not be repeated unasked", b.spec.Left)
	}
	return end
}
