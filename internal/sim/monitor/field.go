package monitor

import (
	"database/sql"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	intentpb "lehr.dev/gen/lehr/intent/v1"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/sim/world"
)

// fieldsSet is what is known of the document whose fields a rollout sets, by its own
// history.
type fieldsSet struct {
	// contents are the values of its fields at each revision, setters who set one at it.
	contents []map[string]string
	setters  []setter
	// before is what fields had before a run that was not found good set them first.
	before map[string]string
	// named are the fields that each run let go on, ended the newest run that was seen
	// to end.
	named map[stageRun]bool
	ended runOf
}

// setter is who set a field at a revision.
type setter struct {
	revision int
	pointer  string
	person   bool
}

const valuesPrefix = "/values/"

// now are the values of the newest revision.
func (f *fieldsSet) now() map[string]string { return f.contents[len(f.contents)-1] }

// personSince reports whether a person set a field after a revision.
func (f *fieldsSet) personSince(revision int, pointer string) bool {
	return slices.ContainsFunc(f.setters, func(s setter) bool { return s.person && s.pointer == pointer && s.revision > revision })
}

// persons reports whether a person was the last to set a field.
func (f *fieldsSet) persons(pointer string) bool {
	for _, s := range slices.Backward(f.setters) {
		if s.pointer == pointer {
			return s.person
		}
	}
	return true // From the beginning.
}

// fieldRollout is the rollout that sets fields, as head says it, with its newest run.
func (m *Monitor) fieldRollout() (rollout *intentpb.Rollout, run intent.Rollout, ran bool) {
	for _, r := range m.policyAt(m.head).GetRollouts() {
		if r.GetField().GetDocument() == m.options.Document {
			run, ran = m.rolling.runs[r.GetName()]
			return r, run, ran
		}
	}
	return nil, run, false
}

// baseOf is what the fields were when a run began.
func (f *fieldsSet) baseOf(run intent.Rollout) (revision int, values map[string]string) {
	revision = max(0, number(run.Base))
	return revision, f.contents[min(revision, len(f.contents)-1)]
}

// fields looks at what became of the document, and at what its rollout lets go on.
func (m *Monitor) fields() {
	if m.options.Document == "" {
		return
	}
	f := &m.rolling.fields
	m.unread("the revisions", m.database.each("SELECT revision, author, changes FROM document_revision WHERE partition = $1 AND name = $2 AND revision > $3 ORDER BY revision",
		[]any{string(m.options.Partition), m.options.Document, int64(len(f.contents) - 1)}, func(rows *sql.Rows) error {
			var revision int
			var author string
			var text []byte
			if err := rows.Scan(&revision, &author, &text); err != nil {
				return err
			}
			var changes []fieldChange
			if err := json.Unmarshal(text, &changes); err != nil {
				return err
			}
			m.revised(revision, strings.HasPrefix(author, intent.RolloutPrefix), changes)
			return nil
		}))
	rollout, run, ran := m.fieldRollout()
	if !ran {
		return
	}
	for _, e := range run.Edits {
		at := stageRun{runOf{run.Name, run.Run}, e.Pointer}
		if e.At.IsZero() || f.named[at] {
			continue
		}
		f.named[at] = true
		if e.Changed == "" && run.State == intent.RolloutRunning && rollout != nil {
			m.fieldLetOn(rollout, run, e.Pointer)
		}
	}
	m.fieldsEnded(run)
}

// fieldChange is one that a revision made.
type fieldChange struct {
	Path          string          `json:"path"`
	Before, After json.RawMessage `json:",omitempty"`
}

// revised takes up a revision: a rollout sets only what its run let go on, never what a
// person set since that began (S10), and gives back what was there before (S20).
func (m *Monitor) revised(revision int, rollout bool, changes []fieldChange) {
	f := &m.rolling.fields
	values := maps.Clone(f.now())
	for _, c := range changes {
		if c.Path == "" { // It was made.
			var whole struct{ Values map[string]json.RawMessage }
			m.unread("the document", json.Unmarshal(c.After, &whole))
			for id, value := range whole.Values {
				values[valuesPrefix+id] = string(value)
			}
			continue
		}
		if rollout {
			m.setByRollout(c)
		} else {
			delete(f.before, c.Path)
		}
		f.setters = append(f.setters, setter{revision, c.Path, !rollout})
		values[c.Path] = string(c.After)
	}
	f.contents = append(f.contents, values)
}

