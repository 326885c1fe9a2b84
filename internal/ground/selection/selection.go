// Package selection says which assets a rollout lets go on now: some, or none,
// and then what it waits for. It is pure: it takes what is known and the time,
// keeps nothing between two questions, and so goes on after a restart, and when
// assets appear, vanish, or are right already.
package selection

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"lehr.dev/internal/ground/intent"
)

// Policy is how a rollout goes. An asset belongs to the first stage that wants
// it; one that no stage wants is never let go on.
type Policy struct {
	Stages []Stage
}

// Stage is a part of the assets, and how they follow each other. It begins when
// all assets of the stages before it are done.
type Stage struct {
	Name string
	// Wants says which assets belong to it; nil: all that are left.
	Wants func(Target) bool
	// By groups its assets, as by the value of a scope or a label; nil: they are
	// one group. Order lists groups that come first, in that order; the others
	// follow by name.
	By    func(Target) string
	Order []string
	// Parallel is how many groups may be under way at a time; 0: one.
	Parallel int
	// Wave is how many of a group go on at a time.
	Wave Wave
	// Most is how many of the stage may be under way at a time, over all groups;
	// 0: as many as their waves.
	Most int
	// Delay is the pause after what came before is done: the wave before it of its
	// group, or else the newest group or the stage before.
	Delay time.Duration
	// Soak is how long an asset must have been healthy, since it was seen in sync
	// after its push, to be done.
	Soak time.Duration
	// Open says whether assets may be let go on at a time, and if not when that
	// changes (zero: not known to); nil: always.
	Open func(now time.Time) (open bool, next time.Time)
	// Judged is how long what judges the stage takes at least, since the last of it arrived:
	// a Forecast heeds it. Who judges says so by Gate.
	Judged time.Duration
	// Held says for what it waits before any of its assets goes on, when the stages before it are
	// done; empty: for nothing. Skip ends that.
	Held string
	// Gate says for what the stages after it wait when all of its assets are done;
	// empty: for nothing.
	Gate string
	// Plugin says which of its targets go on, if it has a name: others are Blocked by
	// whoever asks it.
	Plugin string
	// Reverse has what usually comes last come first: groups, and assets of a wave.
	Reverse bool
	// Skip: a person waits for it no longer. All of its assets go on, and the stages
	// after it do not wait for it.
	Skip bool
}

// Wave is how many of a group go on at a time, until those are done.
type Wave struct {
	// Count is that many; with Percent and Factor 0 too, all at once.
	Count int
	// Percent of the group, rounded up, 0 to 100.
	Percent float64
	// Factor by which the number of those that have gone on grows with each wave,
	// over 1; the first wave is Count, or one.
	Factor float64
}

// Target is an asset that a rollout governs, as far as it is known.
type Target struct {
	Asset  intent.AssetID
	Type   intent.TypeName
	Scopes map[string]string
	Labels map[string]string
	// Stage that it belongs to, the one in an emergency, and the one by which it goes
	// back, for Wants; empty: none, or Wants tells by the rest.
	Stage, Emergency, Rollback string
	// Selected: the rollout let it go on already.
	Selected bool
	// InSync: it is what the rollout makes of it, seen so after its push. Healthy
	// is for how long it was healthy since then; Well, that it is so now.
	InSync  bool
	Healthy time.Duration
	Well    bool
	// Unproven: what it has, an earlier run let it go on to, and nobody knows that it
	// is good; Healthy and Well are of that. Until it soaked it counts as one of those
	// under way, so others of its stage wait until it goes on.
	Unproven bool
	// Bad says that what it has was judged bad; empty: it was not.
	Bad string
	// Blocked says why it cannot go on now, of itself; empty: it can. Others of
	// its wave are let go on in its place.
	Blocked string
}

// Choice is what a rollout does now.
type Choice struct {
	// Assets may go on now, in this order.
	Assets []intent.AssetID
	// Stages are all of them, in order, with what each waits for.
	Stages []Status
	// Next is when time alone changes the choice, at the earliest; zero: never.
	Next time.Time
	// Unwanted are the assets that belong to no stage.
	Unwanted []intent.AssetID
	// Done: all that belong to a stage are done.
	Done bool
}

