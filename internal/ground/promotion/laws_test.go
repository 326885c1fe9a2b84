package promotion

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	intentpb "lehr.dev/gen/lehr/intent/v1"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/ground/ordering"
)

// failer is a test, or one draw of a property.
type failer interface {
	Helper()
	Fatalf(format string, arguments ...any)
}

// holdLaws holds a decision to what is so of all decisions. It reads facts anew, by other means
// than those that decide.
func holdLaws(t failer, a *Application, c *Catalogue, f *Facts, d *Decision) {
	t.Helper()
	for i, name := range a.Environments() {
		o, e := d.Outcomes[i], f.Environments[name]
		if e == nil {
			e = &Environment{}
		}
		fail := func(law string) { t.Fatalf("%s: %s: %+v of %+v, acts %+v", name, law, o, *e, f.Acts) }
		if o.Edit && heldOff(f, name, e) {
			fail("it is edited while something holds it")
		}
		if o.Edit && o.Why != FollowsRollout && knownBad(a, f, name, o.Wants) {
			fail("it is given what is bad")
		}
		wants, _ := c.place(o.Wants)
		has, _ := c.place(o.Has)
		if o.Edit && wants != nowhere && o.Why != FollowsRollout && c.versions[wants].Withdrawn {
			fail("it is given what was withdrawn")
		}
		if o.Why == LetIn {
			explained, err := d.Explain(name, o.Wants)
			if err != nil || slices.ContainsFunc(explained.Verdicts, func(v Verdict) bool { return v.Status != Passes }) {
				fail("it is given what was not let in")
			}
			if wants <= has {
				fail("it is given what is older")
			}
		}
		if pin := pinOf(f, name); pin != nil && o.Wants != pin.VersionName && o.Wants != o.Has && o.Why != FollowsRollout {
			fail("it is given another than what is pinned")
		}
		holdCandidate(t, d, i)
		holdStates(t, d, i, name)
	}
}

// heldOff reports whether the environment may not be edited.
func heldOff(f *Facts, name string, e *Environment) bool {
	levels := map[string]bool{}
	var said time.Time
	for _, act := range f.Acts {
		mine := act.Environment == name || act.Environment == ""
		if mine && act.Kind == Pause {
			levels[act.Environment] = true
		}
		if mine && act.Kind == Resume {
			levels[act.Environment] = false
		}
		if act.Environment == name && slices.Contains([]ActKind{Pin, Unpin, SkipTo, RollBack, Resume}, act.Kind) {
			said = act.At
		}
	}
	return levels[""] || levels[name] || e.Rollout || e.Verifying || e.Trouble != 0 || !e.EditedAt.IsZero() && !said.After(e.EditedAt)
}

// knownBad reports whether somebody said that a version is bad in an environment, and nobody
// took it back.
func knownBad(a *Application, f *Facts, name string, r intent.VersionName) bool {
	bad := false
	if e := f.Environments[name]; e != nil {
		for _, veto := range e.Vetoes {
			bad = bad || veto.VersionName == r
		}
		for _, failure := range e.Failures {
			bad = bad || failure.VersionName == r && failure.Attempts >= defaultAttempts
		}
		for _, result := range f.Results {
			isVerification := slices.Contains(a.environments[a.byName[name]].spec.GetVerify(), result.Name)
			had := slices.ContainsFunc(e.Stays, func(s Stay) bool { return s.VersionName == r && s.Content == result.Content })
			if result.Environment == name && result.VersionName == r && isVerification && had {
				bad = !result.Good
			}
		}
	}
	for _, act := range f.Acts {
		if (act.Environment == name || act.Environment == "") && act.VersionName == r {
			switch act.Kind {
			case MarkBad:
				bad = true
			case MarkGood:
				bad = false
			}
		}
		if act.Environment == name && act.Kind == RollBack && act.Had == r {
			bad = true
		}
	}
	return bad
}

func pinOf(f *Facts, name string) (pin *Act) {
	for i, act := range f.Acts {
		if act.Environment != name {
			continue
		}
		switch act.Kind {
		case Pin:
			pin = &f.Acts[i]
		case Unpin, RollBack:
			pin = nil
		}
	}
	return pin
}

