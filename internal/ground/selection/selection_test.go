package selection_test

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/ground/selection"
	"lehr.dev/test/detector"
)

var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// assets are named "a/1", of cluster a.
func assets(names ...string) (targets []selection.Target) {
	for _, name := range names {
		cluster, _, _ := strings.Cut(name, "/")
		targets = append(targets, selection.Target{Asset: intent.AssetID(name), Scopes: map[string]string{"cluster": cluster}})
	}
	return targets
}

func byCluster(t selection.Target) string { return t.Scopes["cluster"] }

func canary(t selection.Target) bool { return strings.HasSuffix(string(t.Asset), "/1") }

// told writes a forecast down, in minutes.
func told(p selection.Policy, targets []selection.Target, takes time.Duration) (lines []string) {
	for _, step := range selection.Forecast(p, targets, noon, takes) {
		when := fmt.Sprint(int(step.At.Sub(noon).Minutes()))
		if step.At.IsZero() {
			when = "never, " + step.Waits
		}
		lines = append(lines, fmt.Sprintf("%s: %v %s", when, step.Assets, step.Stage))
	}
	return lines
}

func TestPolicies(t *testing.T) {
	six := assets("a/1", "a/2", "a/3", "b/1", "b/2", "c/1")
	opens := func(at time.Time) (bool, time.Time) {
		return !at.Before(noon.Add(time.Hour)), noon.Add(time.Hour)
	}
	for name, test := range map[string]struct {
		stages []selection.Stage
		want   []string
	}{
		"all at once": {[]selection.Stage{{}}, []string{"0: [a/1 a/2 a/3 b/1 b/2 c/1] "}},
		"by count": {[]selection.Stage{{Wave: selection.Wave{Count: 4}}},
			[]string{"0: [a/1 a/2 a/3 b/1] ", "1: [b/2 c/1] "}},
		"by percent": {[]selection.Stage{{Wave: selection.Wave{Percent: 40}}},
			[]string{"0: [a/1 a/2 a/3] ", "1: [b/1 b/2 c/1] "}},
		"exponential": {[]selection.Stage{{Wave: selection.Wave{Factor: 2}}},
			[]string{"0: [a/1] ", "1: [a/2] ", "2: [a/3 b/1] ", "3: [b/2 c/1] "}},
		"canary, then the rest": {[]selection.Stage{{Name: "canary", Wants: canary, Wave: selection.Wave{Count: 1}, Soak: 10 * time.Minute}, {Name: "rest", Delay: 5 * time.Minute}},
			[]string{"0: [a/1] canary", "11: [b/1] canary", "22: [c/1] canary", "38: [a/2 a/3 b/2] rest"}},
		"one scope at a time, in an order": {[]selection.Stage{{By: byCluster, Order: []string{"b"}, Soak: 2 * time.Minute}},
			[]string{"0: [b/1 b/2] ", "3: [a/1 a/2 a/3] ", "6: [c/1] "}},
		"parallel groups, within a budget": {[]selection.Stage{{By: byCluster, Parallel: 2, Most: 3, Wave: selection.Wave{Count: 2}}},
			[]string{"0: [a/1 a/2 b/1] ", "1: [a/3 b/2] ", "2: [c/1] "}},
		"each stage is judged": {[]selection.Stage{{Name: "canary", Wants: canary, Wave: selection.Wave{Count: 2}, Soak: 2 * time.Minute, Judged: 20 * time.Minute}, {Name: "rest", Delay: time.Minute, Judged: 20 * time.Minute}},
			[]string{"0: [a/1 b/1] canary", "3: [c/1] canary", "24: [a/2 a/3 b/2] rest"}},
		"people approve it at once": {[]selection.Stage{{Name: "canary", Wants: canary}, {Name: "rest", Held: "for people"}},
			[]string{"0: [a/1 b/1 c/1] canary", "1: [a/2 a/3 b/2] rest"}},
		"a window": {[]selection.Stage{{Open: opens}}, []string{"60: [a/1 a/2 a/3 b/1 b/2 c/1] "}},
		"a pause between waves": {[]selection.Stage{{Wave: selection.Wave{Count: 3}, Delay: 7 * time.Minute}},
			[]string{"0: [a/1 a/2 a/3] ", "8: [b/1 b/2 c/1] "}},
	} {
		if got := told(selection.Policy{Stages: test.stages}, six, time.Minute); !slices.Equal(got, test.want) {
			t.Errorf("%s:\n%s", name, cmp.Diff(test.want, got))
		}
	}
}

