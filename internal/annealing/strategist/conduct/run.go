package conduct

import (
	"fmt"
	"slices"
	"time"

	intentpb "lehr.dev/gen/lehr/intent/v1"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/ground/selection"
)

// goOn with an open run.
func (d *decider) goOn() {
	d.wakeAt(d.Now.Add(looksEvery))
	switch {
	case d.run.State == intent.RolloutRollingBack:
		d.goBack()
		return
	case d.superseded():
		d.end(intent.RolloutSuperseded, d.holder(), "supersede", "%s has newer content", d.next)
		d.wakeAt(d.Now)
		return
	}
	if reason := d.stranded(); reason != "" {
		d.end(intent.RolloutSuperseded, d.holder(), "supersede", "%s", reason)
		d.wakeAt(d.Now)
		return
	}
	if reason := d.foundBad(); reason != "" {
		d.wentBad(reason)
		return
	}
	if b := d.wentBack(); b != nil && d.run.State == intent.RolloutRunning {
		d.pause(wentBackFrom(b), fmt.Sprintf("the rollout %s went back from %s: %s", b.Name, b.Run.To, b.Run.Bad))
	}
	d.groundWork()
	d.advance()
}

// superseded reports whether there is newer content for what the run brings, and
// the policy says that this ends it.
func (d *decider) superseded() bool {
	return d.Spec.Newer == intentpb.Rollout_NEWER_SUPERSEDES && d.newer()
}

// newer reports whether there is newer content for what the run brings.
func (d *decider) newer() bool {
	return d.next.Sequence > d.run.To.Sequence && slices.ContainsFunc(d.Assets, func(a Asset) bool {
		next := d.brings(&a)
		return a.Selected && !a.Goal.IsZero() && a.Goal != next && !next.IsZero()
	})
}

// stranded says why what an asset was given, and is otherwise by now, is never
// brought there: it waits for what head does not have either; empty: none does. Newer
// content would wait for such a run for ever (L9).
func (d *decider) stranded() string {
	if !d.newer() {
		return ""
	}
	for i := range d.Assets {
		a := &d.Assets[i]
		content, _ := a.content()
		wasGiven := d.hasAdvanced(a) || a.Back != nil && d.run.State == intent.RolloutRollingBack
		if !a.Selected || !wasGiven || content == d.brings(a) || a.Look.State == intent.StateInSync || a.Report.Effective != content {
			continue
		}
		for _, w := range a.Report.Waiting {
			isGone := func(id intent.AssetID) bool { return d.Content(d.next, id).IsZero() }
			if w.Kind == intent.WaitMissing && slices.ContainsFunc(w.Blockers, isGone) {
				return fmt.Sprintf("%s has newer content, and not what %s waits for: %s", d.next, a.ID, w.Reason)
			}
		}
	}
	return ""
}

// hasAdvanced reports whether the run, or one before it, let the asset go on to what it
// brings.
func (d *decider) hasAdvanced(a *Asset) bool {
	if d.Field != nil {
		e := d.editOf(a.Pointer)
		return e != nil && e.Set()
	}
	return a.Back == nil && !a.Pin.Waits() && a.Pinned == a.Goal && !a.Goal.IsZero()
}

// takesPart reports whether the run is about an asset: it has to go on, or went on
// and is not known to be good.
func (d *decider) takesPart(a *Asset) bool {
	switch {
	case d.Field != nil:
		return d.partOfField(a)
	case a.Goal.IsZero() || !a.Selected || a.Pin.Incarnation.Sequence > d.run.To.Sequence:
		return false // It, or what it follows, is newer than the run; or it is governed no more.
	case a.Pinned != a.Goal || a.Back != nil:
		return true
	case a.Pin.Incarnation == d.run.To:
		return true
	}
	good := a.Known[a.Goal]
	return !good && !a.Seen.Selected.IsZero()
}

// policy by which the run selects, with what people said of its stages, and with
// what its validations still lack.
func (d *decider) policy() selection.Policy {
	p := d.Course(d.run.Emergency)
	for i := range p.Stages {
		s := &p.Stages[i]
		s.Skip = d.run.Promoted || slices.Contains(d.run.Skipped, s.Name)
		s.Held = d.unapproved(s.Name)
		if !slices.Contains(d.run.Accepted, s.Name) {
			s.Gate = d.lacks(s.Name)
		}
	}
	return p
}

