package strategist_test

import (
	"cmp"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	intentpb "lehr.dev/gen/lehr/intent/v1"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/ground/sight"
	"lehr.dev/internal/store"
)

func sorted[K cmp.Ordered, V any](m map[K]V) []K { return slices.Sorted(maps.Keys(m)) }

// witness is what may be said of a thing by all looks at it, in true time: for how
// long it was seen well at most, and since when it is ill.
type witness struct {
	content intent.Digest
	well    time.Duration
	// seen well last, and looked at last.
	seen, last, ill time.Time
	synced          bool
	// told is how often it told of its health: it may be too new to be known to.
	told int
}

// saw takes up a look. What is shorter than the gap may have been missed.
func (j *witness) saw(look sight.Look, now time.Time, gap time.Duration) {
	if look.Effective != j.content {
		*j = witness{content: look.Effective, told: j.told}
	}
	if now.Sub(j.last) > gap {
		j.ill = time.Time{}
	}
	j.last, j.synced = now, look.State == intent.StateInSync
	if j.synced && look.Health != intent.HealthUnknown {
		j.told++
	}
	switch {
	case !j.synced || look.Health == intent.HealthUnknown && j.told > 4:
		j.ill = time.Time{}
	case look.Health == intent.Unhealthy:
		if j.ill.IsZero() {
			j.ill = now
		}
		if now.Sub(j.ill) > gap {
			j.well, j.seen = 0, time.Time{}
		}
	default:
		j.ill = time.Time{}
		if passed := now.Sub(j.seen); passed <= gap {
			j.well += passed
		}
		j.seen = now
	}
}

// soaked: it was seen well with the content for so long.
func (j *witness) soaked(content intent.Digest, soak time.Duration) bool {
	return j.content == content && !j.seen.IsZero() && j.well >= soak
}

// monitor holds what rollouts do against production, and not against their records.
type monitor struct {
	*world
	began time.Time
	// good and bad are what was judged, ground what assets had before any run.
	good, bad, ground map[intent.AssetID]map[intent.Digest]bool
	// went are contents that were good once, whatever was found since.
	went      map[intent.AssetID]map[intent.Digest]bool
	revisions map[intent.AssetID]map[intent.Rank]uint64
	newest    uint64
	let       time.Time
	// runs by name, and since when, in true time.
	runs  map[string]uint64
	since map[string]time.Time
	// disturbed is until when something fails of itself, moved when the policy did.
	disturbed, moved time.Time
	// seen counts what was looked at, so that no monitor sleeps.
	seen map[string]int
}

func newMonitor(w *world) *monitor {
	return &monitor{
		world: w, began: w.truth(), good: map[intent.AssetID]map[intent.Digest]bool{}, bad: map[intent.AssetID]map[intent.Digest]bool{},
		ground: map[intent.AssetID]map[intent.Digest]bool{}, went: map[intent.AssetID]map[intent.Digest]bool{}, revisions: map[intent.AssetID]map[intent.Rank]uint64{}, runs: map[string]uint64{}, since: map[string]time.Time{}, seen: map[string]int{},
	}
}

func put(m map[intent.AssetID]map[intent.Digest]bool, id intent.AssetID, content intent.Digest, is bool) {
	if m[id] == nil {
		m[id] = map[intent.Digest]bool{}
	}
	m[id][content] = is
}

func (m *monitor) broken(invariant, format string, arguments ...any) {
	m.tell("BROKEN "+invariant+": "+format, arguments...)
	m.t.Errorf("seed %d: %s: "+format, append([]any{m.seed, invariant}, arguments...)...)
}

// pinned looks at the pins that there are: revisions only grow (S16), and one rollout
// holds an asset (S10).
func (m *monitor) pinned(pins []intent.Pin) {
	holders := map[intent.AssetID]string{}
	most := m.newest
	for _, p := range pins {
		if m.revisions[p.Asset] == nil {
			m.revisions[p.Asset] = map[intent.Rank]uint64{}
		}
		if before := m.revisions[p.Asset][p.Rank]; p.Revision != before && p.Revision <= m.newest {
			m.broken("S16", "the pin of %s has revision %d, after %d", p.Asset, p.Revision, m.newest)
		}
		m.revisions[p.Asset][p.Rank] = p.Revision
		most = max(most, p.Revision)
		if name := p.Rollout(); name != "" {
			if other := holders[p.Asset]; other != "" && other != name {
				m.broken("S10", "%s is held by %s and %s", p.Asset, other, name)
			}
			holders[p.Asset] = name
		}
	}
	m.newest = most
}