// holdCandidate: what is looked at is enough, the candidate is that of a search of all versions.
func holdCandidate(t failer, d *Decision, at int) {
	t.Helper()
	c := d.newChoice(at)
	oldest, ok := c.oldest()
	var all []int
	for place := max(0, oldest); ok && place < len(c.catalogue.versions); place++ {
		version := c.catalogue.versions[place]
		if !c.isBad(version.VersionName()) && !version.Withdrawn && c.letIn(version.VersionName(), place, false) {
			all = append(all, place)
		}
	}
	queues := c.environment.spec.GetNewer() == intentpb.DeliveryEnvironment_NEWER_QUEUES
	place, found := c.candidate()
	switch {
	case len(all) == 0 && found, !queues && len(all) > 0 && (!found || place != all[len(all)-1]), queues && found && place != all[0]:
		t.Fatalf("the candidate is %d, %t of %v", place, found, all)
	}
}

// holdStates: one version is what the environment has, and each has a state.
func holdStates(t failer, d *Decision, at int, name string) {
	t.Helper()
	there := 0
	for place, state := range d.States(at) {
		r := d.catalogue.versions[place].VersionName()
		if state == Current || state == Deploying {
			there++
			if r != d.Outcomes[at].Has {
				t.Fatalf("%s has %s, and %s is %d", name, d.Outcomes[at].Has.Name, r.Name, state)
			}
		}
		if state == 0 || state > Unordered {
			t.Fatalf("%s has no state in %s", r.Name, name)
		}
	}
	if there > 1 {
		t.Fatalf("%s has %d versions", name, there)
	}
}

// settled: an edit that was made is followed by none at the same time, so that nothing goes to
// and fro.
func settled(t failer, a *Application, c *Catalogue, f *Facts, d *Decision) {
	t.Helper()
	made := *f
	made.Environments = map[string]*Environment{}
	for i, name := range a.Environments() {
		e := &Environment{}
		if was := f.Environments[name]; was != nil {
			*e = *was
		}
		if o := d.Outcomes[i]; o.Edit {
			e.Stays = slices.Clone(e.Stays)
			if n := len(e.Stays); n > 0 {
				e.Stays[n-1].End = f.Now
			}
			e.Stays = append(e.Stays, Stay{VersionName: o.Wants, Start: f.Now, Back: o.Back, Content: "new"})
		}
		made.Environments[name] = e
	}
	next := a.Decide(c, &made)
	for i, o := range next.Outcomes {
		// What has no place passed nothing by, so what comes after it is a choice of its own.
		place, _ := c.place(d.Outcomes[i].Has)
		comparable := place != nowhere || d.Outcomes[i].Has == intent.VersionName{}
		if d.Outcomes[i].Edit && o.Edit && d.Outcomes[i].Why != FollowsRollout && comparable {
			t.Fatalf("%s is edited twice: %+v, then %+v; acts %+v, %+v", a.Environments()[i], d.Outcomes[i], o, f.Acts, *f.Environments[a.Environments()[i]])
		}
	}
}

// smallWorld is every situation of an application of two environments and three versions that
// is made of the parts below.
type smallWorld struct {
	histories []func() *Environment
	acts      [][]Act
	troubles  []func(*Environment)
	votes     [][]Vote
	results   [][]Result
}

func newSmallWorld() smallWorld {
	history := func(stays ...Stay) func() *Environment {
		return func() *Environment { return had(slices.Clone(stays)...) }
	}
	back := act(RollBack, "prod", 1, 8)
	back.Had, back.Newest = named(2), named(3)
	force := act(Force, "prod", 3, 8)
	force.Constraint = "tested"
	single := []Act{
		act(Pin, "prod", 1, 8), act(Pin, "prod", 3, 8), act(MarkBad, "", 2, 8), act(MarkBad, "prod", 3, 8), act(MarkGood, "prod", 2, 8),
		act(Pause, "prod", 0, 8), act(SkipTo, "prod", 3, 8), act(Hotfix, "", 3, 8), back, force, act(Unpin, "prod", 0, 8), act(Resume, "prod", 0, 8),
	}
	w := smallWorld{acts: [][]Act{nil}}
	for _, one := range single {
		w.acts = append(w.acts, []Act{one})
	}
	for _, one := range single {
		for _, other := range single {
			w.acts = append(w.acts, []Act{one, other})
		}
	}
	w.histories = []func() *Environment{
		history(), history(stayed(1, 1, 2, -1)), history(stayed(1, 1, 2, 3), stayed(2, 3, 4, -1)), history(stayed(1, 1, 2, 3), stayed(3, 3, -1, -1)),
		history(stayed(2, 1, 2, 3), stayed(3, 3, 4, 5), stayed(1, 5, 6, -1)), history(stayed(1, 1, 2, 3), stayed(2, 3, -1, 4), stayed(3, 4, 5, -1)),
	}
	veto := func(n, back int) func(*Environment) {
		return func(e *Environment) {
			v := Veto{VersionName: named(n), At: after(7), Rollout: "web"}
			if back > 0 {
				v.BackTo = named(back)
			}
			e.Vetoes = []Veto{v}
		}
	}
	w.troubles = []func(*Environment){
		func(*Environment) {}, func(e *Environment) { e.Rollout = true }, func(e *Environment) { e.Verifying = true }, func(e *Environment) { e.Trouble = Unreachable },
		func(e *Environment) { e.EditedAt = after(7) }, veto(2, 1), veto(3, 0), func(e *Environment) { e.Failures = []Failure{{named(3), 3, after(7)}} },
	}
	w.votes = [][]Vote{nil, {approval(2, "prod", "user:ann", 5)}, {approval(2, "prod", "user:ann", 5), approval(3, "prod", "user:bo", 5)}}
	smoke := func(n int, good bool) Result {
		return Result{Environment: "test", Name: "smoke", VersionName: named(n), Content: fmt.Sprintf("content-%d", n), At: after(6), Good: good}
	}
	w.results = [][]Result{nil, {smoke(2, true), smoke(3, true)}, {smoke(2, false), smoke(3, true)}}
	return w
}

