package promotion

import (
	"slices"
	"strings"
	"time"

	intentpb "lehr.dev/gen/lehr/intent/v1"
	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/intent"
)

// ReleasedConstraint is the name of the constraint by which an application of a line of releases takes what
// releases bring.
const ReleasedConstraint = "release"

// Release is a set of versions, one each of some applications of a line, that go out together. Where an
// application is in several releases at once, each of its environments takes them by the rules of Line.
type Release struct {
	// Number in the line, from 1; a later release has a higher one.
	Number int
	// Versions by application, as PARTITION/APPLICATION.
	Versions map[string]intent.VersionName
	// Immediate: an environment takes it before older ones, also while another is under way. Else it is a
	// train: the environment takes it after the older ones that are let in.
	Immediate bool
	By        string
	Reason    string
	At        time.Time
	// Held: no environment takes it, nor a later train of its applications; nil: it is not held.
	Held *ReleaseAct
	// Aborted: no environment takes it, and those that have it go back; nil: it is not aborted.
	Aborted *ReleaseAct
	// Skipped by environments, which never take it; of the empty one, by all that have not taken it.
	Skipped map[string]*ReleaseAct
}

// ReleaseAct is what a person asked about a release.
type ReleaseAct struct {
	By, Reason string
	At         time.Time
}

// skippedIn is what skips the release in an environment; nil: nothing does.
func (r *Release) skippedIn(environment string) *ReleaseAct {
	if act := r.Skipped[environment]; act != nil {
		return act
	}
	return r.Skipped[""]
}

// Line is a line of releases, as facts for its applications. What an environment should have follows from all
// releases at once, so that one release is the simple case. Whoever asks owns it; nothing here changes it.
type Line struct {
	// Releases in the order in which they were made.
	Releases []Release
	Order    []ReleaseOrder
	// Members are applications for which others wait, by PARTITION/APPLICATION. One that is missing cannot be
	// read, and those that wait for it go on waiting.
	Members map[string]*Member
}

// ReleaseOrder has one application of a release wait for another one.
type ReleaseOrder struct {
	First, Then string
	// Whole: until the first is good in all of its environments; else, in the environment of the same name.
	Whole bool
}

// CheckOrder refuses applications of a line that wait for each other: a release of them would never begin. Its
// error is Invalid.
func CheckOrder(line *intentpb.ReleaseLine) error {
	waits := map[string][]string{}
	for _, order := range line.GetOrder() {
		for _, then := range order.GetThen() {
			waits[then] = append(waits[then], order.GetFirst())
		}
	}
	var path []string
	done := map[string]bool{}
	var visit func(name string) error
	visit = func(name string) error {
		if at := slices.Index(path, name); at >= 0 {
			return fault.New(fault.Invalid, "applications wait for each other in a circle: %s", strings.Join(append(slices.Clip(path[at:]), name), " -> ")).
				WithHint("take one of these orders out")
		}
		if done[name] {
			return nil
		}
		path = append(path, name)
		for _, first := range waits[name] {
			if err := visit(first); err != nil {
				return err
			}
		}
		path, done[name] = path[:len(path)-1], true
		return nil
	}
	for _, name := range line.GetApplications() {
		if err := visit(name); err != nil {
			return err
		}
	}
	return nil
}

// Member is an application of a line for which others wait. It is not safe for concurrent use: it keeps what
// follows from its facts.
type Member struct {
	Application *Application
	Catalogue   *Catalogue
	Facts       *Facts

	decider  *decider
	decision *Decision
}

func (m *Member) makeDecision() *Decision {
	if m.decision == nil {
		m.decision = m.Application.Decide(m.Catalogue, m.Facts)
		m.decider = &m.decision.decider
	}
	return m.decision
}

// makeDecider returns what the member's environments had, without a decision.
func (m *Member) makeDecider() *decider {
	if m.decider == nil {
		m.decider = m.Application.gatherAll(m.Catalogue, m.Facts)
	}
	return m.decider
}

// WithReleases are the facts as they would be with other releases of the line. What they share is not changed.
func (f *Facts) WithReleases(releases []Release) *Facts {
	if f.Line == nil {
		return f
	}
	line := &Line{Releases: releases, Order: f.Line.Order, Members: make(map[string]*Member, len(f.Line.Members))}
	for name, member := range f.Line.Members {
		if member != nil {
			facts := *member.Facts
			facts.Line = line
			member = &Member{Application: member.Application, Catalogue: member.Catalogue, Facts: &facts}
		}
		line.Members[name] = member
	}
	changed := *f
	changed.Line = line
	return &changed
}

