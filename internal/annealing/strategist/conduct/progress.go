package conduct

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/ground/selection"
)

// pausedBy says who paused the run.
func (d *decider) pausedBy() string {
	resume := fmt.Sprintf("lehr rollout resume %s --reason WHY", d.Name)
	e := d.run.Last("pause")
	switch {
	case e == nil:
		return "paused; " + resume
	case e.Paused != intent.PauseCause{}:
		return fmt.Sprintf("paused by %s: %s", e.By.Name, e.Text) // Its text says how it goes on.
	}
	return fmt.Sprintf("paused by %s: %s; %s", e.By.Name, e.Text, resume)
}

// pause has the run pause itself.
func (d *decider) pause(cause intent.PauseCause, reason string) {
	d.run.State = intent.RolloutPaused
	d.event(d.holder(), "pause", "%s; lehr rollout resume %s --reason WHY goes on in spite of it", reason, d.Name)
	d.run.Events[len(d.run.Events)-1].Paused = cause
}

// pausedFor reports whether the run paused itself last for that.
func (d *decider) pausedFor(cause intent.PauseCause) bool {
	e := d.run.Last("pause")
	return e != nil && e.Paused == cause
}

// cannotTell is what a run pauses for where a validation cannot tell.
func cannotTell(v *intent.ValidationVerdict) intent.PauseCause {
	return intent.PauseCause{Validation: v.Validation, Stage: v.Stage}
}

// wentBackFrom is what a run pauses for where one that it comes after went back.
func wentBackFrom(b *Before) intent.PauseCause {
	return intent.PauseCause{Rollout: b.Name, From: b.Run.To}
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
	previous := d.run.Progress
	now := intent.RolloutProgress{Next: choice.Next, Verdicts: slices.Clone(d.Verdicts), Retries: maps.Clone(d.Retries)}
	d.tellRetries(previous.Retries)
	for _, status := range choice.Stages {
		s := intent.StageProgress{Name: status.Name, Total: status.Total, Selected: status.Selected, Done: status.Done, Waits: status.Waits, Approval: d.approval(status.Name)}
		if status.Held && s.Approval.State == intent.ApprovalLater {
			s.Approval.State = intent.ApprovalAsked
		}
		if at := slices.IndexFunc(previous.Stages, func(b intent.StageProgress) bool { return b.Name == s.Name }); at >= 0 {
			s.Began, s.Ended = previous.Stages[at].Began, previous.Stages[at].Ended
		}
		whole := s.Total > 0 && s.Done == s.Total && s.Waits == ""
		switch {
		case whole && s.Ended.IsZero():
			s.Ended = d.Now
			d.event(d.holder(), "stage", "%s is done", s.Name)
			d.run.Events[len(d.run.Events)-1].Stage = s.Name
		case !whole && d.looked(s.Name):
			s.Ended = time.Time{}
		}
		if now.Waits == "" && s.Total > 0 && !whole && status.Waits != "" {
			cause := intent.CauseStage
			if status.Held {
				cause = intent.CauseApproval
			}
			now.Wait(cause, "stage "+s.Name+" waits "+status.Waits, status.For)
		}
		now.Stages = append(now.Stages, s)
	}
	if len(choice.Unwanted) > 0 && now.Waits == "" {
		now.Wait(intent.CauseStage, fmt.Sprintf("no stage wants %s; give the rollout a stage that does", listed(choice.Unwanted)), choice.Unwanted)
	}
	d.run.Progress = now
}

// tellRetries writes down which validations found what is bad and began anew.
func (d *decider) tellRetries(told map[string]int) {
	for _, v := range d.Verdicts {
		if count := d.Retries[v.Validation]; count > told[v.Validation] && v.Found != "" {
			d.event(d.holder(), "retry", "the validation %s of the stage %s begins anew, number %d in this run: %s", v.Validation, v.Stage, count, v.Found)
			d.run.Events[len(d.run.Events)-1].Stage = v.Stage
		}
	}
}

// looked reports whether all of a stage were looked at since the server began. Until then
// nothing says that it is not as it was.
func (d *decider) looked(stage string) bool {
	return !slices.ContainsFunc(d.Assets, func(a Asset) bool {
		return d.takesPart(&a) && d.stageOf(&a) == stage && a.Look.At.IsZero()
	})
}