// with fewer results it is a part of it.
func (w smallWorld) with(results [][]Result) smallWorld {
	w.results = results
	return w
}

func (w smallWorld) visit(t *testing.T, a *Application, c *Catalogue, acts [][]Act, troubles []func(*Environment)) (count int) {
	for _, test := range w.histories {
		for _, prod := range w.histories {
			for _, list := range acts {
				for _, trouble := range troubles {
					for _, votes := range w.votes {
						for _, results := range w.results {
							e := prod()
							trouble(e)
							f := &Facts{Now: after(10), Environments: environments("test", test(), "prod", e), Acts: list, Votes: votes, Results: results}
							d := a.Decide(c, f)
							holdLaws(t, a, c, f, d)
							settled(t, a, c, f, d)
							count++
						}
					}
				}
			}
		}
	}
	return count
}

// TestEverySmallWorld holds the laws in all situations of a small application.
func TestEverySmallWorld(t *testing.T) {
	w, c, count := newSmallWorld(), upTo(t, 3), 0
	for i, policy := range []func(*intentpb.DeliveryEnvironment) *intentpb.DeliveryEnvironment{
		func(e *intentpb.DeliveryEnvironment) *intentpb.DeliveryEnvironment { return e }, queues, stays,
	} {
		people := judged(1, 0)
		people.PassedByHotfix = true
		a := application(t, verified(env("test", deny("0.*"))), policy(env("prod", dependsOn(time.Hour, "test"), people)))
		// Pairs of acts where nothing else is unusual, and all that is unusual with one act.
		if i == 0 {
			count += w.with(w.results[1:2]).visit(t, a, c, w.acts, w.troubles[:1])
		}
		count += w.with(w.results[1:]).visit(t, a, c, w.acts[:13], w.troubles[1:])
	}
	if count < 70_000 {
		t.Errorf("%d situations", count)
	}
}

// TestRandomWorlds holds the laws where there is more of everything, and that the order in which
// versions are known is nothing.
func TestRandomWorlds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, c, f := drawWorld(t)
		d := a.Decide(c, f)
		holdLaws(t, a, c, f, d)
		settled(t, a, c, f, d)
		versions := slices.Clone(c.Ordered())
		slices.Reverse(versions)
		turned, err := NewCatalogue(bySemver(), versions)
		if err != nil {
			t.Fatalf("%v", err)
		}
		for i, o := range a.Decide(turned, f).Outcomes {
			if fmt.Sprint(o) != fmt.Sprint(d.Outcomes[i]) {
				t.Fatalf("%+v, and in another order of versions %+v", d.Outcomes[i], o)
			}
		}
	})
}

