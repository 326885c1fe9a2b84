package strategist_test

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"time"

	intentpb "lehr.dev/gen/lehr/intent/v1"
	"lehr.dev/internal/ground/document"
	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/store"
)

// knobs are the fields of a document that a rollout of a world sets, each of one asset.
type knobs struct {
	random *rand.Rand
	assets []intent.AssetID
	// values say what becomes of whatever has one; refused ones are never served.
	values map[string]word
	// bodies are what the assets have besides, served what head has of the fields.
	bodies map[intent.AssetID]int
	served map[intent.AssetID]string
	// revision that head has, newest that was built, and due when the next is.
	revision, built string
	due             time.Time
	// means is the value that a content has, as a digest.
	means map[intent.Digest]intent.Digest
	// base is what each field goes back to, past what it was before the last run that
	// was done; set when a person did.
	base, past map[intent.AssetID]string
	set        map[intent.AssetID]time.Time
	done       uint64
}

// withKnobs gives a world fields.
func (w *world) withKnobs() {
	k := &knobs{
		random: rand.New(rand.NewPCG(w.seed, 9)), assets: []intent.AssetID{"x1", "x2", "y1", "y2", "y3"}, values: map[string]word{}, bodies: map[intent.AssetID]int{},
		served: map[intent.AssetID]string{}, means: map[intent.Digest]intent.Digest{}, base: map[intent.AssetID]string{}, past: map[intent.AssetID]string{}, set: map[intent.AssetID]time.Time{},
	}
	w.knobs = k
	content := map[intent.AssetID]map[string]string{}
	for _, id := range k.assets {
		value := w.value(true)
		content[id], k.base[id], k.past[id] = map[string]string{"flag": value}, value, value
	}
	text, err := json.Marshal(content)
	w.must(err)
	_, err = w.store.CreateDocument(w.ctx, shop, "knobs", text, "begun", ann)
	w.must(err)
	w.fieldsNow()
}

// value unlike all before.
func (w *world) value(good bool) string {
	k, made := w.knobs, word{}
	text := fmt.Sprintf("v%d", len(k.values))
	switch lot := k.random.IntN(3); {
	case good:
	case lot == 0:
		made.refused, text = true, text+"-refused"
	default:
		made.illIn = time.Duration(1+k.random.IntN(6)) * time.Second
		text += "-ill"
	}
	k.values[text] = made
	return text
}

// fieldRollout is one that sets the fields, as the policies of the world have it.
func (w *world) fieldRollout() *intentpb.Rollout {
	random := w.random
	w.random = w.knobs.random
	defer func() { w.random = random }()
	r := w.newRollout("flags", "xy")
	r.Field = &intentpb.DocumentField{Document: "knobs", Pointer: "/{id}/flag", Source: "held"}
	return r
}

// fieldsOf a document's content.
func (w *world) fieldsOf(content []byte) map[intent.AssetID]string {
	var fields map[intent.AssetID]struct{ Flag string }
	w.must(json.Unmarshal(content, &fields))
	values := map[intent.AssetID]string{}
	for id, f := range fields {
		values[id] = f.Flag
	}
	return values
}

// fieldsNow takes up what the document is, as a build does: it is served, or refused.
func (w *world) fieldsNow() (served bool) {
	k := w.knobs
	found, err := w.store.Document(w.ctx, shop, "knobs", "")
	w.must(err)
	if found.Revision.ID == k.built {
		return false
	}
	k.built = found.Revision.ID
	fields := w.fieldsOf(found.Content)
	for _, id := range k.assets {
		if k.values[fields[id]].refused {
			w.tell("revision %s is refused, for %s is %s", k.built, id, fields[id])
			w.must(w.store.SaveCandidate(w.ctx, w.lease, intent.Candidate{
				ID: intent.CandidateID{Partition: shop, Digest: intent.Sum(k.built)}, Base: w.head, State: intent.CandidateRejected, Created: w.now(),
				Sources: []intent.SourceRevision{{Source: "held", Revision: k.built}}, Findings: []intent.Finding{{Message: "no such flag"}},
			}, nil))
			return false
		}
	}
	k.served, k.revision = fields, k.built
	return true
}

// build what was edited, a little later.
func (w *world) build() {
	k := w.knobs
	if k == nil || w.head.Sequence == 0 || !w.other.IsZero() {
		return // Who has the lease now builds nothing here.
	}
	switch found, err := w.store.Document(w.ctx, shop, "knobs", ""); {
	case err != nil:
		w.must(err)
	case found.Revision.ID == k.built:
	case k.due.IsZero():
		k.due = w.truth().Add(time.Duration(k.random.IntN(4)) * tick)
	case !w.truth().Before(k.due) && w.store.Check(w.ctx, w.lease) == nil:
		if k.due = (time.Time{}); w.fieldsNow() {
			w.publish(w.contents, w.policy)
		}
	}
}