// targets are the assets of the run for the selection.
func (d *decider) targets() (list []selection.Target) {
	for i := range d.Assets {
		a := &d.Assets[i]
		if !d.takesPart(a) {
			continue
		}
		t := a.Target
		t.Asset = a.ID
		t.Selected = d.hasAdvanced(a)
		t.Blocked = a.Blocked
		t.Unproven, t.Healthy = a.unproven(), a.Seen.Healthy
		t.Well = a.Seen.Ill.IsZero() && (a.Seen.Healthy > 0 || !a.Seen.Seen.IsZero())
		if content, _ := a.content(); t.Unproven && a.bad(content) {
			t.Well = false
			t.Bad = fmt.Sprintf("it has what was judged bad; lehr rollout rollback %s goes back from it, and lehr rollout abort %s ends this run", d.Name, d.Name)
		}
		if !t.Selected && t.Blocked == "" && !d.run.Emergency && !d.run.Promoted {
			t.Blocked = d.earns(a)
		}
		if t.Selected {
			t.InSync = !a.Seen.Arrived.IsZero() && a.Look.State == intent.StateInSync && a.Look.Effective == a.Goal
			t.Well = t.InSync && t.Well && !a.Seen.Seen.IsZero()
			if !t.InSync && a.Report.Effective == a.Goal && len(a.Report.Waiting) > 0 {
				t.Blocked = a.Report.Waiting[0].Reason
			}
		}
		list = append(list, t)
	}
	return list
}

// advance lets assets go on, or says what the run waits for.
func (d *decider) advance() {
	d.approve()
	targets := d.targets()
	policy := d.policy()
	d.pick(policy, targets)
	choice := selection.Choose(policy, targets, d.Now)
	d.wakeAt(choice.Next)
	d.ask(policy, targets)
	d.progress(choice, targets)
	if d.run.State == intent.RolloutRunning {
		if v := d.unsure(); v != nil {
			d.pause(cannotTell(v), fmt.Sprintf("the validation %s of the stage %s cannot tell: %s", v.Validation, v.Stage, v.Reason))
		}
	}
	d.foundGood(choice)
	switch {
	case choice.Done && len(choice.Unwanted) == 0:
		d.end(intent.RolloutDone, d.holder(), "done", "all of %s went through", count(len(targets), "asset", "assets"))
		d.run.Progress.Wait("", "", nil)
		d.run.Progress.Next = time.Time{}
		d.wakeAt(d.Now)
	case d.run.State == intent.RolloutPaused:
		d.run.Progress.Cause, d.run.Progress.Waits = intent.CausePause, d.pausedBy()
	case d.Stop != nil:
		d.run.Progress.Cause, d.run.Progress.Waits = intent.CauseStop, fmt.Sprintf("for the stop by %s to end: %s; %s ends it", d.Stop.Owner.Name, d.Stop.Reason, d.Stop.Ending())
	default:
		if reason, blockers := d.early(); reason != "" {
			d.run.Progress.Wait(intent.CauseRollouts, reason, blockers)
			break
		}
		d.letOn(choice.Assets)
	}
	if p := &d.run.Progress; p.Waits != "" && d.Field == nil && d.newer() {
		p.Waits += fmt.Sprintf("; %s waits for this run to end: lehr rollout abort %s --reason WHY ends it", d.next, d.Name)
	}
}

// letOn lets assets go on to what the run brings.
func (d *decider) letOn(assets []intent.AssetID) {
	if len(assets) == 0 {
		return
	}
	if d.Field != nil {
		d.setOn(assets)
		return
	}
	chosen := map[intent.AssetID]bool{}
	for _, id := range assets {
		chosen[id] = true
	}
	for i := range d.Assets {
		a := &d.Assets[i]
		if !chosen[a.ID] {
			continue
		}
		stage := d.stageOf(a)
		d.pin(a, d.run.To, intent.RankRollout, fmt.Sprintf("run %d, stage %s", d.run.Run, stage))
		if a.Back != nil {
			d.unpin(a, intent.RankRollback)
		}
		a.Seen = a.goesOn(d.Name, a.Goal, d.Now, a.unproven())
		d.decision.Seen[a.ID] = a.Seen
		d.wentOn(stage)
	}
	d.run.Progress.Wait("", "", nil)
	d.event(d.holder(), "select", "%s: %s", count(len(assets), "asset goes on", "assets go on"), listed(assets))
	d.wakeAt(d.Now.Add(looksEvery))
}

// wentOn counts an asset that was let go on, of a stage.
func (d *decider) wentOn(stage string) {
	if at := slices.IndexFunc(d.run.Progress.Stages, func(s intent.StageProgress) bool { return s.Name == stage }); at >= 0 {
		s := &d.run.Progress.Stages[at]
		s.Selected++
		if s.Began.IsZero() {
			s.Began = d.Now
		}
	}
}

func (d *decider) stageOf(a *Asset) string {
	if d.run.Emergency && a.Target.Emergency != "" {
		return a.Target.Emergency
	}
	return a.Target.Stage
}
