package conduct

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"lehr.dev/internal/ground/document"
	"lehr.dev/internal/ground/intent"
)

// Field is what is known of the document that a rollout sets fields of. A run of it
// names a field in its Edits, then has the document edited, then finds what it wanted
// there: whoever is ended in between finds the rest, and does nothing twice.
type Field struct {
	Document string
	// Source that reads it.
	Source string
	// Now is its newest content, Head what head was built from, and Base what it was
	// when the run began; nil: that is not known.
	Now, Head, Base *Content
	// Problem says why the document cannot be read; Refused why it could not be edited.
	Problem, Refused string
	// Assets that the policy of head selects, while a run is open or something was
	// asked; each has its Pointer.
	Assets []Asset
	// Others are the open runs of other rollouts that set fields of the document.
	Others []Other
	// Candidate is the newest; nil: there is none, or head is newer.
	Candidate *intent.Candidate
	// Since finds the newest revision after another that changed a field.
	Since func(revision, pointer string) Setting
	// Older reports whether a revision is before another; nil: they are numbers of a document in
	// the store.
	Older func(a, b string) bool
	// InRepository: the document is a file of a repository, and what comes of an edit is known later.
	InRepository bool
	// Host of pull requests by which fields are set; empty: they are set without.
	Host string
	// Landing finds the incarnation that was the first with a revision of the document,
	// and what it changed; none: head was so already.
	Landing func(revision string) (intent.IncarnationID, []intent.AssetID)
}

// Content of a document at a revision.
type Content struct {
	Revision string
	Value    any
}

// Setting is a revision of a document that set a field; zero: none is known.
type Setting struct {
	Revision string
	By       intent.Actor
	// Description says by whom, and when.
	Description string
}

// Other is an open run of another rollout of the same document.
type Other struct {
	Rollout  string
	Run      uint64
	Began    time.Time
	Queued   bool
	Pointers []string
}

// Editing is an edit of a document that is to be made now.
type Editing struct {
	Document string
	Edit     document.Edit
}

// at is what a field has, in canonical JSON; nil: there is nothing.
func (c *Content) at(pointer string) json.RawMessage {
	path, err := document.ParsePath(pointer)
	if err != nil || c == nil {
		return nil
	}
	value, ok := document.At(c.Value, path)
	if !ok {
		return nil
	}
	return document.Canonical(value)
}

// same tells nothing from null.
func same(a, b json.RawMessage) bool { return (a == nil) == (b == nil) && bytes.Equal(a, b) }

// fieldOrderLasts is how long an order to start may be left lying, as by a server that
// is down.
const fieldOrderLasts = 24 * time.Hour

// field goes on with a rollout that sets a field of a document.
func (d *decider) field() {
	d.Assets = d.Field.Assets
	rollback := slices.ContainsFunc(d.Orders, func(o intent.RolloutOrder) bool { return o.Kind == intent.OrderRollback })
	if d.sets() && d.Field.Problem == "" && !d.elsewhere() && (d.run.State.Open() && d.run.State != intent.RolloutQueued || rollback) {
		d.settle()
	}
	if d.run != nil {
		for i := range d.run.Edits {
			if e := &d.run.Edits[i]; e.At.After(d.Now) {
				e.At = d.Now // The clock was set back.
			}
		}
	}
	if d.sets() && d.run.State.Open() && d.Field.Problem == "" {
		d.withdrawUnwanted()
	}
	d.prepare()
	d.observeField()
	if d.obeyField() {
		return // What was begun, or ended, is stored first.
	}
	if d.run == nil || !d.run.State.Open() {
		return
	}
	d.wakeAt(d.Now.Add(looksEvery))
	switch {
	case !d.sets():
		d.end(intent.RolloutStopped, d.holder(), "end", "head's policy has it set a field of a document by now")
	case d.elsewhere():
		d.end(intent.RolloutStopped, d.holder(), "end", "head's policy has it set fields of the document %s by now", d.Field.Document)
	case d.Field.Problem != "":
		d.run.Progress.Wait(intent.CauseDocument, "for the document: "+d.Field.Problem, nil)
	case d.run.State == intent.RolloutQueued:
		d.queue()
	case d.run.State == intent.RolloutRollingBack:
		d.undo()
	default:
		if reason := d.foundBad(); reason != "" {
			d.wentBad(reason)
		} else {
			d.advance()
			d.run.Progress.Fields = d.fields()
		}
		if d.run.State == intent.RolloutRollingBack {
			d.undo() // At once (L8).
		} else if d.run.State.Open() {
			d.edit()
		}
	}
}

// fields that the run is about.
func (d *decider) fields() int {
	pointers := map[string]bool{}
	for i := range d.Assets {
		a := &d.Assets[i]
		if e := d.editOf(a.Pointer); d.partOfField(a) || a.Selected && e != nil {
			pointers[a.Pointer] = true
		}
	}
	return len(pointers)
}

