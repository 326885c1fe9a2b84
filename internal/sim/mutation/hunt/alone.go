package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"golang.org/x/sync/errgroup"

	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/sim/mutation"
)

// defend tests every defence with its siblings off: with it in place its
// property holds, and without it it is broken.
func (h hunt) defend(ctx context.Context) error {
	list, err := h.chosen()
	if err != nil {
		return err
	}
	fmt.Printf("%-36s %-4s %-20s %s\n", "defence", "of", "alone", "without it")
	var mutex sync.Mutex
	var failed error
	var told []mutation.Stood
	var workers errgroup.Group
	workers.SetLimit(h.workers)
	for _, d := range list {
		workers.Go(func() error {
			holds, falls, err := h.defence(ctx, d, h.quiet)
			if err != nil {
				return err
			}
			mutex.Lock()
			defer mutex.Unlock()
			if err := judge(d, holds, falls); err != nil {
				failed = errors.Join(failed, err)
				return nil
			}
			told = append(told, mutation.Stood{
				Defence: d.Name, Of: d.Breaks, Quiet: rounded(holds.hours), Seed: falls.seed, Hours: rounded(falls.last), After: rounded(falls.hours),
			})
			if h.write == "" {
				return nil
			}
			return h.saveStood(told) // Each at once: all of them take long.
		})
	}
	return errors.Join(workers.Wait(), failed)
}

// judge prints what came of a defence, and fails when it did not hold alone, or nothing
// was broken without it.
func judge(d mutation.Defence, holds, falls found) error {
	alone, without := fmt.Sprintf("holds for %.0f hours", holds.hours), "NOT BROKEN"
	if holds.caught() {
		alone = fmt.Sprintf("BROKEN, seed %d: %s", holds.seed, short(holds.what))
	}
	if falls.caught() {
		without = fmt.Sprintf("broken after %.1f hours, seed %d: %s", falls.hours, falls.seed, short(falls.what))
	}
	fmt.Printf("%-36s %-4s %-20s %s\n", d.Name, d.Breaks, alone, without)
	if holds.caught() || !falls.caught() {
		return fault.New(fault.Conflict, "the defence %q: alone it %s; without it the property is %s", d.Name, alone, without)
	}
	return nil
}

// chosen are the defences that are tested.
func (h hunt) chosen() (list []mutation.Defence, err error) {
	if h.alone == "" {
		return mutation.Defences, nil
	}
	for name := range strings.SplitSeq(h.alone, ",") {
		at := slices.IndexFunc(mutation.Defences, func(d mutation.Defence) bool { return d.Name == name })
		if at < 0 {
			return nil, fault.New(fault.NotFound, "there is no defence %q", name)
		}
		list = append(list, mutation.Defences[at])
	}
	return list, nil
}

// defence runs with the siblings off for so many hours, and then without it
// too until its property is broken: by the seed that is known first, if that is
// wanted.
func (h hunt) defence(ctx context.Context, d mutation.Defence, hours float64) (holds, falls found, err error) {
	r := h.runner
	r.breaks, r.class = d.Breaks, d.Class
	off := slices.Clone(d.Siblings)
	with := r
	with.budget = min(r.budget, hours)
	if holds, err = h.try(ctx, off, with); err != nil {
		return holds, falls, err
	}
	if d.Alone == "" {
		r.class = "N"
	} else {
		off = append(off, d.Alone)
	}
	if known, ok := mutation.KnownStood(d.Name); ok && h.known {
		r.seed = known.Seed
	}
	falls, err = h.try(ctx, off, r)
	return holds, falls, err
}

// saveStood writes what was found beside what was known of other defences.
func (h hunt) saveStood(told []mutation.Stood) error {
	list := mutation.KnownDefences()
	for _, s := range told {
		list = slices.DeleteFunc(list, func(other mutation.Stood) bool { return other.Defence == s.Defence })
		list = append(list, s)
	}
	list = slices.DeleteFunc(list, func(s mutation.Stood) bool {
		return !slices.ContainsFunc(mutation.Defences, func(d mutation.Defence) bool { return d.Name == s.Defence })
	})
	slices.SortFunc(list, func(a, b mutation.Stood) int { return cmp.Compare(a.Defence, b.Defence) })
	return writeList(h.write, list)
}