// withFields are contents with those that the fields make.
func (w *world) withFields(contents map[intent.AssetID]word) map[intent.AssetID]word {
	k := w.knobs
	if k == nil {
		return contents
	}
	all := maps.Clone(contents)
	for _, id := range k.assets {
		all[id] = word{text: fmt.Sprintf("%s-%d-%s", id, k.bodies[id], k.served[id]), illIn: k.values[k.served[id]].illIn}
	}
	return all
}

// meant is what a content is judged by: where a field made it, the value of that.
func (w *world) meant(content intent.Digest) intent.Digest {
	if w.knobs != nil && !w.knobs.means[content].IsZero() {
		return w.knobs.means[content]
	}
	return content
}

// fiddle does something about the fields.
func (w *world) fiddle() {
	k := w.knobs
	if k == nil {
		return
	}
	order := intent.RolloutOrder{Partition: shop, Name: "flags", Reason: "why not", By: ann, At: w.now()}
	switch k.random.IntN(8) {
	case 0, 1, 2:
		order.Kind = intent.OrderStart
		order.Value, _ = json.Marshal(w.value(k.random.IntN(5) < 3))
	case 3:
		order.Kind = []intent.OrderKind{
			intent.OrderPause, intent.OrderResume, intent.OrderAbort, intent.OrderSkip, intent.OrderPromote, intent.OrderRollback, intent.OrderEmergency,
		}[k.random.IntN(7)]
	case 4:
		w.setField(k.assets[k.random.IntN(len(k.assets))], w.value(true))
		return
	case 5:
		k.bodies[k.assets[k.random.IntN(len(k.assets))]]++ // With the next publication.
		return
	default:
		return
	}
	_, err := w.store.OrderRollout(w.ctx, order)
	w.must(err)
	w.tell("order %s %s of the fields", order.Kind, order.Value)
}

// setField as a person does.
func (w *world) setField(id intent.AssetID, value string) {
	for {
		found, err := w.store.Document(w.ctx, shop, "knobs", "")
		w.must(err)
		text, _ := json.Marshal(value)
		_, err = w.store.EditDocument(w.ctx, shop, "knobs", document.Edit{
			Base: found.Revision.ID, Operations: []document.Operation{{Path: "/" + string(id) + "/flag", Value: text}}, Reason: "by hand",
		}, ann)
		if fault.Is(err, fault.Conflict) {
			continue
		}
		w.must(err)
		break
	}
	w.tell("ann sets %s to %s", id, value)
	k := w.knobs
	k.base[id], k.past[id], k.set[id] = value, value, w.truth()
}