// setByRollout judges one field that a rollout set.
func (m *Monitor) setByRollout(c fieldChange) {
	f := &m.rolling.fields
	_, run, ran := m.fieldRollout()
	before, ok := f.before[c.Path]
	m.ask("S10")
	switch {
	case !ran:
		m.fail("S10", "a rollout set %s, and no run of one is known", c.Path)
	case run.State == intent.RolloutRollingBack:
		// Whose it is, is told by the value: a person may have given it back.
		m.hold(!f.persons(c.Path) || string(c.Before) == string(run.Value), "S10", "run %d of %s goes back, and takes from %s what a person set: %s becomes %s", run.Run, run.Name, c.Path, c.Before, c.After)
		m.hold(!ok || before == string(c.After), "S20", "run %d of %s goes back, and %s becomes %s; it was %s before", run.Run, run.Name, c.Path, c.After, before)
		delete(f.before, c.Path)
	default:
		revision, base := f.baseOf(run)
		m.hold(string(c.After) == string(run.Value), "S10", "run %d of %s sets %s to %s, and brings %s", run.Run, run.Name, c.Path, c.After, run.Value)
		m.hold(!f.personSince(revision, c.Path) || base[c.Path] == string(c.Before), "S10", "run %d of %s sets %s, which a person set to %s since it began", run.Run, run.Name, c.Path, c.Before)
		m.hold(f.named[stageRun{runOf{run.Name, run.Run}, c.Path}], "S19", "run %d of %s sets %s, and did not let it go on", run.Run, run.Name, c.Path)
		if !ok {
			f.before[c.Path] = string(c.Before)
		}
	}
}

// fieldLetOn: a field goes on only when production has what the run brings in all
// stages before its own, well for their soak, and no more go on at a time than its
// stage lets (S19).
func (m *Monitor) fieldLetOn(rollout *intentpb.Rollout, run intent.Rollout, pointer string) {
	f := &m.rolling.fields
	if run.Promoted || run.Emergency || m.deceived() {
		return
	}
	asset := intent.AssetID(strings.TrimPrefix(pointer, valuesPrefix))
	own, ok := m.contentAt(asset, m.head)
	if !ok {
		return
	}
	m.ask("S19")
	stage := stageOf(rollout, own)
	s := rollout.GetStages()[stage]
	if slices.Contains(run.Skipped, s.GetName()) {
		return
	}
	revision, base := f.baseOf(run)
	under, groups := []string{string(asset)}, map[string]bool{own.scopes[s.GetByScope()]: true}
	for _, other := range m.fieldAssets() {
		at := valuesPrefix + string(other)
		head, _ := m.contentAt(other, m.head)
		of := stageOf(rollout, head)
		// What somebody else set, and what had it already, is not asked.
		if other == asset || of > stage || base[at] == string(run.Value) || f.personSince(revision, at) && f.persons(at) || slices.Contains(run.Skipped, rollout.GetStages()[of].GetName()) {
			continue
		}
		member, _ := m.at(other, m.head)
		ok := fmt.Sprintf("%q", m.options.Has(other)) == string(run.Value)
		soaked := ok && m.soaked(called{other, member.effective}, rollout.GetStages()[of], true)
		switch {
		case of < stage:
			m.hold(soaked, "S19", "run %d of %s lets %s of stage %s go on, and %s of stage %s has %q in production, well for %s of %s", run.Run, run.Name, pointer, s.GetName(),
				other, rollout.GetStages()[of].GetName(), m.options.Has(other), m.wellNow(other), rollout.GetStages()[of].GetSoak().AsDuration())
		case f.now()[at] == string(run.Value) && !soaked:
			under = append(under, string(other))
			groups[head.scopes[s.GetByScope()]] = true
		}
	}
	if most := int(s.GetCount()); most > 0 && s.GetByScope() == "" {
		m.hold(len(under) <= most, "S19", "run %d of %s has %d of stage %s under way, which lets %d go on at a time: %v", run.Run, run.Name, len(under), s.GetName(), most, under)
	}
	if s.GetByScope() != "" {
		m.hold(len(groups) <= 1, "S19", "run %d of %s has %d groups of stage %s under way: %v", run.Run, run.Name, len(groups), s.GetName(), under)
	}
}

// fieldAssets are those of head whose fields a rollout sets.
func (m *Monitor) fieldAssets() (list []intent.AssetID) {
	if m.options.Document == "" || len(m.rolling.fields.contents) == 0 {
		return nil
	}
	for pointer := range m.rolling.fields.now() {
		id := intent.AssetID(strings.TrimPrefix(pointer, valuesPrefix))
		if _, member := m.members[id]; member && strings.HasPrefix(pointer, valuesPrefix) {
			list = append(list, id)
		}
	}
	slices.Sort(list)
	return list
}

