package monitor

import (
	"database/sql"
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"time"

	intentpb "lehr.dev/gen/lehr/intent/v1"
	"lehr.dev/internal/ground/intent"
)

// rolling is what is known of rollouts, and of what they brought.
type rolling struct {
	// runs are the newest of each name, and pins those of rollouts, by asset.
	runs map[string]intent.Rollout
	// soaks are of what each governed asset follows by its rollout.
	soaks map[intent.AssetID]*soak
	// longest is for how long each content was ever well; brought are those that a
	// run let an asset go on to.
	longest map[called]time.Duration
	brought map[called]bool
	// judged is what the store says of contents, bad all that were ever judged so
	// and not forgiven.
	judged map[called]bool
	bad    map[called]bool
	// forgiven are those that were bad when a person asked for that.
	forgiven map[called]bool
	// foundBad is when a validation said so first of each run; silent is since when
	// a run says nothing of what it waits for, ill since when what a run brought
	// is known to be unhealthy.
	foundBad map[runOf]time.Time
	// foundGood are the stages that one found good.
	foundGood map[stageRun]bool
	silent    map[runOf]time.Time
	ill       map[called]time.Time
	// lied is when a plugin did last; moved is when clocks were set.
	lied  time.Time
	moved []time.Time
	// went is what rollouts that others come after went through with, or found as they
	// began to govern it.
	went   map[called]bool
	fields fieldsSet
	// votes are the newest of each person on stages that ask people, and approved the stages that enough of them had let begin.
	votes    map[stageRun]map[string]bool
	approved map[stageRun]bool
	// retries are how often validations of runs had begun anew when they were read last.
	retries map[runOf]map[string]int
	// errors are the broken answers in a row of each question, and answeredBad the validations that an answer made bad.
	errors      map[askedBy]uint32
	answeredBad map[validationRun]bool
}

type runOf struct {
	name string
	run  uint64
}

// stageRun is a stage of a run.
type stageRun struct {
	runOf
	stage string
}

func newRolling() rolling {
	return rolling{
		votes: map[stageRun]map[string]bool{}, approved: map[stageRun]bool{},
		fields:    fieldsSet{contents: []map[string]string{{}}, before: map[string]string{}, named: map[stageRun]bool{}},
		foundGood: map[stageRun]bool{}, went: map[called]bool{},
		runs: map[string]intent.Rollout{}, soaks: map[intent.AssetID]*soak{}, longest: map[called]time.Duration{}, brought: map[called]bool{},
		retries: map[runOf]map[string]int{},
		errors:  map[askedBy]uint32{}, answeredBad: map[validationRun]bool{},
		judged: map[called]bool{}, bad: map[called]bool{}, forgiven: map[called]bool{}, foundBad: map[runOf]time.Time{}, silent: map[runOf]time.Time{}, ill: map[called]time.Time{},
	}
}

// rolloutPins are an asset's pins by rollouts: where it was let go on to, and where it
// goes back to.
func rolloutPins(pins []intent.Pin) (forward, backward *intent.Pin) {
	for i := range pins {
		switch pins[i].Rank {
		case intent.RankRollout:
			forward = &pins[i]
		case intent.RankRollback:
			backward = &pins[i]
		}
	}
	return forward, backward
}