// governs names the rollout of a policy that selects an asset.
func governs(policy *intentpb.Policy, id intent.AssetID) string {
	for _, r := range policy.GetRollouts() {
		if r.Field == nil && strings.Contains(r.Select, `"`+string(id[:1])+`"`) {
			return r.Name
		}
	}
	return ""
}

func rolloutOf(policy *intentpb.Policy, name string) *intentpb.Rollout {
	for _, r := range policy.GetRollouts() {
		if r.Name == name {
			return r
		}
	}
	return nil
}

// stageOf is the place of an asset's stage.
func stageOf(stages []*intentpb.RolloutStage, id intent.AssetID) int {
	return slices.IndexFunc(stages, func(s *intentpb.RolloutStage) bool {
		return s.Where == "" || strings.Contains(s.Where, `"`+string(id[:1])+`"`)
	})
}

// allowed is how many of so many a stage lets be under way.
func allowed(s *intentpb.RolloutStage, total, done int) int {
	most := total
	switch {
	case s.Factor > 1:
		most = max(1, int(s.Count), int(float64(done)*(s.Factor-1)))
	case s.Percent > 0:
		most = int(math.Ceil(float64(total) * s.Percent / 100))
	case s.Count > 0:
		most = int(s.Count)
	}
	if s.Most > 0 {
		most = min(most, int(s.Most))
	}
	return most
}

// before looks at a step that is about to be stored, and returns what looks at it
// when it is.
func (m *monitor) before(step store.RolloutStep) func() {
	held := m.heldBy(step.Rollout)
	past, err := m.store.Rollouts(m.ctx, shop, store.RolloutFilter{Name: step.Rollout, Limit: 1})
	m.must(err)
	return func() {
		m.goesOn(step, past)
		m.tell("run %d %s %s; %d pins, unpinned %v; waits %s", step.Run.Run, step.Run.State, step.Event.Text, len(step.Pins), step.Unpin, step.Run.Progress.Waits)
		if run := step.Run; run.Name != "" && m.runs[run.Name] != run.Run {
			m.runs[run.Name], m.since[run.Name] = run.Run, m.truth()
		}
		m.judged(step)
		m.pinsOf(step, held)
		m.ended(step.Run)
		for _, id := range step.Forget {
			if t := m.things[id]; t != nil {
				put(m.ground, id, t.content, true) // It begins anew, as it is.
				t.judge.told = 0
			}
		}
	}
}

// goesOn: a step is of the run as it is stored, and forgets nothing that was told of it.
func (m *monitor) goesOn(step store.RolloutStep, past []intent.Rollout) {
	if len(past) == 0 || past[0].Run != step.Run.Run || len(past[0].Events) == 0 {
		return
	}
	m.seen["goes on"]++
	last := past[0].Events[len(past[0].Events)-1]
	if !slices.ContainsFunc(step.Run.Events, func(e intent.RolloutEvent) bool {
		return e.At.Equal(last.At) && e.Kind == last.Kind && e.Text == last.Text
	}) {
		m.broken("S16", "run %d is %s, and was %s; of what was told of it this is lost: %s %s", step.Run.Run, step.Run.State, past[0].State, last.Kind, last.Text)
	}
}

