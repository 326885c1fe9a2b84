package conduct

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"lehr.dev/intent"
	"lehr.dev/strategist/selection"
)

// pausedBy says who paused the run.
func (d *decider) pausedBy() string {
	resume := fmt.Sprintf("lehr rollout resume %s --reason WHY", d.Name)
	e := d.run.Last("pause")
	switch {
	case e == nil:
		return "paused; " + resume
	case strings.Contains(e.Text, resume):
		return fmt.Sprintf("paused by %s: %s", e.By.Name, e.Text)
	}
	return fmt.Sprintf("paused by %s: %s; %s", e.By.Name, e.Text, resume)
}

// pausedFor reports whether the run paused itself last for what begins so.
func (d *decider) pausedFor(why string) bool {
	e := d.run.Last("pause")
	return e != nil && e.By.Name == d.holder().Name && strings.HasPrefix(e.Text, why+":")
}

// cannotTell is why a run pauses for a validation.
func cannotTell(v *intent.ValidationVerdict) string {
	return fmt.Sprintf("the validation %s of the stage %s cannot tell", v.Validation, v.Stage)
}

// wentBackFrom is why a run pauses for one that it comes after.
func wentBackFrom(b *Before) string {
	return fmt.Sprintf("the rollout %s went back from %s", b.Name, b.Run.To)
}

// listed names some assets, or incarnations.
func listed[T any](all []T) string {
	const most = 5
	names := make([]string, 0, most)
	for _, one := range all[:min(most, len(all))] {
		names = append(names, fmt.Sprint(one))
	}
	if more := len(all) - most; more > 0 {
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
