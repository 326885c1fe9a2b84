package conduct

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"

	intentpb "lehr.dev/gen/lehr/intent/v1"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/ground/selection"
)

// wentBad: what the run brings is bad. It goes back in the same step (L8), unless
// the policy leaves that to a person, or there is nothing good to go back to.
func (d *decider) wentBad(reason string) {
	d.run.Bad = reason
	d.run.Progress.Verdicts = slices.Clone(d.Verdicts) // The last word on it.
	for i := range d.Assets {
		if a := &d.Assets[i]; d.takesPart(a) && d.hasAdvanced(a) {
			d.judge(a, a.Goal, false, reason)
		}
	}
	d.event(d.holder(), "bad", "%s", reason)
	if d.Spec.OnBad == intentpb.Rollout_ON_BAD_STOP {
		d.end(intent.RolloutStopped, d.holder(), "stop", "the policy leaves it to a person to go back: lehr rollout rollback %s --reason WHY", d.Name)
		return
	}
	d.rollBack(d.holder(), reason)
}

// rollBack moves what was let go on to the newest incarnation at which all of it
// is good: newer pins with older content (S16).
func (d *decider) rollBack(actor intent.Actor, reason string) {
	if d.Field != nil {
		d.takeBack(actor, reason)
		return
	}
	var advanced []*Asset
	for i := range d.Assets {
		if a := &d.Assets[i]; d.takesPart(a) && d.hasAdvanced(a) {
			advanced = append(advanced, a)
		}
	}
	if len(advanced) == 0 {
		d.end(intent.RolloutRolledBack, actor, "rollback", "no asset had gone on: %s", reason)
		return
	}
	target, ok := d.newestGood(actor, advanced)
	if !ok {
		d.end(intent.RolloutStopped, actor, "stop", "there is nothing to go back to: no incarnation that is retained has content of all of %s that was found good, and that the types of head can read", listed(ids(advanced)))
		return
	}
	// What went through is served, and does not go at once: that would be a change of all
	// in one moment (S19). What is under way has not gone further than its stages (L8).
	d.run.Staged = d.run.State == intent.RolloutDone
	d.run.State, d.run.Back, d.run.Reverts = intent.RolloutRollingBack, target, nil
	for _, a := range advanced {
		content := d.Content(target, a.ID)
		if content.IsZero() {
			continue // It is new: nothing is deleted.
		}
		if previous := d.Content(d.run.From, a.ID); !previous.IsZero() && previous != content {
			d.run.Reverts = append(d.run.Reverts, a.ID)
		}
		if !d.run.Staged {
			d.pinBack(a)
		}
	}
	how := ""
	if d.run.Staged {
		how = ", stage by stage"
	}
	d.event(actor, "rollback", "%s to %s%s: %s", count(len(advanced), "asset goes back", "assets go back"), target, how, listed(ids(advanced)))
	if len(d.run.Reverts) > 0 {
		d.event(actor, "rollback", "this undoes earlier changes too, of %s: those of %s", listed(d.run.Reverts), listed(d.undone(target, d.run.Reverts)))
	}
	d.run.Progress.Wait(intent.CauseBack, fmt.Sprintf("for %s to be back", listed(ids(advanced))), ids(advanced))
	if d.run.Staged {
		d.run.Progress.Stages = nil // Those that it went on by.
		d.stageBack()
	}
}

// pinBack has an asset go back.
func (d *decider) pinBack(a *Asset) {
	d.pin(a, d.run.Back, intent.RankRollback, fmt.Sprintf("run %d goes back: %s", d.run.Run, d.run.Bad))
	a.Seen = a.follows(d.Name, d.Content(d.run.Back, a.ID), d.Now)
	d.decision.Seen[a.ID] = a.Seen
}

// backSoak is how long an asset that went back is looked at, at most, before others
// follow it, where the policy does not say: what it goes back to is known to be good.
const backSoak = time.Minute

