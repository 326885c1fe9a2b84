package sim

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/store"
)

// Rolls reports whether runs of a seed have a rollout.
func Rolls(seed uint64) bool { return seed%9 == 3 }

// Trains reports whether in runs of a seed one rollout comes after another.
func Trains(seed uint64) bool { return seed%27 == 21 }

// RetriesValidations reports whether in runs of a seed validations begin anew before what they find is bad.
func RetriesValidations(seed uint64) bool { return Rolls(seed) && seed/27%2 == 1 }

// CountsErrors reports whether in runs of a seed a validation is bad after too many broken answers in a row.
func CountsErrors(seed uint64) bool { return Rolls(seed) && seed/27%4 >= 2 }

// trains reports whether it does in this run.
func (l *Lab) trains() bool { return l.ownRollout() && Trains(l.options.Seed) }

// countsErrors reports whether it does in this run.
func (l *Lab) countsErrors() bool { return l.ownRollout() && CountsErrors(l.options.Seed) }

// ownRollout reports whether this run has the simulator's own rollout.
func (l *Lab) ownRollout() bool {
	return l.options.Definition == "" && Rolls(l.options.Seed)
}

// rolls reports whether this run may have rollouts: its own, or those of somebody's
// partition.
func (l *Lab) rolls() bool { return l.options.Definition != "" || l.ownRollout() }

// govern puts the records of the first intent under a rollout, and more of them.
func (l *Lab) govern() {
	if l.sets() {
		l.first.Course = someCourse(l.stream("rollout"))
		l.first.Course.Fields = true
	}
	if !l.ownRollout() {
		return
	}
	l.first.Course = l.someCourse(l.stream("rollout"))
	l.first.Course.Train = l.trains()
	for n, scope := range []string{"a", "a", "b", "b"} {
		id := fmt.Sprintf("record/r%d", n+1)
		l.first.Things = append(l.first.Things, Thing{ID: id, Kind: "command", Name: id, Text: "r", Scope: scope})
	}
}

// beginsWithin and restsWithin are how long it may take until all is in sync.
func (l *Lab) beginsWithin() time.Duration {
	if l.rolls() || l.sets() || l.byHours() {
		return begins
	}
	return 10 * time.Minute
}

func (l *Lab) restsWithin() time.Duration {
	if l.rolls() || l.sets() || l.byHours() {
		return 3 * patience
	}
	if l.asksOutputs() {
		return patience + 70*time.Minute // One that kept changing is written after up to an hour.
	}
	return patience
}

// begins is how long what is new may take by the stages of rollouts.
const begins = 40 * time.Minute

// rolloutKinds are disturbances of runs with a rollout.
var rolloutKinds = []weighed{{RolloutNews, 14}, {RolloutBad, 10}, {RolloutOrder, 12}, {RolloutEdited, 3}, {RolloutSource, 2}, {RolloutSoak, 12}}

// anyRolloutKinds are those that need to know nothing of the rollouts.
var anyRolloutKinds = []weighed{{RolloutOrder, 4}, {RolloutSource, 2}}

// Texts of what makes ill after a while, and of what only a validation finds bad.
const illText, worseText = "ill-", "worse-"

