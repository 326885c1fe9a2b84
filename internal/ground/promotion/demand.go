package promotion

import (
	"slices"
	"strings"
	"time"

	"lehr.dev/internal/ground/intent"
)

// Demand is a version that a task is to run for.
type Demand struct {
	intent.VersionName
	Cause DemandCause
	// Environment that is to get the version, that is good with it, or in which it failed; of what a person asked for,
	// the first that the task runs before, after or on failure of.
	Environment string
	// Had is what that environment had before: of a version that comes next, what it has now. Zero: nothing.
	Had intent.VersionName
	// Release that brings the version; 0: none.
	Release int
	// Number of the run for this version, from 1.
	Number int
	// By and Reason of a person who asked for it.
	By, Reason string
}

// DemandCause is why a task is to run.
type DemandCause int

// Causes of demands.
const (
	// AskedByPerson: a person wants it to run now, or once more.
	AskedByPerson DemandCause = iota + 1
	// ComesNext: an environment is to get the version, and its constraint waits for the task.
	ComesNext
	// IsGood: the version is good in all environments that the task comes after.
	IsGood
	// HasFailed: the version failed in an environment, or was found bad there.
	HasFailed
)

// demands are the versions that a task is to run for and has not run for, in the order in which it takes them.
func (d *decider) demands(task int) []Demand {
	if known, ok := d.demanded[task]; ok {
		return known
	}
	var list []Demand
	add := func(demand Demand) {
		isKnown := slices.ContainsFunc(list, func(other Demand) bool { return other.VersionName == demand.VersionName })
		if isKnown || d.hasRun(task, demand.VersionName) {
			return
		}
		for _, stay := range d.staysOf(task) {
			if stay.VersionName == demand.VersionName {
				demand.Number++
			}
		}
		demand.Number++
		if releases := d.index.releases[demand.VersionName]; len(releases) > 0 {
			demand.Release = releases[len(releases)-1].Number
		}
		list = append(list, demand)
	}
	d.addAsked(task, add)
	e := &d.app.environments[task]
	for _, use := range e.users {
		if r, ok := d.findComing(use.environment, use.constraint); ok {
			add(Demand{VersionName: r, Cause: ComesNext, Environment: d.app.environments[use.environment].spec.GetName(), Had: d.currentVersion(use.environment)})
		}
	}
	d.addGood(e.followed, add)
	d.addFailed(task, add)
	d.demanded[task] = list
	return list
}

// firstFollowed is the first environment that a task runs before, after or on failure of.
func (e *environment) firstFollowed() int {
	switch {
	case len(e.users) > 0:
		return e.users[0].environment
	case len(e.followed) > 0:
		return e.followed[0]
	}
	return e.onFailure[0]
}

// addAsked adds the versions for which people want a task to run.
func (d *decider) addAsked(task int, add func(Demand)) {
	name := d.app.environments[task].spec.GetName()
	for i := range d.facts.Acts {
		act := &d.facts.Acts[i]
		if act.Environment != name || act.Constraint != RunConstraint {
			continue
		}
		if act.Kind == Force || act.Kind == Restart && d.isRestarted(task, act.VersionName) {
			environment := d.app.environments[task].firstFollowed()
			had := d.currentVersion(environment)
			if had == act.VersionName {
				had = d.previousVersion(environment) // A run that is asked for is told what the first one was.
			}
			add(Demand{
				VersionName: act.VersionName, Cause: AskedByPerson, Environment: d.app.environments[environment].spec.GetName(), Had: had, By: act.By, Reason: act.Reason,
			})
		}
	}
}

// addGood adds the versions that are good in all of some environments, and there in one of them.
func (d *decider) addGood(followed []int, add func(Demand)) {
	for _, at := range followed {
		stays := d.staysOf(at)
		if len(stays) == 0 || stays[len(stays)-1].GoodSince.IsZero() {
			continue
		}
		r := stays[len(stays)-1].VersionName
		place, _ := d.catalogue.place(r)
		isGood := !slices.ContainsFunc(followed, func(other int) bool { return d.wellWith(other, r, place, 0).Status != Passes })
		if isGood {
			add(Demand{VersionName: r, Cause: IsGood, Environment: d.app.environments[at].spec.GetName(), Had: d.previousVersion(at)})
		}
	}
}

// failed is a version that failed in an environment while that had it.
type failed struct {
	environment int
	version     intent.VersionName
	at          time.Time
}

