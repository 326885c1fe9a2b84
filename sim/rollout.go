package sim

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"lehr.dev/fault"
	apipb "lehr.dev/gen/lehr/api/v1"
	"lehr.dev/intent"
	"lehr.dev/store"
	"lehr.dev/strategist"
)

// Course is how the simulator's own rollout goes, which governs the records.
type Course struct {
	// Shape is one of shapes; Soak that of its first stage.
	Shape int
	Soak  time.Duration
	// Stop leaves what is bad to a person; Newer is what becomes of a run when
	// there is something newer.
	Stop  bool
	Newer string
	// Asks a validation.
	Asks bool
}

// shapes of stages, with their soaks.
var shapes = []func(soak time.Duration) string{
	func(soak time.Duration) string { // A canary, then the rest.
		return fmt.Sprintf("[{name: canary, scopes: [a], soak: %s}, {name: others, rest: true, soak: %s}]", soak, soak/2)
	},
	func(soak time.Duration) string { // Waves.
		return fmt.Sprintf("[{name: canary, scopes: [b], count: 1, soak: %s}, {name: others, rest: true, count: 2, soak: %s}]", soak, soak/2)
	},
	func(soak time.Duration) string { // Scope by scope.
		return fmt.Sprintf("[{name: clusters, scopes: [a, b], by: scope cluster, order: [b], soak: %s}, {name: others, rest: true, delay: 20s}]", soak)
	},
	func(soak time.Duration) string { // By parts.
		return fmt.Sprintf("[{name: canary, scopes: [a], count: 1, soak: %s}, {name: others, rest: true, by: scope cluster, percent: 50%%, most: 2, soak: %s}]", soak, soak/2)
	},
}

// rolloutPatience of the rollout with what is ill.
const rolloutPatience = 2 * time.Minute

func (c *Course) definition() string {
	text := "rollouts:\n  records:\n    select: type == \"Command\"\n    stages: " + shapes[c.Shape](c.Soak) + "\n"
	text += fmt.Sprintf("    patience: %s\n    newer: %s\n    emergency: [{name: first, scopes: [a], soak: 20s}, {name: then, rest: true}]\n", rolloutPatience, c.Newer)
	if c.Stop {
		text += "    on_bad: stop\n"
	}
	if c.Asks {
		text += "    validate: [errors]\nvalidations:\n  errors: {interval: 1m, metrics: {errors: {prometheus: main, query: errors, compare: none, at_most: 2}}}\n"
	}
	return text
}

// rolls reports whether this run has a rollout.
func (l *Lab) rolls() bool {
	return l.options.Definition == "" && l.options.Seed%9 == 3
}

// govern puts the records of the first intent under a rollout, and more of them.
func (l *Lab) govern() {
	if !l.rolls() {
		return
	}
	l.first.Course = someCourse(l.stream("rollout"))
	for n, scope := range []string{"a", "a", "b", "b"} {
		id := fmt.Sprintf("record/r%d", n+1)
		l.first.Things = append(l.first.Things, Thing{ID: id, Kind: "command", Name: id, Text: "r", Scope: scope})
	}
}

func someCourse(r *rand.Rand) *Course {
	return &Course{
		Shape: r.IntN(len(shapes)), Soak: time.Duration(1+r.IntN(3)) * time.Minute, Stop: r.IntN(4) == 0,
		Newer: []string{"supersedes", "supersedes", "queues", "held"}[r.IntN(4)], Asks: r.IntN(2) == 0,
	}
}

// beginsWithin and restsWithin are how long it may take until all is in sync.
func (l *Lab) beginsWithin() time.Duration {
	if l.rolls() {
		return 40 * time.Minute
	}
	return 10 * time.Minute
}

func (l *Lab) restsWithin() time.Duration {
	if l.rolls() {
		return 3 * patience
	}
	return patience
}

// rolloutKinds are disturbances of runs with a rollout.
var rolloutKinds = []weighed{{RolloutNews, 14}, {RolloutBad, 10}, {RolloutOrder, 12}, {RolloutEdited, 3}, {RolloutSource, 5}}

// Texts of what makes ill after a while, and of what only a validation finds bad.
const illText, worseText = "ill-", "worse-"

// ails is after how long something is unhealthy of itself.
func (l *Lab) ails() func(payload []byte) time.Duration {
	if !l.rolls() {
		return nil
	}
	return func(payload []byte) time.Duration {
		at := bytes.Index(payload, []byte(illText))
		if at < 0 || at+len(illText) >= len(payload) {
			return 0
		}
		return time.Duration(payload[at+len(illText)]-'0') * 30 * time.Second
	}
}