// Status of a stage.
type Status struct {
	Name string
	// Of Total assets so many were let go on, and so many of those are done.
	Total, Selected, Done int
	// Waits says for what, in words; empty: it is done, lets assets go on now, or
	// there are none.
	Waits string
	// For are the assets it waits for.
	For []intent.AssetID
	// Held: it waits for what Stage.Held says.
	Held bool
}

// isDone reports whether an asset has gone through the stage.
func (s *Stage) isDone(t Target) bool { return t.InSync && t.Well && t.Healthy >= s.Soak }

// Choose says which assets may go on now. Its answer depends on nothing but what
// it is given, and not on the order of the targets.
func Choose(p Policy, targets []Target, now time.Time) Choice {
	members, unwanted := p.parts(targets)
	choice := Choice{Unwanted: unwanted, Done: true}
	ready, allDone := true, true // all before need not be waited for, or are done
	var previous []Target        // the last stage that had any
	var soaked *Stage            // and that stage
	for i := range p.Stages {
		stage := &p.Stages[i]
		chooser := chooser{Stage: stage, now: now, members: members[i], status: Status{Name: stage.Name, Total: len(members[i])}}
		chooser.count()
		switch {
		case chooser.status.Done == chooser.status.Total:
			if chooser.status.Total > 0 && !stage.Skip {
				chooser.status.Waits = stage.Gate
			}
		case stage.Skip:
			choice.Assets = append(choice.Assets, chooser.all()...)
		case !ready:
			chooser.status.Waits = "for the stages before it"
		case stage.Held != "":
			chooser.status.Waits, chooser.status.Held = stage.Held, true
		default:
			chooser.choose(settled(soaked, previous))
			choice.Assets = append(choice.Assets, chooser.chosen...)
			choice.Next = chooser.next
		}
		allDone = allDone && chooser.status.Done == chooser.status.Total && (chooser.status.Waits == "" || stage.Skip)
		ready = ready && (stage.Skip || chooser.status.Done == chooser.status.Total && chooser.status.Waits == "")
		if len(members[i]) > 0 {
			previous, soaked = members[i], stage
		}
		choice.Stages = append(choice.Stages, chooser.status)
	}
	choice.Done = allDone
	return choice
}

// parts deals the targets out to the stages, each in the order of the ids.
func (p Policy) parts(targets []Target) (members [][]Target, unwanted []intent.AssetID) {
	members = make([][]Target, len(p.Stages))
	for _, t := range slices.SortedFunc(slices.Values(targets), func(a, b Target) int { return cmp.Compare(a.Asset, b.Asset) }) {
		at := slices.IndexFunc(p.Stages, func(s Stage) bool { return s.Wants == nil || s.Wants(t) })
		if at < 0 {
			unwanted = append(unwanted, t.Asset)
			continue
		}
		members[at] = append(members[at], t)
	}
	for i, s := range p.Stages {
		if s.Reverse {
			slices.Reverse(members[i])
		}
	}
	return members, unwanted
}

// settled is for how long all of a stage's assets have been done; of none, for
// ever.
func settled(stage *Stage, members []Target) time.Duration {
	least := forever
	for _, t := range members {
		least = min(least, t.Healthy-stage.Soak)
	}
	return least
}

const forever = time.Duration(1<<63 - 1)

// group is a part of a stage.
type group struct {
	name    string
	members []Target
}

// groups of the stage, in the order in which they go on: those that are done, those
// under way, also where the order was another then, and those of what is unproven
// come before the others.
func (s *Stage) groups(members []Target) (groups []*group) {
	named := map[string]*group{}
	for _, t := range members {
		name := ""
		if s.By != nil {
			name = s.By(t)
		}
		if named[name] == nil {
			named[name] = &group{name: name}
			groups = append(groups, named[name])
		}
		named[name].members = append(named[name].members, t)
	}
	rank := func(g *group) int {
		if at := slices.Index(s.Order, g.name); at >= 0 {
			return at
		}
		return len(s.Order)
	}
	slices.SortFunc(groups, func(a, b *group) int {
		order := cmp.Or(cmp.Compare(rank(a), rank(b)), strings.Compare(a.name, b.name))
		if s.Reverse {
			order = -order
		}
		return cmp.Or(cmp.Compare(s.turn(a), s.turn(b)), order)
	})
	return groups
}

