package promotion

import (
	"slices"
	"strings"
	"time"

	"google.golang.org/protobuf/proto"

	intentpb "lehr.dev/gen/lehr/intent/v1"
	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/intent"
)

// RunConstraint is the name of the first constraint of each task: it lets in the versions that the task is to run for.
const RunConstraint = "run"

// A task is an environment whose field holds the version that it runs, or ran, for. It is good when the
// programs that are its assets have ended well. Unlike an environment it takes a version because somebody needs
// it to, in any order, and never goes back.

// taskUse is a constraint of an environment, or of another task, that waits for a task.
type taskUse struct{ environment, constraint int }

// IsTask reports whether an environment of the application, by its place in the order of Names, is a task.
func (a *Application) IsTask(at int) bool { return a.environments[at].isTask() }

func (e *environment) isTask() bool { return e.spec.GetTask() != nil }

// Follows are the environments that a task, by its place in the order of Names, runs before, and those after which and
// on whose failure it runs.
func (a *Application) Follows(at int) (dependents, followed, onFailure []string) {
	e := &a.environments[at]
	names := func(list []int) (names []string) {
		for _, other := range list {
			names = append(names, a.environments[other].spec.GetName())
		}
		return names
	}
	for _, use := range e.users {
		dependents = append(dependents, a.environments[use.environment].spec.GetName())
	}
	return dependents, names(e.followed), names(e.onFailure)
}

// withRun is a task with the constraint that says when it runs.
func withRun(e *intentpb.DeliveryEnvironment) (*intentpb.DeliveryEnvironment, error) {
	field := FieldOf(e)
	for _, c := range e.GetConstraints() {
		if c.GetName() == RunConstraint {
			return nil, &Problem{field + ".constraints." + c.GetName(), fault.New(fault.Invalid, "the constraint that has a task run is called %s", RunConstraint).WithHint("rename this one")}
		}
	}
	if e.GetAttempts() > 1 && e.GetTask().GetParametersPointer() == "" {
		return nil, &Problem{field, fault.New(fault.Invalid, "attempts: %d, and no field tells the task that it is to run again", e.GetAttempts()).
			WithHint("write set: {…, parameters: /%s/parameters}, and have the task's rerun made of it", e.GetName())}
	}
	e = proto.CloneOf(e)
	demanded := &intentpb.DeliveryConstraint{Name: RunConstraint, Kind: &intentpb.DeliveryConstraint_Demanded{Demanded: &intentpb.DemandedRun{}}}
	e.Constraints = append([]*intentpb.DeliveryConstraint{demanded}, e.GetConstraints()...)
	return e, nil
}

// linkTasks finds the environments that tasks follow, and the constraints that wait for tasks. Groups are the
// environments that were made of one entry, by its name.
func (a *Application) linkTasks(groups map[string][]int) error {
	for at := range a.environments {
		e := &a.environments[at]
		if e.isTask() {
			var err error
			if e.followed, err = a.findEnvironments(e.spec.GetTask().GetAfter(), groups); err == nil {
				e.onFailure, err = a.findEnvironments(e.spec.GetTask().GetOnFailure(), groups)
			}
			if err != nil {
				return &Problem{FieldOf(e.spec), err}
			}
		}
		for number := range e.constraints {
			c := &e.constraints[number]
			isCompleted := c.spec.GetCompleted() != nil
			for _, on := range c.environments {
				if a.environments[on].isTask() != isCompleted {
					return &Problem{FieldOf(e.spec) + ".constraints." + c.spec.GetName(), a.refuseKind(on)}
				}
				if isCompleted {
					a.environments[on].users = append(a.environments[on].users, taskUse{at, number})
				}
			}
		}
	}
	for at := range a.environments {
		if e := &a.environments[at]; e.isTask() && len(e.users)+len(e.followed)+len(e.onFailure) == 0 {
			return &Problem{FieldOf(e.spec), fault.New(fault.Invalid, "nothing has the task run").
				WithHint("name it in a constraint of an environment, as {task: %s}, or say after: [ENVIRONMENT] or on_failure: [ENVIRONMENT]", e.spec.GetName())}
		}
	}
	return nil
}

// refuseKind: a constraint waits for a task as for an environment, or the other way round.
func (a *Application) refuseKind(on int) error {
	name := a.environments[on].spec.GetName()
	if a.environments[on].isTask() {
		return fault.New(fault.Invalid, "%s is a task", name).WithHint("write {task: %s}", name)
	}
	return fault.New(fault.Invalid, "%s is an environment, and no task", name).WithHint("write {depends_on: [%s]}", name)
}

// findEnvironments by their names, or by those of their entries.
func (a *Application) findEnvironments(names []string, groups map[string][]int) (list []int, err error) {
	for _, name := range names {
		if at, ok := a.byName[name]; ok {
			list = append(list, at)
			continue
		}
		group, ok := groups[name]
		if !ok {
			return nil, a.unknown(name)
		}
		list = append(list, group...)
	}
	return list, nil
}

// hasRun reports whether a task has ended well for a version, or somebody else than delivery wrote that into its
// field, and nobody asked for another run since.
func (d *decider) hasRun(task int, r intent.VersionName) bool {
	place, _ := d.catalogue.place(r)
	stint := d.stint(task, r, place)
	return stint != nil && (stint.last.Found || !stint.last.GoodSince.IsZero()) && !d.isRestarted(task, r)
}

// isRestarted reports whether a person asked for another run for a version, and it has not begun.
func (d *decider) isRestarted(task int, r intent.VersionName) bool {
	asked, ok := d.index.restarted[actKey{d.app.environments[task].spec.GetName(), RunConstraint, r}]
	place, _ := d.catalogue.place(r)
	stint := d.stint(task, r, place)
	return ok && (stint == nil || !stint.last.Start.After(asked))
}

