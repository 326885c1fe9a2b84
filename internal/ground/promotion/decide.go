package promotion

import "lehr.dev/internal/ground/intent"

// State is where a version stands in an environment.
type State uint8

// States of a version in an environment.
const (
	// Pending: it is not let in yet.
	Pending State = iota + 1
	// Approved: it is let in, and comes when the environment takes it.
	Approved
	// Deploying: the field holds it, and the assets are not all good with it.
	Deploying
	// Current: the field holds it, and all is good.
	Current
	// Previous: the environment had it.
	Previous
	// Skipped: the environment has something newer, and never had it.
	Skipped
	// Superseded: it was let in, and something newer came instead.
	Superseded
	// Vetoed: it was found bad.
	Vetoed
	// Failed: the environment did not converge with it, after all attempts.
	Failed
	// Withdrawn: the source has it no longer, and the environment never had it.
	Withdrawn
	// Unordered: it has no place in the order, and the environment never had it.
	Unordered
)

// Why is the reason for which an environment should have a version.
type Why int

// Reasons for what an environment should have.
const (
	// Keeps: nothing else is to come.
	Keeps Why = iota
	// LetIn: it is what its constraints let in.
	LetIn
	// Pinned: a person pinned it.
	Pinned
	// AskedBack: a person had it go back.
	AskedBack
	// WentBack: what it had is bad, and this was good there last.
	WentBack
	// FollowsRollout: a rollout went back to it already, by pins.
	FollowsRollout
)

// Hold is why an edit that is wanted is not made, or why nothing better is wanted.
type Hold int

// Holds of an environment.
const (
	NoHold Hold = iota
	// HeldByPause: a person paused it.
	HeldByPause
	// HeldByRollout: a rollout holds the field or the assets.
	HeldByRollout
	// HeldByVerification: a verification is under way.
	HeldByVerification
	// HeldByTrouble: the field cannot be edited.
	HeldByTrouble
	// HeldByEdit: somebody else set the field, and nobody has said since what is to become of it.
	HeldByEdit
	// HeldByOrder: what the environment has cannot be compared, so nothing is newer.
	HeldByOrder
	// HeldByBadPin: the version that is pinned is bad, withdrawn or not known.
	HeldByBadPin
	// HeldByConstraint: the version that is pinned, or gone back to, is not let in.
	HeldByConstraint
	// HeldForNothingGood: what it has is bad, and nothing else was good there.
	HeldForNothingGood
)

// Outcome is what is decided for an environment.
type Outcome struct {
	// Has is what its field holds; zero: it never had a version.
	Has intent.VersionName
	// Wants is what it should have; Has, where nothing is to change.
	Wants intent.VersionName
	Why   Why
	Hold  Hold
	// Run is why a task is to run for Wants, also where it ran for that before; nil: it is not to begin a run.
	Run *Demand
	// Edit: the field is to be set from Has to Wants, now.
	Edit bool
	// Back: the edit goes back.
	Back bool
	// Verify are the verifications to start now.
	Verify []string
	// Questions are those to ask now, so that versions can be let in; the version that comes next
	// is first.
	Questions []Question
}

// Decision is what is decided for all environments.
type Decision struct {
	decider
	// Outcomes in the order of the application's environments.
	Outcomes []Outcome
	// states by environment and place.
	states [][]State
}

// decider holds what a decision rests on.
type decider struct {
	app       *Application
	catalogue *Catalogue
	facts     *Facts
	index     *index
	// stints by environment; stintAt by environment and place, one more than the index.
	stints  [][]stint
	stintAt [][]int32
	windows map[[2]int]Verdict
	// demanded are the versions that tasks are to run for, as far as it was asked.
	demanded map[int][]Demand
	// waitsForFirst: a version waits for an application that goes first in its release.
	waitsForFirst bool
}

// WaitsForFirst reports whether a version waits for an application that goes first in its release, which
// nothing of this one tells.
func (d *Decision) WaitsForFirst() bool { return d.waitsForFirst }

// Decide says what each environment should have, and where each version stands. It is the same
// for the same arguments, and changes none of them.
func (a *Application) Decide(catalogue *Catalogue, facts *Facts) *Decision {
	d := &Decision{decider: *a.gatherAll(catalogue, facts)}
	states := make([]State, len(a.environments)*len(catalogue.versions))
	for i := range a.environments {
		c := d.newChoice(i)
		d.Outcomes = append(d.Outcomes, c.decide())
		d.states = append(d.states, c.fill(states[i*len(catalogue.versions):][:len(catalogue.versions)], &d.Outcomes[i]))
	}
	return d
}