// backPolicy is how a run that was done goes back: by the stages that the policy has for
// that, or else by those that it went on by, the last first, so that the canary is last.
// Nothing but that what goes back gets there keeps it.
func (d *decider) backPolicy() (p selection.Policy) {
	if d.Back != nil {
		p = d.Back()
	}
	if len(p.Stages) > 0 {
		return p
	}
	forward := d.Course(d.run.Emergency).Stages
	for i, s := range slices.Backward(forward) {
		wants := func(t selection.Target) bool { // Also where the last has all that are left.
			return slices.IndexFunc(forward, func(s selection.Stage) bool { return s.Wants == nil || s.Wants(t) }) == i
		}
		p.Stages = append(p.Stages, selection.Stage{
			Name: s.Name, Wants: wants, By: s.By, Order: s.Order, Parallel: s.Parallel, Wave: s.Wave, Most: s.Most,
			Soak: min(s.Soak, backSoak), Reverse: true,
		})
	}
	return p
}

// goesBack reports whether a run that goes back stage by stage takes an asset along.
func (d *decider) goesBack(a *Asset) bool {
	return d.takesPart(a) && (a.Back != nil || d.hasAdvanced(a)) && !d.Content(d.run.Back, a.ID).IsZero()
}

// stageBack has the assets of a stage go back whose turn it is, and reports whether all
// are back.
func (d *decider) stageBack() (done bool) {
	var targets []selection.Target
	for i := range d.Assets {
		a := &d.Assets[i]
		if !d.goesBack(a) {
			continue
		}
		t := a.Target
		t.Asset, t.Selected = a.ID, a.Back != nil
		t.InSync = a.Back != nil && !a.Seen.Arrived.IsZero() && a.Look.State == intent.StateInSync
		t.Well = t.InSync && a.Seen.Ill.IsZero()
		if t.Healthy = 0; t.InSync {
			t.Healthy = a.Seen.Healthy
		}
		if t.Selected && !t.InSync && a.Report.Effective == a.BackAt && len(a.Report.Waiting) > 0 {
			t.Blocked = a.Report.Waiting[0].Reason
		}
		targets = append(targets, t)
	}
	policy := d.backPolicy()
	choice := selection.Choose(policy, targets, d.Now)
	if len(choice.Unwanted) > 0 {
		policy.Stages = append(policy.Stages, selection.Stage{Name: "others"}) // None is left behind.
		choice = selection.Choose(policy, targets, d.Now)
	}
	d.wakeAt(choice.Next)
	d.progress(choice, targets)
	for i := range d.Assets {
		if a := &d.Assets[i]; slices.Contains(choice.Assets, a.ID) {
			d.pinBack(a)
			d.wentOn(stageNamed(policy, targets, a.ID))
		}
	}
	switch p := &d.run.Progress; {
	case len(choice.Assets) > 0: // The stages wait for these, and do not know it yet.
		p.Wait(intent.CauseBack, fmt.Sprintf("for %s to be back", listed(choice.Assets)), choice.Assets)
	case p.Waits != "":
		p.Wait(intent.CauseBack, "going back, "+p.Waits, p.For)
	case !choice.Done:
		p.Wait(intent.CauseBack, "for its assets to be back", nil)
	}
	if len(choice.Assets) > 0 {
		d.wakeAt(d.Now.Add(looksEvery))
	}
	return choice.Done
}

// stageNamed is the stage of a policy that an asset belongs to.
func stageNamed(p selection.Policy, targets []selection.Target, id intent.AssetID) string {
	at := slices.IndexFunc(targets, func(t selection.Target) bool { return t.Asset == id })
	for _, s := range p.Stages {
		if s.Wants == nil || s.Wants(targets[at]) {
			return s.Name
		}
	}
	return ""
}

// undone are the incarnations, the newest first, that changed assets after the one that
// they go back to, and not after what they had before the run.
func (d *decider) undone(target intent.IncarnationID, assets []intent.AssetID) (list []intent.IncarnationID) {
	older := d.Older()
	for i, at := range older {
		if at.Sequence <= target.Sequence {
			break
		}
		predecessor := target
		if i+1 < len(older) {
			predecessor = older[i+1]
		}
		if at.Sequence <= d.run.From.Sequence && slices.ContainsFunc(assets, func(id intent.AssetID) bool { return d.Content(at, id) != d.Content(predecessor, id) }) {
			list = append(list, at)
		}
	}
	return list
}

func ids(assets []*Asset) (list []intent.AssetID) {
	for _, a := range assets {
		list = append(list, a.ID)
	}
	return list
}