// TestWhatItWaitsFor names the asset, and why.
func TestWhatItWaitsFor(t *testing.T) {
	stages := []selection.Stage{{Name: "canary", Wants: canary, Soak: 10 * time.Minute, Wave: selection.Wave{Count: 2}}, {Name: "rest"}}
	set := func(change func(all []selection.Target)) selection.Choice {
		all := assets("a/1", "a/2", "b/1", "c/1")
		change(all)
		return selection.Choose(selection.Policy{Stages: stages}, all, noon)
	}
	for name, test := range map[string]struct {
		change func(all []selection.Target)
		waits  string
		next   time.Time
	}{
		"is pushed":  {func(all []selection.Target) { all[0].Selected = true }, "for a/1 to be in sync", time.Time{}},
		"is blocked": {func(all []selection.Target) { all[0].Selected, all[0].Blocked = true, "held by bob" }, "for a/1: held by bob", time.Time{}},
		"soaks": {func(all []selection.Target) {
			all[0].Selected, all[0].InSync, all[0].Well, all[0].Healthy = true, true, true, 4*time.Minute
			all[2] = all[0]
			all[2].Asset, all[2].Healthy = "b/1", 3*time.Minute
		}, "for a/1 to be healthy for 10m0s, and 1 more", noon.Add(6 * time.Minute)},
		"is unhealthy": {func(all []selection.Target) {
			all[0].Selected, all[0].InSync, all[0].Healthy = true, true, time.Hour
		}, "for a/1, which is not healthy", time.Time{}},
		"all are blocked": {func(all []selection.Target) {
			all[0].Blocked, all[2].Blocked, all[3].Blocked = "frozen", "frozen", "frozen"
		}, "for a/1: frozen, and 2 more", time.Time{}},
	} {
		c := set(test.change)
		if len(c.Assets) > 0 || c.Stages[0].Waits != test.waits || !c.Next.Equal(test.next) || len(c.Stages[0].For) == 0 || c.Stages[1].Waits != "for the stages before it" || c.Done {
			t.Errorf("%s: %+v", name, c)
		}
	}
	// Another one of its wave goes on in the place of one that cannot.
	c := set(func(all []selection.Target) { all[0].Blocked = "held by bob" })
	if want := []intent.AssetID{"b/1", "c/1"}; !slices.Equal(c.Assets, want) || c.Stages[0].Waits != "" {
		t.Errorf("chosen are %+v", c)
	}
}

// TestWhatIsRightAlreadyIsSkipped, and an early stage that gets another asset
// comes first again.
func TestWhatIsRightAlreadyIsSkipped(t *testing.T) {
	p := selection.Policy{Stages: []selection.Stage{{Wants: canary, Soak: time.Minute}, {Wave: selection.Wave{Count: 1}}}}
	all := assets("a/1", "a/2", "b/2")
	all[0].InSync, all[0].Well, all[0].Healthy = true, true, time.Hour
	if c := selection.Choose(p, all, noon); !slices.Equal(c.Assets, []intent.AssetID{"a/2"}) {
		t.Errorf("%+v", c)
	}
	all = append(all, assets("z/1")...)
	if c := selection.Choose(p, all, noon); !slices.Equal(c.Assets, []intent.AssetID{"z/1"}) {
		t.Errorf("%+v", c)
	}
}

func TestPolicyThatWantsNothing(t *testing.T) {
	never := func(selection.Target) bool { return false }
	for _, p := range []selection.Policy{{}, {Stages: []selection.Stage{{Wants: never}}}} {
		c := selection.Choose(p, assets("a/1", "b/1"), noon)
		if len(c.Assets) > 0 || !slices.Equal(c.Unwanted, []intent.AssetID{"a/1", "b/1"}) {
			t.Errorf("%+v", c)
		}
	}
	if c := selection.Choose(selection.Policy{Stages: []selection.Stage{{}}}, nil, noon); len(c.Assets) > 0 || !c.Done {
		t.Errorf("of no assets: %+v", c)
	}
}

// world is a rollout under way, in which anything may happen.
type world struct {
	policy  selection.Policy
	targets map[intent.AssetID]*selection.Target
	now     time.Time
	shut    bool
}

func minutes(r *rapid.T, most int, of string) time.Duration {
	return time.Duration(rapid.IntRange(0, most).Draw(r, of)) * time.Minute
}