// rolled looks at what rollouts did.
func (m *Monitor) rolled(news *news, before map[intent.AssetID][]intent.Pin) {
	by := func(r record) bool {
		return strings.HasPrefix(r.Verb, "rollout-") || r.Verb == "publish" || strings.HasPrefix(r.By.Name, intent.RolloutPrefix)
	}
	if m.options.Well == nil || !slices.ContainsFunc(news.own, by) && m.commits%sample != 0 {
		return
	}
	m.readRuns()
	for _, r := range news.own {
		m.countVote(r)
	}
	m.wentThrough(before)
	m.governs()
	m.fields()
	if slices.ContainsFunc(news.own, func(r record) bool { return r.Verb == "rollout-forgive" }) {
		maps.Copy(m.rolling.forgiven, m.rolling.bad) // What follows may be some commits later.
	}
	m.readJudged()
	for _, asset := range slices.Sorted(maps.Keys(m.pins)) {
		forward, backward := rolloutPins(m.pins[asset])
		previous, wasBack := rolloutPins(before[asset])
		if backward != nil {
			m.hold(forward != nil && forward.Holder == backward.Holder, "S10", "asset %s goes back by a pin of %s, and %v governs it", asset, backward.Holder.Name, forward)
		}
		if forward != nil && backward == nil && m.run(forward).To == forward.Incarnation && previous != nil && previous.Revision != forward.Revision { // Without one before it was only put under the rollout.
			m.letOn(asset, previous, forward, news)
		}
		if backward != nil && (wasBack == nil || wasBack.Revision != backward.Revision) {
			m.wentBack(asset, backward)
		}
	}
	for asset := range m.rolling.soaks {
		if forward, _ := rolloutPins(m.pins[asset]); forward == nil && !slices.Contains(m.fieldAssets(), asset) {
			delete(m.rolling.soaks, asset)
		}
	}
	m.Produced()
	m.countRetries()
	m.badVerdicts()
	for _, name := range slices.Sorted(maps.Keys(m.rolling.runs)) {
		run := m.rolling.runs[name]
		m.hold(run.Bad == "" || run.State != intent.RolloutRunning && run.State != intent.RolloutPaused, "L8", "run %d of %s is %s, and what it brings was judged bad: %s", run.Run, name, run.State, run.Bad)
	}
}

// countRetries: a validation begins anew as often in a run as its retries allow, and no run forgets how often (L8).
func (m *Monitor) countRetries() {
	allowed := map[string]int{}
	for _, v := range m.policyAt(m.head).GetValidations() {
		allowed[v.GetName()] = int(v.GetRetries())
	}
	for _, name := range slices.Sorted(maps.Keys(m.rolling.runs)) {
		run := m.rolling.runs[name]
		key, now := runOf{name, run.Run}, run.Progress.Retries
		for _, validation := range slices.Sorted(maps.Keys(m.rolling.retries[key])) {
			before := m.rolling.retries[key][validation]
			m.hold(now[validation] >= before, "L8", "run %d of %s forgot that the validation %s began anew %d times: now %d", run.Run, name, validation, before, now[validation])
		}
		for _, validation := range slices.Sorted(maps.Keys(now)) {
			most, ok := allowed[validation]
			m.hold(!ok || now[validation] <= most, "L8", "in run %d of %s the validation %s began anew %d times, and %d are allowed", run.Run, name, validation, now[validation], most)
		}
		if len(now) > 0 {
			m.rolling.retries[key] = now
		}
	}
}

// run of which a pin is.
func (m *Monitor) run(pin *intent.Pin) intent.Rollout { return m.rolling.runs[pin.Rollout()] }

func (m *Monitor) readRuns() {
	text := "SELECT record FROM rollout WHERE partition = $1 AND run = (SELECT max(n.run) FROM rollout n WHERE n.partition = rollout.partition AND n.name = rollout.name)"
	m.unread("the rollouts", m.database.each(text, []any{string(m.options.Partition)}, func(rows *sql.Rows) error {
		var text string
		var run intent.Rollout
		if err := rows.Scan(&text); err != nil {
			return err
		}
		if err := json.Unmarshal([]byte(text), &run); err != nil {
			return err
		}
		m.rolling.runs[run.Name] = run
		return nil
	}))
}

