package sim

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"time"

	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/store"
)

// Pattern is one of the three ways in which Sieve (Sun et al., OSDI 2022)
// disturbs a history that it knows the right outcome of.
type Pattern string

// The patterns.
const (
	// Undisturbed is the history once more: it must be the same.
	Undisturbed Pattern = "undisturbed"
	// IntermediateState: the process dies right after an effect, a commit or an
	// await point, and is started again.
	IntermediateState Pattern = "intermediate state"
	// StaleState: for a while the diffs of a plugin are of earlier states, or
	// the store's news come late; then they are current again.
	StaleState Pattern = "stale state"
	// UnobservedState: several edits follow each other faster than anything
	// looks, or production changes and changes back between two looks.
	UnobservedState Pattern = "unobserved state"
)

// Event is what a disturbance is placed by.
type Event string

// The events.
const (
	AtEffect Event = "effect"
	AtCommit Event = "commit"
	AtPoint  Event = "await point"
	// AtPluginPoint: what happens to a process happens to the plugin's.
	AtPluginPoint Event = "await point of a plugin"
)

// News is what SieveCase.Stale says of the store.
const News = "the store's news"

// SieveCase is one disturbed history. With the seed it says all that is needed
// to run it again.
type SieveCase struct {
	Pattern Pattern `json:"pattern"`
	// Event and Number say right after which of the history's events it
	// happens, from 1 on. Of an unobserved state without an event, From and To
	// do.
	Event  Event `json:"event,omitempty"`
	Number int   `json:"number,omitempty"`
	// Orphans: the plugins of the process that dies go on for a while.
	Orphans bool `json:"orphans,omitempty"`
	// Stale is the plugin whose diffs are old, or News.
	Stale string `json:"stale,omitempty"`
	// The edits From to To follow each other after Gap; Down: while no process
	// lives.
	From int           `json:"from,omitempty"`
	To   int           `json:"to,omitempty"`
	Gap  time.Duration `json:"gap,omitempty"`
	Down bool          `json:"down,omitempty"`
}

// String tells the case as one that a person reads.
func (c SieveCase) String() string {
	after := fmt.Sprintf("after %s %d", c.Event, c.Number)
	switch {
	case c.Pattern == IntermediateState && c.Orphans:
		return fmt.Sprintf("%s: crash right %s, which the plugins outlive", c.Pattern, after)
	case c.Pattern == IntermediateState:
		return fmt.Sprintf("%s: crash right %s", c.Pattern, after)
	case c.Pattern == StaleState && c.Stale == News:
		return fmt.Sprintf("%s: %s %s are late", c.Pattern, after, c.Stale)
	case c.Pattern == StaleState:
		return fmt.Sprintf("%s: %s the diffs of %s are old", c.Pattern, after, c.Stale)
	case c.Pattern == UnobservedState && c.Event != "":
		return fmt.Sprintf("%s: %s all jobs change and change back", c.Pattern, after)
	case c.Pattern == UnobservedState && c.Down:
		return fmt.Sprintf("%s: edits %d to %d while no process lives", c.Pattern, c.From, c.To)
	case c.Pattern == UnobservedState:
		return fmt.Sprintf("%s: edits %d to %d, %s apart", c.Pattern, c.From, c.To, c.Gap)
	}
	return string(c.Pattern)
}

// SieveOptions of a set of runs.
type SieveOptions struct {
	Seed uint64
	// Effects, Commits, Points, PluginPoints: a crash is tried at each
	// so-manieth of them; 0: at none.
	Effects, Commits, Points, PluginPoints int
	// Orphans: crashes that plugins outlive are tried after each so-manieth
	// commit.
	Orphans int
	// Stale: old diffs and late news are tried from each so-manieth effect on;
	// Blinks: unobserved changes of production after each so-manieth commit.
	Stale, Blinks int
	// Edits: of the pairs of edits that follow each other unobserved, each
	// so-manieth is tried.
	Edits int
	// Cases, if any, are run, and nothing else.
	Cases []SieveCase
	// Trace, if any, is told every step of every run.
	Trace io.Writer

	// breaks puts a defect between the disturbed processes and their store, and
	// breaks puts a defect between the disturbed processes and their store, and
	// meddles does something to production when it is at rest after an intent.
	breaks  func(store.All) store.All
	meddles func(l *Lab, at int)
}

// DefaultSieve tries every effect, commit and pair of edits.
func DefaultSieve() SieveOptions {
	return SieveOptions{Effects: 1, Commits: 1, Points: 211, PluginPoints: 31, Orphans: 3, Stale: 1, Blinks: 7, Edits: 1}
}

// SieveViolation is a case whose outcome is not the reference's.
type SieveViolation struct {
	Case SieveCase `json:"case"`
	Seed uint64    `json:"seed"`
	What []string  `json:"what"`
	// Story of the run, one line each.
	Story []string `json:"story"`
}

