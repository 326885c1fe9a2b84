package promotion

import (
	"iter"
	"maps"
	"slices"

	intentpb "lehr.dev/gen/lehr/intent/v1"
	"lehr.dev/internal/ground/intent"
)

// choice is what is weighed for one environment.
type choice struct {
	*decider
	at          int
	environment *environment
	facts       *Environment
	marks       *marks
	has         intent.VersionName
	// nextPlace is the place of the oldest version that may replace what it has; isOrdered: it has one.
	nextPlace int
	isOrdered bool
	// current is the stay under way; nil: it never had a version.
	current *Stay
	// out are the places that are no candidates.
	out []bool
	// judged is how many of the constraints, from the first, count: all, unless what comes next is asked of those
	// above one.
	judged int
	// passing are the candidates that are let in, as far as it was asked.
	passing []int
	// questions about versions that wait for nothing else above a constraint that asks.
	questions []Question
}

func (d *decider) newChoice(at int) *choice {
	c := &choice{decider: d, at: at, environment: &d.app.environments[at], marks: &d.index.marks[at], facts: &Environment{}}
	c.judged = len(c.environment.constraints)
	if facts := d.facts.Environments[c.environment.spec.GetName()]; facts != nil {
		c.facts = facts
	}
	if n := len(c.facts.Stays); n > 0 {
		c.current = &c.facts.Stays[n-1]
		c.has = c.current.VersionName
		c.nextPlace, c.isOrdered = d.catalogue.oldestAfter(c.has)
	}
	c.out = make([]bool, len(d.catalogue.versions))
	for r := range c.marks.bad {
		c.takeOut(r)
	}
	for r := range c.marks.failed {
		if c.failedOrRests(r) {
			c.takeOut(r)
		}
	}
	return c
}

func (c *choice) takeOut(r intent.VersionName) {
	if place, _ := c.catalogue.place(r); place != nowhere {
		c.out[place] = true
	}
}

// failedOrRests reports whether no attempt may be made with a version now.
func (c *choice) failedOrRests(r intent.VersionName) bool {
	failure, ok := c.marks.failed[r]
	return ok && (failure.Attempts >= c.environment.attempts || c.decider.facts.Now.Before(failure.Last.Add(c.environment.retry)))
}

// isBad reports whether a version must not be what the environment has.
func (c *choice) isBad(r intent.VersionName) bool {
	_, marked := c.marks.bad[r]
	return marked || c.failedOrRests(r)
}

// decide what the environment should have, and whether it can be given it now.
func (c *choice) decide() Outcome {
	o := Outcome{Has: c.has, Wants: c.has}
	o.Wants, o.Why, o.Hold = c.target()
	if o.Questions = c.questions; c.queues() {
		slices.Reverse(o.Questions)
	}
	o.Back = o.Why == AskedBack || o.Why == WentBack || o.Why == FollowsRollout
	if c.environment.isTask() && o.Why == LetIn {
		o.Run = c.demandFor(c.at, o.Wants)
	}
	if o.Wants != c.has || o.Run != nil {
		if hold := c.hold(); hold != NoHold {
			o.Hold = hold
		}
		o.Edit = o.Hold == NoHold
	}
	if o.Wants == c.has && c.current != nil && !c.current.GoodSince.IsZero() && !c.facts.Rollout && !c.facts.Verifying && !c.isBad(c.has) {
		for _, name := range c.environment.spec.GetVerify() {
			if c.index.verification(c.environment, name, c.current) == nil {
				o.Verify = append(o.Verify, name)
			}
		}
	}
	return o
}

// hold is why the environment takes no edit now. Of several it is the one that a person ends.
func (c *choice) hold() Hold {
	switch {
	case c.marks.pauseAll != nil || c.marks.pauseOwn != nil:
		return HeldByPause
	case c.facts.Trouble != 0:
		return HeldByTrouble
	case !c.facts.EditedAt.IsZero() && !c.marks.acted.After(c.facts.EditedAt):
		return HeldByEdit
	case c.facts.Rollout:
		return HeldByRollout
	case c.facts.Verifying:
		return HeldByVerification
	}
	return NoHold
}