// isWell tells the monitor how production is.
func (l *Lab) isWell() func(id intent.IncarnationID, asset intent.AssetID) bool {
	if !l.rolls() {
		return nil
	}
	return func(id intent.IncarnationID, asset intent.AssetID) bool { return l.World.Well(l.ctx, id, asset) }
}

// rolloutNews is new content for all that the rollout governs, or for some.
func (l *Lab) rolloutNews(d Disturbance, r *rand.Rand) {
	next := l.good.clone()
	if next.Course == nil && r.IntN(2) == 0 {
		next.Course = l.first.Course
	}
	text := fmt.Sprintf("well-%d", r.IntN(9))
	if d.Kind == RolloutBad {
		text = fmt.Sprintf("%s%d", []string{illText, illText, worseText}[r.IntN(3)], 1+r.IntN(8))
	}
	some := r.IntN(3)
	var changed []string
	for at := range next.Things {
		t := &next.Things[at]
		if t.Kind != "command" || some == 0 && r.IntN(2) == 0 {
			continue
		}
		t.Text = text
		changed = append(changed, t.ID)
	}
	if len(changed) == 0 {
		return
	}
	l.note(d.Kind, "sources")
	l.save(d.Number, next, fmt.Sprintf("%s of %s", text, strings.Join(changed, ", ")))
	l.soonApproved(d)
}

// rolloutEdited changes how the rollout goes, or drops it.
func (l *Lab) rolloutEdited(d Disturbance, r *rand.Rand) {
	next := l.good.clone()
	l.note(d.Kind, "sources")
	what := "the rollout goes otherwise"
	if next.Course = someCourse(r); r.IntN(4) == 0 {
		next.Course, what = nil, "the rollout is left out"
	}
	l.save(d.Number, next, what)
}

// rolloutSource has validations be answered otherwise for a while.
func (l *Lab) rolloutSource(d Disturbance, r *rand.Rand) {
	l.note(d.Kind, "validation")
	l.unclear = []string{"inconclusive", "broken", "absent", "waiting"}[r.IntN(4)]
	l.unclearUntil = l.Now().Add(min(d.Length+30*time.Second, 5*time.Minute))
	l.tell("%s: %s", d, l.unclear)
}

// assess is what is asked by validations: what it says is so, unless it is in
// trouble.
func (l *Lab) assess(_ context.Context, of strategist.Assessing) (found strategist.Assessed, err error) {
	const settles = 30 * time.Second
	found.ValidationVerdict = intent.ValidationVerdict{Result: "good", Reason: "few errors", At: of.Now}
	trouble := ""
	if !l.healing && l.unclearUntil.After(l.Now()) {
		trouble = l.unclear
	}
	switch {
	case trouble == "absent":
		return found, fault.New(fault.Unavailable, "nobody answers")
	case trouble != "":
		found.Result, found.Reason, found.Next = trouble, "as the simulator has it", of.Now.Add(10*time.Second)
	case slices.ContainsFunc(of.Experiment, func(asset intent.AssetID) bool { return l.worse(of.Run.To, asset) }):
		found.Result, found.Reason = "bad", "many errors"
		l.Monitor.FoundBad(of.Run.Name, of.Run.Run)
	case of.Now.Sub(of.Changed) < settles && !of.Now.Before(of.Changed):
		found.Result, found.Reason, found.Next = "waiting", "too few samples", of.Changed.Add(settles)
	}
	if found.Result == "good" {
		l.Monitor.FoundGood(of.Run.Name, of.Run.Run, of.Stage)
	}
	if found.Next.IsZero() {
		found.Record = []byte("what was read")
	}
	l.mark("validation: " + found.Result)
	return found, nil
}

// worse reports whether a validation finds an asset's content bad.
func (l *Lab) worse(at intent.IncarnationID, asset intent.AssetID) bool {
	_, body, err := l.reading.Content(l.ctx, at, asset)
	return err == nil && bytes.Contains(body, []byte(worseText))
}

// takenUp is how much was marked of a run.
type takenUp struct {
	run    uint64
	events int
	total  int
}

