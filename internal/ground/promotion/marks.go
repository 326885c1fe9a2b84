package promotion

import (
	"slices"
	"time"

	intentpb "lehr.dev/gen/lehr/intent/v1"
	"lehr.dev/internal/ground/intent"
)

// marks are what acts, vetoes and failures come to in one environment.
type marks struct {
	pin *Act
	// pauseAll is of the application, pauseOwn of the environment; nil: it is not paused.
	pauseAll, pauseOwn *Act
	// bad are the versions that are kept out, with what says so.
	bad map[intent.VersionName]Mark
	// failed are versions that did not converge in this environment.
	failed map[intent.VersionName]Failure
	// back is a rollback that was asked for and not made yet.
	back *Act
	// floor is the place of the oldest candidate that a person wants.
	floor int
	// hasFloor: a person said where candidates begin, since the field was edited elsewhere.
	hasFloor bool
	floorAt  time.Time
	// acted is when somebody last said what becomes of the environment.
	acted time.Time
}

// Mark says why a version is bad.
type Mark struct {
	Cause BadCause
	// By is the person, the rollout or the verification that says so.
	By string
	At time.Time
}

// BadCause is why a version counts as bad.
type BadCause int

// Causes for which a version is bad in an environment.
const (
	// MarkedBad: a person said so.
	MarkedBad BadCause = iota + 1
	// RolledBackFrom: a person had the environment go back to something older, when it was known.
	RolledBackFrom
	// RolloutBad: a rollout's verdict.
	RolloutBad
	// VerificationBad: a verification of what the environment has.
	VerificationBad
	// RequestClosed: people closed the pull request by which it was to come.
	RequestClosed
	// ReleaseAborted: a person aborted each release that brings it.
	ReleaseAborted
)

// actKey is what a person forced past or wants judged anew.
type actKey struct {
	environment, constraint string
	version                 intent.VersionName
}

// clearedKey is what a person marked good.
type clearedKey struct {
	environment string
	version     intent.VersionName
}

// index holds acts, votes and results by what they are about, so that each is looked at once.
type index struct {
	catalogue *Catalogue
	marks     []marks
	forced    map[actKey]*Act
	restarted map[actKey]time.Time
	hotfixes  map[intent.VersionName]*Act
	// cleared is when a person marked a version good last, in an environment; of the empty one, in all.
	cleared map[clearedKey]time.Time
	votes   map[actKey][]*Vote
	results map[actKey]*Result
	// named are the versions that somebody said something of, by environment and constraint.
	named map[[2]string][]intent.VersionName
	// releases that bring versions, in their order.
	releases map[intent.VersionName][]*Release
	// firsts are the orders by which the application waits for others.
	firsts []ReleaseOrder
}

func newIndex(a *Application, c *Catalogue, f *Facts) *index {
	x := &index{
		catalogue: c, marks: make([]marks, len(a.environments)),
		forced: map[actKey]*Act{}, restarted: map[actKey]time.Time{}, hotfixes: map[intent.VersionName]*Act{}, cleared: map[clearedKey]time.Time{}, votes: map[actKey][]*Vote{}, results: map[actKey]*Result{},
		named: map[[2]string][]intent.VersionName{},
	}
	for i := range f.Acts {
		act := &f.Acts[i]
		key := actKey{act.Environment, act.Constraint, act.VersionName}
		switch act.Kind {
		case Force:
			x.forced[key] = act
			x.name(key)
		case Restart:
			x.restarted[key] = act.At
		case Hotfix:
			x.hotfixes[act.VersionName] = act
		case MarkGood:
			x.cleared[clearedKey{act.Environment, act.VersionName}] = act.At
		}
	}
	for i := range f.Votes {
		vote := &f.Votes[i]
		key := actKey{vote.Environment, vote.Constraint, vote.VersionName}
		if vote.At.After(x.restarted[key]) {
			x.votes[key] = append(x.votes[key], vote)
			x.name(key)
		}
	}
	for i := range f.Results {
		result := &f.Results[i]
		key := actKey{result.Environment, result.Name, result.VersionName}
		if result.At.After(x.restarted[key]) {
			x.results[key] = result
			x.name(key)
		}
	}
	x.indexReleases(f)
	for i := range a.environments {
		x.marks[i] = x.marksOf(&a.environments[i], f)
	}
	return x
}

// name notes that somebody said something of a version.
func (x *index) name(key actKey) {
	about := [2]string{key.environment, key.constraint}
	x.named[about] = append(x.named[about], key.version)
}

