package promotion

import (
	"path"
	"slices"
	"strings"
	"time"

	intentpb "lehr.dev/gen/lehr/intent/v1"
	"lehr.dev/internal/ground/intent"
)

// Status is what a constraint says of a version.
type Status int

// Statuses of a constraint, those that are further from letting in first.
const (
	// Refuses: it does not let the version in, and will not by itself.
	Refuses Status = iota + 1
	// Waits: it does not let the version in yet.
	Waits
	// Passes: it lets the version in.
	Passes
)

// Cause is why a constraint says what it says.
type Cause int

// Causes of verdicts.
const (
	// Met: what it asks for is so.
	Met Cause = iota + 1
	// Forced: a person passed over it, by name.
	Forced
	// PassedByHotfix: a person called the version a hotfix, which passes over it.
	PassedByHotfix
	// NothingSelected: what it depends on is a selector, by which there is no environment now.
	NothingSelected
	// NotThere: an environment that it depends on never had the version.
	NotThere
	// NotGood: an environment has the version, and is not good with it.
	NotGood
	// NotStable: it is good there, for less time than is asked.
	NotStable
	// Unverified: a verification there has no result for what it has.
	Unverified
	// BadThere: the version is bad in an environment that it depends on.
	BadThere
	// NotAsked: people are asked when the constraints above let the version in.
	NotAsked
	// NeedsPeople: too few people have approved.
	NeedsPeople
	// Rejected: a person rejected it.
	Rejected
	// Closed: the calendar is closed.
	Closed
	// WindowFull: the window has had as many promotions as it may.
	WindowFull
	// Young: the version is not old enough.
	Young
	// AgeUnknown: it is not known when the version was made.
	AgeUnknown
	// Denied: the version, or its commit, is on the list.
	Denied
	// NoResult: nobody has said yet, or what was said counts no longer.
	NoResult
	// ResultBad: it was found bad.
	ResultBad
	// SaysNo: who was asked says no for now.
	SaysNo
	// LineUnreadable: the line of releases is not there, or does not have the application.
	LineUnreadable
	// NotReleased: no release brings the version.
	NotReleased
	// InAborted, InSkipped, InHeld: a person aborted, skipped or holds the release that brings it.
	InAborted
	InSkipped
	InHeld
	// BehindHeld: a release before it in the train is held.
	BehindHeld
	// FirstUnreadable: the application that goes first in the release cannot be read.
	FirstUnreadable
	// FailedThere: the environment did not converge with it, after all attempts.
	FailedThere
	// WentBackThere: the environment had it, and has something older now.
	WentBackThere
	// TooFarAhead: the environment would be too far ahead of another one.
	TooFarAhead
	// NotRun: a task has not run for it.
	NotRun
	// Running: a task runs for it now.
	Running
	// TaskFailed: a task failed for it, after all attempts.
	TaskFailed
	// NotNext: no environment that waits for the task is to get it now.
	NotNext
	// NotGoodBefore: it is not good in the environments that the task comes after.
	NotGoodBefore
	// NotFailedThere: it did not fail in the environments on whose failure the task runs.
	NotFailedThere
)

// Verdict is what a constraint says of a version in an environment, with its numbers.
type Verdict struct {
	// Constraint is its name.
	Constraint string
	Status     Status
	Cause      Cause
	// Environment that it waits for; empty: none.
	Environment string
	// Application that it waits for, of a line of releases, and the Version of that; empty: its own.
	Application, Version string
	// Release that brings the version; 0: none.
	Release int
	// Have of what it Needs: people, promotions in the window, or versions ahead. Of BehindHeld, Have is the
	// number of the release that is held.
	Have, Needs int
	// HaveTime of NeedsTime: an age, a soak, a time without a break.
	HaveTime, NeedsTime time.Duration
	// Until is when it can change by itself; zero: not by time alone.
	Until time.Time
	// By is who forced past it, approved last, or rejected.
	By string
	// Reason that a person or a list gives.
	Reason string
}

// stint is all that an environment had of one version.
type stint struct {
	version intent.VersionName
	// last of its stays.
	last *Stay
	good bool
	// longest time good without a break, and all of it.
	longest, total time.Duration
}

