package enforcer

import (
	"context"
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"time"

	intentpb "lehr.dev/gen/lehr/intent/v1"
	"lehr.dev/internal/annealing/check"
	"lehr.dev/internal/ground/document"
	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/ground/loop"
	"lehr.dev/internal/ground/outputs"
	"lehr.dev/internal/ground/schema"
	"lehr.dev/internal/store"
)

// outputsByAsset are outputs by asset and name, each as canonical JSON.
type outputsByAsset map[intent.AssetID]map[string]json.RawMessage

// outputWriter has the partition's document of outputs say what the assets in sync tell.
// The partition's pipeline reads the document, so what changes in it becomes an incarnation.
// What no plugin told, such as what a person wrote of an asset that none serves, is left
// alone. Owned by the goroutine in Run.
type outputWriter struct {
	// latest is what assets told last, with an empty map once they tell nothing any more.
	latest outputsByAsset
	// stored is the document as it was read or written last.
	stored outputsByAsset
	// unsaved are the assets whose outputs the document may not have.
	unsaved map[intent.AssetID]bool
	dampers map[outputs.ID]*outputs.Damper
	// damped is when outputs of assets that keep changing may be written, by asset. What others tell does not wait for it.
	damped map[intent.AssetID]time.Time
	// problems of outputs that are not taken up, by asset.
	problems map[intent.AssetID][]intent.OutputProblem
	// moved: the partition changed since the document was read, and maybe the document.
	moved   bool
	readAt  time.Time
	writing bool
	// next is when the next write may begin, after one that failed.
	next time.Time
}

const (
	// outputRetry is the pause after a write that failed.
	outputRetry = 5 * time.Second
	// outputReread is how soon the document is read again after the partition changed: who
	// else edits it is a person.
	outputReread = 10 * time.Second
	// mostOutputChanges of the past are looked at for how often outputs changed.
	mostOutputChanges = 200
)

func newOutputWriter() outputWriter {
	return outputWriter{
		latest: outputsByAsset{}, unsaved: map[intent.AssetID]bool{}, damped: map[intent.AssetID]time.Time{},
		dampers: map[outputs.ID]*outputs.Damper{}, problems: map[intent.AssetID][]intent.OutputProblem{},
	}
}