// rolledOn marks what a step of a rollout did.
func (l *Lab) rolledOn(step store.RolloutStep) {
	run := step.Run
	if len(step.Forgiven) > 0 {
		l.mark("rollout: forgiven")
	}
	if run.Name == "" {
		return
	}
	before := l.runs[run.Name]
	if before.run != run.Run {
		before = takenUp{run: run.Run}
	}
	now := takenUp{run: run.Run, events: len(run.Events)}
	for _, e := range run.Events[min(before.events, len(run.Events)):] {
		l.tell("rollout %s, run %d, %s: %s", run.Name, run.Run, e.Kind, e.Text)
		l.mark("rollout: " + e.Kind)
		if e.Kind == "stage" && strings.HasPrefix(e.Text, "canary") {
			l.mark("rollout: a canary soaked")
		}
	}
	l.mark("rollout: " + string(run.State))
	if run.State == intent.RolloutRunning && run.To.Sequence < l.Monitor.Head() && l.good.Course != nil && l.good.Course.Newer == "queues" {
		l.mark("rollout: the newer one is queued")
	}
	for _, s := range run.Progress.Stages {
		now.total += s.Total
		if s.Selected > s.Done && !s.Began.IsZero() && l.failover.After(s.Began) {
			l.mark("rollout: restart in the middle of a soak")
		}
	}
	if now.total == 0 {
		now.total = before.total
	}
	if before.total > 0 && run.State == intent.RolloutRunning {
		switch {
		case now.total > before.total:
			l.mark("rollout: a new asset under way")
		case now.total < before.total:
			l.mark("rollout: an asset gone under way")
		}
	}
	for part, mark := range map[string]string{
		"judged bad": "held as bad", "for a person to start it": "held for a person", "was ended": "the same content waits for a person",
		"which is broken": "a broken source is waited for",
	} {
		if strings.Contains(run.Progress.Waits, part) {
			l.mark("rollout: " + mark)
		}
	}
	l.runs[run.Name] = now
}

// orderRollout asks something of a rollout.
func (p person) orderRollout() error {
	list, err := p.c.Rollouts.ListRollouts(p.ctx, &apipb.ListRolloutsRequest{Partition: string(p.partition)})
	if err != nil || len(list.Rollouts) == 0 {
		return err
	}
	of := list.Rollouts[p.r.IntN(len(list.Rollouts))]
	kinds := []intent.OrderKind{intent.OrderStart, intent.OrderForgive, intent.OrderRollback, intent.OrderStart, intent.OrderRelease}
	switch intent.RolloutState(of.GetRun().GetState()) {
	case intent.RolloutRunning:
		kinds = []intent.OrderKind{intent.OrderPause, intent.OrderPause, intent.OrderAbort, intent.OrderSkip, intent.OrderPromote, intent.OrderRollback, intent.OrderEmergency}
	case intent.RolloutPaused:
		kinds = []intent.OrderKind{intent.OrderResume, intent.OrderResume, intent.OrderAbort, intent.OrderPromote}
	}
	return p.order(of.Name, kinds[p.r.IntN(len(kinds))])
}

func (p person) order(rollout string, kind intent.OrderKind) error {
	p.tell("%s: %s %s, by %s", p.d, kind, rollout, p.name)
	_, err := p.c.Rollouts.OrderRollout(p.ctx, &apipb.OrderRolloutRequest{Partition: string(p.partition), Rollout: rollout, Kind: string(kind), Reason: "I say so"})
	if err == nil {
		p.mark("rollout: ordered: " + string(kind))
	}
	return err
}

// goOnWithRollouts does what runs wait for that only a person may do.
func (p person) goOnWithRollouts() error {
	if !p.rolls() {
		return nil
	}
	list, err := p.c.Rollouts.ListRollouts(p.ctx, &apipb.ListRolloutsRequest{Partition: string(p.partition)})
	if err != nil {
		return err
	}
	for _, of := range list.Rollouts {
		if of.Run == nil && of.Governs {
			if err := p.order(of.Name, intent.OrderStart); err != nil {
				return err
			}
		}
		for _, kind := range []intent.OrderKind{intent.OrderForgive, intent.OrderStart, intent.OrderResume, intent.OrderAbort, intent.OrderRelease} {
			if !strings.Contains(of.GetRun().GetWaits(), "lehr rollout "+string(kind)) && !(kind == intent.OrderRelease && !of.Governs && of.Pins > 0) {
				continue
			}
			if err := p.order(of.Name, kind); err != nil {
				return err
			}
			break
		}
	}
	return nil
}