// addFailed adds the versions that failed since the task is there, in their order; where nothing tells since when it
// is there, only the last.
func (d *decider) addFailed(task int, add func(Demand)) {
	var list []failed
	for _, at := range d.app.environments[task].onFailure {
		list = append(list, d.failures(at)...)
	}
	slices.SortFunc(list, func(a, b failed) int {
		if c := a.at.Compare(b.at); c != 0 {
			return c
		}
		return strings.Compare(a.version.Name+" "+a.version.Digest, b.version.Name+" "+b.version.Digest)
	})
	stays := d.staysOf(task)
	if len(stays) == 0 && len(list) > 1 {
		list = list[len(list)-1:]
	}
	for _, f := range list {
		if len(stays) == 0 || f.at.After(stays[0].Start) {
			add(Demand{VersionName: f.version, Cause: HasFailed, Environment: d.app.environments[f.environment].spec.GetName(), Had: d.previousVersion(f.environment)})
		}
	}
}

// failures of an environment: what did not converge there, and what was found bad while it was there.
func (d *decider) failures(at int) (list []failed) {
	for r, mark := range d.index.marks[at].bad {
		place, _ := d.catalogue.place(r)
		stint := d.stint(at, r, place)
		if stint == nil || mark.Cause == ReleaseAborted || mark.Cause == RequestClosed {
			continue
		}
		wasThere := !stint.last.Start.After(mark.At) && (stint.last.End.IsZero() || !stint.last.End.Before(mark.At))
		if wasThere {
			list = append(list, failed{at, r, mark.At})
		}
	}
	for r, failure := range d.index.marks[at].failed {
		hasRun := d.app.environments[at].isTask() && d.hasRun(at, r)
		if failure.Attempts >= d.app.environments[at].attempts && !hasRun {
			list = append(list, failed{at, r, failure.Last})
		}
	}
	return list
}

// currentVersion is what an environment has; zero: nothing.
func (d *decider) currentVersion(at int) intent.VersionName {
	if stays := d.staysOf(at); len(stays) > 0 {
		return stays[len(stays)-1].VersionName
	}
	return intent.VersionName{}
}

// previousVersion is what an environment had before what it has; zero: nothing.
func (d *decider) previousVersion(at int) intent.VersionName {
	if stays := d.staysOf(at); len(stays) > 1 {
		return stays[len(stays)-2].VersionName
	}
	return intent.VersionName{}
}

// findComing returns the version that an environment, or another task, is to get when its constraints from one on let it in;
// ok: there is one. An environment that takes no edit now gets none, and going back waits for no task.
func (d *decider) findComing(at, number int) (r intent.VersionName, ok bool) {
	c := d.newChoice(at)
	tasks := c.environment.constraints[number].environments
	c.judged = number
	if c.hold() != NoHold {
		return r, false
	}
	if c.environment.isTask() {
		return c.takesFirst()
	}
	if _, follows := c.afterRollout(); follows || c.marks.back != nil {
		return r, false
	}
	if pin := c.marks.pin; pin != nil {
		place, ok := c.catalogue.place(pin.VersionName)
		stint := c.stint(at, pin.VersionName, place)
		isNew := ok && pin.VersionName != c.has && (stint == nil || !stint.good)
		return pin.VersionName, isNew && !c.isBad(pin.VersionName) && !c.catalogue.isWithdrawn(place) && c.letIn(pin.VersionName, place, false)
	}
	return c.findComingCandidate(tasks)
}

// findComingCandidate returns what candidate finds, but for versions for which tasks failed. Where versions queue, these
// are passed over; else no older version comes in place of a newer one whose task failed.
func (c *choice) findComingCandidate(tasks []int) (r intent.VersionName, ok bool) {
	oldest, ok := c.oldest()
	if !ok {
		return r, false
	}
	for place := range c.possible(oldest) {
		version := &c.catalogue.versions[place]
		if c.out[place] || version.Withdrawn || !c.letIn(version.VersionName(), place, false) {
			continue
		}
		hasFailed := slices.ContainsFunc(tasks, func(task int) bool { return c.hasFailed(task, version.VersionName()) })
		if c.isImmediate(version.VersionName()) {
			return version.VersionName(), !hasFailed
		}
		if !hasFailed {
			c.passing = append(c.passing, place)
		}
	}
	isBusy := c.current != nil && c.current.GoodSince.IsZero() && !c.isBad(c.has)
	if len(c.passing) == 0 || isBusy {
		return r, false
	}
	return c.catalogue.versions[slices.Min(c.passing)].VersionName(), true
}

// demandFor is why a task is to run for a version; nil: it is not.
func (d *decider) demandFor(task int, r intent.VersionName) *Demand {
	for _, demand := range d.demands(task) {
		if demand.VersionName == r {
			return &demand
		}
	}
	return nil
}