// String says how to run it again, and what was wrong.
func (v SieveViolation) String() string {
	replay, err := json.Marshal(v.Case)
	if err != nil {
		return err.Error() // It is made of strings and numbers.
	}
	text := fmt.Sprintf("seed %d, %s\n  again: Seed %d, Cases [%s]", v.Seed, v.Case, v.Seed, replay)
	for _, what := range v.What {
		text += "\n  " + what
	}
	return text
}

// SieveOutcome of a set of runs.
type SieveOutcome struct {
	// Runs that were disturbed.
	Runs int `json:"runs"`
	// Effects, Commits and Points of the reference.
	Effects int `json:"effects"`
	Commits int `json:"commits"`
	Points  int `json:"points"`
	// PluginPoints are those of plugins.
	PluginPoints int `json:"pluginPoints"`
	// Struck counts the runs in which the disturbance took place, by pattern,
	// Retries the effects that were repeated where that is allowed.
	Struck  map[Pattern]int `json:"struck"`
	Retries int             `json:"retries"`
	// Violations in the order of the cases, at most 20.
	Violations []SieveViolation `json:"violations,omitempty"`
}

// Sieve runs a fixed history of intents once without a fault, and again with
// one disturbance each: every run must do to production what the first did,
// and leave it the same. An error says that a run could not be made, or that
// the history alone does not come to rest.
func Sieve(ctx context.Context, o SieveOptions) (SieveOutcome, error) {
	const most = 20
	reference := &history{options: SieveOptions{Seed: o.Seed, Trace: o.Trace}, of: SieveCase{Pattern: Undisturbed}}
	if err := reference.unfold(ctx); err != nil {
		return SieveOutcome{}, err
	}
	outcome := SieveOutcome{
		Effects: len(reference.done), Commits: reference.counts[AtCommit], Points: reference.counts[AtPoint],
		PluginPoints: reference.counts[AtPluginPoint], Struck: map[Pattern]int{},
	}
	if len(reference.wrong) > 0 {
		return outcome, fault.New(fault.Internal, "the history of seed %d alone goes wrong: %s", o.Seed, reference.wrong[0])
	}
	cases := o.Cases
	if len(cases) == 0 {
		cases = o.cases(reference)
	}
	for _, c := range cases {
		h := &history{options: o, of: c, reference: reference}
		if err := h.unfold(ctx); err != nil {
			return outcome, err
		}
		if err := ctx.Err(); err != nil {
			return outcome, err
		}
		h.compare()
		outcome.Runs++
		outcome.Retries += h.retries
		if h.struck {
			outcome.Struck[c.Pattern]++
		}
		if len(h.wrong) > 0 && len(outcome.Violations) < most {
			outcome.Violations = append(outcome.Violations, SieveViolation{Case: c, Seed: o.Seed, What: h.wrong, Story: h.story})
		}
	}
	return outcome, nil
}

// cases are all that the options ask for, of a reference.
func (o SieveOptions) cases(reference *history) (list []SieveCase) {
	each := func(step, count int, add func(number int)) {
		for number := 1; step > 0 && number <= count; number += step {
			add(number)
		}
	}
	crash := func(event Event, step, count int) {
		each(step, count, func(number int) {
			list = append(list, SieveCase{Pattern: IntermediateState, Event: event, Number: number})
		})
	}
	effects, commits := len(reference.done), reference.counts[AtCommit]
	crash(AtEffect, o.Effects, effects)
	crash(AtCommit, o.Commits, commits)
	crash(AtPoint, o.Points, reference.counts[AtPoint])
	crash(AtPluginPoint, o.PluginPoints, reference.counts[AtPluginPoint])
	each(o.Orphans, commits, func(number int) {
		list = append(list, SieveCase{Pattern: IntermediateState, Event: AtCommit, Number: number, Orphans: true})
	})
	each(o.Stale, effects, func(number int) {
		for _, stale := range []string{"sim-n", "sim-c", "sim-f", News} {
			list = append(list, SieveCase{Pattern: StaleState, Event: AtEffect, Number: number, Stale: stale})
		}
	})
	each(o.Blinks, commits, func(number int) {
		list = append(list, SieveCase{Pattern: UnobservedState, Event: AtCommit, Number: number})
	})
	pairs := unseen()
	each(o.Edits, len(pairs), func(number int) { list = append(list, pairs[number-1]) })
	return list
}

// unseen are the ways in which edits follow each other faster than anything
// looks, or than it can act.
func unseen() (list []SieveCase) {
	for start := 1; start < len(sieveEdits); start++ {
		for end := start + 1; end <= len(sieveEdits); end++ {
			list = append(list, SieveCase{Pattern: UnobservedState, From: start, To: end, Down: true})
			for _, gap := range []time.Duration{0, 300 * time.Millisecond, 3 * time.Second} {
				list = append(list, SieveCase{Pattern: UnobservedState, From: start, To: end, Gap: gap})
			}
		}
	}
	return list
}
