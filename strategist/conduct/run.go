package conduct

import (
	"fmt"
	"slices"
	"strings"
	"time"

	intentpb "lehr.dev/gen/lehr/intent/v1"
	"lehr.dev/intent"
	"lehr.dev/strategist/course"
	"lehr.dev/strategist/selection"
)

// idle: no run is open. What is there is found good in time, and a run begins when
// head has something new.
func (d *decider) idle() {
	if d.Said == nil {
		return
	}
	if d.run != nil {
		d.Verdicts = d.run.Progress.Verdicts // The last word on it.
	}
	if d.groundWork() {
		d.wakeAt(d.Now.Add(groundEvery))
	}
	behind := d.behind()
	order := d.started()
	if len(behind) == 0 || d.Head.Sequence == 0 {
		if d.run != nil {
			d.run.Progress.Waits, d.run.Progress.For = "", nil // What kept the next is over.
		}
		return
	}
	why := d.heldAsBad()
	if order == nil && why == "" {
		why = d.keptFrom()
	}
	if why != "" {
		if d.run != nil {
			d.run.Progress.Waits, d.run.Progress.For = why, behind
		}
		return
	}
	d.begin(behind, order)
	d.wakeAt(d.Now)
}

// behind are the assets of which head has other content than they follow.
func (d *decider) behind() (assets []intent.AssetID) {
	for i := range d.Assets {
		a := &d.Assets[i]
		if content, _ := a.content(); a.Selected && content != a.Head {
			assets = append(assets, a.ID)
		}
	}
	return assets
}

// started is the newest order to start a run that was not carried out.
func (d *decider) started() (found *intent.RolloutOrder) {
	for i := range d.Orders {
		// One of long ago, when there was nothing to start, is over.
		if o := &d.Orders[i]; o.Kind == intent.OrderStart && d.Now.Sub(o.At) < orderLasts {
			found = o
		}
	}
	return found
}

// orderLasts is how long an order to start waits for something to bring.
const orderLasts = time.Minute

// heldAsBad says why nobody may begin a run, until somebody forgives; empty: they may.
func (d *decider) heldAsBad() string {
	for i := range d.Assets {
		if a := &d.Assets[i]; a.Selected && a.bad(a.Head) {
			return fmt.Sprintf("%s has content of %s that was judged bad; publish other content, or say that it is not bad: lehr rollout forgive %s --reason WHY", d.Head, a.ID, d.Name)
		}
	}
	return ""
}

// keptFrom says why no run begins by itself; empty: it does.
func (d *decider) keptFrom() string {
	if why := d.heldAsBad(); why != "" {
		return why
	}
	if d.Said.Newer == intentpb.Rollout_NEWER_IS_HELD {
		return fmt.Sprintf("for a person to start it: lehr rollout start %s --reason WHY", d.Name)
	}
	if d.run != nil && d.run.State != intent.RolloutDone && d.run.State != intent.RolloutSuperseded && d.sameAsRun() {
		return fmt.Sprintf("run %d of the same content was ended; publish other content, or start it anew: lehr rollout start %s --reason WHY", d.run.Run, d.Name)
	}
	return ""
}

// sameAsRun reports whether head has of every asset what the last run brought.
func (d *decider) sameAsRun() bool {
	return !slices.ContainsFunc(d.Assets, func(a Asset) bool { return a.Selected && a.Goal != a.Head })
}

// groundWork finds good, in time, what was there before any run brought something:
// else there would be nothing to go back to; and what one brought in an emergency. It
// reports whether some is left.
func (d *decider) groundWork() (left bool) {
	longest := longestSoak(d.Course(false))
	for i := range d.Assets {
		a := &d.Assets[i]
		content, _ := a.content()
		soak, when := longest, "before any run"
		if _, judged := a.Known[content]; judged || content.IsZero() {
			continue
		}
		if !a.Seen.Selected.IsZero() {
			if !d.hurried(a) {
				continue
			}
			soak, when = d.proof(a), fmt.Sprintf("since run %d, an emergency", d.run.Run)
		}
		if a.Seen.Ill.IsZero() && !a.Seen.Seen.IsZero() && a.Seen.Healthy >= soak {
			d.judge(a, content, true, fmt.Sprintf("healthy for %s %s", a.Seen.Healthy.Truncate(time.Second), when))
			continue
		}
		left = true
	}
	return left
}