// judged looks at judgements: good is earned (S20), and a bad one has consequences in
// the same step (L8).
func (m *monitor) judged(step store.RolloutStep) {
	bad := false
	for _, j := range step.Forgiven {
		put(m.bad, j.Asset, j.Effective, false)
	}
	for _, j := range step.Judged {
		if !j.Good {
			put(m.bad, j.Asset, j.Effective, true)
			put(m.good, j.Asset, j.Effective, false)
			put(m.ground, j.Asset, j.Effective, false)
			bad = true
			continue
		}
		m.seen["good"]++
		if r := rolloutOf(m.policy, j.Rollout); r != nil {
			soak, longest := time.Duration(math.MaxInt64), time.Duration(0)
			for _, stage := range r.Stages {
				longest = max(longest, stage.Soak.AsDuration())
			}
			if at := stageOf(r.Stages, j.Asset); at >= 0 { // In an emergency too.
				soak = r.Stages[at].Soak.AsDuration()
			}
			soak = min(soak, longest)
			if t := m.things[j.Asset]; t.content != j.Effective || !t.judge.soaked(m.meant(j.Effective), soak) {
				m.broken("S20", "%s is found good with %s, seen well for %v of %v", j.Asset, m.words[j.Effective].text, t.judge.well, soak)
			}
		}
		put(m.went, j.Asset, j.Effective, true)
		if !m.bad[j.Asset][j.Effective] {
			put(m.good, j.Asset, j.Effective, true)
		}
	}
	if !bad {
		return
	}
	m.seen["bad"]++
	switch step.Run.State {
	case intent.RolloutStopped, intent.RolloutRolledBack:
	case intent.RolloutRollingBack:
		if len(step.Run.Value) == 0 && !slices.ContainsFunc(step.Pins, func(p intent.Pin) bool { return p.Rank == intent.RankRollback }) {
			m.broken("L8", "run %d is bad, and nothing goes back", step.Run.Run)
		}
	default:
		m.broken("L8", "run %d is bad, and %s", step.Run.Run, step.Run.State)
	}
}

// heldBy are the pins of a rollout; of an asset's, that of the higher rank.
func (m *monitor) heldBy(rollout string) map[intent.AssetID]intent.Pin {
	held := map[intent.AssetID]intent.Pin{}
	pins, err := m.store.Pins(m.ctx, shop)
	m.must(err)
	for _, p := range pins {
		if p.Rollout() == rollout && (held[p.Asset].Asset == "" || p.Rank > held[p.Asset].Rank) {
			held[p.Asset] = p
		}
	}
	return held
}

// pinsOf looks at whom a step moves.
func (m *monitor) pinsOf(step store.RolloutStep, before map[intent.AssetID]intent.Pin) {
	var let []intent.AssetID
	for _, p := range step.Pins {
		content := m.members[p.Incarnation.Sequence][p.Asset]
		switch {
		case p.Rank == intent.RankRollback:
			m.seen["back"]++
			m.lastFirst(step, p.Asset, before)
			if m.bad[p.Asset][content] || !m.good[p.Asset][content] {
				m.broken("S20", "%s goes back to %s: good %v, bad %v", p.Asset, m.words[content].text, m.good[p.Asset][content], m.bad[p.Asset][content])
			}
		case step.Run.State == intent.RolloutRunning && p.Incarnation == step.Run.To:
			let = append(let, p.Asset)
			if past := before[p.Asset]; past.Rank == intent.RankRollout && past.Incarnation.Sequence > p.Incarnation.Sequence {
				m.broken("S16", "%s goes on from %s to %s", p.Asset, past.Incarnation, p.Incarnation)
			}
		case step.Run.State == intent.RolloutPaused:
			m.broken("S19", "%s goes on in a paused run", p.Asset)
		}
	}
	if len(let) > 0 {
		m.let = m.truth()
		m.exposed(step, let, before, m.heldBy(step.Run.Name))
	}
}

// lastFirst: what went through goes back stage by stage, the canary last (S19).
func (m *monitor) lastFirst(step store.RolloutStep, id intent.AssetID, before map[intent.AssetID]intent.Pin) {
	run, r := step.Run, rolloutOf(m.policy, step.Run.Name)
	if !run.Staged || r == nil {
		return
	}
	m.seen["staged back"]++
	stages := r.Stages
	if run.Emergency && len(r.Emergency) > 0 {
		stages = r.Emergency
	}
	for other, pin := range before {
		left := pin.Rank == intent.RankRollout && pin.Incarnation == run.To && governs(m.policy, other) == run.Name && !m.members[m.head.Sequence][other].IsZero()
		now := slices.ContainsFunc(step.Pins, func(p intent.Pin) bool { return p.Asset == other })
		if left && !now && !m.members[run.Back.Sequence][other].IsZero() && stageOf(stages, other) > stageOf(stages, id) {
			m.broken("S19", "%s goes back before %s, which is of a later stage", id, other)
		}
	}
}