// isReleased reports whether the versions of an application come by releases.
func (a *Application) isReleased() bool { return a.spec.GetReleases() != "" }

// indexReleases by the versions that they bring to the application.
func (x *index) indexReleases(f *Facts) {
	if f.Line == nil {
		return
	}
	x.releases = map[intent.VersionName][]*Release{}
	for _, order := range f.Line.Order {
		if order.Then == f.Member {
			x.firsts = append(x.firsts, order)
		}
	}
	for i := range f.Line.Releases {
		release := &f.Line.Releases[i]
		if version, ok := release.Versions[f.Member]; ok {
			x.releases[version] = append(x.releases[version], release)
		}
	}
}

// markAborted marks versions bad that only aborted releases bring.
func (x *index) markAborted(bad map[intent.VersionName]Mark) {
	for version, releases := range x.releases {
		var last *ReleaseAct
		for _, release := range releases {
			if release.Aborted == nil {
				last = nil
				break
			}
			if last == nil || release.Aborted.At.After(last.At) {
				last = release.Aborted
			}
		}
		if last != nil {
			bad[version] = Mark{ReleaseAborted, last.By, last.At}
		}
	}
}

// isImmediate reports whether an environment takes a version that is let in before older ones.
func (c *choice) isImmediate(r intent.VersionName) bool {
	if !c.app.isReleased() {
		return c.environment.spec.GetNewer() != intentpb.DeliveryEnvironment_NEWER_QUEUES
	}
	return slices.ContainsFunc(c.index.releases[r], func(release *Release) bool {
		return release.Immediate && release.Aborted == nil && release.Held == nil && release.skippedIn(c.environment.spec.GetName()) == nil
	})
}

// queues reports whether an environment takes the oldest of several versions that are let in.
func (c *choice) queues() bool {
	return c.app.isReleased() || c.environment.spec.GetNewer() == intentpb.DeliveryEnvironment_NEWER_QUEUES
}

// isSkipped reports whether each release that brings a version is skipped in the environment, or aborted.
func (c *choice) isSkipped(r intent.VersionName) bool {
	return !slices.ContainsFunc(c.index.releases[r], func(release *Release) bool {
		return release.Aborted == nil && release.skippedIn(c.environment.spec.GetName()) == nil
	})
}

// judgeReleased says what the releases that bring a version say of it: the one that is nearest to letting it in.
func (d *decider) judgeReleased(at int, r intent.VersionName, place int) Verdict {
	if d.facts.Line == nil {
		return Verdict{Status: Waits, Cause: LineUnreadable, Reason: d.app.spec.GetReleases()}
	}
	nearest := Verdict{Status: Refuses, Cause: NotReleased}
	for i, release := range d.index.releases[r] {
		v := d.judgeInRelease(at, release, place)
		if v.Release = release.Number; i == 0 || v.Status > nearest.Status {
			nearest = v
		}
	}
	return nearest
}

func (d *decider) judgeInRelease(at int, release *Release, place int) Verdict {
	environment := d.app.environments[at].spec.GetName()
	if act := release.Aborted; act != nil {
		return Verdict{Status: Refuses, Cause: InAborted, By: act.By, Reason: act.Reason}
	}
	if act := release.skippedIn(environment); act != nil {
		return Verdict{Status: Refuses, Cause: InSkipped, By: act.By, Reason: act.Reason}
	}
	if act := release.Held; act != nil {
		return Verdict{Status: Waits, Cause: InHeld, By: act.By, Reason: act.Reason}
	}
	if held := d.findHeldBefore(at, release, place); held != nil {
		return Verdict{Status: Waits, Cause: BehindHeld, By: held.Held.By, Reason: held.Held.Reason, Have: held.Number}
	}
	return d.judgeOrder(environment, release)
}

// findHeldBefore returns a held release before a train, which the environment has not passed; nil: there is none.
func (d *decider) findHeldBefore(at int, train *Release, place int) *Release {
	if train.Immediate {
		return nil
	}
	passed := d.newestPlace(at)
	for i := range d.facts.Line.Releases {
		earlier := &d.facts.Line.Releases[i]
		if earlier.Number >= train.Number {
			return nil
		}
		version, ok := earlier.Versions[d.facts.Member]
		if !ok || earlier.Held == nil || earlier.Aborted != nil || earlier.skippedIn(d.app.environments[at].spec.GetName()) != nil {
			continue
		}
		_, isBad := d.index.marks[at].bad[version]
		if held, _ := d.catalogue.place(version); held > passed && held < place && !isBad {
			return earlier
		}
	}
	return nil
}