// SetFields is where the strategist may end when the document is edited, and its run
// does not say so yet, and where its answer may be lost.
func (f faulty) SetFields(ctx context.Context, lease store.Lease, revision uint64, name string, edit document.Edit, by intent.Actor) (document.Document, error) {
	before, err := f.Store.Document(ctx, shop, name, "")
	f.must(err)
	made, err := f.Store.SetFields(ctx, lease, revision, name, edit, by)
	if err != nil {
		return made, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.knobs != nil {
		f.tell("edit %+v", edit.Operations)
		f.monitor.edited(f.fieldsOf(before.Content), edit.Operations)
	}
	f.falls("edited")
	return made, f.loses()
}

// edited looks at what a run sets (S19), and at what it gives back (S20).
func (m *monitor) edited(fields map[intent.AssetID]string, operations []document.Operation) {
	k := m.knobs
	runs, err := m.store.Rollouts(m.ctx, shop, store.RolloutFilter{Name: "flags", Limit: 1})
	m.must(err)
	run, r := runs[0], rolloutOf(m.policy, "flags")
	var value string
	m.must(json.Unmarshal(run.Value, &value))
	if p, err := m.store.Partition(m.ctx, shop); err != nil || p.Stop != nil && run.State == intent.RolloutRunning {
		m.broken("S18", "fields are set in spite of a stop")
	}
	var let []intent.AssetID
	for _, o := range operations {
		id, sets := intent.AssetID(o.Path[1:3]), ""
		m.must(json.Unmarshal(o.Value, &sets))
		if k.set[id].After(m.since[run.Name]) {
			m.broken("S10", "run %d sets %s to %s, which a person set to %s since it began", run.Run, id, sets, fields[id])
		}
		switch {
		case run.State == intent.RolloutRollingBack:
			if m.seen["fields back"]++; sets != k.base[id] && sets != k.past[id] {
				m.broken("S20", "%s goes back to %s, and was %s, or %s", id, sets, k.base[id], k.past[id])
			}
		case run.State != intent.RolloutRunning && run.State != intent.RolloutPaused || sets != value:
			m.broken("S19", "run %d is %s, brings %s, and sets %s to %s", run.Run, run.State, value, id, sets)
		default:
			let = append(let, id)
		}
	}
	if m.let = m.truth(); len(let) > 0 && r != nil && !run.Promoted {
		m.seen["fields set"]++
		m.spread(run, r, let, fields, value)
	}
}

// spread looks at whom a run gives its value, beside those that have it (S19).
func (m *monitor) spread(run intent.Rollout, r *intentpb.Rollout, let []intent.AssetID, fields map[intent.AssetID]string, value string) {
	stages := r.Stages
	if run.Emergency && len(r.Emergency) > 0 {
		stages = r.Emergency
	}
	// In the document is as good as in production, but for how it does.
	has := func(id intent.AssetID) bool { return fields[id] == value }
	through := func(id intent.AssetID, s *intentpb.RolloutStage) bool {
		return has(id) && m.things[id] != nil && m.meant(m.things[id].content) == intent.Sum(value) && m.things[id].judge.soaked(intent.Sum(value), s.Soak.AsDuration())
	}
	for i, stage := range stages {
		if !slices.ContainsFunc(let, func(id intent.AssetID) bool { return stageOf(stages, id) == i }) || slices.Contains(run.Skipped, stage.Name) {
			continue
		}
		total, done, under := 0, 0, []intent.AssetID{}
		for _, id := range m.knobs.assets {
			theirs := slices.ContainsFunc(run.Edits, func(e intent.RolloutEdit) bool { return e.Pointer == "/"+string(id)+"/flag" && e.Changed != "" })
			at := stageOf(stages, id)
			switch {
			case theirs || m.knobs.set[id].After(m.since[run.Name]):
			case at < i && !slices.Contains(run.Skipped, stages[at].Name) && !through(id, stages[at]):
				m.broken("S19", "%v are set in stage %s before %s of stage %s is through", let, stage.Name, id, stages[at].Name)
			case at != i:
			case through(id, stage):
				total, done = total+1, done+1
			case has(id) || slices.Contains(let, id):
				total, under = total+1, append(under, id)
			default:
				total++
			}
		}
		if most := allowed(stage, total, done); len(under) > most {
			m.broken("S19", "%v are set in stage %s, so that %v are under way, and %d may be", let, stage.Name, under, most)
		}
	}
}

// ended takes up what a run of fields that is done leaves behind: what is there from
// then on.
func (m *monitor) ended(run intent.Rollout) {
	k := m.knobs
	if k == nil || run.Name != "flags" || run.State != intent.RolloutDone || k.done == run.Run {
		return
	}
	k.done = run.Run
	var value string
	m.must(json.Unmarshal(run.Value, &value))
	m.seen["fields done"]++
	for _, id := range k.assets {
		if !k.set[id].After(m.since[run.Name]) {
			k.past[id], k.base[id] = k.base[id], value
			if has := m.meant(m.things[id].content); has != intent.Sum(value) {
				m.broken("L9", "run %d is done, and %s does not have %s", run.Run, id, value)
			}
		}
	}
}

// illFields: what a run set, and is ill for longer than it has patience, goes back (L8).
func (m *monitor) illFields(run intent.Rollout, r *intentpb.Rollout) {
	if m.knobs == nil {
		return
	}
	var value string
	m.must(json.Unmarshal(run.Value, &value))
	for _, id := range m.knobs.assets {
		t := m.things[id]
		if t == nil || t.judge.ill.IsZero() || t.judge.content != intent.Sum(value) || m.knobs.set[id].After(m.since[run.Name]) || m.knobs.base[id] == value {
			continue
		}
		m.seen["ill"]++
		if since := latest(latest(t.judge.ill, m.since[run.Name]), latest(m.disturbed, m.moved)); m.ago(since) > r.Patience.AsDuration()+4*time.Second {
			m.broken("L8", "%s is ill for %s with %s, and run %d goes on", id, m.ago(since), value, run.Run)
		}
	}
}

// healFields: what cannot be served, and no run will take back, a person does.
func (w *world) healFields() {
	if w.knobs == nil {
		return
	}
	open, err := w.store.Rollouts(w.ctx, shop, store.RolloutFilter{Name: "flags", Open: true})
	w.must(err)
	found, err := w.store.Document(w.ctx, shop, "knobs", "")
	w.must(err)
	fields := w.fieldsOf(found.Content)
	for _, id := range w.knobs.assets {
		if len(open) == 0 && w.knobs.values[fields[id]].refused {
			w.setField(id, w.value(true))
		}
	}
}