// wentThrough notes the contents that rollouts which others come after are done with, and
// those that their assets had when they came under one.
func (m *Monitor) wentThrough(before map[intent.AssetID][]intent.Pin) {
	rollouts := m.policyAt(m.head).GetRollouts()
	if !slices.ContainsFunc(rollouts, func(r *intentpb.Rollout) bool { return len(r.GetAfter()) > 0 }) {
		return
	}
	var done []intent.Rollout
	m.unread("the rollouts", m.database.each("SELECT record FROM rollout WHERE partition = $1", []any{string(m.options.Partition)}, func(rows *sql.Rows) error {
		var text string
		var run intent.Rollout
		if err := rows.Scan(&text); err != nil {
			return err
		}
		err := json.Unmarshal([]byte(text), &run)
		if run.State == intent.RolloutDone {
			done = append(done, run)
		}
		return err
	}))
	for _, run := range done {
		for _, asset := range slices.Sorted(maps.Keys(m.members)) {
			own, ok := m.at(asset, run.To.Sequence)
			if rollout := m.rolloutAt(run.To.Sequence, run.Name); ok && rollout != nil && selects(rollout, asset, own.kind) {
				m.rolling.went[called{asset, own.effective}] = true
			}
		}
	}
	for asset, pins := range m.pins {
		forward, _ := rolloutPins(pins)
		if previous, _ := rolloutPins(before[asset]); forward == nil || previous != nil && previous.Holder == forward.Holder {
			continue
		}
		if own, ok := m.at(asset, forward.Incarnation.Sequence); ok {
			m.rolling.went[called{asset, own.effective}] = true
		}
	}
}

// comesAfter: what comes after another rollout brings what that went through with (S19).
func (m *Monitor) comesAfter(run intent.Rollout, rollout *intentpb.Rollout) {
	for _, name := range rollout.GetAfter() {
		before := m.rolloutAt(run.To.Sequence, name)
		now := m.rolloutAt(m.head, name)
		if before == nil || now == nil {
			continue
		}
		for _, asset := range slices.Sorted(maps.Keys(m.members)) {
			own, ok := m.at(asset, run.To.Sequence)
			if ok && selects(before, asset, own.kind) && selects(now, asset, own.kind) {
				m.hold(m.rolling.went[called{asset, own.effective}], "S19", "run %d of %s brings %s, which comes after %s, and that never went through with content %s of %s",
					run.Run, run.Name, run.To, name, own.effective.Short(), asset)
			}
		}
	}
}

// readJudged: a content is found good only after it was well for as long as its stage
// asks, and one that is bad stays so until a person forgives it (S20).
func (m *Monitor) readJudged() {
	judged := map[called]bool{}
	m.unread("the judgements", m.database.each("SELECT asset, effective, good FROM judgement WHERE partition = $1", []any{string(m.options.Partition)}, func(rows *sql.Rows) error {
		var key called
		var effective digest
		var good bool
		err := rows.Scan(&key.asset, &effective, &good)
		key.effective = effective.Digest
		judged[key] = good
		return err
	}))
	m.Produced()
	for key, good := range judged {
		if was, ok := m.rolling.judged[key]; ok && was == good {
			continue
		}
		if !good {
			m.rolling.bad[key] = true
			delete(m.rolling.forgiven, key) // It is bad anew.
			continue
		}
		if m.rolling.forgiven[key] {
			delete(m.rolling.bad, key) // What is forgiven may be found good at once.
		}
		m.hold(!m.rolling.bad[key], "S20", "content %s of %s is found good, and it was judged bad", key.effective.Short(), key.asset)
		if least, ok := m.leastSoak(key.asset); ok {
			least = m.lenient(least, m.options.Now().Add(-least))
			m.hold(m.wellFor(key) >= least, "S20", "content %s of %s is found good, and was well for %s of %s", key.effective.Short(), key.asset, m.wellFor(key), least)
		}
	}
	for key := range m.rolling.bad {
		if _, ok := judged[key]; !ok && m.rolling.forgiven[key] {
			delete(m.rolling.bad, key)
		}
	}
	m.rolling.judged = judged
}

// said is a rollout of head's policy.
func (m *Monitor) rolloutAt(sequence intent.Sequence, name string) *intentpb.Rollout {
	for _, r := range m.policyAt(sequence).GetRollouts() {
		if r.GetName() == name {
			return r
		}
	}
	return nil
}