// policies that a stage may have: each alone, and all together.
var policies = map[string]func(*rapid.T, *selection.Stage){
	"all at once":         func(*rapid.T, *selection.Stage) {},
	"one scope at a time": func(_ *rapid.T, s *selection.Stage) { s.By, s.Order = byCluster, []string{"b"} },
	"waves by count":      func(r *rapid.T, s *selection.Stage) { s.Wave.Count = rapid.IntRange(1, 4).Draw(r, "count") },
	"waves by percent":    func(r *rapid.T, s *selection.Stage) { s.Wave.Percent = rapid.Float64Range(0.1, 100).Draw(r, "percent") },
	"exponential waves": func(r *rapid.T, s *selection.Stage) {
		s.Wave = selection.Wave{Factor: rapid.Float64Range(1.1, 4).Draw(r, "factor"), Count: rapid.IntRange(0, 3).Draw(r, "first")}
	},
	"a pause": func(r *rapid.T, s *selection.Stage) { s.Wave.Count, s.Delay = 1, minutes(r, 3, "delay") },
	"a soak":  func(r *rapid.T, s *selection.Stage) { s.Wave.Count, s.Soak = 1, minutes(r, 3, "soak") },
	"groups side by side": func(r *rapid.T, s *selection.Stage) {
		s.By, s.Parallel = byCluster, rapid.IntRange(0, 3).Draw(r, "parallel")
	},
	"within a budget":      func(r *rapid.T, s *selection.Stage) { s.Most = rapid.IntRange(1, 4).Draw(r, "most") },
	"all of that together": anyStage,
}

func anyStage(r *rapid.T, s *selection.Stage) {
	s.Parallel, s.Most = rapid.IntRange(0, 3).Draw(r, "parallel"), rapid.IntRange(0, 4).Draw(r, "most")
	s.Wave = rapid.SampledFrom([]selection.Wave{{}, {Count: 1}, {Count: 3}, {Percent: 1}, {Percent: 50}, {Factor: 2}, {Factor: 3, Count: 2}}).Draw(r, "wave")
	s.Delay, s.Soak = minutes(r, 3, "delay"), minutes(r, 3, "soak")
	if rapid.Bool().Draw(r, "by cluster") {
		s.By, s.Order = byCluster, []string{"b"}
	}
}

// drawn is a policy of some stages, of which the first may be a canary.
func drawn(r *rapid.T, stage func(*rapid.T, *selection.Stage)) (p selection.Policy) {
	for i := range rapid.IntRange(1, 3).Draw(r, "stages") {
		s := selection.Stage{Name: fmt.Sprint(i)}
		if i == 0 && rapid.Bool().Draw(r, "canary") {
			s.Wants = canary
		}
		stage(r, &s)
		p.Stages = append(p.Stages, s)
	}
	return p
}

func newWorld(r *rapid.T, policy selection.Policy) *world {
	w := &world{targets: map[intent.AssetID]*selection.Target{}, now: noon, policy: policy}
	w.heed()
	for range rapid.IntRange(0, 9).Draw(r, "assets") {
		w.appears(r)
	}
	return w
}

func (w *world) appears(r *rapid.T) {
	name := rapid.SampledFrom([]string{"a", "b", "c"}).Draw(r, "cluster") + "/" + fmt.Sprint(rapid.IntRange(1, 5).Draw(r, "number"))
	if w.targets[intent.AssetID(name)] == nil {
		w.targets[intent.AssetID(name)] = &assets(name)[0]
	}
}

func (w *world) list() (list []selection.Target) {
	for _, id := range slices.Sorted(maps.Keys(w.targets)) {
		list = append(list, *w.targets[id])
	}
	return list
}

// underWay counts those of each stage that were let go on and are not done.
func (w *world) underWay() []int {
	counts := make([]int, len(w.policy.Stages))
	for _, t := range w.list() {
		if at, s := w.stage(t); at >= 0 && t.Selected && !(t.InSync && t.Well && t.Healthy >= s.Soak) {
			counts[at]++
		}
	}
	return counts
}

func (w *world) stage(t selection.Target) (int, selection.Stage) {
	for i, s := range w.policy.Stages {
		if s.Wants == nil || s.Wants(t) {
			return i, s
		}
	}
	return -1, selection.Stage{}
}

