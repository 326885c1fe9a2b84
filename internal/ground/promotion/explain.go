package promotion

import (
	"slices"
	"time"

	intentpb "lehr.dev/gen/lehr/intent/v1"
	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/ground/ordering"
)

// Explanation is all that is to say of a version in an environment.
type Explanation struct {
	State State
	// Outcome is what is decided for the environment.
	Outcome Outcome
	// Verdicts of all constraints, in their order.
	Verdicts []Verdict
	// Mark of a version that is bad.
	Mark Mark
	// Failure of a version that did not converge; Attempts of it are made at most.
	Failure  Failure
	Attempts int
	// Aside is why it has no place in the order; 0: it has one.
	Aside ordering.Cause
	// Pin is what the environment is pinned to, and Pause what keeps it as it is.
	Pin, Pause *Act
	Estimate   Estimate
	// Task: it is about a task, and not about an environment.
	Task bool
}

// Estimate is when a version can be in an environment.
type Estimate struct {
	// At is the earliest moment: what takes time is over, and everybody else who has a say says
	// yes at once. Of a version that is there it is when it came. Zero: not by itself.
	At time.Time
	// Awaits are the constraints, and the verifications, on its way that wait for people or
	// programs.
	Awaits []Awaited
}

// Awaited is a constraint or a verification that people or programs decide.
type Awaited struct{ Environment, Name string }

// States of all versions in an environment, in the order of the catalogue. It is not to be
// changed.
func (d *Decision) States(environment int) []State { return d.states[environment] }

// Next are at most so many versions that may come to an environment, in one of some states: those that come next
// first, which is the oldest where versions queue. Of an application of a line they are what releases bring.
func (d *Decision) Next(environment, most int, in ...State) (next []intent.VersionName) {
	states := d.states[environment]
	if d.app.IsTask(environment) {
		for _, demand := range d.demands(environment) {
			if len(next) < most && slices.Contains(in, d.State(environment, demand.VersionName)) {
				next = append(next, demand.VersionName)
			}
		}
		return next
	}
	queues := d.app.isReleased() || d.app.environments[environment].spec.GetNewer() == intentpb.DeliveryEnvironment_NEWER_QUEUES
	for i := 0; i < len(states) && len(next) < most; i++ {
		place := len(states) - 1 - i
		if queues {
			place = i
		}
		version := d.catalogue.versions[place].VersionName()
		if slices.Contains(in, states[place]) && (!d.app.isReleased() || len(d.index.releases[version]) > 0) {
			next = append(next, version)
		}
	}
	return next
}

// State of a version in an environment; 0: nothing is known of it.
func (d *Decision) State(environment int, r intent.VersionName) State {
	place, ok := d.catalogue.place(r)
	switch {
	case place != nowhere:
		return d.states[environment][place]
	case !ok && d.stint(environment, r, place) == nil:
		return 0
	}
	_, isBad := d.index.marks[environment].bad[r]
	stays := d.staysOf(environment)
	switch stint := d.stint(environment, r, place); {
	case isBad:
		return Vetoed
	case stint == nil:
		return Unordered
	case stint.last != &stays[len(stays)-1]:
		return Previous
	case stint.last.GoodSince.IsZero():
		return Deploying
	}
	return Current
}

// Explain says all of a version in an environment. NotFound: the application has no such
// environment, or nothing is known of the version.
func (d *Decision) Explain(environment string, r intent.VersionName) (*Explanation, error) {
	at, ok := d.app.byName[environment]
	if !ok {
		return nil, fault.New(fault.NotFound, "%s", d.app.unknown(environment).Error())
	}
	x := &Explanation{State: d.State(at, r), Outcome: d.Outcomes[at], Task: d.app.IsTask(at)}
	if x.State == 0 {
		return nil, fault.New(fault.NotFound, "no version %s of %s is known", r.Name, d.app.Name()).WithHint("list the versions, and name one of them")
	}
	place, _ := d.catalogue.place(r)
	e, marks := &d.app.environments[at], &d.index.marks[at]
	for number := range e.constraints {
		x.Verdicts = append(x.Verdicts, d.judge(at, number, r, place))
	}
	for _, aside := range d.catalogue.aside {
		if aside.VersionName() == r {
			x.Aside = aside.Cause
		}
	}
	x.Mark, x.Failure, x.Attempts, x.Pin, x.Pause = marks.bad[r], marks.failed[r], e.attempts, marks.pin, marks.pauseOwn
	if marks.pauseAll != nil {
		x.Pause = marks.pauseAll
	}
	x.Estimate = newEstimator(d).estimate(at, place, r)
	return x, nil
}

// estimator remembers what it found by environment and place, since environments are asked by several that
// depend on them.
type estimator struct {
	*Decision
	found map[[2]int]Estimate
}

func newEstimator(d *Decision) *estimator { return &estimator{d, map[[2]int]Estimate{}} }

// estimate when a version can be in an environment. Environments depend on each other in no
// circle, and by a lag only for older versions, so it ends.
func (s *estimator) estimate(at, place int, r intent.VersionName) Estimate {
	key := [2]int{at, place}
	if known, ok := s.found[key]; ok {
		return known
	}
	answer := s.begin(at, place, r)
	s.found[key] = answer
	return answer
}