// understood reports whether letOn can tell which stage of a rollout lets what go on.
func understood(r *intentpb.Rollout) bool {
	return !slices.ContainsFunc(r.GetStages(), func(s *intentpb.RolloutStage) bool {
		return s.GetWhere() != "" || s.GetByLabel() != "" || s.GetParallel() > 1 || s.GetFactor() != 0 || s.GetPlugin() != ""
	})
}

// selects reports whether a rollout governs an asset of a type. It knows only
// conditions that ask for one type, and for how the id begins or does not.
func selects(r *intentpb.Rollout, asset intent.AssetID, kind intent.TypeName) bool {
	name, ok := strings.CutPrefix(r.GetSelect(), "type == ")
	name, begins, asks := strings.Cut(name, " && ")
	not := strings.HasPrefix(begins, "!")
	prefix := strings.TrimSuffix(strings.TrimPrefix(strings.TrimPrefix(begins, "!"), `id.startsWith("`), `")`)
	return ok && strings.HasSuffix(string(kind), "."+strings.Trim(name, `"`)) && (!asks || strings.HasPrefix(string(asset), prefix) != not)
}

// stageOf is the stage of a rollout that an asset belongs to; -1: none.
func stageOf(r *intentpb.Rollout, of content) int {
	return slices.IndexFunc(r.GetStages(), func(s *intentpb.RolloutStage) bool {
		if len(s.GetScopes()) == 0 {
			return true
		}
		for _, value := range of.scopes {
			if slices.Contains(s.GetScopes(), value) {
				return true
			}
		}
		return false
	})
}

// leastSoak is the shortest soak that an ordinary stage of the asset's rollout asked for,
// by the policies that may have counted.
func (m *Monitor) leastSoak(asset intent.AssetID) (least time.Duration, ok bool) {
	forward, _ := rolloutPins(m.pins[asset])
	if forward == nil {
		return 0, false
	}
	for back := range intent.Sequence(2) {
		for _, s := range m.rolloutAt(m.head-min(back, m.head), forward.Rollout()).GetStages() {
			if soak := s.GetSoak().AsDuration(); !ok || soak < least {
				least, ok = soak, true
			}
		}
	}
	return least, ok
}

