package main

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"lehr.dev/fault"
	"lehr.dev/sim/mutation"
)

// clean is for how many simulated hours a defence that stands alone must hold.
const clean = 30

// alone tests every defence with its siblings off: with it in place its
// property holds, and without it it is broken.
func (h hunt) alone(ctx context.Context) error {
	var failed error
	fmt.Printf("%-36s %-4s %-14s %s\n", "defence", "of", "alone", "without it")
	for _, d := range mutation.Defences {
		holds, falls, err := h.defence(ctx, d, clean)
		if err != nil {
			return err
		}
		line := [2]string{"holds", "NOT BROKEN"}
		if holds.caught() {
			line[0] = fmt.Sprintf("BROKEN, seed %d", holds.seed)
		}
		if falls.caught() {
			line[1] = fmt.Sprintf("broken after %.1f hours, seed %d: %s", falls.hours, falls.seed, short(falls.what))
		}
		fmt.Printf("%-36s %-4s %-14s %s\n", d.Name, d.Breaks, line[0], line[1])
		if holds.caught() || !falls.caught() {
			failed = errors.Join(failed, fault.New(fault.Conflict, "the defence %q: alone it %s; without it the property is %s", d.Name, line[0], line[1]))
		}
	}
	return failed
}

// defence runs with the siblings off for so many hours, and then without it
// too until its property is broken.
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
	falls, err = h.try(ctx, off, r)
	return holds, falls, err
}
