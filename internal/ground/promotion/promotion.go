// Package promotion decides which version of an application each of its environments should
// have: one function from versions in order, what each environment had, verdicts of people and
// of programs, what people asked for, and the time, to a version for each environment, the
// state of each version there and what it waits for. It remembers nothing between two calls, so
// that what it says after a restart is what it said before. It is pure; whoever delivers asks
// it, makes the edits, and stores what it was told.
package promotion

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"google.golang.org/protobuf/proto"

	intentpb "lehr.dev/gen/lehr/intent/v1"
	"lehr.dev/internal/ground/calendar"
	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/spell"
)

const (
	defaultAttempts = 3
	// defaultRuns of a task for a version: a program that failed is not run again unasked.
	defaultRuns  = 1
	defaultRetry = 30 * time.Minute
	// approver is the role that judges where a judgement names none.
	approver = "approver"
)

// Application is one of a policy, ready to be asked. It is safe for concurrent use.
type Application struct {
	spec         *intentpb.Delivery
	environments []environment
	// byName finds an environment's index.
	byName map[string]int
	// calendars by what they say: environments that were made of one entry have one.
	calendars map[string]*calendar.Calendar
}

// environment is one of an application, with what its names lead to.
type environment struct {
	spec        *intentpb.DeliveryEnvironment
	constraints []constraint
	attempts    int
	retry       time.Duration
	// followed and onFailure are the environments that a task follows, by index, and users the constraints that wait for it.
	followed, onFailure []int
	users               []taskUse
}

// constraint is one of an environment; of its kinds one is set in spec.
type constraint struct {
	spec *intentpb.DeliveryConstraint
	// environments that it depends on, or that it soaks in, by index.
	environments []int
	// empty are the selectors that it names by which there is no environment now.
	empty    []string
	calendar *calendar.Calendar
	// askedDigest identifies whom it asks; empty: it asks nobody.
	askedDigest string
}

// FieldOf names an environment or a task as a field of its application: "environments.prod" or "tasks.migrate".
func FieldOf(e *intentpb.DeliveryEnvironment) string {
	if e.GetTask() != nil {
		return "tasks." + e.GetName()
	}
	return "environments." + e.GetName()
}

// Problem is what is wrong with a field of an application: "environments.prod" or
// "environments.prod.constraints.hours".
type Problem struct {
	Field string
	Err   error
}

func (p *Problem) Error() string { return p.Field + ": " + p.Err.Error() }

func (p *Problem) Unwrap() error { return p.Err }

// New reads an application of a policy. Its error is a Problem, and Invalid.
func New(spec *intentpb.Delivery) (*Application, error) {
	a := &Application{spec: spec, byName: map[string]int{}, calendars: map[string]*calendar.Calendar{}}
	groups := map[string][]int{}
	for _, s := range spec.GetSelectors() {
		groups[s.GetEnvironment()] = []int{} // It may have selected nothing.
	}
	for i, e := range spec.GetEnvironments() {
		if other, ok := a.byName[e.GetName()]; ok {
			return nil, &Problem{FieldOf(e), refuseName(e, spec.GetEnvironments()[other])}
		}
		a.byName[e.GetName()] = i
		if group := e.GetGroup(); group != "" {
			groups[group] = append(groups[group], i)
		}
	}
	for _, e := range spec.GetEnvironments() {
		built := environment{attempts: defaultAttempts, retry: defaultRetry}
		var err error
		switch isAfterTask := len(a.environments) > 0 && a.environments[len(a.environments)-1].isTask(); {
		case e.GetTask() != nil:
			e, err = withRun(e)
			built.attempts = defaultRuns
		case isAfterTask:
			err = &Problem{FieldOf(e), fault.New(fault.Invalid, "it comes after a task").WithHint("list tasks after all environments")}
		case spec.GetReleases() != "":
			e, err = withReleases(e)
		}
		if err != nil {
			return nil, err
		}
		built.spec = e
		if n := e.GetAttempts(); n > 0 {
			built.attempts = int(n)
		}
		if e.GetRetry() != nil {
			built.retry = e.GetRetry().AsDuration()
		}
		for _, c := range e.GetConstraints() {
			if (c.GetAsked() != nil || c.GetOutside() != nil) && slices.Contains(e.GetVerify(), c.GetName()) {
				return nil, &Problem{FieldOf(e) + ".constraints." + c.GetName(), fault.New(fault.Invalid, "a verification of %s is called %s too", e.GetName(), c.GetName()).
					WithHint("rename one of them: what is said of one would be taken for the other")}
			}
			one, err := a.constraint(c, groups)
			if err != nil {
				return nil, &Problem{FieldOf(e) + ".constraints." + c.GetName(), err}
			}
			built.constraints = append(built.constraints, one)
		}
		a.environments = append(a.environments, built)
	}
	if err := a.linkTasks(groups); err != nil {
		return nil, err
	}
	if err := a.refuseTwoForOneField(); err != nil {
		return nil, err
	}
	return a, a.refuseCircles()
}