// exposed looks at whom a run lets go on (S19).
func (m *monitor) exposed(step store.RolloutStep, let []intent.AssetID, past, pins map[intent.AssetID]intent.Pin) {
	run := step.Run
	r := rolloutOf(m.policy, run.Name)
	if p, err := m.store.Partition(m.ctx, shop); err != nil || p.Stop != nil {
		m.broken("S19", "%v go on in spite of a stop", let)
	}
	if r == nil {
		m.broken("S19", "%v go on by a rollout that head does not have", let)
		return
	}
	for _, name := range r.After {
		m.wentThrough(name, run)
	}
	stages := r.Stages
	if run.Emergency && len(r.Emergency) > 0 {
		stages = r.Emergency
	}
	skipped := func(s *intentpb.RolloutStage) bool { return run.Promoted || slices.Contains(run.Skipped, s.Name) }
	members := map[int][]intent.AssetID{}
	for id := range pins {
		if !m.members[m.head.Sequence][id].IsZero() && governs(m.policy, id) == run.Name {
			members[stageOf(stages, id)] = append(members[stageOf(stages, id)], id)
		}
	}
	for i, stage := range stages {
		of := slices.DeleteFunc(slices.Clone(let), func(id intent.AssetID) bool { return stageOf(stages, id) != i })
		if len(of) == 0 || skipped(stage) {
			continue
		}
		m.seen["let"]++
		if stage.Window != nil {
			m.inHours(stage, step.Event.At)
		}
		done, more := 0, 0
		var who []intent.AssetID
		for _, id := range members[i] {
			soak := stage.Soak.AsDuration()
			if slices.Contains(of, id) && !m.unproven(id, past[id], soak+m.paced(notice)) && !m.fell(id) {
				more++ // Else it was exposed already, to what is older.
			}
			if slices.Contains(of, id) || m.unproven(id, pins[id], soak) {
				who = append(who, id)
			} else {
				done++
			}
		}
		if most := allowed(stage, len(members[i]), done); more > 0 && len(who) > most {
			m.broken("S19", "%v go on in stage %s, so that %v are under way, and %d may be", of, stage.Name, who, most)
		}
		for j, before := range stages[:i] {
			m.proven(run, before, members[j], pins)
			for _, id := range members[j] {
				if goal := m.members[run.To.Sequence][id]; !skipped(before) && !goal.IsZero() && !m.through(id, goal, pins[id], before) {
					m.broken("S19", "%v go on in stage %s before %s of stage %s is through", of, stage.Name, id, before.Name)
				}
			}
		}
	}
}

// wentThrough: what comes after another rollout brings what that found good, unless a person
// hurried it.
func (m *monitor) wentThrough(before string, run intent.Rollout) {
	m.seen["after"]++
	runs, err := m.store.Rollouts(m.ctx, shop, store.RolloutFilter{Name: before})
	m.must(err)
	for _, r := range runs {
		if r.To == run.To && r.State == intent.RolloutDone && (r.Promoted || r.Emergency || len(r.Skipped) > 0) {
			return
		}
	}
	for id, content := range m.members[run.To.Sequence] {
		stayed := true // What left intent since was not waited for.
		for s := run.To.Sequence; s <= m.head.Sequence; s++ {
			stayed = stayed && !m.members[s][id].IsZero()
		}
		if stayed && governs(m.policies[run.To.Sequence], id) == before && governs(m.policy, id) == before && !m.went[id][content] && !m.ground[id][content] {
			m.broken("S19", "run %d goes on, which comes after %s, where %s was never good with %s", run.Run, before, id, m.words[content].text)
		}
	}
}