// hurried reports whether the last run brought an asset what it has in an emergency, and
// was done before that was known to be good.
func (d *decider) hurried(a *Asset) bool {
	return d.run != nil && d.run.State == intent.RolloutDone && d.run.Emergency && d.takesPart(a) && d.let(a) && d.lacks(d.stageOf(a)) == ""
}

// proof is how long an asset must have been healthy with what a run brought for that to
// be good: in an emergency too as long as its ordinary stage asks (S20).
func (d *decider) proof(a *Asset) time.Duration {
	soak := func(stages []selection.Stage, stage string) time.Duration {
		if at := slices.IndexFunc(stages, func(s selection.Stage) bool { return s.Name == stage }); at >= 0 {
			return stages[at].Soak
		}
		return 0
	}
	return max(soak(d.Course(false).Stages, a.Target.Stage), soak(d.Course(d.run.Emergency).Stages, d.stageOf(a)))
}

func longestSoak(p selection.Policy) (longest time.Duration) {
	for _, s := range p.Stages {
		longest = max(longest, s.Soak)
	}
	return longest
}

// judge says whether a content is good. What was judged bad stays so.
func (d *decider) judge(a *Asset, content intent.Digest, good bool, reason string) {
	if known, judged := a.Known[content]; content.IsZero() || judged && (known == good || !known) {
		return
	}
	run := uint64(0)
	if d.run != nil {
		run = d.run.Run
	}
	a.knows(content, good)
	d.decision.Step.Judged = append(d.decision.Step.Judged, intent.Judgement{
		Asset: a.ID, Effective: content, Good: good, Rollout: d.Name, Run: run, Reason: reason, At: d.Now,
	})
}

// begin a run to head.
func (d *decider) begin(behind []intent.AssetID, order *intent.RolloutOrder) {
	number, orders := uint64(1), uint64(0)
	if d.run != nil {
		number, orders = d.run.Run+1, d.run.Orders
	}
	if n := len(d.Orders); n > 0 {
		orders = max(orders, d.Orders[n-1].Number)
	}
	next := intent.Rollout{
		Partition: d.Partition, Name: d.Name, Run: number, State: intent.RolloutRunning, To: d.Head, Began: d.Now,
		By: d.holder(), Reason: "head has something new", Orders: orders,
	}
	if order != nil {
		next.By, next.Reason = order.By, order.Reason
	}
	for i := range d.Assets {
		if pin := d.Assets[i].Pin; pin.Incarnation.Sequence > next.From.Sequence {
			next.From = pin.Incarnation
		}
	}
	d.run = &next
	d.event(next.By, "begin", "to %s: %s differ", d.Head, count(len(behind), "asset", "assets"))
	if order != nil {
		return // A person said so.
	}
	var less []string
	if d.Loosened != nil {
		less = d.Loosened(behind)
	}
	if len(less) > 0 {
		// What came with its own guards loosened is not let go on by them (S23).
		d.run.State = intent.RolloutPaused
		d.event(next.By, "pause", "lehr.yaml asks less of it since this content came: %s", strings.Join(less, "; "))
	}
}

// goOn with an open run.
func (d *decider) goOn() {
	d.wakeAt(d.Now.Add(looksEvery))
	switch {
	case d.run.State == intent.RolloutRollingBack:
		d.goBack()
		return
	case d.superseded():
		d.end(intent.RolloutSuperseded, d.holder(), "supersede", "%s has newer content", d.Head)
		d.wakeAt(d.Now)
		return
	}
	if why := d.stranded(); why != "" {
		d.end(intent.RolloutSuperseded, d.holder(), "supersede", "%s", why)
		d.wakeAt(d.Now)
		return
	}
	if why := d.foundBad(); why != "" {
		d.wentBad(why)
		return
	}
	d.groundWork()
	d.advance()
}

// superseded reports whether head has newer content for what the run brings, and
// the policy says that this ends it.
func (d *decider) superseded() bool {
	return d.Said.Newer == intentpb.Rollout_NEWER_SUPERSEDES && d.newer()
}