// sets reports whether the newest run sets a field.
func (d *decider) sets() bool { return d.run != nil && len(d.run.Value) > 0 }

// elsewhere: what the run set is of another document than the policy says now.
func (d *decider) elsewhere() bool {
	return slices.ContainsFunc(d.run.Edits, func(e intent.RolloutEdit) bool { return e.Document != d.Field.Document })
}

// editOf is the edit of a field; nil: there is none.
func (d *decider) editOf(pointer string) *intent.RolloutEdit {
	if d.run == nil {
		return nil
	}
	if d.edited == nil {
		d.edited = make(map[string]int, len(d.run.Edits))
	}
	for i := len(d.edited); i < len(d.run.Edits); i++ { // They are only ever added to.
		d.edited[d.run.Edits[i].Pointer] = i
	}
	if at, ok := d.edited[pointer]; ok {
		return &d.run.Edits[at]
	}
	return nil
}

// settle takes up what became of the fields: those that have the value by now, those
// that others set since, and those that head has.
func (d *decider) settle() {
	for i := range d.run.Edits {
		e := &d.run.Edits[i]
		if !e.Set() {
			continue
		}
		switch now := d.Field.Now.at(e.Pointer); {
		case same(now, d.run.Value):
			if e.Revision == "" {
				d.attributeEdit(e)
			}
		case e.Revision == "" && d.untouched(e, now):
		case d.run.State == intent.RolloutRollingBack && same(now, e.Before):
		default:
			d.theirs(e)
		}
	}
	if d.run.State == intent.RolloutRunning || d.run.State == intent.RolloutPaused {
		d.reserved()
	}
	d.landed()
}

// untouched: the field is as it was when the run began.
func (d *decider) untouched(e *intent.RolloutEdit, now json.RawMessage) bool {
	if d.Field.Base == nil {
		return same(now, e.Before)
	}
	return same(now, d.Field.Base.at(e.Pointer))
}

// found: the field has the value. If somebody else set it, it is theirs.
func (d *decider) attributeEdit(e *intent.RolloutEdit) {
	switch setting := d.Field.Since(d.run.Base, e.Pointer); {
	case setting.Revision == "":
		e.Revision = d.Field.Now.Revision
	case setting.By.Name == d.holder().Name, d.proposalOf(e.Pointer, false) != nil: // However it was merged.
		e.Revision = setting.Revision
	default:
		d.theirs(e)
	}
}

// theirs: somebody else set the field. It is kept as it is, whatever becomes of the
// run.
func (d *decider) theirs(e *intent.RolloutEdit) {
	e.Changed = cmp.Or(d.Field.Since(cmp.Or(e.Revision, d.run.Base), e.Pointer).Description, "somebody")
	d.event(d.holder(), "kept", "%s of %s is kept as it is: set by %s", e.Pointer, e.Document, e.Changed)
}

// reserved finds what others set since the run began, where it has not come to yet:
// that is kept too.
func (d *decider) reserved() {
	if d.Field.Base == nil {
		return
	}
	for i := range d.Assets {
		pointer := d.Assets[i].Pointer
		e := d.editOf(pointer)
		if pointer == "" || !d.Assets[i].Selected || e != nil && (e.Changed != "" || !e.At.IsZero()) {
			continue
		}
		original, current := d.Field.Base.at(pointer), d.Field.Now.at(pointer)
		if same(original, current) || same(current, d.run.Value) {
			continue
		}
		if e == nil {
			d.run.Edits = append(d.run.Edits, intent.RolloutEdit{Document: d.Field.Document, Pointer: pointer, Before: original})
			e = &d.run.Edits[len(d.run.Edits)-1]
		}
		d.theirs(e)
	}
}

// prepare says of each asset what its field has, whether head has what the run brings,
// and why it cannot go on. The assets of one field go on together, or not at all.
func (d *decider) prepare() {
	claimed := d.claimsOf(func(o Other) bool {
		return d.run != nil && !o.Queued && (o.Began.Before(d.run.Began) || o.Began.Equal(d.run.Began) && o.Rollout < d.Name)
	})
	waits := map[string]string{}
	for i := range d.Assets {
		a := &d.Assets[i]
		if a.Blocked == "" {
			a.Blocked = claimed.blockerOf(a.Pointer)
		}
		if a.Blocked != "" && waits[a.Pointer] == "" {
			waits[a.Pointer] = fmt.Sprintf("its field is that of %s too: %s", a.ID, a.Blocked)
		}
	}
	for i := range d.Assets {
		a := &d.Assets[i]
		a.Goal = intent.Digest{}
		if !d.sets() {
			continue
		}
		a.fieldValue = d.Field.Now.at(a.Pointer)
		e := d.editOf(a.Pointer)
		switch {
		case e == nil || !e.Set():
			a.Blocked = cmp.Or(a.Blocked, waits[a.Pointer])
		case d.inHead(e):
			a.Goal = a.Head
		default:
			a.Blocked = d.onTheWay(e)
		}
	}
}

