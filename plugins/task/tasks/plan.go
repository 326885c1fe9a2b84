package tasks

import (
	"fmt"

	"lehr.dev/sdk/serve"
)

// plan is what a push would do. Nothing in it changes with the time alone, as an admission
// binds to it: that is in the reasons.
func (l look) plan() serve.Plan {
	if l.isRemoved {
		return l.removalPlan()
	}
	next, good := l.verdict.Next, l.state.Run.EndedWell()
	plan := serve.Plan{Action: serve.ActionCreate}
	before, content, version := "", "", ""
	if l.state.Run != nil {
		plan.Action = serve.ActionUpdate
		before = fmt.Sprintf("run %d", l.state.Run.Number)
	}
	if good != nil {
		content, version = good.Purpose, good.Version
	}
	add := func(path, current, target, reason string) {
		if current != target {
			plan.Changes = append(plan.Changes, serve.FieldChange{Path: path, Current: current, Target: target, Reason: reason, Destructive: l.task.Destructive})
		}
	}
	run := fmt.Sprintf("run %d", next.Number)
	if next.Attempt > 1 {
		run += fmt.Sprintf(", attempt %d", next.Attempt)
	}
	add("run", before, run, l.verdict.Reason)
	add("run.command", "", next.Command, "")
	add("run.content", content, next.Purpose, "")
	add("run.version", version, next.Version, "")
	add("run.day", "", next.Day, "")
	if len(l.verdict.Items) > 0 {
		add("run.items", "", fmt.Sprintf("%d of %d", len(l.verdict.Items), len(l.task.Items)), "")
	}
	if l.task.Rerun != nil {
		add("run.reason", "", l.task.Rerun.Reason, "")
	}
	return plan
}

// removalPlan stops what runs, and forgets what ran.
func (l look) removalPlan() serve.Plan {
	there := "its records"
	if l.state.Run != nil {
		there = fmt.Sprintf("the records of its runs, %d in all", l.state.Run.Number)
	}
	if l.state.IsLive {
		there += ", and one that is under way"
	}
	return serve.Plan{Action: serve.ActionDelete, Changes: []serve.FieldChange{{Path: "run", Current: there, Destructive: true}}}
}