// newestPlace is the place of the newest version that an environment had; nowhere: it had none.
func (d *decider) newestPlace(at int) int {
	newest := nowhere
	for i := range d.stints[at] {
		place, _ := d.catalogue.place(d.stints[at][i].version)
		newest = max(newest, place)
	}
	return newest
}

// judgeOrder says whether the applications that go first in a release have come far enough.
func (d *decider) judgeOrder(environment string, release *Release) Verdict {
	worst := met()
	for _, rule := range d.index.firsts {
		version, ok := release.Versions[rule.First]
		if !ok {
			continue
		}
		v := d.facts.Line.judgeReached(rule, version, environment)
		v.Application = rule.First
		if v.Status < worst.Status {
			worst = v
		}
		d.waitsForFirst = d.waitsForFirst || v.Status == Waits
	}
	return worst
}

// judgeReached says whether the application that goes first is good with its version, or with a newer one.
func (l *Line) judgeReached(rule ReleaseOrder, version intent.VersionName, environment string) Verdict {
	member := l.Members[rule.First]
	if member == nil {
		return Verdict{Status: Waits, Cause: FirstUnreadable, Environment: environment}
	}
	worst := met()
	for _, at := range member.awaitedEnvironments(rule, environment) {
		if v := member.makeDecider().judgeReached(at, version); v.Status < worst.Status {
			worst = v
		}
	}
	return worst
}

// awaitedEnvironments are the environments of the member in which another application waits for it.
func (m *Member) awaitedEnvironments(rule ReleaseOrder, environment string) (list []int) {
	for at := range m.Application.environments {
		if m.Application.IsTask(at) {
			continue
		}
		if rule.Whole || m.Application.environments[at].spec.GetName() == environment {
			list = append(list, at)
		}
	}
	return list
}

// judgeReached says whether an environment has a version or a newer one, and is good with it.
func (d *decider) judgeReached(at int, r intent.VersionName) Verdict {
	place, _ := d.catalogue.place(r)
	v := d.wellWith(at, r, place, 0)
	v.Version = r.Name
	stays := d.staysOf(at)
	if len(stays) == 0 {
		return v
	}
	has := stays[len(stays)-1].VersionName
	current, _ := d.catalogue.place(has)
	if v.Status != Passes && has != r && current > place && place != nowhere {
		if newer := d.wellWith(at, has, current, 0); newer.Status == Passes {
			return newer
		}
	}
	if failure, ok := d.index.marks[at].failed[r]; ok && v.Status == Waits && failure.Attempts >= d.app.environments[at].attempts {
		v.Status, v.Cause = Refuses, FailedThere
	}
	if v.Status == Passes && has != r && current <= place {
		v.Status, v.Cause = Waits, WentBackThere
	}
	return v
}

// judgeLag is that of the environment which is furthest behind.
func (d *decider) judgeLag(at int, c *constraint, spec *intentpb.VersionLag, place int) (worst Verdict) {
	if len(c.empty) > 0 {
		return nothingSelected(c.empty)
	}
	worst = met()
	for _, behind := range c.environments {
		if behind == at {
			continue
		}
		v := Verdict{Status: Passes, Cause: Met, Environment: d.app.environments[behind].spec.GetName(), Needs: int(spec.GetAtMost())}
		if v.Have = d.countAhead(at, behind, place); v.Have > v.Needs {
			v.Status, v.Cause = Waits, TooFarAhead
		}
		if v.Status < worst.Status || v.Status == worst.Status && v.Have > worst.Have {
			worst = v
		}
	}
	return worst
}

// countAhead says how many versions an environment would be ahead of another one: those after what that one has which
// may still come there. A version that cannot be compared is behind all.
func (d *decider) countAhead(at, behind, place int) (count int) {
	stays := d.staysOf(behind)
	last := nowhere
	if len(stays) > 0 {
		last, _ = d.catalogue.place(stays[len(stays)-1].VersionName)
	}
	for q := last + 1; q <= place; q++ {
		if q == place || d.mayCome(at, behind, q) {
			count++
		}
	}
	return count
}