// judge says what a constraint says of a version. Place is the version's.
func (d *decider) judge(at, number int, r intent.VersionName, place int) Verdict {
	e := &d.app.environments[at]
	c := &e.constraints[number]
	if act, cause := d.index.forcedPast(e, c.spec, r); act != nil {
		return Verdict{Constraint: c.spec.GetName(), Status: Passes, Cause: cause, By: act.By, Reason: act.Reason}
	}
	var v Verdict
	switch kind := c.spec.GetKind().(type) {
	case *intentpb.DeliveryConstraint_DependsOn:
		v = d.dependsOn(c, kind.DependsOn, r, place)
	case *intentpb.DeliveryConstraint_Soak:
		v = d.soaks(c, kind.Soak, r, place)
	case *intentpb.DeliveryConstraint_Judgement:
		v = d.judgement(at, number, kind.Judgement, r, place)
	case *intentpb.DeliveryConstraint_Times:
		v = d.times(at, number, kind.Times)
	case *intentpb.DeliveryConstraint_Age:
		v = d.age(kind.Age, place)
	case *intentpb.DeliveryConstraint_Deny:
		v = d.denied(kind.Deny, r, place)
	case *intentpb.DeliveryConstraint_Outside:
		v = d.outside(e, c, kind.Outside, r)
	case *intentpb.DeliveryConstraint_Asked:
		v = d.judgeAnswer(e, c, kind.Asked, r)
	case *intentpb.DeliveryConstraint_Released:
		v = d.judgeReleased(at, r, place)
	case *intentpb.DeliveryConstraint_Lag:
		v = d.judgeLag(at, c, kind.Lag, place)
	case *intentpb.DeliveryConstraint_Completed:
		v = d.judgeCompleted(c, r, place)
	case *intentpb.DeliveryConstraint_Demanded:
		v = d.judgeDemanded(at, r)
	default:
		v = Verdict{Status: Refuses} // A kind that is not known lets nothing in.
	}
	v.Constraint = c.spec.GetName()
	return v
}

func met() Verdict { return Verdict{Status: Passes, Cause: Met} }

// nothingSelected lets nothing in: nobody was well with the version.
func nothingSelected(selectors []string) Verdict {
	return Verdict{Status: Waits, Cause: NothingSelected, Environment: strings.Join(selectors, ", ")}
}

// dependsOn is that of the environment that is furthest from letting it in, or with any of the
// one that is nearest.
func (d *decider) dependsOn(c *constraint, spec *intentpb.DependsOn, r intent.VersionName, place int) (worst Verdict) {
	stable := spec.GetStable().AsDuration()
	if len(c.empty) > 0 && (!spec.GetAny() || len(c.environments) == 0) {
		return nothingSelected(c.empty)
	}
	for i, on := range c.environments {
		v := d.wellWith(on, r, place, stable)
		further := v.Status < worst.Status
		if spec.GetAny() {
			further = v.Status > worst.Status
		}
		if i == 0 || further {
			worst = v
		}
	}
	return worst
}

// wellWith says whether an environment was well with a version for so long.
func (d *decider) wellWith(on int, r intent.VersionName, place int, stable time.Duration) Verdict {
	e := &d.app.environments[on]
	v := Verdict{Status: Waits, Environment: e.spec.GetName(), NeedsTime: stable}
	stint := d.stint(on, r, place)
	_, isBad := d.index.marks[on].bad[r]
	switch {
	case isBad:
		v.Status, v.Cause = Refuses, BadThere
	case stint == nil:
		v.Cause = NotThere
	case !stint.good:
		v.Cause = NotGood
	case stint.longest < stable:
		v.Cause, v.HaveTime = NotStable, stint.longest
		if stint.last.End.IsZero() && !stint.last.GoodSince.IsZero() {
			v.Until = stint.last.GoodSince.Add(stable)
		}
	default:
		v.HaveTime = stint.longest
		for _, name := range e.spec.GetVerify() {
			if d.index.verification(e, name, stint.last) == nil { // A bad one is a bad mark.
				v.Cause, v.Reason = Unverified, name
				return v
			}
		}
		v.Status, v.Cause = Passes, Met
	}
	return v
}

// soaks is that of the environment that has had it for the least time.
func (d *decider) soaks(c *constraint, spec *intentpb.DeliverySoak, r intent.VersionName, place int) (least Verdict) {
	needs := spec.GetTime().AsDuration()
	if len(c.empty) > 0 {
		return nothingSelected(c.empty)
	}
	for i, in := range c.environments {
		v := Verdict{Status: Waits, Environment: d.app.environments[in].spec.GetName(), NeedsTime: needs}
		stint := d.stint(in, r, place)
		if _, isBad := d.index.marks[in].bad[r]; isBad {
			v.Status, v.Cause = Refuses, BadThere
			return v
		}
		switch {
		case stint == nil:
			v.Cause = NotThere
		case stint.total < needs:
			v.Cause, v.HaveTime = NotGood, stint.total
			if stint.last.End.IsZero() && !stint.last.GoodSince.IsZero() {
				v.Cause, v.Until = NotStable, d.facts.Now.Add(needs-stint.total)
			}
		default:
			v.Status, v.Cause, v.HaveTime = Passes, Met, stint.total
		}
		if i == 0 || v.Status != Passes && (least.Status == Passes || v.HaveTime < least.HaveTime) {
			least = v
		}
	}
	return least
}

