package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"time"

	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/sim/campaign"
	"lehr.dev/internal/sim/monitor"
	"lehr.dev/internal/sim/mutation"
)

// hunt drives one program with all defects in it.
type hunt struct {
	runner
	root, work, names, alone, write string
	workers, starts                 int
	known, defences                 bool
	// quiet is for how many simulated hours a defence that stands alone must hold.
	quiet  float64
	binary string
}

func (h hunt) run(ctx context.Context) error {
	if h.work == "" {
		folder, err := os.MkdirTemp("", "lehr-hunt-")
		if err != nil {
			return err
		}
		defer os.RemoveAll(folder)
		h.work = folder
	}
	var err error
	if h.binary, err = mutation.BuildOf(ctx, h.root, h.work, "./internal/sim/mutation/hunt"); err != nil {
		return err
	}
	list, err := h.list()
	if err != nil {
		return err
	}
	if h.defences {
		return h.defend(ctx) // What holds alone is a base line of its own.
	}
	if err := h.baseline(ctx); err != nil {
		return err
	}
	return h.all(ctx, list)
}

// list of what is hunted.
func (h hunt) list() (list []mutation.Mutant, err error) {
	if h.names == "" {
		return mutation.Hunted(), nil
	}
	for name := range strings.SplitSeq(h.names, ",") {
		m, ok := mutation.Find(name)
		if !ok {
			return nil, fault.New(fault.NotFound, "there is no mutant %s", name)
		}
		list = append(list, m)
	}
	return list, nil
}

// baseline: with every defect off, nothing is found, or the hunt says nothing.
func (h hunt) baseline(ctx context.Context) error {
	const clean = 20
	r := h.runner
	r.budget = min(r.budget, clean)
	found, err := h.try(ctx, nil, r)
	if err == nil && found.caught() {
		err = fault.New(fault.Conflict, "without any defect seed %d breaks %s: %s", found.seed, found.property, found.what)
	}
	return err
}

// ok is what came of the search for one defect.
type found struct {
	name, expected string
	property, what string
	seed           uint64
	// hours of all runs, last of the one that was caught.
	hours, last float64
	took        time.Duration
}

func (f found) caught() bool { return f.property != "" }

// all defects, several at a time, told in the order in which they end.
func (h hunt) all(ctx context.Context, list []mutation.Mutant) error {
	todo := make(chan mutation.Mutant)
	results := make(chan found)
	var workers sync.WaitGroup
	var first error
	var mutex sync.Mutex
	for range h.workers {
		workers.Go(func() {
			for m := range todo {
				f, err := h.one(ctx, m)
				if err != nil {
					mutex.Lock()
					first = errors.Join(first, fault.New(fault.Unavailable, "hunting %s: %w", m.Name, err))
					mutex.Unlock()
					continue
				}
				results <- f
			}
		})
	}
	go func() {
		for _, m := range list {
			todo <- m
		}
		close(todo)
		workers.Wait()
		close(results)
	}()
	return errors.Join(h.report(results), first)
}

// report prints a line each, and fails when one was not caught.
func (h hunt) report(results <-chan found) error {
	var all []found
	missed := 0
	fmt.Printf("%-32s %-10s %-10s %8s %6s  %s\n", "mutant", "expected", "caught by", "hours", "seed", "what was seen")
	for f := range results {
		all = append(all, f)
		if by := f.property; f.caught() {
			fmt.Printf("%-32s %-10s %-10s %8.1f %6d  %s\n", f.name, f.expected, by, f.hours, f.seed, short(f.what))
		} else {
			missed++
			fmt.Printf("%-32s %-10s %-10s %8.1f\n", f.name, f.expected, "NOT", f.hours)
		}
	}
	fmt.Printf("%d of %d caught\n", len(all)-missed, len(all))
	if h.write != "" {
		if err := h.save(all); err != nil {
			return err
		}
	}
	if missed > 0 {
		return fault.New(fault.Conflict, "%d of %d defects were not found within %.0f simulated hours", missed, len(all), h.budget)
	}
	return nil
}

// earliest violation, of that property if one is given: a run that is cut
// short leaves pushes open.
func earliest(list []monitor.Violation, property string) (monitor.Violation, bool) {
	list = slices.DeleteFunc(slices.Clone(list), func(v monitor.Violation) bool { return property != "" && v.Property != property })
	if len(list) == 0 {
		return monitor.Violation{}, false
	}
	return slices.MinFunc(list, func(a, b monitor.Violation) int {
		return cmp.Or(a.At.Compare(b.At), -cmp.Compare(a.Property, b.Property)) // S before L.
	}), true
}

func short(text string) string {
	const most = 150
	text, _, _ = strings.Cut(text, "\n")
	return text[:min(len(text), most)]
}

// one defect, by the seed that is known first, if that is wanted.
func (h hunt) one(ctx context.Context, m mutation.Mutant) (found, error) {
	r := h.runner
	if r.replicas = m.Replicas; m.Of != "" {
		r.hours, r.density, r.of = calmHours, calmDensity, m.Of
		if m.Of == mutation.Delivering || m.Of == mutation.Lined || m.Of == mutation.Tasked {
			r.hours, r.density = storyHours, storyDensity
		}
	}
	if seed, ok := mutation.KnownSeed(m.Name); ok && h.known {
		r.seed = seed
	}
	f, err := h.try(ctx, []string{m.Name}, r)
	f.name, f.expected = m.Name, m.Breaks
	// One start may be lucky: the longest of several says how long it takes.
	for n := 1; n < h.starts && err == nil && f.caught(); n++ {
		r.seed = h.seed + uint64(n)*betweenStarts
		var again found
		again, err = h.try(ctx, []string{m.Name}, r)
		f.hours = max(f.hours, again.hours)
	}
	return f, err
}

// betweenStarts are the seeds from one start to the next.
const betweenStarts = 300

// try runs seeds in a process of its own until one fails.
func (h hunt) try(ctx context.Context, on []string, r runner) (f found, err error) {
	began := time.Now()
	command := exec.CommandContext(ctx, h.binary, r.arguments()...)
	command.Env = append(append(os.Environ(), campaign.ChildEnv...), mutation.Variable+"="+strings.Join(on, ","))
	var problems strings.Builder
	command.Stderr = &problems
	output, err := command.StdoutPipe()
	if err != nil {
		return f, err
	}
	if err := command.Start(); err != nil {
		return f, err
	}
	lines := json.NewDecoder(output)
	for {
		var line told
		if err := lines.Decode(&line); err != nil {
			if !errors.Is(err, io.EOF) {
				problems.WriteString(err.Error())
			}
			break
		}
		f.hours, f.last = f.hours+line.Hours, line.Hours
		if first, ok := earliest(line.Violations, r.breaks); ok {
			f.seed, f.property, f.what = line.Seed, first.Property, first.What
		}
	}
	f.took = time.Since(began)
	if err := command.Wait(); err != nil {
		return f, fault.New(fault.Internal, "%w: %s", err, problems.String())
	}
	return f, nil
}