// load reads what the document has, and how often it changed lately.
func (w *outputWriter) load(ctx context.Context, s Stores, partition intent.PartitionID, now time.Time) error {
	doc, err := s.Document(ctx, partition, outputs.Document, "")
	if fault.Is(err, fault.NotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	w.stored, w.readAt = parseOutputs(doc.Content), now
	revisions, err := s.DocumentRevisions(ctx, partition, outputs.Document, "", mostOutputChanges)
	if err != nil {
		return err
	}
	slices.Reverse(revisions)
	for _, revision := range revisions {
		if revision.By != intent.OutputActor {
			continue // What a person edited is put right as soon after a restart as before it.
		}
		for _, change := range revision.Changes {
			path, err := document.ParsePath(change.Path)
			if err == nil && len(path) == 2 {
				w.damper(outputs.ID{Asset: intent.AssetID(path[0]), Name: path[1]}).Note(revision.At)
			}
		}
	}
	return nil
}

// parseOutputs reads the document; of one that a person damaged nothing is known, and the
// partition's candidates say what is wrong with it.
func parseOutputs(content []byte) outputsByAsset {
	table, findings := outputs.Parse(content)
	if len(findings) > 0 {
		return nil
	}
	return table.Values.ByAsset()
}

func (w *outputWriter) damper(id outputs.ID) *outputs.Damper {
	if w.dampers[id] == nil {
		w.dampers[id] = &outputs.Damper{}
	}
	return w.dampers[id]
}

// note takes up what an asset in sync tells. An asset that was turned down tells nothing.
func (w *outputWriter) note(id intent.AssetID, d intent.Difference) {
	if d.OutputProblem != "" {
		w.setProblems(id, intent.OutputProblem{Kind: intent.OutputRefused, Reason: d.OutputProblem})
		return
	}
	if p := w.problems[id]; len(p) > 0 && p[0].Kind == intent.OutputRefused {
		w.setProblems(id)
	}
	before, ok := w.latest[id]
	if len(d.Outputs) == 0 && !ok && w.stored[id] == nil {
		return
	}
	now := make(map[string]json.RawMessage, len(d.Outputs))
	for _, output := range d.Outputs {
		now[output.Name] = output.Value
	}
	if ok && len(outputs.ChangedNames(before, now)) == 0 {
		return
	}
	w.latest[id], w.unsaved[id] = now, true
}

func (w *outputWriter) setProblems(id intent.AssetID, problems ...intent.OutputProblem) {
	if len(problems) == 0 {
		delete(w.problems, id)
		return
	}
	w.problems[id] = problems
}

// names of the outputs that an asset told.
func (w *outputWriter) names(id intent.AssetID) []string {
	return slices.Sorted(maps.Keys(w.latest[id]))
}

// due reports whether something is to be written or read.
func (w *outputWriter) due(now time.Time) bool {
	if w.writing || now.Before(w.next) {
		return false
	}
	end := w.dampedUntil()
	return len(w.unsaved) > 0 || !end.IsZero() && !now.Before(end) || w.moved && len(w.latest) > 0 && now.Sub(w.readAt) >= outputReread
}

// dampedUntil is when the first output that keeps changing may be written; zero: there is none.
func (w *outputWriter) dampedUntil() (first time.Time) {
	for _, end := range w.damped {
		if first.IsZero() || end.Before(first) {
			first = end
		}
	}
	return first
}

// pause until something is to be done; negative: nothing is.
func (w *outputWriter) pause(now time.Time) time.Duration {
	if w.writing {
		return -1
	}
	var at time.Time
	switch end := w.dampedUntil(); {
	case len(w.unsaved) > 0:
		at = now
	case w.moved && len(w.latest) > 0:
		if at = w.readAt.Add(outputReread); !end.IsZero() && end.Before(at) {
			at = end
		}
	case !end.IsZero():
		at = end
	default:
		return -1
	}
	return max(0, at.Sub(now), w.next.Sub(now))
}

// outputEdit is one write of the document, and what came of it.
type outputEdit struct {
	// current are the outputs of the assets that are to be written.
	current outputsByAsset
	// dampers are copies, for the goroutine that writes.
	dampers map[outputs.ID]outputs.Damper
	stored  outputsByAsset
	// changed are the outputs that were written, and waiting those that keep changing.
	changed []outputs.ID
	waiting map[intent.AssetID][]intent.OutputProblem
	// damped is when the first of these may be written, by asset.
	damped map[intent.AssetID]time.Time
	err    error
}

// begin takes what is to be written.
func (w *outputWriter) begin(now time.Time) *outputEdit {
	edit := &outputEdit{current: outputsByAsset{}, dampers: map[outputs.ID]outputs.Damper{}, waiting: map[intent.AssetID][]intent.OutputProblem{}, damped: map[intent.AssetID]time.Time{}}
	if w.moved && now.Sub(w.readAt) >= outputReread {
		maps.Copy(edit.current, w.latest)
	} else {
		for id := range w.unsaved {
			edit.current[id] = w.latest[id]
		}
		for id, end := range w.damped {
			if !now.Before(end) {
				edit.current[id] = w.latest[id]
			}
		}
	}
	for id := range edit.current {
		delete(w.damped, id)
	}
	for id, damper := range w.dampers {
		if _, ok := edit.current[id.Asset]; ok {
			edit.dampers[id] = *damper
		}
	}
	w.unsaved, w.moved, w.writing = map[intent.AssetID]bool{}, false, true
	return edit
}

// write reads the document and edits it where it does not say what is told.
func (edit *outputEdit) write(ctx context.Context, s Stores, lease store.Lease, now time.Time) {
	doc, err := s.Document(ctx, lease.Partition, outputs.Document, "")
	if err != nil && !fault.Is(err, fault.NotFound) {
		edit.err = err
		return
	}
	if err == nil {
		if edit.stored = parseOutputs(doc.Content); edit.stored == nil {
			return // A person has to mend it first.
		}
	}
	operations := edit.operations(now)
	if len(operations) == 0 {
		return
	}
	assets := map[string]bool{}
	for _, id := range edit.changed {
		assets[string(id.Asset)] = true
	}
	saved, err := s.SaveOutputs(ctx, lease, document.Edit{Base: doc.Revision.ID, Operations: operations, Reason: reasonOfOutputs(slices.Sorted(maps.Keys(assets)))})
	if edit.err = err; err == nil {
		edit.stored = parseOutputs(saved.Content)
	}
}

// reasonOfOutputs is what the document's history says.
func reasonOfOutputs(assets []string) string {
	const most = 5
	more := ""
	if len(assets) > most {
		assets, more = assets[:most], " and others"
	}
	return "told by " + strings.Join(assets, ", ") + more
}

// operations make the document say what is told, but for what keeps changing.
func (edit *outputEdit) operations(now time.Time) (operations []document.Operation) {
	for _, id := range slices.Sorted(maps.Keys(edit.current)) {
		stored, current := edit.stored[id], maps.Clone(edit.current[id])
		for _, name := range outputs.ChangedNames(stored, current) {
			output := outputs.ID{Asset: id, Name: name}
			damper := edit.dampers[output]
			end := damper.Until(now)
			if end.IsZero() {
				edit.changed = append(edit.changed, output)
				continue
			}
			if previous, ok := stored[name]; ok {
				current[name] = previous
			} else {
				delete(current, name)
			}
			edit.waiting[id] = append(edit.waiting[id], intent.OutputProblem{
				Name: name, Kind: intent.OutputChanging, Until: end, Reason: damper.Reason(output),
			})
			if first := edit.damped[id]; first.IsZero() || end.Before(first) {
				edit.damped[id] = end
			}
		}
		operations = append(operations, outputs.Changes(id, stored, current)...)
	}
	return operations
}

// startOutputs has the document written, one edit at a time.
func (e *Enforcer) startOutputs(ctx context.Context) {
	now := e.now()
	if e.Plans || !e.outputs.due(now) {
		return
	}
	edit := e.outputs.begin(now)
	e.Runtime.Go("outputs", func() {
		e.Runtime.Point("save outputs")
		edit.write(ctx, e.Store, e.lease, now)
		e.inbox.Put(func() { e.savedOutputs(edit) })
	})
}

// savedOutputs takes up what came of an edit.
func (e *Enforcer) savedOutputs(edit *outputEdit) {
	now := e.now()
	w := &e.outputs
	w.writing, w.next, w.readAt = false, time.Time{}, now
	maps.Copy(w.damped, edit.damped)
	if edit.err == nil {
		w.stored = edit.stored
		for _, id := range edit.changed {
			w.damper(id).Note(now)
		}
		e.reportOutputs(edit)
		return
	}
	w.next = now.Add(outputRetry)
	for id := range edit.current {
		w.unsaved[id] = true
		if fault.Is(edit.err, fault.Invalid) {
			edit.waiting[id] = []intent.OutputProblem{{Kind: intent.OutputUnsaved, Reason: "the document of outputs cannot take what it tells: " + edit.err.Error()}}
		}
	}
	e.Log.Warn("cannot save outputs; trying again", "partition", e.Partition, "assets", len(edit.current), "error", edit.err)
	if fault.Is(edit.err, fault.Invalid) {
		e.reportOutputs(edit)
	}
}

// reportOutputs has the assets of an edit reported anew where what is in the way changed.
func (e *Enforcer) reportOutputs(edit *outputEdit) {
	for id := range edit.current {
		problems := edit.waiting[id]
		if slices.Equal(problems, e.outputs.problems[id]) {
			continue
		}
		e.outputs.setProblems(id, problems...)
		if a := e.assets[id]; a != nil {
			e.soon(a, loop.Fresh)
		}
	}
}

// missingOutput is an output that content asks for and does not have, and why.
type missingOutput struct {
	outputs.ID
	why intentpb.ReadOutput_Missing
}

// readMissing lists what the content asks for and nobody told.
func readMissing(content intent.Asset) (missing []missingOutput, err error) {
	addon := &intentpb.ReadsOutputs{}
	if _, err := schema.Addon(content, addon); err != nil {
		return nil, err
	}
	for _, read := range addon.Reads {
		if read.Unknown {
			id := outputs.ID{Asset: intent.AssetID(read.Asset), Name: read.Output}
			if read.Partition != "" {
				id.Partition, id.Asset = intent.PartitionID(read.Partition), intent.AssetID(read.Elsewhere)
			}
			missing = append(missing, missingOutput{id, read.Missing})
		}
	}
	return missing, nil
}

// missing is what the checks look at of it.
func (e *Enforcer) missing(a *asset) (list []check.MissingOutput) {
	for _, missing := range a.requirements.missing {
		m := check.MissingOutput{ID: missing.ID, Reader: e.Partition, Missing: missing.why}
		if missing.Partition == "" {
			m.Available = e.outputs.names(missing.Asset)
		}
		list = append(list, m)
	}
	return list
}