// mayCome reports whether the version of a place may still come to an environment, by way of another one.
func (d *decider) mayCome(through, to, place int) bool {
	r := d.catalogue.versions[place].VersionName()
	if d.catalogue.versions[place].Withdrawn {
		return false
	}
	for _, at := range []int{through, to} {
		if _, ok := d.index.marks[at].bad[r]; ok {
			return false
		}
		if failure, ok := d.index.marks[at].failed[r]; ok && failure.Attempts >= d.app.environments[at].attempts {
			return false
		}
	}
	return !d.app.isReleased() || slices.ContainsFunc(d.index.releases[r], func(release *Release) bool {
		return release.Aborted == nil && release.skippedIn(d.app.environments[to].spec.GetName()) == nil
	})
}

// estimateReleased says when the releases that bring a version let it in at the earliest; ok: they can.
func (s *estimator) estimateReleased(at int, v Verdict, r intent.VersionName, answer *Estimate) (moment time.Time, ok bool) {
	moment = s.facts.Now
	if v.Cause == InHeld || v.Cause == BehindHeld {
		answer.Awaits = append(answer.Awaits, Awaited{s.app.environments[at].spec.GetName(), ReleasedConstraint})
		return moment, true
	}
	if v.Status == Refuses || v.Cause == LineUnreadable || v.Cause == FirstUnreadable {
		return moment, false
	}
	for _, release := range s.index.releases[r] {
		if release.Number == v.Release {
			return s.estimateFirsts(at, release, answer)
		}
	}
	return moment, true
}

// estimateFirsts says when the applications that go first in a release can be there.
func (s *estimator) estimateFirsts(at int, release *Release, answer *Estimate) (moment time.Time, ok bool) {
	moment = s.facts.Now
	environment := s.app.environments[at].spec.GetName()
	for _, rule := range s.index.firsts {
		version, ok := release.Versions[rule.First]
		if member := s.facts.Line.Members[rule.First]; ok && member != nil {
			for _, on := range member.awaitedEnvironments(rule, environment) {
				if member.makeDecider().judgeReached(on, version).Status == Passes {
					continue
				}
				place, _ := member.Catalogue.place(version)
				there := newEstimator(member.makeDecision()).estimate(on, place, version)
				if there.At.IsZero() {
					return moment, false
				}
				moment = later(moment, there.At)
				answer.Awaits = append(answer.Awaits, there.Awaits...)
			}
		}
	}
	return moment, true
}

// estimateLag says when the environments behind can have come near enough.
func (s *estimator) estimateLag(at, number, place int, answer *Estimate) (moment time.Time, ok bool) {
	moment = s.facts.Now
	c := &s.app.environments[at].constraints[number]
	most := int(c.spec.GetLag().GetAtMost())
	for _, behind := range c.environments {
		if behind == at || s.countAhead(at, behind, place) <= most {
			continue
		}
		next, ok := s.findNearEnough(at, behind, place, most)
		if !ok {
			return moment, false
		}
		there := s.estimate(behind, next, s.catalogue.versions[next].VersionName())
		if there.At.IsZero() {
			return moment, false
		}
		moment = later(moment, there.At)
		answer.Awaits = append(answer.Awaits, there.Awaits...)
	}
	return moment, true
}

// findNearEnough returns the place of the oldest version with which an environment would be behind another one by no
// more than so many; ok: there is one.
func (d *decider) findNearEnough(at, behind, place, most int) (oldest int, ok bool) {
	left := 0
	for oldest = place; oldest >= 0; oldest-- {
		if oldest != place && !d.mayCome(at, behind, oldest) {
			continue
		}
		if left == most {
			return oldest, true
		}
		left++
	}
	return 0, false
}

// TrainOf returns the train that is in an environment which has what a stay says; nil: no train is. A train is in the
// environment from when its version came until all is good with that version. A version that came by going back, or by
// an immediate release, is no train.
func (f *Facts) TrainOf(stay Stay) (train *Release) {
	if f.Line == nil || stay.Back || stay.good() {
		return nil
	}
	for i := range f.Line.Releases {
		release := &f.Line.Releases[i]
		if version, ok := release.Versions[f.Member]; !ok || release.Aborted != nil || version != stay.VersionName {
			continue
		}
		if release.Immediate {
			return nil
		}
		train = release
	}
	return train
}