// hasFailed reports whether a task failed for a version, after all attempts, or may not run for it.
func (d *decider) hasFailed(task int, r intent.VersionName) bool {
	_, isBad := d.index.marks[task].bad[r]
	failure, ok := d.index.marks[task].failed[r]
	return isBad || ok && failure.Attempts >= d.app.environments[task].attempts
}

// judgeCompleted says whether tasks have ended well for a version: that of the one that is furthest from it.
func (d *decider) judgeCompleted(c *constraint, r intent.VersionName, place int) (worst Verdict) {
	if len(c.empty) > 0 {
		return nothingSelected(c.empty)
	}
	worst = met()
	for _, task := range c.environments {
		v := Verdict{Status: Waits, Cause: NotRun, Environment: d.app.environments[task].spec.GetName()}
		stint := d.stint(task, r, place)
		switch {
		case d.hasRun(task, r):
			v.Status, v.Cause = Passes, Met
		case d.hasFailed(task, r):
			v.Status, v.Cause = Refuses, TaskFailed
		case stint != nil && stint.last.End.IsZero() && !d.isRestarted(task, r):
			v.Cause = Running
		}
		if v.Status < worst.Status {
			worst = v
		}
	}
	return worst
}

// judgeDemanded says whether a task is to run for a version, or has run for it.
func (d *decider) judgeDemanded(task int, r intent.VersionName) Verdict {
	for _, demand := range d.demands(task) {
		if demand.VersionName == r {
			return Verdict{Status: Passes, Cause: Met, Environment: demand.Environment, By: demand.By, Reason: demand.Reason, Release: demand.Release}
		}
	}
	if d.hasRun(task, r) {
		return met()
	}
	e := &d.app.environments[task]
	v, awaited := Verdict{Status: Waits, Cause: NotNext}, []int(nil)
	switch {
	case len(e.users) > 0:
		for _, use := range e.users {
			awaited = append(awaited, use.environment)
		}
	case len(e.followed) > 0:
		v.Cause, awaited = NotGoodBefore, e.followed
	default:
		v.Cause, awaited = NotFailedThere, e.onFailure
	}
	var names []string
	for _, at := range awaited {
		names = append(names, d.app.environments[at].spec.GetName())
	}
	v.Environment = strings.Join(slices.Compact(names), ", ")
	return v
}

// takesFirst is the first version that a task is to run for and may run for; ok: there is one.
func (c *choice) takesFirst() (r intent.VersionName, ok bool) {
	for _, demand := range c.demands(c.at) {
		place, _ := c.catalogue.place(demand.VersionName)
		isOut := c.isBad(demand.VersionName) && !c.isRestarted(c.at, demand.VersionName)
		if isOut || !c.letIn(demand.VersionName, place, false) {
			continue
		}
		if place != nowhere {
			c.passing = append(c.passing, place)
		}
		if !ok {
			r, ok = demand.VersionName, true
		}
	}
	return r, ok
}

// taskTarget is the version that a task runs for. What it runs for now comes to its end first, unless a version that
// was to come next is no longer to come.
func (c *choice) taskTarget() (wants intent.VersionName, why Why, hold Hold) {
	if c.marks.pin != nil {
		return c.pinned(c.marks.pin.VersionName)
	}
	next, ok := c.takesFirst()
	if c.isRunning() && c.isStillWanted() {
		return c.has, Keeps, NoHold
	}
	if !ok {
		return c.has, Keeps, NoHold
	}
	return next, LetIn, NoHold
}

// isRunning reports whether a task has neither ended well nor failed for what it has.
func (c *choice) isRunning() bool {
	if c.current == nil || c.hasRun(c.at, c.has) || c.isRestarted(c.at, c.has) {
		return false
	}
	failure, hasFailed := c.marks.failed[c.has]
	_, isBad := c.marks.bad[c.has]
	return !isBad && (!hasFailed || failure.Last.Before(c.current.Start))
}

// isStillWanted reports whether somebody needs the run under way. One that follows what has happened is always
// needed.
func (c *choice) isStillWanted() bool {
	return len(c.environment.users) == 0 || slices.ContainsFunc(c.demands(c.at), func(demand Demand) bool { return demand.VersionName == c.has })
}

// estimateCompleted says when tasks have run for a version at the earliest; ok: they can.
func (s *estimator) estimateCompleted(c *constraint, place int, r intent.VersionName, answer *Estimate) (moment time.Time, ok bool) {
	moment = s.facts.Now
	if len(c.empty) > 0 {
		return moment, false
	}
	for _, task := range c.environments {
		if s.hasRun(task, r) {
			continue
		}
		there := s.estimate(task, place, r)
		if there.At.IsZero() {
			return moment, false
		}
		moment = later(moment, there.At)
		answer.Awaits = append(answer.Awaits, there.Awaits...)
	}
	return moment, true
}

// estimateDemanded says when a task is to run for a version at the earliest; ok: it is. A task that environments wait
// for runs when they say so, which their own estimate counts.
func (s *estimator) estimateDemanded(task, place int, r intent.VersionName, answer *Estimate) (moment time.Time, ok bool) {
	e := &s.app.environments[task]
	moment = s.facts.Now
	if len(e.users) > 0 && len(e.followed) == 0 {
		return moment, true
	}
	for _, on := range e.followed {
		when, can := s.through(on, place, r, 0, false, answer)
		if !can {
			return moment, false
		}
		moment = later(moment, when)
	}
	return moment, len(e.followed) > 0
}