// choose asks, shuffles and asks again, and does what is said.
func (w *world) choose(r *rapid.T) selection.Choice {
	list, before := w.list(), w.underWay()
	c := selection.Choose(w.policy, list, w.now)
	if again := selection.Choose(w.policy, rapid.Permutation(list).Draw(r, "order"), w.now); !cmp.Equal(c, again) {
		r.Fatalf("another order of the same targets: %s", cmp.Diff(c, again))
	}
	for _, id := range c.Assets {
		t := w.targets[id]
		if t == nil || t.Selected || t.InSync || t.Blocked != "" || w.shut {
			r.Fatalf("%s is let go on: %+v", id, t)
		}
		at, _ := w.stage(*t)
		for _, other := range list {
			if i, s := w.stage(other); i >= 0 && i < at && !(other.InSync && other.Well && other.Healthy >= s.Soak) {
				r.Fatalf("%s of stage %d goes on, and %s of stage %d is not done", id, at, other.Asset, i)
			}
		}
		t.Selected = true
	}
	if len(c.Assets) == 0 && !c.Done && !slices.ContainsFunc(c.Stages, func(s selection.Status) bool { return s.Waits != "" }) {
		r.Fatalf("nothing goes on, and nothing says why: %+v", c)
	}
	w.bounded(r, list, c)
	w.apart(r, list, c)
	for at, n := range w.underWay() {
		if most := w.policy.Stages[at].Most; most > 0 && n > most && n > before[at] {
			r.Fatalf("%d of stage %d are under way, and %d may be", n, at, most)
		}
	}
	return c
}

// apart: no more groups of a stage are under way than may, none goes on before those that
// come first, and a pause that the policy asks for is kept since the wave before of the
// group was done.
func (w *world) apart(r *rapid.T, before []selection.Target, c selection.Choice) {
	for at, s := range w.policy.Stages {
		under, chosen, left, rested := map[string]bool{}, map[string]bool{}, map[string]bool{}, map[string]time.Duration{}
		for _, t := range before {
			if of, _ := w.stage(t); of != at {
				continue
			}
			name := ""
			if s.By != nil {
				name = s.By(t)
			}
			goesOn := slices.Contains(c.Assets, t.Asset)
			done := t.InSync && t.Well && t.Healthy >= s.Soak
			left[name] = left[name] || !done
			switch {
			case goesOn:
				chosen[name] = true
			case (t.Selected || t.InSync) && !done:
				under[name] = true
			case done:
				if least, ok := rested[name]; !ok || t.Healthy-s.Soak < least {
					rested[name] = t.Healthy - s.Soak
				}
			}
		}
		rank := func(name string) string {
			if slices.Contains(s.Order, name) {
				return "" // It is the only one.
			}
			return name
		}
		for name := range chosen {
			first := 0
			for other := range left {
				if other != name && left[other] && (under[other] || rank(other) < rank(name)) {
					first++
				}
			}
			if first >= max(1, s.Parallel) && !under[name] {
				r.Fatalf("group %q of stage %d goes on before %d that come first: %v", name, at, first, left)
			}
			since, ok := rested[name]
			if !ok {
				since, ok = w.restedBefore(at, before, left)
			}
			if ok && since < s.Delay {
				r.Fatalf("group %q of stage %d goes on %s after what came before, and the pause is %s", name, at, since, s.Delay)
			}
		}
		maps.Copy(under, chosen)
		if len(chosen) > 0 && len(under) > max(1, s.Parallel) {
			r.Fatalf("%d groups of stage %d are under way, and %d may be: %v", len(under), at, max(1, s.Parallel), under)
		}
	}
}

// restedBefore is since when what comes before a group is done: all of the groups of its
// stage in which nothing is left, or the last stage before it that has any assets.
func (w *world) restedBefore(stage int, targets []selection.Target, left map[string]bool) (least time.Duration, known bool) {
	last := -1
	for _, t := range targets {
		if at, _ := w.stage(t); at < stage {
			last = max(last, at)
		}
	}
	for _, t := range targets {
		at, s := w.stage(t)
		group := ""
		if s.By != nil {
			group = s.By(t)
		}
		if at != last && (at != stage || left[group]) || at < 0 {
			continue
		}
		if rested := t.Healthy - s.Soak; !known || rested < least {
			least, known = rested, true
		}
	}
	return least, known
}

// bounded: of a group no wave goes on while one is under way, and none is larger
// than its policy says.
func (w *world) bounded(r *rapid.T, before []selection.Target, c selection.Choice) {
	type group struct {
		stage int
		name  string
	}
	chosen, total, done, running := map[group]int{}, map[group]int{}, map[group]int{}, map[group]int{}
	for _, t := range before {
		at, s := w.stage(t)
		if at < 0 {
			continue
		}
		g := group{stage: at}
		if s.By != nil {
			g.name = s.By(t)
		}
		total[g]++
		switch isDone := t.InSync && t.Well && t.Healthy >= s.Soak; {
		case isDone:
			done[g]++
		case t.Selected:
			running[g]++
		}
		if slices.Contains(c.Assets, t.Asset) {
			chosen[g]++
		}
	}
	for g, n := range chosen {
		wave := w.policy.Stages[g.stage].Wave
		most := total[g]
		switch {
		case wave.Factor > 1:
			most = max(1, wave.Count, int(float64(done[g])*(wave.Factor-1)))
		case wave.Percent > 0:
			most = int(math.Ceil(float64(total[g]) * wave.Percent / 100))
		case wave.Count > 0:
			most = wave.Count
		}
		if n > most || running[g] > 0 {
			r.Fatalf("%d of group %+v go on, and %d may; %d are under way", n, g, most, running[g])
		}
	}
}

