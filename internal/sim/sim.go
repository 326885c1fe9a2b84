// Package sim tries to make Lehr do wrong. It drives the real app (pipeline,
// enforcer, store, API) in virtual time, against a simulated production, with
// a seeded plan of disturbances: crashes, pauses, wrong clocks, failing stores
// and plugins, other writers, broken sources, people. Monitors look on. Every
// run ends by healing all, and must come to rest. The same options give the
// same run. It never touches anything real. "lehr sim" and tests call it.
package sim

import (
	"context"
	"fmt"
	"io"
	"time"

	"lehr.dev/internal/pluginhost/plugin"
	"lehr.dev/internal/sim/monitor"
)

// Options of a run.
type Options struct {
	// Seed decides everything that is not said otherwise.
	Seed uint64
	// Hours of virtual time with disturbances.
	Hours float64
	// Density is how many disturbances come in an hour, about.
	Density float64
	// Only are the numbers of the disturbances that happen; nil: all.
	Only []int
	// Without are kinds of disturbance that do not happen.
	Without []Kind
	// Definition is the path of a user's lehr.yaml; empty: the simulator's own
	// partition, whose intent is changed too.
	Definition string
	// Before is the same partition's lehr.yaml before an edit that is to be
	// tried: the run begins with it, and makes the edit on the way.
	Before string
	// Documents of the user's partition that a server holds, in JSON, by name.
	Documents map[string]string
	// Replicas that share the store; 0 and 1: one process has it for itself.
	Replicas int
	// Class, if any, is what all targets compare: they have no other.
	Class plugin.Guarantee
	// Breaks, if any, is the one property of which a breach ends the run:
	// those of others are noted.
	Breaks string
	// Trace, if any, is told every step.
	Trace io.Writer
}

// DefaultDensity makes disturbances overlap now and then.
const DefaultDensity = 12

// Outcome of a run.
type Outcome struct {
	Seed uint64 `json:"seed"`
	// Hours of virtual time that passed, with the settling at the end.
	Hours float64 `json:"hours"`
	// Hash of every step: equal for equal runs.
	Hash string `json:"hash"`
	// Steps are how often a goroutine went on, Effects what Lehr did to
	// production.
	Steps   uint64 `json:"steps"`
	Effects int    `json:"effects"`
	// Plan is all that was to happen; Struck counts what did.
	Plan   []Disturbance `json:"plan,omitempty"`
	Struck int           `json:"struck"`
	// Violations of invariants; none in a good run.
	Violations []monitor.Violation `json:"violations,omitempty"`
	// Marks count the situations that came about, Checked how often each
	// property was asked.
	Marks   map[string]int `json:"marks"`
	Checked map[string]int `json:"checked"`
	// Cells count faults by point and phase.
	Cells map[Cell]int `json:"-"`
	// Story tells what happened, for people: one line each.
	Story []string `json:"story,omitempty"`
}

// Cell is a fault of a kind at a point in a phase.
type Cell struct {
	Point string
	Kind  Kind
	Phase Phase
}

// Failed reports whether an invariant was broken.
func (o Outcome) Failed() bool { return len(o.Violations) > 0 }

// Run runs once. An error says that the run could not be made at all.
func Run(ctx context.Context, o Options) (Outcome, error) {
	if o.Density == 0 {
		o.Density = DefaultDensity
	}
	l, err := newLab(ctx, o)
	if err != nil {
		return Outcome{}, err
	}
	defer l.close()
	l.play()
	return l.outcome(), nil
}

// play is the story of a run.
func (l *Lab) play() {
	l.supervised = true
	for range max(l.options.Replicas, 1) {
		l.Begin()
	}
	l.assist()
	if !l.settles("at the start", l.beginsWithin()) {
		return
	}
	start := l.Now()
	l.helping = false
	l.people.Go("disturbances", func() {
		for _, d := range l.disturbances {
			if !l.happens(d) {
				continue
			}
			if l.people.Wait(l.ctx, start.Add(d.At).Sub(l.Now()), nil) != nil {
				return
			}
			l.strike(d)
		}
	})
	l.run(start.Add(hours(l.options.Hours)))
	if l.failed() {
		return
	}
	l.heal()
	l.settles("after all was healed", l.restsWithin())
	l.staysQuiet()
	l.storesSecrets()
	l.Monitor.End(l.ctx)
}

func hours(h float64) time.Duration { return time.Duration(h * float64(time.Hour)) }

func (l *Lab) outcome() Outcome {
	violations := l.Monitor.Violations()
	violations = append(violations, l.found...)
	for _, panicked := range l.Panics() {
		violations = append(violations, monitor.Violation{Property: "S12", At: l.Now(), What: "a panic that nothing contained: " + panicked})
	}
	return Outcome{
		Seed: l.options.Seed, Hours: l.Now().Sub(l.start).Hours(), Hash: fmt.Sprintf("%016x", l.Hash()),
		Steps: l.Steps(), Effects: l.effects, Plan: l.disturbances, Struck: l.struck, Violations: violations,
		Marks: l.met(), Checked: l.Monitor.Checked(), Cells: l.cells, Story: l.story,
	}
}