// refuseName of two environments, or of a task and another one.
func refuseName(a, b *intentpb.DeliveryEnvironment) error {
	message := "there are two environments %s"
	switch {
	case a.GetTask() != nil && b.GetTask() != nil:
		message = "there are two tasks %s"
	case a.GetTask() != nil || b.GetTask() != nil:
		message = "an environment and a task are both called %s"
	}
	return fault.New(fault.Invalid, message, a.GetName()).WithHint("rename one of them")
}

// withReleases is an environment that takes what releases bring: the first of its constraints says so.
func withReleases(e *intentpb.DeliveryEnvironment) (*intentpb.DeliveryEnvironment, error) {
	field := FieldOf(e)
	if e.GetNewer() != intentpb.DeliveryEnvironment_NEWER_SUPERSEDES {
		return nil, &Problem{field, fault.New(fault.Invalid, "newer: queues says how versions come, and releases say it here").WithHint("leave it out: a train queues, and an immediate release supersedes")}
	}
	for _, c := range e.GetConstraints() {
		if c.GetName() == ReleasedConstraint {
			return nil, &Problem{field + ".constraints." + c.GetName(), fault.New(fault.Invalid, "the constraint of the line of releases is called %s", ReleasedConstraint).WithHint("rename this one")}
		}
	}
	e = proto.CloneOf(e)
	released := &intentpb.DeliveryConstraint{Name: ReleasedConstraint, Kind: &intentpb.DeliveryConstraint_Released{Released: &intentpb.ReleasedVersion{}}}
	e.Constraints = append([]*intentpb.DeliveryConstraint{released}, e.GetConstraints()...)
	return e, nil
}

// Name of the application.
func (a *Application) Name() string { return a.spec.GetName() }

// Names of its environments, and after them of its tasks, in the order of the file.
func (a *Application) Names() (names []string) {
	for _, e := range a.spec.GetEnvironments() {
		names = append(names, e.GetName())
	}
	return names
}

// Environments are the names of those that are no tasks, in the order of the file: the first of Names.
func (a *Application) Environments() []string {
	names := a.Names()
	for at, e := range a.spec.GetEnvironments() {
		if e.GetTask() != nil {
			return names[:at]
		}
	}
	return names
}

func (a *Application) constraint(spec *intentpb.DeliveryConstraint, groups map[string][]int) (c constraint, err error) {
	c.spec = spec
	names := spec.GetDependsOn().GetEnvironments()
	if soak := spec.GetSoak(); soak != nil {
		names = soak.GetEnvironments()
	}
	if lag := spec.GetLag(); lag != nil {
		names = lag.GetEnvironments()
	}
	if completed := spec.GetCompleted(); completed != nil {
		names = []string{completed.GetTask()}
	}
	for _, name := range names {
		found, ok := a.byName[name]
		switch {
		case ok:
			c.environments = append(c.environments, found)
		case groups[name] != nil && len(groups[name]) == 0:
			c.empty = append(c.empty, name)
		case groups[name] != nil:
			c.environments = append(c.environments, groups[name]...)
		default:
			return c, a.unknown(name)
		}
	}
	if spec.GetAsked() != nil {
		c.askedDigest = AskedDigest(spec.GetAsked()).String()
	}
	if times := spec.GetTimes(); times != nil {
		c.calendar, err = a.calendar(times)
	}
	return c, err
}