// newestGood is the newest incarnation before the run's at which every one of the
// assets is good; one that it does not have yet is passed over. So is, and that is told,
// one of which the types of head cannot read all: plugins know those, and what they
// would take such content for nobody can tell.
func (d *decider) newestGood(actor intent.Actor, assets []*Asset) (intent.IncarnationID, bool) {
	passed := false
	for _, at := range d.Older() {
		some, all := false, true
		for _, a := range assets {
			content := d.Content(at, a.ID)
			some = some || !content.IsZero()
			all = all && (content.IsZero() || a.Known[content])
			if !all {
				break
			}
		}
		if !some || !all {
			continue
		}
		id, reason := d.unreadable(at, assets)
		if reason == "" {
			return at, true
		}
		if passed {
			continue // One is enough to say.
		}
		passed = true
		d.event(actor, "pass-over", "%s is not gone back to, for the types of head cannot read %s as it was there: %s; lehr pin %s %s --reason WHY gives it that all the same", at, id, reason, id, at)
	}
	return intent.IncarnationID{}, false
}

// unreadable is the first of the assets that the types of head cannot read as it is in
// an incarnation, and why; empty: they read all.
func (d *decider) unreadable(at intent.IncarnationID, assets []*Asset) (intent.AssetID, string) {
	if d.Unreadable == nil {
		return "", ""
	}
	for _, a := range assets {
		if d.Content(at, a.ID).IsZero() {
			continue
		}
		if reason := d.Unreadable(at, a.ID); reason != "" {
			return a.ID, reason
		}
	}
	return "", ""
}

// goBack waits until all are back, and says for which. Then the rollout's own pins
// are there, and those of the rollback are gone.
func (d *decider) goBack() {
	if reason := d.stranded(); len(d.outdatedAssets()) > 0 && (d.superseded() || reason != "") && d.heldAsBad() == "" {
		// What was not back yet is on its way still, and goes on from there.
		d.end(intent.RolloutSuperseded, d.holder(), "supersede", "%s", cmp.Or(reason, d.next.String()+" has newer content"))
		d.wakeAt(d.Now)
		return
	}
	if slices.ContainsFunc(d.decision.Step.Pins, func(p intent.Pin) bool { return p.Rank == intent.RankRollback }) {
		return // A person said so just now, and these pins are of this step.
	}
	if d.run.Staged && !d.stageBack() {
		return
	}
	var returning, remaining []*Asset
	for i := range d.Assets {
		a := &d.Assets[i]
		if a.Back == nil {
			continue
		}
		returning = append(returning, a)
		if a.Seen.Arrived.IsZero() || !a.Seen.Ill.IsZero() || a.Look.State != intent.StateInSync {
			remaining = append(remaining, a)
		}
	}
	if len(remaining) > 0 {
		first := remaining[0]
		reason := " to be in sync"
		if a := first; len(a.Report.Waiting) > 0 && a.Report.Effective == a.BackAt {
			reason = ": " + a.Report.Waiting[0].Reason
		} else if !a.Seen.Ill.IsZero() {
			reason = " to be healthy: " + a.Report.Health.Reason
		}
		d.run.Progress.Wait(intent.CauseBack, fmt.Sprintf("going back waits for %s%s", first.ID, reason), ids(remaining))
		d.run.Progress.Next = time.Time{}
		return
	}
	for _, a := range returning {
		d.pin(a, a.Back.Incarnation, intent.RankRollout, fmt.Sprintf("run %d went back", d.run.Run))
		d.unpin(a, intent.RankRollback)
	}
	d.run.Progress.Wait("", "", nil)
	d.end(intent.RolloutRolledBack, d.holder(), "back", "all are at %s", d.run.Back)
	d.wakeAt(d.Now)
}

// obey carries out what people asked for, in the order in which they did.
func (d *decider) obey() {
	for i := range d.Orders {
		d.carryOut(&d.Orders[i])
	}
	if n := len(d.Orders); n > 0 && d.run != nil {
		d.run.Orders = max(d.run.Orders, d.Orders[n-1].Number)
	}
}