// proven: what others go on by is stored, so that whoever takes over knows it too.
func (m *monitor) proven(run intent.Rollout, stage *intentpb.RolloutStage, members []intent.AssetID, pins map[intent.AssetID]intent.Pin) {
	if run.Promoted || slices.Contains(run.Skipped, stage.Name) {
		return
	}
	observed, err := m.store.Observations(m.ctx, shop, run.Name)
	m.must(err)
	for _, o := range observed {
		soak := stage.Soak.AsDuration()
		if slices.Contains(members, o.Asset) && pins[o.Asset].Incarnation == run.To && o.Effective == m.members[run.To.Sequence][o.Asset] && o.Healthy < soak {
			m.broken("S19", "others go on by what is not stored: that %s was well for %v, and not for %v", o.Asset, soak, o.Healthy)
		}
	}
}

// unproven: an asset has, or is given, or has still, something that a run brought and
// that is neither judged good nor soaked.
func (m *monitor) unproven(id intent.AssetID, pin intent.Pin, soak time.Duration) bool {
	t, given := m.things[id], m.members[pin.Incarnation.Sequence][id]
	fresh := func(content intent.Digest) bool {
		return !content.IsZero() && !m.good[id][content] && !m.ground[id][content]
	}
	if t == nil {
		return fresh(given)
	}
	if t.content != given && fresh(t.content) && t.by != 0 && t.by < intent.RankPerson {
		return true
	}
	return fresh(given) && !(!m.bad[id][given] && t.judge.soaked(given, soak))
}

// notice is how long it may take until a strategist knows what was seen.
const notice = 3 * time.Second

// fell: an asset had soaked with what a run brought, and is ill since a moment ago; or
// it came back a moment ago from what was bad.
func (m *monitor) fell(id intent.AssetID) bool {
	t := m.things[id]
	switch {
	case t == nil:
		return false
	case t.by == intent.RankRollback && m.ago(t.since) < m.paced(notice):
		return true
	}
	return !t.judge.ill.IsZero() && !m.good[id][t.content] && !m.ground[id][t.content]
}

// through: an asset has what the run brings, and it is known to be good, or it soaked.
func (m *monitor) through(id intent.AssetID, goal intent.Digest, pin intent.Pin, stage *intentpb.RolloutStage) bool {
	if m.members[pin.Incarnation.Sequence][id] != goal {
		return false
	}
	t := m.things[id]
	return m.good[id][goal] || m.ground[id][goal] ||
		t != nil && t.content == goal && t.judge.synced && t.judge.soaked(goal, stage.Soak.AsDuration())
}

// look is what is looked at with each tick: an open run says for what it waits (L9),
// and what is ill for too long goes back (L8).
func (m *monitor) look() {
	for id, t := range m.things {
		if t.by == 0 || t.by == intent.RankPerson && !m.bad[id][t.content] {
			put(m.ground, id, t.content, true)
		}
	}
	if m.ago(m.disturbed) < m.paced(8*time.Second) {
		return
	}
	open, err := m.store.Rollouts(m.ctx, shop, store.RolloutFilter{Open: true})
	m.must(err)
	for _, run := range open {
		if run.Progress.Waits == "" && m.ago(latest(m.let, m.since[run.Name])) > m.paced(4*time.Second) {
			m.broken("L9", "run %d waits, and does not say for what", run.Run)
		}
		r := rolloutOf(m.policy, run.Name)
		if r == nil || run.State == intent.RolloutRollingBack {
			continue
		}
		if len(run.Value) > 0 {
			m.illFields(run, r)
			continue
		}
		for id, t := range m.things {
			ill := t.judge.ill
			_, pin := intent.Target(m.head, m.pins[id], m.now())
			if governs(m.policy, id) != run.Name || pin == nil || pin.Rank != intent.RankRollout || pin.Rollout() != run.Name || pin.Incarnation != run.To || ill.IsZero() || t.judge.content != m.members[run.To.Sequence][id] {
				continue
			}
			m.seen["ill"]++
			if since := latest(latest(ill, m.since[run.Name]), latest(m.disturbed, m.moved)); m.ago(since) > r.Patience.AsDuration()+m.paced(4*time.Second) {
				m.broken("L8", "%s is ill for %s, and run %d goes on", id, m.ago(since), run.Run)
			}
		}
	}
}

func latest(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}