// turn orders groups by how far they are.
func (s *Stage) turn(g *group) int {
	remaining := slices.DeleteFunc(slices.Clone(g.members), s.isDone)
	switch {
	case len(remaining) == 0:
		return 0
	case slices.ContainsFunc(remaining, s.underWay):
		return 1
	case slices.ContainsFunc(remaining, s.unproven):
		return 2
	}
	return 3
}

// underWay: it was let go on and is not done.
func (s *Stage) underWay(t Target) bool { return (t.Selected || t.InSync) && !s.isDone(t) }

// unproven: it must go on before others do.
func (s *Stage) unproven(t Target) bool {
	return t.Unproven && !t.Selected && !t.InSync && !(t.Well && t.Healthy >= s.Soak)
}

// proof orders what is unproven: the least goes on first.
func (t Target) proof() time.Duration {
	if !t.Well {
		return -1
	}
	return t.Healthy
}

// size is how many of a group go on next, where so many have before.
func (w Wave) size(total, selected int) int {
	switch {
	case w.Factor > 1 && selected > 0:
		return max(1, int(float64(selected)*(w.Factor-1)))
	case w.Factor > 1:
		return max(1, w.Count)
	case w.Percent > 0:
		return max(1, ceil(float64(total)*w.Percent/100))
	case w.Count > 0:
		return w.Count
	}
	return total
}

func ceil(f float64) int {
	n := int(f)
	if float64(n) < f {
		n++
	}
	return n
}

// chooser looks at one stage that may go on.
type chooser struct {
	*Stage
	now     time.Time
	members []Target
	status  Status
	chosen  []intent.AssetID
	next    time.Time
}

func (c *chooser) count() {
	for _, t := range c.members {
		if t.Selected || t.InSync {
			c.status.Selected++
		}
		if c.isDone(t) {
			c.status.Done++
		}
	}
}

// all that may go on of a stage that is not waited for.
func (c *chooser) all() (chosen []intent.AssetID) {
	var blocked []Target
	for _, t := range c.members {
		switch {
		case t.Selected || t.InSync:
		case t.Blocked != "":
			blocked = append(blocked, t)
		default:
			chosen = append(chosen, t.Asset)
		}
	}
	running := c.underWay(c.members)
	switch {
	case len(chosen) > 0:
	case len(running) > 0:
		c.waitsFor(running)
	default:
		c.waitsForBlocked(blocked)
	}
	return chosen
}

// choose lets assets of the stage go on. What came before it has been done for so
// long.
func (c *chooser) choose(elapsed time.Duration) {
	parallel, underWay := max(1, c.Parallel), c.underWay(c.members)
	room := len(c.members)
	if c.Most > 0 {
		room = c.Most - len(underWay)
	}
	for _, g := range c.groups(c.members) {
		if !slices.ContainsFunc(g.members, func(t Target) bool { return !c.isDone(t) }) {
			elapsed = min(elapsed, settled(c.Stage, g.members))
			continue
		}
		if parallel == 0 {
			break
		}
		parallel--
		room -= c.wave(g, elapsed, room)
	}
	if len(c.chosen) > 0 {
		c.status.Waits, c.status.For = "", nil
	}
}

// underWay are those that were let go on and are not done.
func (c *chooser) underWay(members []Target) (list []Target) {
	for _, t := range members {
		if c.Stage.underWay(t) {
			list = append(list, t)
		}
	}
	return list
}