// TestARolloutUnderWay: by each policy no more go on than may, in the order of the stages,
// what keeps it waiting is said, and once nothing is in the way all are done (S19, L9).
func TestARolloutUnderWay(t *testing.T) {
	for name, stage := range policies {
		t.Run(name, func(t *testing.T) { underWay(t, stage) })
	}
}

func underWay(t *testing.T, stage func(*rapid.T, *selection.Stage)) {
	rapid.Check(t, func(r *rapid.T) {
		w := newWorld(r, drawn(r, stage))
		some := func(name string) *selection.Target {
			if len(w.targets) == 0 {
				return &selection.Target{}
			}
			return w.targets[rapid.SampledFrom(slices.Sorted(maps.Keys(w.targets))).Draw(r, name)]
		}
		r.Repeat(map[string]func(*rapid.T){
			"": func(r *rapid.T) { w.choose(r) },
			"lands": func(*rapid.T) {
				if t := some("which"); t.Selected && t.Blocked == "" {
					t.InSync, t.Well, t.Healthy = true, true, 0
				}
			},
			"falls ill":  func(*rapid.T) { some("which").Well = false },
			"drifts":     func(*rapid.T) { t := some("which"); t.InSync, t.Healthy = false, 0 },
			"is blocked": func(*rapid.T) { some("which").Blocked = "held" },
			"is free":    func(*rapid.T) { some("which").Blocked = "" },
			"appears":    func(r *rapid.T) { w.appears(r) },
			"vanishes":   func(*rapid.T) { delete(w.targets, some("which").Asset) },
			"window":     func(*rapid.T) { w.shut = !w.shut },
			"policy": func(r *rapid.T) {
				w.policy = drawn(r, rapid.SampledFrom([]func(*rapid.T, *selection.Stage){stage, anyStage}).Draw(r, "other"))
				w.heed()
			},
			"time": func(r *rapid.T) { w.pass(time.Duration(rapid.IntRange(1, 3).Draw(r, "minutes")) * time.Minute) },
		})
		w.shut = false
		for range 200 {
			for _, t := range w.targets {
				t.Blocked = ""
				if t.Selected && !t.InSync {
					t.InSync, t.Healthy = true, 0
				}
				t.Well = t.Well || t.InSync
			}
			if c := w.choose(r); c.Done {
				return
			}
			w.pass(time.Minute)
		}
		r.Fatalf("it does not come to its end: %+v", selection.Choose(w.policy, w.list(), w.now))
	})
}

// heed has the windows of a new policy be the world's.
func (w *world) heed() {
	for i := range w.policy.Stages {
		w.policy.Stages[i].Open = func(time.Time) (bool, time.Time) { return !w.shut, time.Time{} }
	}
}

func (w *world) pass(d time.Duration) {
	w.now = w.now.Add(d)
	for _, t := range w.targets {
		if t.InSync && t.Well {
			t.Healthy += d
		}
	}
}

// TestALongForecastIsBounded: what it does not tell one by one is named, by stage.
func TestALongForecastIsBounded(t *testing.T) {
	detector.SkipSequential(t)
	var targets []selection.Target
	for i := range 5000 {
		targets = append(targets, selection.Target{Asset: intent.AssetID(fmt.Sprintf("web/%04d", i))})
	}
	steps := selection.Forecast(selection.Policy{Stages: []selection.Stage{{Name: "all", Wave: selection.Wave{Count: 1}}}}, targets, time.Unix(0, 0), time.Minute)
	told := map[intent.AssetID]bool{}
	for _, step := range steps {
		for _, asset := range step.Assets {
			if told[asset] {
				t.Fatalf("%s is told of twice", asset)
			}
			told[asset] = true
		}
	}
	if last := steps[len(steps)-1]; len(told) != 5000 || len(steps) > 300 || !last.Later || !last.At.IsZero() || last.Stage != "all" {
		t.Errorf("%d steps tell of %d assets; the last is %v later %v", len(steps), len(told), last.Stage, last.Later)
	}
}