func (d *decider) carryOut(o *intent.RolloutOrder) {
	if o.Kind == intent.OrderForgive {
		d.forgive(o)
		return
	}
	if d.run == nil {
		return
	}
	running := d.run.State == intent.RolloutRunning || d.run.State == intent.RolloutPaused
	switch {
	case o.Kind.IsVote():
		if d.run.State.Open() {
			d.vote(o)
		}
	case o.Kind == intent.OrderPause && d.run.State == intent.RolloutRunning:
		d.run.State = intent.RolloutPaused
		d.event(o.By, "pause", "%s", o.Reason)
	case o.Kind == intent.OrderResume && d.run.State == intent.RolloutPaused:
		d.run.State = intent.RolloutRunning
		// Only what the pause told of is accepted: what was found since pauses anew, and says so.
		if v := d.unsure(); v != nil && d.pausedFor(cannotTell(v)) {
			d.run.Accepted = append(d.run.Accepted, v.Stage)
		}
		if b := d.wentBack(); b != nil && d.pausedFor(wentBackFrom(b)) {
			d.run.Accepted = append(d.run.Accepted, inSpiteOf(b.Name))
		}
		d.event(o.By, "resume", "%s", o.Reason)
	case o.Kind == intent.OrderAbort && (running || d.run.State == intent.RolloutQueued):
		d.end(intent.RolloutStopped, o.By, "abort", "%s", o.Reason)
		for i := range d.Assets {
			d.Assets[i].Seen.Left = time.Time{} // As it stands is what was there before the next run.
			d.decision.Seen[d.Assets[i].ID] = d.Assets[i].Seen
		}
	case o.Kind == intent.OrderSkip && running:
		if stage := d.current(); stage != "" {
			d.run.Skipped = append(d.run.Skipped, stage)
			d.run.Accepted = append(d.run.Accepted, stage)
			d.event(o.By, "skip", "stage %s: %s", stage, o.Reason)
		}
	case o.Kind == intent.OrderPromote && d.run.State == intent.RolloutRollingBack && d.run.Staged:
		d.run.Staged = false
		for i := range d.Assets {
			if a := &d.Assets[i]; d.goesBack(a) && a.Back == nil {
				d.pinBack(a)
			}
		}
		d.event(o.By, "promote", "all go back at once: %s", o.Reason)
	case o.Kind == intent.OrderPromote && running:
		d.run.Promoted, d.run.State = true, intent.RolloutRunning
		for _, s := range d.run.Progress.Stages {
			d.run.Accepted = append(d.run.Accepted, s.Name)
		}
		d.event(o.By, "promote", "%s", o.Reason)
	case o.Kind == intent.OrderEmergency && running && d.Spec != nil && len(d.Spec.Emergency) > 0:
		d.run.Emergency = true
		d.run.Votes, d.run.Approved = nil, nil // They are on stages that it no longer goes by.
		d.event(o.By, "emergency", "%s", o.Reason)
	case o.Kind == intent.OrderRollback && d.run.State != intent.RolloutRollingBack && d.run.State != intent.RolloutRolledBack && d.Spec != nil:
		for i := range d.Assets {
			if a := &d.Assets[i]; d.takesPart(a) && d.hasAdvanced(a) {
				d.judge(a, a.Goal, false, o.Reason)
			}
		}
		d.run.Bad, d.run.Ended = o.Reason, time.Time{}
		d.rollBack(o.By, o.Reason)
	}
}

// current is the stage that the run is at.
func (d *decider) current() string {
	for _, s := range d.run.Progress.Stages {
		if s.Total > 0 && s.Ended.IsZero() && !slices.Contains(d.run.Skipped, s.Name) {
			return s.Name
		}
	}
	return ""
}

// forgive lets what was judged bad be brought again: all that is brought next.
func (d *decider) forgive(o *intent.RolloutOrder) {
	forgiven := 0
	for i := range d.Assets {
		if a := &d.Assets[i]; a.bad(d.brings(a)) {
			d.decision.Step.Forgiven = append(d.decision.Step.Forgiven, intent.Judgement{Asset: a.ID, Effective: d.brings(a)})
			a.Known = maps.Clone(a.Known)
			delete(a.Known, d.brings(a))
			forgiven++
		}
	}
	if forgiven > 0 {
		d.event(o.By, "forgive", "%s: %s", count(forgiven, "content", "contents"), o.Reason)
	}
}