// target is what the environment should have, in the order of what overrides what.
func (c *choice) target() (wants intent.VersionName, why Why, hold Hold) {
	if c.environment.isTask() {
		return c.taskTarget()
	}
	if back, ok := c.afterRollout(); ok {
		return back, FollowsRollout, NoHold
	}
	if c.marks.pin != nil {
		return c.pinned(c.marks.pin.VersionName)
	}
	if back := c.marks.back; back != nil {
		return c.goBack(back.VersionName, AskedBack)
	}
	if place, ok := c.candidate(); ok {
		return c.catalogue.versions[place].VersionName(), LetIn, NoHold
	}
	if c.current != nil && c.isBad(c.has) && c.environment.spec.GetOnBad() == intentpb.DeliveryEnvironment_ON_BAD_GO_BACK {
		return c.lastGood()
	}
	if c.current != nil && !c.isOrdered && !c.marks.hasFloor {
		return c.has, Keeps, HeldByOrder
	}
	return c.has, Keeps, NoHold
}

// afterRollout is what a rollout went back to, while the field still holds what it found bad: one
// goes back, not two, so the field is set to what pins hold already, and nothing is pushed.
func (c *choice) afterRollout() (back intent.VersionName, ok bool) {
	if c.current == nil || c.marks.bad[c.has].Cause != RolloutBad {
		return back, false
	}
	for i := len(c.facts.Vetoes) - 1; i >= 0; i-- {
		veto := &c.facts.Vetoes[i]
		if veto.VersionName == c.has && veto.BackTo != (intent.VersionName{}) && veto.BackTo != c.has && !veto.At.Before(c.current.Start) {
			return veto.BackTo, true
		}
	}
	return back, false
}

// pinned: a version that was good here comes back as one goes back; another must be let in, as
// without a pin, unless it is forced.
func (c *choice) pinned(r intent.VersionName) (wants intent.VersionName, why Why, hold Hold) {
	place, ok := c.catalogue.place(r)
	switch {
	case !ok || c.isBad(r) || c.catalogue.isWithdrawn(place) && r != c.has:
		return c.has, Keeps, HeldByBadPin
	case r == c.has:
		return c.has, Pinned, NoHold
	}
	if stint := c.stint(c.at, r, place); stint != nil && stint.good {
		return c.goBack(r, Pinned)
	}
	if !c.letIn(r, place, false) {
		return c.has, Keeps, HeldByConstraint
	}
	return r, Pinned, NoHold
}

// goBack to a version, which constraints hold that say so.
func (c *choice) goBack(r intent.VersionName, why Why) (intent.VersionName, Why, Hold) {
	place, _ := c.catalogue.place(r)
	stint := c.stint(c.at, r, place)
	if stint == nil || !stint.good || c.isBad(r) || c.catalogue.isWithdrawn(place) || !c.letIn(r, place, true) {
		return c.has, Keeps, HeldByConstraint
	}
	return r, why, NoHold
}

// lastGood is the version that was good here last, and may come again.
func (c *choice) lastGood() (wants intent.VersionName, why Why, hold Hold) {
	for i := len(c.facts.Stays) - 2; i >= 0; i-- {
		stay := &c.facts.Stays[i]
		place, _ := c.catalogue.place(stay.VersionName)
		if stay.VersionName == c.has || !stay.good() || c.isBad(stay.VersionName) || c.catalogue.isWithdrawn(place) {
			continue
		}
		if c.letIn(stay.VersionName, place, true) {
			return stay.VersionName, WentBack, NoHold
		}
	}
	return c.has, Keeps, HeldForNothingGood
}

// letIn reports whether all constraints let a version in; of what goes back, lists of denied
// versions and those that say so.
func (c *choice) letIn(r intent.VersionName, place int, back bool) bool {
	for number := range c.environment.constraints[:c.judged] {
		spec := c.environment.constraints[number].spec
		if back && !spec.GetRollbacks() && spec.GetDeny() == nil {
			continue
		}
		if c.judge(c.at, number, r, place).Status != Passes {
			c.addQuestion(number, r)
			return false
		}
	}
	return true
}

