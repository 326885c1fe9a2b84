package conduct

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"lehr.dev/internal/ground/course"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/ground/selection"
)

// groundWork finds good, in time, what was there before any run brought something:
// else there would be nothing to go back to; and what one brought in an emergency. It
// reports whether some is left.
func (d *decider) groundWork() (pending bool) {
	longest := longestSoak(d.Course(false))
	for i := range d.Assets {
		a := &d.Assets[i]
		content, _ := a.content()
		soak, phase := longest, "before any run"
		if _, judged := a.Known[content]; judged || content.IsZero() {
			continue
		}
		if !a.Seen.Selected.IsZero() {
			if !d.hurried(a) {
				continue
			}
			soak, phase = d.proof(a), fmt.Sprintf("since run %d, an emergency", d.run.Run)
		}
		if a.Seen.Ill.IsZero() && !a.Seen.Seen.IsZero() && a.Seen.Healthy >= soak {
			d.judge(a, content, true, fmt.Sprintf("healthy for %s %s", a.Seen.Healthy.Truncate(time.Second), phase))
			continue
		}
		pending = true
	}
	return pending
}

// hurried reports whether the last run brought an asset what it has in an emergency, and
// was done before that was known to be good.
func (d *decider) hurried(a *Asset) bool {
	return d.run != nil && d.run.State == intent.RolloutDone && d.run.Emergency && d.takesPart(a) && d.hasAdvanced(a) && d.lacks(d.stageOf(a)) == ""
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
	if wasGood, judged := a.Known[content]; content.IsZero() || judged && (wasGood == good || !wasGood) {
		return
	}
	run := uint64(0)
	if d.run != nil {
		run = d.run.Run
	}
	a.recordJudgement(content, good)
	d.decision.Step.Judged = append(d.decision.Step.Judged, intent.Judgement{
		Asset: a.ID, Effective: content, Good: good, Rollout: d.Name, Run: run, Reason: reason, At: d.Now,
	})
}

// foundBad says why what the run brings is bad; empty: nothing says so.
func (d *decider) foundBad() string {
	waits := course.Patience(d.Spec)
	for i := range d.Assets {
		a := &d.Assets[i]
		if !d.takesPart(a) || !d.hasAdvanced(a) {
			continue
		}
		ill := a.Seen.Ill
		if ill.IsZero() || a.Look.Effective != a.Goal || a.Look.At.Sub(ill) < waits {
			continue
		}
		illSince := ill.UTC().Format(time.RFC3339)
		switch {
		case a.Look.State == intent.StateInSync && a.Look.Health == intent.Unhealthy:
			return fmt.Sprintf("%s is unhealthy since %s: %s", a.ID, illSince, a.Report.Health.Reason)
		case a.Seen.Arrived.IsZero() && a.Look.IsPending():
			return fmt.Sprintf("%s is not brought there since %s, for a change is pending: %s", a.ID, illSince, reported(a))
		case a.Seen.Arrived.IsZero() && failing(a.Look):
			return fmt.Sprintf("%s cannot be brought there since %s: %s", a.ID, illSince, reported(a))
		}
	}
	for _, v := range d.Verdicts {
		if v.Result == "bad" {
			return fmt.Sprintf("the validation %s of the stage %s: %s", v.Validation, v.Stage, v.Reason)
		}
	}
	if d.Field != nil {
		return cmp.Or(d.rejected(), d.unservable(waits))
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

// lacks says which validation of a stage has not found it good.
func (d *decider) lacks(stage string) string {
	for _, name := range d.Spec.Validate {
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

// earns says how long it takes until it is known that what an asset has is good, so
// that it can go back to it; empty: it is known, or not about to be.
func (d *decider) earns(a *Asset) string {
	if d.Field != nil {
		return "" // What it goes back to is in the run.
	}
	content, _ := a.content()
	_, judged := a.Known[content]
	remaining := longestSoak(d.Course(false)) - a.Seen.Healthy
	if judged || content.IsZero() || !a.Seen.Selected.IsZero() || a.Seen.Arrived.IsZero() || !a.Seen.Ill.IsZero() || remaining <= 0 {
		return ""
	}
	return fmt.Sprintf("it is not known yet that what it has is good, to go back to; it is when it was healthy for %s more", remaining.Truncate(time.Second))
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

// foundGood judges what stages that are done brought to be good.
func (d *decider) foundGood(choice selection.Choice) {
	for i := range d.Assets {
		a := &d.Assets[i]
		if !d.takesPart(a) || !d.hasAdvanced(a) || a.Seen.Arrived.IsZero() || !a.Seen.Ill.IsZero() {
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
	if len(d.Spec.GetValidate()) == 0 {
		return
	}
	observations := make(map[intent.AssetID]*intent.Observation, len(d.Assets))
	for i := range d.Assets {
		observations[d.Assets[i].ID] = &d.Assets[i].Seen
	}
	var control []intent.AssetID
	controlScopes := scopes{}
	for _, t := range targets {
		if !t.Selected && !t.Unproven {
			control = append(control, t.Asset)
			controlScopes.gather(t.Scopes)
		}
	}
	for i := range policy.Stages {
		stage := &policy.Stages[i]
		q := Question{Stage: stage.Name, Control: control, ControlScopes: controlScopes.list()}
		experimentScopes := scopes{}
		for _, t := range targets {
			startedAt, at := observations[t.Asset].Left, observations[t.Asset].Arrived
			if !t.Selected || at.IsZero() || stage.Wants != nil && !stage.Wants(t) {
				continue
			}
			q.Experiment = append(q.Experiment, t.Asset)
			experimentScopes.gather(t.Scopes)
			if !startedAt.IsZero() && (q.Began.IsZero() || startedAt.Before(q.Began)) {
				q.Began = startedAt
			}
			if at.After(q.Changed) {
				q.Changed = at
			}
		}
		if len(q.Experiment) == 0 {
			continue
		}
		q.ExperimentScopes = experimentScopes.list()
		for _, name := range d.Spec.Validate {
			q.Validation = name
			d.decision.Ask = append(d.decision.Ask, q)
		}
	}
}

// scopes are values by the names of scopes, each with when it was gathered first.
type scopes map[string]map[string]int

func (s scopes) gather(values map[string]string) {
	for name, value := range values {
		if s[name] == nil {
			s[name] = map[string]int{}
		}
		if _, ok := s[name][value]; !ok {
			s[name][value] = len(s[name])
		}
	}
}

// list has the values in the order in which they were gathered.
func (s scopes) list() map[string][]string {
	list := map[string][]string{}
	for name, values := range s {
		list[name] = make([]string, len(values))
		for value, at := range values {
			list[name][at] = value
		}
	}
	return list
}