// drawWorld is a chain of environments with constraints of all kinds, and any history.
func drawWorld(t *rapid.T) (*Application, *Catalogue, *Facts) {
	names := []string{"a", "b", "c", "d"}[:rapid.IntRange(1, 4).Draw(t, "environments")]
	var specs []*intentpb.DeliveryEnvironment
	f := &Facts{Now: after(float64(rapid.IntRange(0, 60).Draw(t, "now"))), Environments: map[string]*Environment{}}
	number := rapid.IntRange(1, 6)
	hour := rapid.Custom(func(t *rapid.T) float64 { return float64(rapid.IntRange(0, 60).Draw(t, "hour")) })
	for i, name := range names {
		kinds := []*intentpb.DeliveryConstraint{judged(uint32(1+i%2), 20*time.Hour), hours("Europe/London", "Mon-Fri 09:00-17:00", 1), minAge(3 * time.Hour), deny("1.2.*"), canary()}
		if i > 0 {
			kinds = append(kinds, dependsOn(time.Duration(i)*time.Hour, names[:i]...), soak(2*time.Hour, names[i-1]))
		}
		var constraints []*intentpb.DeliveryConstraint
		for _, kind := range kinds {
			if rapid.IntRange(0, 3).Draw(t, "asks") == 0 {
				kind.Rollbacks, kind.PassedByHotfix = rapid.Bool().Draw(t, "rollbacks"), rapid.Bool().Draw(t, "hotfix")
				constraints = append(constraints, kind)
			}
		}
		e := env(name, constraints...)
		e.OnBad = intentpb.DeliveryEnvironment_OnBad(rapid.IntRange(0, 1).Draw(t, "bad"))
		e.Newer = intentpb.DeliveryEnvironment_Newer(rapid.IntRange(0, 1).Draw(t, "newer"))
		if rapid.Bool().Draw(t, "verified") {
			e.Verify = []string{"smoke"}
		}
		specs = append(specs, e)
		f.Environments[name] = drawEnvironment(t, number, hour)
	}
	for range rapid.IntRange(0, 6).Draw(t, "acts") {
		name := rapid.SampledFrom(append([]string{""}, names...)).Draw(t, "where")
		one := act(ActKind(rapid.IntRange(int(Pin), int(Hotfix)).Draw(t, "act")), name, number.Draw(t, "version"), hour.Draw(t, "when"))
		if name == "" && !slices.Contains([]ActKind{MarkBad, MarkGood, Pause, Resume, Hotfix}, one.Kind) {
			continue
		}
		one.Had, one.Constraint = named(number.Draw(t, "had")), rapid.SampledFrom([]string{"people", "tested", "smoke", "hours"}).Draw(t, "constraint")
		f.Acts = append(f.Acts, one)
	}
	// Acts are stored in their order.
	slices.SortStableFunc(f.Acts, func(a, b Act) int { return a.At.Compare(b.At) })
	for range rapid.IntRange(0, 6).Draw(t, "votes") {
		vote := approval(number.Draw(t, "of"), rapid.SampledFrom(names).Draw(t, "in"), rapid.SampledFrom([]string{"user:ann", "user:bo"}).Draw(t, "by"), hour.Draw(t, "at"))
		vote.Approve = rapid.IntRange(0, 4).Draw(t, "approves") > 0
		f.Votes = append(f.Votes, vote)
	}
	var versions []Version
	for n := range rapid.IntRange(1, 6).Draw(t, "versions") {
		v := version(n + 1)
		v.Withdrawn = rapid.IntRange(0, 6).Draw(t, "withdrawn") == 0
		versions = append(versions, v)
	}
	for i := range f.Acts {
		f.Acts[i].Newest = named(len(versions))
	}
	a, err := New(&intentpb.Delivery{Name: "web", Versions: "images", Environments: specs})
	if err != nil {
		t.Fatalf("%v", err)
	}
	c, err := NewCatalogue(bySemver(), versions)
	if err != nil {
		t.Fatalf("%v", err)
	}
	return a, c, f
}

func bySemver() *ordering.Order {
	order, _ := ordering.New(&intentpb.VersionOrder{})
	return order
}

func drawEnvironment(t *rapid.T, number *rapid.Generator[int], hour *rapid.Generator[float64]) *Environment {
	e := &Environment{Rollout: rapid.IntRange(0, 5).Draw(t, "rollout") == 0, Verifying: rapid.IntRange(0, 5).Draw(t, "verifying") == 0}
	at := 0.0
	count := rapid.IntRange(0, 5).Draw(t, "stays")
	for i := range count {
		good := at
		if rapid.IntRange(0, 3).Draw(t, "good") == 0 {
			good = -1
		}
		next := at + float64(rapid.IntRange(1, 10).Draw(t, "long"))
		if i == count-1 {
			next = -1
		}
		e.Stays = append(e.Stays, stayed(number.Draw(t, "stay"), at, good, next))
		at = next
	}
	for range rapid.IntRange(0, 1).Draw(t, "vetoes") {
		veto := Veto{VersionName: named(number.Draw(t, "veto")), At: after(hour.Draw(t, "found"))}
		if rapid.Bool().Draw(t, "went back") {
			veto.BackTo = named(number.Draw(t, "back"))
		}
		e.Vetoes = append(e.Vetoes, veto)
	}
	return e
}