// newer reports whether head has newer content for what the run brings.
func (d *decider) newer() bool {
	return d.Head != d.run.To && slices.ContainsFunc(d.Assets, func(a Asset) bool { return a.Selected && !a.Goal.IsZero() && a.Goal != a.Head })
}

// stranded says why what an asset was given, and head has otherwise by now, is never
// brought there: it waits for what head does not have either; empty: none does. Newer
// content would wait for such a run for ever (L9).
func (d *decider) stranded() string {
	if !d.newer() {
		return ""
	}
	for i := range d.Assets {
		a := &d.Assets[i]
		content, _ := a.content()
		given := d.let(a) || a.Back != nil && d.run.State == intent.RolloutRollingBack
		if !a.Selected || !given || content == a.Head || a.Look.State == intent.StateInSync || a.Report.Effective != content {
			continue
		}
		for _, w := range a.Report.Waiting {
			gone := func(id intent.AssetID) bool { return d.Content(d.Head, id).IsZero() }
			if w.Kind == intent.WaitMissing && slices.ContainsFunc(w.Blockers, gone) {
				return fmt.Sprintf("%s has newer content, and not what %s waits for: %s", d.Head, a.ID, w.Reason)
			}
		}
	}
	return ""
}

// let reports whether the run, or one before it, let the asset go on to what it
// brings.
func (d *decider) let(a *Asset) bool {
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
	case a.Goal.IsZero() || !a.Selected:
		return false // It is newer than the run, or governed no more.
	case a.Pinned != a.Goal || a.Back != nil:
		return true
	case a.Pin.Incarnation == d.run.To:
		return true
	}
	good := a.Known[a.Goal]
	return !good && !a.Seen.Selected.IsZero()
}

// foundBad says why what the run brings is bad; empty: nothing says so.
func (d *decider) foundBad() string {
	waits := course.Patience(d.Said)
	for i := range d.Assets {
		a := &d.Assets[i]
		if !d.takesPart(a) || !d.let(a) {
			continue
		}
		ill := a.Seen.Ill
		if ill.IsZero() || a.Look.Effective != a.Goal || a.Look.At.Sub(ill) < waits {
			continue
		}
		since := ill.UTC().Format(time.RFC3339)
		switch {
		case a.Look.State == intent.StateInSync && a.Look.Health == intent.Unhealthy:
			return fmt.Sprintf("%s is unhealthy since %s: %s", a.ID, since, a.Report.Health.Reason)
		case a.Seen.Arrived.IsZero() && failing(a.Look):
			return fmt.Sprintf("%s cannot be brought there since %s: %s", a.ID, since, reported(a))
		}
	}
	for _, v := range d.Verdicts {
		if v.Result == "bad" {
			return fmt.Sprintf("the validation %s of the stage %s: %s", v.Validation, v.Stage, v.Reason)
		}
	}
	if d.Field != nil {
		return d.unservable(waits)
	}
	return ""
}

// reported is why an asset waits, by what its enforcer reported of its goal.
func reported(a *Asset) string {
	if a.Report.Effective == a.Goal && len(a.Report.Waiting) > 0 {
		return a.Report.Waiting[0].Reason
	}
	return "it waits: " + string(a.Look.Waits)
}

// policy by which the run selects, with what people said of its stages, and with
// what its validations still lack.
func (d *decider) policy() selection.Policy {
	p := d.Course(d.run.Emergency)
	for i := range p.Stages {
		s := &p.Stages[i]
		s.Skip = d.run.Promoted || slices.Contains(d.run.Skipped, s.Name)
		if !slices.Contains(d.run.Accepted, s.Name) {
			s.Gate = d.lacks(s.Name)
		}
	}
	return p
}