// fieldsEnded: a run that is done has set each field that nobody else set since, and one
// that went back has given each back (S20): no document ends half set.
func (m *Monitor) fieldsEnded(run intent.Rollout) {
	f := &m.rolling.fields
	key := runOf{run.Name, run.Run}
	if run.State.Open() || f.ended == key {
		return
	}
	f.ended = key
	revision, _ := f.baseOf(run)
	switch run.State {
	case intent.RolloutDone:
		for _, asset := range m.fieldAssets() {
			at := valuesPrefix + string(asset)
			m.hold(f.now()[at] == string(run.Value) || f.personSince(revision, at) || slices.ContainsFunc(run.Edits, func(e intent.RolloutEdit) bool { return e.Pointer == at && e.Changed != "" }),
				"S20", "run %d of %s is done, and %s is %s, not %s, which nobody else set", run.Run, run.Name, at, f.now()[at], run.Value)
		}
		clear(f.before)
	case intent.RolloutRolledBack:
		for pointer, before := range f.before {
			m.hold(f.persons(pointer) || f.now()[pointer] == before, "S20", "run %d of %s went back, and %s is %s still; it was %s before", run.Run, run.Name, pointer, f.now()[pointer], before)
		}
		clear(f.before)
	}
}

// received: production has the value of a run only where that let it go on (S19).
func (m *Monitor) received(e world.Effect) {
	if m.options.Document == "" || !slices.Contains(m.fieldAssets(), e.Asset) {
		return
	}
	f := &m.rolling.fields
	_, run, ran := m.fieldRollout()
	at := valuesPrefix + string(e.Asset)
	if !ran || !run.State.Open() || fmt.Sprintf("%q", m.options.Has(e.Asset)) != string(run.Value) {
		return
	}
	ever := slices.ContainsFunc(f.contents, func(values map[string]string) bool { return values[at] == string(run.Value) })
	m.hold(ever, "S19", "%s received %s of run %d of %s, which never set it", e.Asset, run.Value, run.Run, run.Name)
}

// Edited is called when somebody was told that their edit of a field, made on a
// revision, is another: that differs from the one it was made on in this field alone,
// for nobody else's edit is overwritten unseen (S10).
func (m *Monitor) Edited(base, revision, pointer, value string) {
	before, after, read := m.between(base, revision)
	if !read {
		return
	}
	m.ask("S10")
	for _, at := range slices.Sorted(maps.Keys(after)) {
		if at == pointer {
			m.hold(after[at] == value, "S10", "revision %s was to set %s to %s, and has %s", revision, pointer, value, after[at])
		} else if was, ok := before[at]; ok {
			m.hold(after[at] == was, "S10", "revision %s of %s was made on revision %s, where %s was %s, not %s", revision, pointer, base, at, was, after[at])
		}
	}
	start, end := number(base), number(revision)
	m.hold(!slices.ContainsFunc(m.rolling.fields.setters, func(s setter) bool { return s.revision > start && s.revision < end }),
		"S10", "revision %s was made on revision %s, and somebody edited the document in between", revision, base)
}

// Undone is called when somebody was told that a revision is undone by another: what was
// set since stays (S10), and the rest is as it was before (S20).
func (m *Monitor) Undone(revision, made string) {
	f := &m.rolling.fields
	at, end := number(revision), number(made)
	before, after, read := m.between(fmt.Sprint(at-1), made)
	if !read || at < 1 {
		return
	}
	for _, s := range f.setters {
		if s.revision != at {
			continue
		}
		m.ask("S10")
		if slices.ContainsFunc(f.setters, func(o setter) bool { return o.pointer == s.pointer && o.revision > at && o.revision < end }) {
			m.fail("S10", "revision %s undoes revision %s, and takes from %s what was set since", made, revision, s.pointer)
		} else if was, ok := before[s.pointer]; ok {
			m.hold(after[s.pointer] == was, "S20", "revision %s undoes revision %s, and %s is %s; it was %s before", made, revision, s.pointer, after[s.pointer], was)
		}
	}
}

// between reads what the document was at two revisions.
func (m *Monitor) between(base, revision string) (before, after map[string]string, read bool) {
	m.fields()
	f := &m.rolling.fields
	start, end := number(base), number(revision)
	if start < 0 || end <= start || end >= len(f.contents) {
		m.fail("S10", "an edit on revision %s was answered with revision %s, and the newest is %d", base, revision, len(f.contents)-1)
		return nil, nil, false
	}
	return f.contents[start], f.contents[end], true
}

// number of a revision.
func number(revision string) int {
	n, err := strconv.Atoi(revision)
	if err != nil {
		return -1
	}
	return n
}