// judgement counts the newest vote of each person who has one of the roles.
func (d *decider) judgement(at, number int, spec *intentpb.Judgement, r intent.VersionName, place int) Verdict {
	e := &d.app.environments[at]
	v := Verdict{Status: Waits, Cause: NeedsPeople, Needs: max(1, int(spec.GetQuorum()))}
	newest := map[string]*Vote{}
	var people []string
	for _, vote := range d.index.votes[actKey{e.spec.GetName(), e.constraints[number].spec.GetName(), r}] {
		if hasRole(vote.Roles, spec.GetRoles()) {
			if newest[vote.By] == nil {
				people = append(people, vote.By)
			}
			newest[vote.By] = vote
		}
	}
	for _, person := range people {
		vote := newest[person]
		if !vote.Approve {
			return Verdict{Status: Refuses, Cause: Rejected, Have: v.Have, Needs: v.Needs, By: person, Reason: vote.Reason}
		}
		if expires := spec.GetExpires(); expires != nil && !d.facts.Now.Before(vote.At.Add(expires.AsDuration())) {
			continue
		}
		v.Have, v.By, v.Reason = v.Have+1, person, vote.Reason
	}
	if v.Have >= v.Needs {
		v.Status, v.Cause = Passes, Met
		return v
	}
	for above := range number {
		if d.judge(at, above, r, place).Status != Passes {
			v.Cause = NotAsked
			break
		}
	}
	return v
}

func hasRole(has, wanted []string) bool {
	if len(wanted) == 0 {
		return slices.Contains(has, approver)
	}
	return slices.ContainsFunc(wanted, func(role string) bool { return slices.Contains(has, role) })
}

// times is the same for all versions, so it is asked once for an environment.
func (d *decider) times(at, number int, spec *intentpb.AllowedTimes) Verdict {
	key := [2]int{at, number}
	if v, ok := d.windows[key]; ok {
		return v
	}
	c := &d.app.environments[at].constraints[number]
	v, now := met(), d.facts.Now
	if answer := c.calendar.At(now); !answer.Open {
		v = Verdict{Status: Waits, Cause: Closed, Until: answer.Until, Reason: answer.Why}
	} else if most := int(spec.GetAtMost()); most > 0 {
		window, _ := c.calendar.Window(now)
		for _, stay := range d.staysOf(at) {
			if !stay.Back && !stay.Start.Before(window.Start) && stay.Start.Before(window.End) {
				v.Have++
			}
		}
		if v.Needs = most; v.Have >= most {
			v.Status, v.Cause, v.Until = Waits, WindowFull, window.End
		}
	}
	d.windows[key] = v
	return v
}

func (d *decider) age(spec *intentpb.VersionAge, place int) Verdict {
	needs := spec.GetAge().AsDuration()
	if place == nowhere || d.catalogue.versions[place].Created.IsZero() {
		return Verdict{Status: Refuses, Cause: AgeUnknown, NeedsTime: needs}
	}
	created := d.catalogue.versions[place].Created
	v := Verdict{Status: Passes, Cause: Met, HaveTime: max(0, d.facts.Now.Sub(created)), NeedsTime: needs}
	if v.HaveTime < needs {
		v.Status, v.Cause, v.Until = Waits, Young, created.Add(needs)
	}
	return v
}

// denied compares names without a leading "v".
func (d *decider) denied(list *intentpb.DeniedVersions, r intent.VersionName, place int) Verdict {
	name := strings.TrimPrefix(r.Name, "v")
	commit := ""
	if place != nowhere {
		commit = d.catalogue.versions[place].Commit
	}
	for _, entry := range list.GetEntries() {
		pattern := strings.TrimPrefix(entry.GetVersion(), "v")
		byName := pattern != "" && matches(pattern, name)
		if byName || entry.GetCommit() != "" && strings.HasPrefix(commit, entry.GetCommit()) {
			return Verdict{Status: Refuses, Cause: Denied, Reason: entry.GetReason()}
		}
	}
	return met()
}

// escapePattern makes all but "*" of a pattern stand for itself, and "/" a character like others.
var escapePattern = strings.NewReplacer(`\`, `\\`, "?", `\?`, "[", `\[`, "/", "\x00")

// matches a name with a pattern in which "*" stands for any text.
func matches(pattern, name string) bool {
	if !strings.Contains(pattern, "*") {
		return pattern == name
	}
	ok, err := path.Match(escapePattern.Replace(pattern), strings.ReplaceAll(name, "/", "\x00"))
	return ok && err == nil
}

// outside is the newest result that others stored for the version.
func (d *decider) outside(e *environment, c *constraint, spec *intentpb.OutsideVerdict, r intent.VersionName) Verdict {
	result := d.index.results[actKey{e.spec.GetName(), c.spec.GetName(), r}]
	switch {
	case result == nil, result.Good && result.hasExpired(d.facts.Now, spec.GetExpires()):
		return Verdict{Status: Waits, Cause: NoResult}
	case !result.Good:
		return Verdict{Status: Refuses, Cause: ResultBad, Reason: result.Reason}
	}
	return Verdict{Status: Passes, Cause: Met, Reason: result.Reason}
}