// calendar of allowed times, made once.
func (a *Application) calendar(times *intentpb.AllowedTimes) (*calendar.Calendar, error) {
	key, err := proto.MarshalOptions{Deterministic: true}.Marshal(times)
	if err != nil {
		return nil, fault.New(fault.Invalid, "the times cannot be read: %w", err)
	}
	if known := a.calendars[string(key)]; known != nil {
		return known, nil
	}
	made, err := calendar.New(times.GetCalendar())
	if err != nil {
		return nil, err
	}
	if times.GetAtMost() > 0 && !shuts(made) {
		return nil, fault.New(fault.Invalid, "at_most counts promotions in a window, and this calendar's windows never end").
			WithHint(`write open: "Mon-Fri 09:00-17:00"`)
	}
	a.calendars[string(key)] = made
	return made, nil
}

// shuts reports whether windows of a calendar end, at any day of a week.
func shuts(c *calendar.Calendar) bool {
	monday := time.Date(2026, 6, 1, 12, 0, 0, 0, time.UTC)
	for day := range 7 {
		if !c.Shuts(monday.AddDate(0, 0, day)) {
			return false
		}
	}
	return true
}

func (a *Application) unknown(name string) error {
	known := a.Names()
	for _, s := range a.spec.GetSelectors() {
		known = append(known, s.GetEnvironment())
	}
	hint := "known are " + strings.Join(known[:min(len(known), 20)], ", ")
	if suggestion := spell.Nearest(name, known); suggestion != "" {
		hint = "did you mean " + suggestion + "? " + hint
	}
	return fault.New(fault.Invalid, "there is no environment %q", name).WithHint("%s", hint)
}

// refuseTwoForOneField: two environments that set one field would undo each other for good.
func (a *Application) refuseTwoForOneField() error {
	owners := map[[3]string]string{}
	for _, e := range a.environments {
		field := [3]string{e.spec.GetPartition(), e.spec.GetDocument(), e.spec.GetPointer()}
		if other, ok := owners[field]; ok {
			return &Problem{FieldOf(e.spec), fault.New(fault.Invalid, "it sets the field %s of the document %s, and so does %s", field[2], field[1], other).
				WithHint("give each environment a field of its own")}
		}
		owners[field] = e.spec.GetName()
	}
	return nil
}

// refuseCircles: environments that wait for each other would wait for good.
func (a *Application) refuseCircles() error {
	const (
		open = iota + 1
		done
	)
	marks := make([]int, len(a.environments))
	var path []string
	var visit func(i int) error
	visit = func(i int) error {
		name := a.environments[i].spec.GetName()
		path = append(path, name)
		defer func() { path = path[:len(path)-1] }()
		if marks[i] == done {
			return nil
		}
		if marks[i] == open {
			circle := path[slices.Index(path, name):]
			return &Problem{FieldOf(a.environments[i].spec), fault.New(fault.Invalid, "environments depend on each other in a circle: %s", strings.Join(circle, " -> ")).
				WithHint("take one of these dependencies out")}
		}
		marks[i] = open
		for _, next := range slices.Concat(a.environments[i].followed, a.environments[i].onFailure) {
			if err := visit(next); err != nil {
				return err
			}
		}
		for _, c := range a.environments[i].constraints {
			if c.spec.GetLag().GetAtMost() > 0 {
				continue // It waits for older versions there, which come on their own.
			}
			for _, next := range c.environments {
				if next == i && c.spec.GetLag() != nil {
					continue // It is of the group that it may not be ahead of.
				}
				if err := visit(next); err != nil {
					return err
				}
			}
		}
		marks[i] = done
		return nil
	}
	for i := range a.environments {
		if err := visit(i); err != nil {
			return err
		}
	}
	return nil
}

// constraintOf finds a constraint by name.
func (e *environment) constraintOf(name string) (index int, err error) {
	var names []string
	for i, c := range e.constraints {
		if c.spec.GetName() == name {
			return i, nil
		}
		names = append(names, c.spec.GetName())
	}
	hint := fmt.Sprintf("%s has %s", e.spec.GetName(), strings.Join(names, ", "))
	if len(names) == 0 {
		hint = e.spec.GetName() + " has none"
	}
	return 0, fault.New(fault.Invalid, "there is no constraint %q", name).WithHint("%s", hint)
}