// observeField takes up what was seen. Assets follow head, so other changes reach them
// too: what they were healthy for counts on, from when they are in sync again.
func (d *decider) observeField() {
	for i := range d.Assets {
		a := &d.Assets[i]
		o := a.Seen
		if o.Asset == "" {
			o = a.follows(d.Name, a.Head, time.Time{})
		}
		if o.Effective != a.Head {
			o.Effective, o.Arrived, o.Seen, o.Ill = a.Head, time.Time{}, time.Time{}, time.Time{}
		}
		e := d.editOf(a.Pointer)
		isRollingBack := d.run != nil && d.run.State == intent.RolloutRollingBack
		switch {
		case e == nil:
			o.Selected = time.Time{}
		case e.Set() && !isRollingBack:
			o.Selected = e.At
		}
		a.Seen = o
		if e == nil || !e.Set() || isRollingBack || !a.Goal.IsZero() {
			a.Seen = observationOf(a, a.Head, intent.Pin{Created: o.Selected}, d.Name, d.Now, d.Gap)
		}
		d.decision.Seen[a.ID] = a.Seen
	}
}

// partOfField reports whether the run is about an asset: its field has to be set, or
// was by the run.
func (d *decider) partOfField(a *Asset) bool {
	switch e := d.editOf(a.Pointer); {
	case !a.Selected || e != nil && e.Changed != "":
		return false
	case e != nil && e.Set():
		return true
	}
	return !same(a.fieldValue, d.run.Value)
}

// setOn lets assets go on: the fields that they have are named in the run, and set
// when that is stored. All assets of a field go on with it.
func (d *decider) setOn(assets []intent.AssetID) {
	chosen, fields, takesOver := map[intent.AssetID]bool{}, map[string]bool{}, map[string]bool{}
	for _, id := range assets {
		chosen[id] = true
	}
	for i := range d.Assets {
		a := &d.Assets[i]
		if !chosen[a.ID] || fields[a.Pointer] {
			continue
		}
		fields[a.Pointer] = true
		e := d.editOf(a.Pointer)
		if takesOver[a.Pointer] = e != nil; e == nil {
			d.run.Edits = append(d.run.Edits, intent.RolloutEdit{Document: d.Field.Document, Pointer: a.Pointer, Before: a.fieldValue})
			e = &d.run.Edits[len(d.run.Edits)-1]
		}
		e.At = d.Now
	}
	var advanced []intent.AssetID
	for i := range d.Assets {
		a := &d.Assets[i]
		if !fields[a.Pointer] || !a.Selected {
			continue
		}
		advanced = append(advanced, a.ID)
		a.Seen = a.goesOn(d.Name, a.Head, d.Now, takesOver[a.Pointer])
		d.decision.Seen[a.ID] = a.Seen
		d.wentOn(d.stageOf(a))
	}
	d.run.Progress.Wait("", "", nil)
	if d.Field.InRepository {
		d.run.Progress.Wait(intent.CauseDocument, "for the document "+d.Field.Document+" to be edited", advanced)
	}
	d.event(d.holder(), "select", "%s to %s for %s: %s", count(len(fields), "field is set", "fields are set"), d.run.Value, count(len(advanced), "asset", "assets"), listed(advanced))
}

// edit sets the fields that the run has named and the document does not have yet.
func (d *decider) edit() {
	if d.Stop != nil {
		return
	}
	var operations []document.Operation
	for _, e := range d.run.Edits {
		if e.Set() && e.Revision == "" && !same(d.Field.Now.at(e.Pointer), d.run.Value) {
			operations = append(operations, document.Operation{Path: e.Pointer, Value: d.run.Value})
		}
	}
	d.change(operations, fmt.Sprintf("run %d of the rollout %s, by %s: %s", d.run.Run, d.Name, d.run.By.Name, d.run.Reason))
}

// change asks for an edit of the document.
func (d *decider) change(operations []document.Operation, reason string) {
	if len(operations) == 0 {
		return
	}
	operations, reason = operations[:min(len(operations), document.MaxOperations)], reason[:min(len(reason), document.MaxReason)]
	if d.Field.Host != "" {
		d.propose(operations, reason)
		return
	}
	if d.withdrawing() != nil {
		return // By the policy of before, fields were set by pull requests.
	}
	d.decision.Edit = &Editing{Document: d.Field.Document, Edit: document.Edit{
		Base: d.Field.Now.Revision, Operations: operations, Reason: reason, Back: d.run.State == intent.RolloutRollingBack,
	}}
}