// ails is after how long something is unhealthy of itself.
func (l *Lab) ails() func(payload []byte) time.Duration {
	if !l.ownRollout() && !l.sets() {
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
	if !l.rolls() && !l.sets() {
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

// soakTime is longer than a soak.
const soakTime = 4 * time.Minute

// duringSoak is what happens in the middle of a soak.
var duringSoak = []Kind{Drift, Sick, ClockJump, RolloutSource, RolloutSource, RolloutNew, Restart}

// rolloutSoak brings something new, and has something happen while it soaks.
func (l *Lab) rolloutSoak(d Disturbance, r *rand.Rand) {
	l.rolloutNews(Disturbance{Number: d.Number, At: d.At, Kind: RolloutNews, Seed: d.Seed}, r)
	l.people.Go("somebody waits for a soak", func() {
		const most = 15 * time.Minute
		for end := l.Now().Add(most); l.Now().Before(end); {
			if l.people.Wait(l.ctx, 5*time.Second, nil) != nil || l.healing {
				return
			}
			if under := l.soaking(); len(under) > 0 {
				if l.people.Wait(l.ctx, time.Duration(10+r.IntN(40))*time.Second, nil) == nil && !l.healing {
					l.duringSoak(d, under[r.IntN(len(under))])
				}
				return
			}
		}
	})
}

// soaking are the resources that a run has let go on, in a stage that is not done.
func (l *Lab) soaking() (under []intent.ResourceKey) {
	runs, err := l.reading.Rollouts(l.ctx, l.partition, store.RolloutFilter{Open: true})
	if err != nil || len(runs) == 0 || runs[0].State != intent.RolloutRunning ||
		!slices.ContainsFunc(runs[0].Progress.Stages, func(s intent.StageProgress) bool { return s.Selected > s.Done }) {
		return nil
	}
	for _, m := range l.headMembers() {
		pins, err := l.reading.PinsOf(l.ctx, l.partition, m.Asset)
		if err != nil || !slices.ContainsFunc(pins, func(p intent.Pin) bool { return p.Rank == intent.RankRollout && p.Incarnation == runs[0].To }) {
			continue
		}
		if report, err := l.reading.Report(l.ctx, l.partition, m.Asset); err == nil && report.State == intent.StateInSync && report.ResourceKey != "" {
			under = append(under, report.ResourceKey)
		}
	}
	return under
}

// duringSoak does what is to happen to what soaks, or to who looks at it.
func (l *Lab) duringSoak(d Disturbance, of intent.ResourceKey) {
	l.mark("rollout: in the middle of a soak: " + string(d.Then))
	d.Kind, d.Then = d.Then, ""
	switch d.Kind {
	case Drift:
		l.note(d.Kind, "production")
		l.tell("%s: %s", d, of)
		l.World.Drift(of, d.Seed)
	case Sick:
		const brief = rolloutPatience * 2 / 3 // Longer than may go unseen.
		l.note(d.Kind, "production")
		l.tell("%s: %s", d, of)
		l.World.Sick(of, true)
		l.after(brief, func() { l.World.Sick(of, false) })
	case RolloutNew:
		l.rolloutNew(d)
	case RolloutSource:
		d.Length = soakTime // Until validations are asked.
		l.strike(d)
	case ClockJump:
		d.Length = soakTime
		l.setClock(d, func(replica *Replica) { replica.Jump(time.Hour) })
	default:
		l.strike(d)
	}
}

// rolloutNew adds something that the rollout governs, or takes it away again.
func (l *Lab) rolloutNew(d Disturbance) {
	next := l.good.clone()
	const id = "record/r9"
	before := len(next.Things)
	next.Things = slices.DeleteFunc(next.Things, func(t Thing) bool { return t.ID == id })
	what := id + " is gone"
	if len(next.Things) == before {
		next.Things, what = append(next.Things, Thing{ID: id, Kind: "command", Name: id, Text: "r", Scope: "b"}), id+" is new"
	}
	l.note(d.Kind, "sources")
	l.save(d.Number, next, what)
}

// rolloutEdited changes how the rollout goes, or drops it.
func (l *Lab) rolloutEdited(d Disturbance, r *rand.Rand) {
	next := l.good.clone()
	l.note(d.Kind, "sources")
	what := "the rollout goes otherwise"
	if next.Course = l.someCourse(r); r.IntN(4) == 0 {
		next.Course, what = nil, "the rollout is left out"
	} else if l.trains() && r.IntN(4) > 0 {
		next.Course.Train, what = true, "the rollouts go otherwise"
	}
	l.save(d.Number, next, what)
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
	of := "rollout: "
	if len(run.Value) > 0 {
		of = "field: "
	}
	before := l.runs[run.Name]
	if before.run != run.Run {
		before = takenUp{run: run.Run}
	}
	now := takenUp{run: run.Run, events: len(run.Events)}
	for _, e := range run.Events[min(before.events, len(run.Events)):] {
		l.tell("rollout %s, run %d, %s: %s", run.Name, run.Run, e.Kind, e.Text)
		l.mark(of + e.Kind)
		if e.Kind == "begin" && run.Name == "records" && l.good.Course != nil && l.good.Course.Train {
			l.mark("rollout: begun after another")
		}
		if e.Kind == "stage" && e.Stage == "canary" {
			l.mark(of + "a canary soaked")
		}
	}
	l.mark(of + string(run.State))
	if len(run.Value) == 0 && run.State == intent.RolloutRunning && run.To.Sequence < l.Monitor.Head() && l.good.Course != nil && l.good.Course.Newer == "queues" {
		l.mark(of + "the newer one is queued")
	}
	for _, s := range run.Progress.Stages {
		now.total += s.Total
		if s.Selected > s.Done && !s.Began.IsZero() && l.failover.After(s.Began) {
			l.mark(of + "restart in the middle of a soak")
		}
	}
	if now.total == 0 {
		now.total = before.total
	}
	if before.total > 0 && run.State == intent.RolloutRunning {
		switch {
		case now.total > before.total:
			l.mark(of + "a new asset under way")
		case now.total < before.total:
			l.mark(of + "an asset gone under way")
		}
	}
	switch run.Progress.Cause {
	case intent.CauseBad:
		l.mark(of + "held as bad")
	case intent.CausePerson:
		l.mark(of + "held for a person")
	case intent.CauseEnded:
		l.mark(of + "the same content waits for a person")
	case intent.CauseStage:
		waiting := slices.IndexFunc(run.Progress.Stages, func(s intent.StageProgress) bool { return s.Total > 0 && s.Waits != "" })
		if waiting >= 0 && slices.ContainsFunc(run.Progress.Verdicts, func(v intent.ValidationVerdict) bool {
			return v.Stage == run.Progress.Stages[waiting].Name && v.Result == "broken"
		}) {
			l.mark(of + "a broken source is waited for")
		}
	}
	l.runs[run.Name] = now
}