// marksOf an environment: findings first, then acts in their order, of which the last counts.
func (x *index) marksOf(e *environment, f *Facts) marks {
	m := marks{bad: map[intent.VersionName]Mark{}, failed: map[intent.VersionName]Failure{}, floor: nowhere}
	name := e.spec.GetName()
	facts := f.Environments[name]
	if !e.isTask() {
		x.markAborted(m.bad) // A task may be what such a version needs to be taken back.
	}
	if facts != nil {
		for _, v := range facts.Vetoes {
			if v.Request != "" {
				m.bad[v.VersionName] = Mark{RequestClosed, v.Request, v.At}
				continue
			}
			m.bad[v.VersionName] = Mark{RolloutBad, v.Rollout, v.At}
		}
		x.verified(e, facts, m.bad)
		for _, failure := range facts.Failures {
			m.failed[failure.VersionName] = failure
		}
	}
	for i := range f.Acts {
		act := &f.Acts[i]
		isOfAll := act.Environment == "" && !(e.isTask() && act.Kind == MarkBad) // On failure, tasks run for what is bad.
		if act.Environment == name || isOfAll {
			x.apply(&m, act)
		}
	}
	if back := m.back; back != nil && facts != nil && len(facts.Stays) > 0 {
		if last := facts.Stays[len(facts.Stays)-1]; last.VersionName != back.Had || last.Start.After(back.At) {
			m.back = nil // It was made, or something else came since.
		}
	}
	return m
}

// apply one act to what held before it.
func (x *index) apply(m *marks, act *Act) {
	if act.Environment != "" && slices.Contains([]ActKind{Pin, Unpin, SkipTo, RollBack, Resume}, act.Kind) {
		m.acted = act.At
	}
	switch act.Kind {
	case Pin:
		m.pin, m.back = act, nil
	case Unpin:
		m.pin = nil
	case Pause:
		*m.pauseOf(act) = act
	case Resume:
		*m.pauseOf(act) = nil
	case MarkBad:
		m.bad[act.VersionName] = Mark{MarkedBad, act.By, act.At}
	case MarkGood:
		if mark, ok := m.bad[act.VersionName]; ok && !mark.At.After(act.At) {
			delete(m.bad, act.VersionName)
			if mark.Cause == RolledBackFrom {
				m.back = nil // Whoever says so no longer wants to go back from it.
			}
		}
		if failure, ok := m.failed[act.VersionName]; ok && !failure.Last.After(act.At) {
			delete(m.failed, act.VersionName)
		}
	case Restart:
		if failure, ok := m.failed[act.VersionName]; ok && act.Constraint == RunConstraint && !failure.Last.After(act.At) {
			delete(m.failed, act.VersionName)
		}
	case SkipTo:
		m.floor, _ = x.catalogue.place(act.VersionName)
		m.hasFloor, m.floorAt, m.back = true, act.At, nil
	case RollBack:
		m.back, m.pin = act, nil
		x.keepOut(m, act)
	}
}

// pauseOf is the pause of an act's level: that of the application is resumed as such.
func (m *marks) pauseOf(act *Act) **Act {
	if act.Environment == "" {
		return &m.pauseAll
	}
	return &m.pauseOwn
}

// keepOut what is newer than the version that a person went back to, up to the newest that was
// known, and what the environment had.
func (x *index) keepOut(m *marks, act *Act) {
	mark := Mark{RolledBackFrom, act.By, act.At}
	m.bad[act.Had] = mark
	to, _ := x.catalogue.place(act.VersionName)
	previous, _ := x.catalogue.place(act.Had)
	newest, _ := x.catalogue.place(act.Newest)
	if to == nowhere {
		return
	}
	for place := to + 1; place <= max(previous, newest); place++ {
		m.bad[x.catalogue.versions[place].VersionName()] = mark
	}
}

// verified marks what the environment had bad by verifications of its own content.
func (x *index) verified(e *environment, facts *Environment, bad map[intent.VersionName]Mark) {
	for i := range facts.Stays {
		stay := &facts.Stays[i]
		for _, name := range e.spec.GetVerify() {
			if result := x.verification(e, name, stay); result != nil && !result.Good {
				bad[stay.VersionName] = Mark{VerificationBad, name, result.At}
			}
		}
	}
}

// verification is the result for a stay's own content; nil: there is none. A bad one that a person
// withdrew is none: what it was about is verified anew, and not taken for verified.
func (x *index) verification(e *environment, name string, stay *Stay) *Result {
	result := x.results[actKey{e.spec.GetName(), name, stay.VersionName}]
	if result == nil || result.Content != stay.Content {
		return nil
	}
	if !result.Good && x.isCleared(e.spec.GetName(), result) {
		return nil
	}
	return result
}

// isCleared reports whether a person marked a version good since it was found bad.
func (x *index) isCleared(environment string, result *Result) bool {
	for _, name := range []string{environment, ""} {
		if at, ok := x.cleared[clearedKey{name, result.VersionName}]; ok && !result.At.After(at) {
			return true
		}
	}
	return false
}

// forcedPast is the act by which a person passed over a constraint for a version: one of its
// own, or a hotfix; nil: none did.
func (x *index) forcedPast(e *environment, c *intentpb.DeliveryConstraint, r intent.VersionName) (act *Act, cause Cause) {
	if len(x.forced) > 0 {
		if act := x.forced[actKey{e.spec.GetName(), c.GetName(), r}]; act != nil {
			return act, Forced
		}
	}
	if c.GetPassedByHotfix() && len(x.hotfixes) > 0 {
		if act := x.hotfixes[r]; act != nil {
			return act, PassedByHotfix
		}
	}
	return nil, 0
}