// oldest is the place of the oldest candidate; ok: there are candidates. It is newer than what
// the environment has, and no older than the newest that it had: what was passed by once does
// not come because what passed it by was bad. A person says otherwise by SkipTo.
func (c *choice) oldest() (place int, ok bool) {
	switch {
	case c.environment.isTask():
		return 0, true
	case c.current == nil:
		return max(0, c.marks.floor), true
	case !c.isOrdered:
		return c.marks.floor, c.marks.hasFloor && c.marks.floor != nowhere
	}
	return max(c.nextPlace, c.marks.floor, c.newestSince()), true
}

// newestSince is the place of the newest that the environment had since a person said where
// candidates begin, or ever.
func (c *choice) newestSince() int {
	newest := nowhere
	for i := range c.facts.Stays {
		stay := &c.facts.Stays[i]
		place, _ := c.catalogue.place(stay.VersionName)
		if place > newest && !stay.Start.Before(c.marks.floorAt) {
			newest = place
		}
	}
	return newest
}

// candidate is the place of the version that comes next; ok: there is one.
func (c *choice) candidate() (place int, ok bool) {
	oldest, ok := c.oldest()
	if !ok {
		return 0, false
	}
	for place := range c.possible(oldest) {
		version := &c.catalogue.versions[place]
		if c.out[place] || version.Withdrawn || !c.letIn(version.VersionName(), place, false) {
			continue
		}
		c.passing = append(c.passing, place)
		if c.isImmediate(version.VersionName()) {
			return place, true
		}
	}
	if len(c.passing) == 0 || c.current != nil && c.current.GoodSince.IsZero() && !c.isBad(c.has) {
		return 0, false
	}
	return slices.Min(c.passing), true
}

// possible are the places from one on that may be let in, the newest first. Where a constraint
// lets in only what somebody has said something of, or what another environment had, these are
// all there are: thousands of versions wait for few. Below a constraint that asks, nobody may have
// said anything yet of what is to be asked about.
func (c *choice) possible(oldest int) iter.Seq[int] {
	for number := range c.environment.constraints[:c.judged] {
		if c.environment.constraints[number].spec.GetAsked() != nil {
			break
		}
		if versions, ok := c.spoken(number); ok {
			var places []int
			for _, r := range versions {
				if place, _ := c.catalogue.place(r); place >= oldest {
					places = append(places, place)
				}
			}
			slices.Sort(places)
			places = slices.Compact(places)
			slices.Reverse(places)
			return slices.Values(places)
		}
	}
	return func(yield func(int) bool) {
		for place := len(c.catalogue.versions) - 1; place >= oldest; place-- {
			if !yield(place) {
				return
			}
		}
	}
}

// spoken are the versions of which a constraint can let any in; ok: it is of a kind that lets in
// no others.
func (c *choice) spoken(number int) (versions []intent.VersionName, ok bool) {
	one := &c.environment.constraints[number]
	switch one.spec.GetKind().(type) {
	case *intentpb.DeliveryConstraint_Judgement, *intentpb.DeliveryConstraint_Outside:
	case *intentpb.DeliveryConstraint_Released:
		versions = slices.AppendSeq(versions, maps.Keys(c.index.releases))
	case *intentpb.DeliveryConstraint_DependsOn, *intentpb.DeliveryConstraint_Soak, *intentpb.DeliveryConstraint_Completed:
		for _, on := range one.environments {
			for i := range c.stints[on] {
				versions = append(versions, c.stints[on][i].version)
			}
		}
	default:
		return nil, false
	}
	versions = append(versions, c.index.named[[2]string{c.environment.spec.GetName(), one.spec.GetName()}]...)
	if one.spec.GetPassedByHotfix() {
		versions = slices.AppendSeq(versions, maps.Keys(c.index.hotfixes))
	}
	return versions, true
}