// lacks says which validation of a stage has not found it good.
func (d *decider) lacks(stage string) string {
	for _, name := range d.Said.Validate {
		at := slices.IndexFunc(d.Verdicts, func(v intent.ValidationVerdict) bool { return v.Validation == name && v.Stage == stage })
		switch {
		case at < 0:
			return fmt.Sprintf("for the validation %s, which was not asked yet", name)
		case d.Verdicts[at].Result != "good":
			v := d.Verdicts[at]
			return fmt.Sprintf("for the validation %s, which is %s: %s", name, v.Result, v.Reason)
		}
	}
	return ""
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
		t.Selected = d.let(a)
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

// earns says how long it takes until it is known that what an asset has is good, so
// that it can go back to it; empty: it is known, or not about to be.
func (d *decider) earns(a *Asset) string {
	if d.Field != nil {
		return "" // What it goes back to is in the run.
	}
	content, _ := a.content()
	_, judged := a.Known[content]
	left := longestSoak(d.Course(false)) - a.Seen.Healthy
	if judged || content.IsZero() || !a.Seen.Selected.IsZero() || a.Seen.Arrived.IsZero() || !a.Seen.Ill.IsZero() || left <= 0 {
		return ""
	}
	return fmt.Sprintf("it is not known yet that what it has is good, to go back to; it is when it was healthy for %s more", left.Truncate(time.Second))
}

// advance lets assets go on, or says what the run waits for.
func (d *decider) advance() {
	targets := d.targets()
	policy := d.policy()
	d.pick(policy, targets)
	choice := selection.Choose(policy, targets, d.Now)
	d.wakeAt(choice.Next)
	d.ask(policy, targets)
	d.progress(choice, targets)
	if d.run.State == intent.RolloutRunning {
		if v := d.unsure(); v != nil {
			d.run.State = intent.RolloutPaused
			d.event(d.holder(), "pause", "the validation %s of the stage %s cannot tell: %s; lehr rollout resume %s --reason WHY goes on in spite of it", v.Validation, v.Stage, v.Reason, d.Name)
		}
	}
	d.foundGood(choice)
	switch {
	case choice.Done && len(choice.Unwanted) == 0:
		d.end(intent.RolloutDone, d.holder(), "done", "all of %s went through", count(len(targets), "asset", "assets"))
		d.run.Progress.Waits, d.run.Progress.For, d.run.Progress.Next = "", nil, time.Time{}
		d.wakeAt(d.Now)
	case d.run.State == intent.RolloutPaused:
		d.run.Progress.Waits = d.pausedBy()
	case d.Stop != nil:
		d.run.Progress.Waits = fmt.Sprintf("for the stop by %s to end: %s; %s ends it", d.Stop.Owner.Name, d.Stop.Reason, d.Stop.Ending())
	default:
		d.letOn(choice.Assets)
	}
	if p := &d.run.Progress; p.Waits != "" && d.Field == nil && d.newer() {
		p.Waits += fmt.Sprintf("; %s waits for this run to end: lehr rollout abort %s --reason WHY ends it", d.Head, d.Name)
	}
}

// pausedBy says who paused the run.
func (d *decider) pausedBy() string {
	for _, e := range slices.Backward(d.run.Events) {
		if e.Kind == "pause" {
			return fmt.Sprintf("paused by %s: %s; lehr rollout resume %s --reason WHY", e.By.Name, e.Text, d.Name)
		}
	}
	return fmt.Sprintf("paused; lehr rollout resume %s --reason WHY", d.Name)
}

// unsure is a validation that could not tell, of a stage that nobody accepted.
func (d *decider) unsure() *intent.ValidationVerdict {
	for i, v := range d.Verdicts {
		if v.Result == "inconclusive" && !slices.Contains(d.run.Accepted, v.Stage) {
			return &d.Verdicts[i]
		}
	}
	return nil
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
	for i := range d.Assets {
		a := &d.Assets[i]
		if !slices.Contains(assets, a.ID) {
			continue
		}
		stage := d.stageOf(a)
		d.pin(a, d.run.To, intent.RankRollout, fmt.Sprintf("run %d, stage %s", d.run.Run, stage))
		if a.Back != nil {
			d.unpin(a, intent.RankRollback)
		}
		a.Seen = a.follows(d.Name, a.Goal, d.Now)
		d.decision.Seen[a.ID] = a.Seen
		d.wentOn(stage)
	}
	d.run.Progress.Waits, d.run.Progress.For = "", nil
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

// listed names some assets.
func listed(assets []intent.AssetID) string {
	const most = 5
	names := make([]string, 0, most)
	for _, asset := range assets[:min(most, len(assets))] {
		names = append(names, string(asset))
	}
	if more := len(assets) - most; more > 0 {
		names = append(names, fmt.Sprintf("%d more", more))
	}
	return strings.Join(names, ", ")
}

// progress is written down: how far each stage has come, and what is waited for.
func (d *decider) progress(choice selection.Choice, targets []selection.Target) {
	before := d.run.Progress
	now := intent.RolloutProgress{Next: choice.Next, Verdicts: slices.Clone(d.Verdicts)}
	for _, status := range choice.Stages {
		s := intent.StageProgress{Name: status.Name, Total: status.Total, Selected: status.Selected, Done: status.Done, Waits: status.Waits}
		if at := slices.IndexFunc(before.Stages, func(b intent.StageProgress) bool { return b.Name == s.Name }); at >= 0 {
			s.Began, s.Ended = before.Stages[at].Began, before.Stages[at].Ended
		}
		whole := s.Total > 0 && s.Done == s.Total && s.Waits == ""
		switch {
		case whole && s.Ended.IsZero():
			s.Ended = d.Now
			d.event(d.holder(), "stage", "%s is done", s.Name)
		case !whole && d.looked(s.Name):
			s.Ended = time.Time{}
		}
		if now.Waits == "" && s.Total > 0 && !whole && status.Waits != "" {
			now.Waits, now.For = "stage "+s.Name+" waits "+status.Waits, status.For
		}
		now.Stages = append(now.Stages, s)
	}
	if len(choice.Unwanted) > 0 && now.Waits == "" {
		now.Waits, now.For = fmt.Sprintf("no stage wants %s; give the rollout a stage that does", listed(choice.Unwanted)), choice.Unwanted
	}
	d.run.Progress = now
}

// looked reports whether all of a stage were looked at since the server began. Until then
// nothing says that it is not as it was.
func (d *decider) looked(stage string) bool {
	return !slices.ContainsFunc(d.Assets, func(a Asset) bool {
		return d.takesPart(&a) && d.stageOf(&a) == stage && a.Look.At.IsZero()
	})
}

// foundGood judges what stages that are done brought to be good.
func (d *decider) foundGood(choice selection.Choice) {
	for i := range d.Assets {
		a := &d.Assets[i]
		if !d.takesPart(a) || !d.let(a) || a.Seen.Arrived.IsZero() || !a.Seen.Ill.IsZero() {
			continue
		}
		stage := d.stageOf(a)
		at := slices.IndexFunc(choice.Stages, func(s selection.Status) bool { return s.Name == stage })
		if at < 0 || a.Seen.Healthy < d.proof(a) || d.lacks(stage) != "" {
			continue
		}
		if s := choice.Stages[at]; s.Done == s.Total {
			d.judge(a, a.Goal, true, fmt.Sprintf("went through stage %s of run %d", stage, d.run.Run))
		}
	}
}

// ask for the validations of stages of which all that were let go on arrived, and
// of which nothing is known since.
func (d *decider) ask(policy selection.Policy, targets []selection.Target) {
	if len(d.Said.GetValidate()) == 0 {
		return
	}
	var control []intent.AssetID
	controlScopes := map[string][]string{}
	for _, t := range targets {
		if !t.Selected {
			control = append(control, t.Asset)
			gather(controlScopes, t.Scopes)
		}
	}
	for i := range policy.Stages {
		stage := &policy.Stages[i]
		q := Question{Stage: stage.Name, Control: control, ControlScopes: controlScopes, ExperimentScopes: map[string][]string{}}
		for _, t := range targets {
			if !t.Selected || stage.Wants != nil && !stage.Wants(t) {
				continue
			}
			at := slices.IndexFunc(d.Assets, func(a Asset) bool { return a.ID == t.Asset })
			arrived := d.Assets[at].Seen.Arrived
			if arrived.IsZero() {
				continue
			}
			q.Experiment = append(q.Experiment, t.Asset)
			gather(q.ExperimentScopes, t.Scopes)
			if arrived.After(q.Changed) {
				q.Changed = arrived
			}
		}
		if len(q.Experiment) == 0 {
			continue
		}
		for _, name := range d.Said.Validate {
			q.Validation = name
			d.decision.Ask = append(d.decision.Ask, q)
		}
	}
}

// gather the values of scopes, each once.
func gather(into map[string][]string, scopes map[string]string) {
	for name, value := range scopes {
		if !slices.Contains(into[name], value) {
			into[name] = append(into[name], value)
		}
	}
}