// wave lets as many of a group go on as may, and returns how many.
func (c *chooser) wave(g *group, elapsed time.Duration, room int) (chosen int) {
	if running := c.underWay(g.members); len(running) > 0 {
		c.waitsFor(running)
		return 0
	}
	var finished, remaining []Target
	for _, t := range g.members {
		if c.isDone(t) {
			finished = append(finished, t)
		} else {
			remaining = append(remaining, t)
		}
	}
	if len(finished) > 0 {
		elapsed = settled(c.Stage, finished)
	}
	if elapsed < c.Delay {
		c.waitsUntil(c.now.Add(c.Delay-elapsed), fmt.Sprintf("a pause of %s after what came before", c.Delay))
		return 0
	}
	if c.Open != nil {
		if open, next := c.Open(c.now); !open {
			c.waitsUntil(next, "for its window")
			return 0
		}
	}
	size := min(c.Wave.size(len(g.members), len(finished)), room)
	if size <= 0 {
		c.waits(fmt.Sprintf("for one of the %d that may be under way at a time", c.Most))
		return 0
	}
	if first := slices.IndexFunc(c.members, c.unproven); first >= 0 {
		if remaining = slices.DeleteFunc(remaining, func(t Target) bool { return !c.unproven(t) }); len(remaining) == 0 {
			c.status.For = append(c.status.For, c.members[first].Asset)
			c.waits(fmt.Sprintf("for %s to go on, which has what is not known to be good", c.members[first].Asset))
			return 0
		}
		slices.SortStableFunc(remaining, func(a, b Target) int { return cmp.Compare(a.proof(), b.proof()) })
	}
	var blocked []Target
	for _, t := range remaining {
		switch {
		case t.Blocked != "":
			blocked = append(blocked, t)
		case chosen < size:
			c.chosen = append(c.chosen, t.Asset)
			chosen++
		}
	}
	if chosen == 0 {
		c.waitsForBlocked(blocked)
	}
	return chosen
}

// waitsForBlocked says what keeps those that are left from going on.
func (c *chooser) waitsForBlocked(blocked []Target) {
	for _, t := range blocked {
		c.status.For = append(c.status.For, t.Asset)
	}
	c.waits(fmt.Sprintf("for %s: %s", blocked[0].Asset, blocked[0].Blocked) + andMore(len(blocked)))
}

// waitsFor says what keeps those that are under way from being done.
func (c *chooser) waitsFor(running []Target) {
	first := running[0]
	for _, t := range running {
		c.status.For = append(c.status.For, t.Asset)
		if rank(t) < rank(first) {
			first = t
		}
		if t.InSync && t.Well {
			c.noteNext(c.now.Add(c.Soak - t.Healthy))
		}
	}
	text := fmt.Sprintf("for %s to be in sync", first.Asset)
	switch {
	case first.Blocked != "" && !first.InSync:
		text = fmt.Sprintf("for %s: %s", first.Asset, first.Blocked)
	case first.InSync && !first.Well && first.Bad != "":
		text = fmt.Sprintf("for %s: %s", first.Asset, first.Bad)
	case first.InSync && !first.Well:
		text = fmt.Sprintf("for %s, which is not healthy", first.Asset)
	case first.InSync:
		text = fmt.Sprintf("for %s to be healthy for %s", first.Asset, inSeconds(c.Soak))
	}
	c.waits(text + andMore(len(running)))
}

// inSeconds is a time left, in whole seconds, for people.
func inSeconds(remaining time.Duration) time.Duration {
	return (remaining + time.Second - 1).Truncate(time.Second)
}

// rank orders those under way by how much is missing: the worst first.
func rank(t Target) int {
	switch {
	case t.InSync && !t.Well:
		return 0
	case !t.InSync && t.Blocked != "":
		return 1
	case !t.InSync:
		return 2
	}
	return 3
}

func andMore(n int) string {
	if n < 2 {
		return ""
	}
	return fmt.Sprintf(", and %d more", n-1)
}

func (c *chooser) waitsUntil(next time.Time, reason string) {
	if !next.IsZero() {
		reason += ", until " + next.UTC().Format(time.RFC3339)
	}
	c.noteNext(next)
	c.waits(reason)
}

// waits keeps the first reason that there is.
func (c *chooser) waits(reason string) { c.status.Waits = cmp.Or(c.status.Waits, reason) }

func (c *chooser) noteNext(next time.Time) {
	if !next.IsZero() && (c.next.IsZero() || next.Before(c.next)) {
		c.next = next
	}
}