func (s *estimator) begin(at, place int, r intent.VersionName) (answer Estimate) {
	e, marks := &s.app.environments[at], &s.index.marks[at]
	switch s.State(at, r) {
	case Current, Deploying:
		return Estimate{At: s.stint(at, r, place).last.Start}
	case Pending, Approved, Superseded:
	case Previous:
		if !e.isTask() {
			return Estimate{}
		}
	default:
		return Estimate{}
	}
	if marks.pin != nil && marks.pin.VersionName != r {
		return Estimate{}
	}
	answer.At = s.facts.Now
	if failure, ok := marks.failed[r]; ok {
		answer.At = later(answer.At, failure.Last.Add(e.retry))
	}
	for number := range e.constraints {
		if e.constraints[number].calendar != nil {
			continue
		}
		moment, ok := s.constraint(at, number, place, r, &answer)
		if !ok {
			return Estimate{}
		}
		answer.At = later(answer.At, moment)
	}
	answer.At = s.opens(at, r, answer.At)
	return answer
}

// constraint says when one lets in at the earliest; ok: it can, by itself or by others' word.
func (s *estimator) constraint(at, number, place int, r intent.VersionName, answer *Estimate) (moment time.Time, ok bool) {
	c := &s.app.environments[at].constraints[number]
	v := s.judge(at, number, r, place)
	switch {
	case v.Status == Passes:
		return s.facts.Now, true
	case v.Status == Refuses && v.Cause != Rejected && v.Cause != ResultBad:
		return moment, false
	}
	needs, anyOf := time.Duration(0), false
	switch {
	case c.spec.GetDependsOn() != nil:
		needs, anyOf = c.spec.GetDependsOn().GetStable().AsDuration(), c.spec.GetDependsOn().GetAny()
	case c.spec.GetSoak() != nil:
		needs = c.spec.GetSoak().GetTime().AsDuration()
	case c.spec.GetReleased() != nil:
		return s.estimateReleased(at, v, r, answer)
	case c.spec.GetLag() != nil:
		return s.estimateLag(at, number, place, answer)
	case c.spec.GetCompleted() != nil:
		return s.estimateCompleted(c, place, r, answer)
	case c.spec.GetDemanded() != nil:
		return s.estimateDemanded(at, place, r, answer)
	case c.spec.GetAge() != nil:
		return v.Until, !v.Until.IsZero()
	default:
		answer.Awaits = append(answer.Awaits, Awaited{s.app.environments[at].spec.GetName(), c.spec.GetName()})
		return s.facts.Now, v.Status == Waits
	}
	if len(c.empty) > 0 && !anyOf {
		return moment, false // Until the selector finds an asset.
	}
	for _, on := range c.environments {
		when, can := s.through(on, place, r, needs, c.spec.GetSoak() != nil, answer)
		switch {
		case !can && !anyOf:
			return moment, false
		case !can:
		case anyOf && (!ok || when.Before(moment)), !anyOf && (!ok || when.After(moment)):
			moment, ok = when, true
		}
	}
	return moment, ok
}

// through says when an environment has had a version for as long as is asked.
func (s *estimator) through(on, place int, r intent.VersionName, needs time.Duration, adds bool, answer *Estimate) (moment time.Time, ok bool) {
	stint := s.stint(on, r, place)
	if stint == nil {
		there := s.estimate(on, place, r)
		answer.Awaits = append(answer.Awaits, there.Awaits...)
		if !adds {
			for _, name := range s.app.environments[on].spec.GetVerify() {
				answer.Awaits = append(answer.Awaits, Awaited{s.app.environments[on].spec.GetName(), name})
				needs = max(needs, s.analysisLength(on, name))
			}
		}
		return later(there.At, s.facts.Now).Add(needs), !there.At.IsZero()
	}
	has, isThere := stint.longest, stint.last.End.IsZero()
	if adds {
		has = stint.total
	}
	if adds && (has < needs || !stint.good) {
		return s.facts.Now.Add(needs - has), isThere
	}
	goodSince := s.facts.Now
	if !stint.last.GoodSince.IsZero() {
		goodSince = stint.last.GoodSince
	}
	moment = s.facts.Now
	if has < needs || !stint.good {
		moment = later(goodSince.Add(needs), moment)
	} else {
		isThere = true
	}
	for _, name := range s.app.environments[on].spec.GetVerify() {
		if !adds && s.index.verification(&s.app.environments[on], name, stint.last) == nil {
			answer.Awaits = append(answer.Awaits, Awaited{s.app.environments[on].spec.GetName(), name})
			moment = later(moment, goodSince.Add(s.analysisLength(on, name)))
		}
	}
	return moment, isThere
}

// analysisLength of a verification of an environment by its name; 0: it is no analysis, and may end at once.
func (s *estimator) analysisLength(on int, name string) time.Duration {
	for _, v := range s.app.environments[on].spec.GetRuns() {
		if v.GetName() == name {
			return s.facts.Lengths[v.GetAnalysis().GetValidation()]
		}
	}
	return 0
}

// opens is the first moment from one on at which all calendars are open and no window is full.
// Zero: there is none that is near enough to tell.
func (s *estimator) opens(at int, r intent.VersionName, start time.Time) time.Time {
	e := &s.app.environments[at]
	const most = 100 // Calendars that never meet are not followed for good.
	for range most {
		moved := start
		for number := range e.constraints {
			c := &e.constraints[number]
			if act, _ := s.index.forcedPast(e, c.spec, r); c.calendar == nil || act != nil {
				continue
			}
			if v := s.times(at, number, c.spec.GetTimes()); v.Cause == WindowFull {
				moved = later(moved, v.Until)
			}
			if answer := c.calendar.At(moved); !answer.Open {
				if moved = answer.Until; moved.IsZero() {
					return moved
				}
			}
		}
		if moved.Equal(start) {
			return start
		}
		start = moved
	}
	return time.Time{}
}

func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}