// gatherAll is what decisions rest on.
func (a *Application) gatherAll(catalogue *Catalogue, facts *Facts) *decider {
	d := &decider{app: a, catalogue: catalogue, facts: facts, index: newIndex(a, catalogue, facts), windows: map[[2]int]Verdict{}, demanded: map[int][]Demand{}}
	places := make([]int32, len(a.environments)*len(catalogue.versions))
	for i := range a.environments {
		d.gather(i, places[i*len(catalogue.versions):][:len(catalogue.versions)])
	}
	return d
}

func (d *decider) staysOf(at int) []Stay {
	if facts := d.facts.Environments[d.app.environments[at].spec.GetName()]; facts != nil {
		return facts.Stays
	}
	return nil
}

// gather the stays of an environment by version.
func (d *decider) gather(at int, places []int32) {
	var list []stint
	odd := map[intent.VersionName]int{}
	stays := d.staysOf(at)
	for i := range stays {
		stay := &stays[i]
		place, _ := d.catalogue.place(stay.VersionName)
		found := -1
		if place != nowhere {
			found = int(places[place]) - 1
		} else if n, ok := odd[stay.VersionName]; ok {
			found = n
		}
		if found < 0 {
			found = len(list)
			list = append(list, stint{version: stay.VersionName})
			if odd[stay.VersionName] = found; place != nowhere {
				places[place] = int32(found + 1)
			}
		}
		s, lasting := &list[found], stay.lasting(d.facts.Now)
		s.last, s.good = stay, s.good || stay.good()
		s.longest = max(s.longest, stay.LongestBefore, lasting)
		s.total += stay.GoodBefore + lasting
	}
	d.stints, d.stintAt = append(d.stints, list), append(d.stintAt, places)
}

// stint of an environment; nil: it never had the version.
func (d *decider) stint(at int, r intent.VersionName, place int) *stint {
	if place != nowhere {
		if n := d.stintAt[at][place]; n > 0 {
			return &d.stints[at][n-1]
		}
		return nil
	}
	for i := range d.stints[at] {
		if d.stints[at][i].version == r {
			return &d.stints[at][i]
		}
	}
	return nil
}

// fill in where each version stands.
func (c *choice) fill(states []State, o *Outcome) []State {
	oldest, ok := c.oldest()
	if !ok {
		oldest = 0 // Nothing is older than what cannot be compared.
	}
	for place := range states {
		states[place] = Pending
	}
	for place := range min(oldest, len(states)) {
		states[place] = Skipped
	}
	for version := range c.index.releases {
		if place, _ := c.catalogue.place(version); place != nowhere && c.isSkipped(version) {
			states[place] = Skipped
		}
	}
	for _, place := range c.catalogue.withdrawn {
		states[place] = Withdrawn
	}
	set := func(r intent.VersionName, s State) {
		if place, _ := c.catalogue.place(r); place != nowhere {
			states[place] = s
		}
	}
	wanted, _ := c.catalogue.place(o.Wants)
	for _, r := range c.facts.Approved {
		if place, _ := c.catalogue.place(r); place != nowhere && (place < oldest || place < wanted) {
			states[place] = Superseded
		}
	}
	for _, place := range c.passing {
		states[place] = Approved
	}
	for i := range c.stints[c.at] {
		set(c.stints[c.at][i].version, Previous)
	}
	if o.Wants != o.Has {
		set(o.Wants, Approved)
	}
	if c.current != nil {
		set(c.has, c.standing())
	}
	for r, failure := range c.marks.failed {
		hasRun := c.environment.isTask() && c.hasRun(c.at, r) // What it could not run for at first, it has run for since.
		if failure.Attempts >= c.environment.attempts && !hasRun {
			set(r, Failed)
		}
	}
	for r := range c.marks.bad {
		set(r, Vetoed)
	}
	return states
}

// standing of what the environment has.
func (c *choice) standing() State {
	if c.current.GoodSince.IsZero() && !(c.environment.isTask() && c.hasRun(c.at, c.has)) {
		return Deploying
	}
	return Current
}