// letOn: a run lets an asset go on only when all stages before its own have what it
// brings, were well for their soak, and no more go on at a time than its stage lets
// (S19); and not to what was judged bad (S20).
func (m *Monitor) letOn(asset intent.AssetID, previous, forward *intent.Pin, news *news) {
	run, rollout := m.run(forward), m.rolloutAt(m.head, forward.Rollout())
	to, ok := m.at(asset, forward.Incarnation.Sequence)
	if previous != nil {
		if had, had1 := m.at(asset, previous.Incarnation.Sequence); had1 && had.effective == to.effective && previous.Incarnation.Sequence > 0 {
			return
		}
	}
	key := called{asset, to.effective}
	m.rolling.brought[key] = true
	m.hold(!m.rolling.bad[key], "S20", "run %d of %s brings content %s of %s, which was judged bad", run.Run, run.Name, to.effective.Short(), asset)
	own, _ := m.contentAt(asset, m.head)
	if rollout == nil || !understood(rollout) || !ok || run.Promoted || run.Emergency || news.unclear(asset) || m.deceived() {
		return
	}
	m.comesAfter(run, rollout)
	m.peopleApproved(run, stageOf(rollout, own))
	m.hold(run.State != intent.RolloutPaused, "S19", "run %d of %s lets %s go on, and is paused", run.Run, run.Name, asset)
	m.ask("S19")
	stage := stageOf(rollout, own)
	under, groups := map[intent.AssetID]bool{}, map[string]bool{}
	for _, other := range slices.Sorted(maps.Keys(m.pins)) {
		pin, backward := rolloutPins(m.pins[other])
		head, ok := m.contentAt(other, m.head)
		goal, brings := m.at(other, forward.Incarnation.Sequence)
		if pin == nil || pin.Holder != forward.Holder || !ok || !brings || !selects(rollout, other, head.kind) {
			continue
		}
		at := stageOf(rollout, head)
		if at < 0 || at > stage || at < stage && slices.Contains(run.Skipped, rollout.GetStages()[at].GetName()) || slices.Contains(run.Skipped, rollout.GetStages()[stage].GetName()) {
			continue
		}
		now, _ := m.at(other, pin.Incarnation.Sequence)
		has := backward == nil && pin.Incarnation.Sequence > 0 && now.effective == goal.effective
		soaked := has && m.soaked(called{other, goal.effective}, rollout.GetStages()[at], pin.Incarnation == run.To)
		switch {
		case at < stage:
			m.hold(has, "S19", "run %d of %s lets %s of stage %s go on, and %s of stage %s does not have it", run.Run, run.Name, asset, rollout.GetStages()[stage].GetName(), other, rollout.GetStages()[at].GetName())
			m.validated(run, rollout, at, pin)
			m.hold(!has || soaked, "S19", "run %d of %s lets %s of stage %s go on, and %s of stage %s was well for %s of %s", run.Run, run.Name, asset, rollout.GetStages()[stage].GetName(),
				other, rollout.GetStages()[at].GetName(), m.wellNow(other), rollout.GetStages()[at].GetSoak().AsDuration())
		case has && !soaked:
			under[other] = true
			groups[head.scopes[rollout.GetStages()[at].GetByScope()]] = true
		}
	}
	s := rollout.GetStages()[stage]
	if count := int(s.GetCount()); count > 0 && s.GetByScope() == "" {
		m.hold(len(under) <= count, "S19", "run %d of %s has %d of stage %s under way, which lets %d go on at a time: %v", run.Run, run.Name, len(under), s.GetName(), count, slices.Sorted(maps.Keys(under)))
	}
	if s.GetByScope() != "" {
		m.hold(len(groups) <= 1, "S19", "run %d of %s has %d groups of stage %s under way: %v", run.Run, run.Name, len(groups), s.GetName(), slices.Sorted(maps.Keys(under)))
	}
	if most := int(s.GetMost()); most > 0 {
		m.hold(len(under) <= most, "S19", "run %d of %s has %d of stage %s under way, of %d at most: %v", run.Run, run.Name, len(under), s.GetName(), most, slices.Sorted(maps.Keys(under)))
	}
}

// validated: what a run brought to an earlier stage was found good by those that are
// asked, unless a person did not wait for them (S19, S11).
func (m *Monitor) validated(run intent.Rollout, rollout *intentpb.Rollout, stage int, pin *intent.Pin) {
	name := rollout.GetStages()[stage].GetName()
	if len(rollout.GetValidate()) > 0 && pin.Incarnation == run.To && !slices.Contains(run.Accepted, name) {
		m.hold(m.rolling.foundGood[stageRun{runOf{run.Name, run.Run}, name}], "S19", "run %d of %s goes on after stage %s, which no validation found good", run.Run, run.Name, name)
	}
}

// governs: from the publication on that says so, nothing of head that a rollout
// selects goes without a pin of it (S19).
func (m *Monitor) governs() {
	for _, rollout := range m.policyAt(m.head).GetRollouts() {
		for _, asset := range slices.Sorted(maps.Keys(m.members)) {
			content, _ := m.contentAt(asset, m.head)
			if forward, _ := rolloutPins(m.pins[asset]); selects(rollout, asset, content.kind) && forward == nil {
				m.fail("S19", "asset %s is of the rollout %s in %d, and has no pin of it", asset, rollout.GetName(), m.head)
			}
		}
	}
}

// wentBack: only to what was found good, and was well for as long as that takes (S20).
func (m *Monitor) wentBack(asset intent.AssetID, backward *intent.Pin) {
	to, ok := m.at(asset, backward.Incarnation.Sequence)
	key := called{asset, to.effective}
	m.hold(ok && m.rolling.judged[key], "S20", "%s goes back to %s, and its content there was not found good", asset, backward.Incarnation)
	m.hold(!m.rolling.bad[key], "S20", "%s goes back to %s, and its content there was judged bad", asset, backward.Incarnation)
}
