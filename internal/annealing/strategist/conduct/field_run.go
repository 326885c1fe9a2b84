package conduct

import (
	"fmt"
	"slices"
	"strings"
	"time"

	intentpb "lehr.dev/gen/lehr/intent/v1"
	"lehr.dev/internal/ground/document"
	"lehr.dev/internal/ground/intent"
)

// obeyField carries out what people asked for. It reports that a run was begun or
// ended by an order to start; what was asked after that is for the next step.
func (d *decider) obeyField() (again bool) {
	for i := range d.Orders {
		o := &d.Orders[i]
		if o.Kind != intent.OrderStart {
			d.carryOut(o)
		} else if len(o.Value) > 0 && d.Now.Sub(o.At) < fieldOrderLasts && d.start(o) {
			return true
		}
		if d.run != nil {
			d.run.Orders = max(d.run.Orders, o.Number)
		}
	}
	return false
}

// start begins a run, or ends the one that it takes the place of.
func (d *decider) start(o *intent.RolloutOrder) (again bool) {
	switch {
	case d.run == nil || !d.run.State.Open() && d.run.State == d.Run.State:
		d.beginField(o)
		return true
	case d.run.State.Open() && (d.Spec.Newer != intentpb.Rollout_NEWER_SUPERSEDES || d.run.State == intent.RolloutRollingBack):
		d.event(o.By, "start", "with %s it was not begun, for run %d is %s", o.Value, d.run.Run, d.run.State)
		return false
	case d.run.State.Open():
		d.end(intent.RolloutSuperseded, o.By, "supersede", "a newer run brings %s: %s", o.Value, o.Reason)
	}
	d.run.Orders = max(d.run.Orders, o.Number-1)
	d.wakeAt(d.Now)
	return true
}

// beginField begins a run. What an earlier one left that was not done goes back, if
// this one does, to what it was before that.
func (d *decider) beginField(o *intent.RolloutOrder) {
	previous, value := d.run, o.Value
	if canonical, err := document.Canonicalize(value); err == nil {
		value = canonical
	}
	next := intent.Rollout{
		Partition: d.Partition, Name: d.Name, Run: 1, State: intent.RolloutQueued, Value: value, From: d.Head, Began: d.Now,
		By: o.By, Reason: o.Reason, Orders: o.Number,
	}
	if previous != nil {
		next.Run = previous.Run + 1
		// What was not closed yet must not be merged beside this one.
		next.Proposals = slices.DeleteFunc(slices.Clone(previous.Proposals), func(p intent.RolloutProposal) bool { return !p.Pending() })
	}
	if now := d.Field.Now; now != nil {
		next.Base = now.Revision
		next.Edits = d.leftoverEdits(previous)
	}
	d.run, d.edited = &next, nil
	d.event(o.By, "begin", "with %s for fields of %s: %s", value, d.Field.Document, o.Reason)
	d.wakeAt(d.Now)
	if d.Field.Problem == "" {
		d.queue()
	}
}

// leftoverEdits are the fields that a run set which was not found good, and that are still as
// it left them.
func (d *decider) leftoverEdits(previous *intent.Rollout) (edits []intent.RolloutEdit) {
	if previous == nil || previous.State != intent.RolloutSuperseded && previous.State != intent.RolloutStopped {
		return nil
	}
	for _, e := range previous.Edits {
		now := d.Field.Now.at(e.Pointer)
		isSet := e.Set() && same(now, previous.Value)
		// What it took over, and came to no edit of: perhaps it had let that go on.
		older := e.Revision == "" && e.Changed == "" && d.Field.Base != nil && same(now, d.Field.Base.at(e.Pointer))
		if e.Document == d.Field.Document && (isSet || older) {
			edits = append(edits, intent.RolloutEdit{Document: e.Document, Pointer: e.Pointer, Before: e.Before})
		}
	}
	return edits
}

// queue lets the run begin when no other holds a field that it sets (S10).
func (d *decider) queue() {
	if reason := d.inTheWay(); reason != "" {
		d.run.Progress.Wait(intent.CauseDocument, reason, nil)
		return
	}
	if base := d.Field.Base; base != nil && base.Revision == d.run.Base {
		d.run.Edits = slices.DeleteFunc(d.run.Edits, func(e intent.RolloutEdit) bool { return !same(base.at(e.Pointer), d.Field.Now.at(e.Pointer)) })
		d.edited = nil
	}
	if d.run.Began.Before(d.Now) {
		d.event(d.holder(), "go", "what it waited for has ended")
	}
	d.run.State, d.run.Base = intent.RolloutRunning, d.Field.Now.Revision
	d.run.Progress.Wait("", "", nil)
	if d.Field.InRepository {
		d.run.Progress.Wait(intent.CauseDocument, "for the document "+d.Field.Document+" to be read", nil)
	}
	d.wakeAt(d.Now)
}

// inTheWay says which other run holds a field of this one; empty: none does. Of those
// that are queued, it is the ones that were first.
func (d *decider) inTheWay() string {
	claimed := d.claimsOf(func(o Other) bool {
		return !o.Queued || o.Began.Before(d.run.Began) || o.Began.Equal(d.run.Began) && o.Rollout < d.Name
	})
	for i := range d.Assets {
		if a := &d.Assets[i]; a.Selected && a.Pointer != "" {
			if blocker := claimed.blockerOf(a.Pointer); blocker != "" {
				return blocker
			}
		}
	}
	return ""
}

// claims are the fields that others hold, and what is around those.
type claims struct{ at, enclosing map[string]claim }

type claim struct {
	Other
	pointer string
}

func (d *decider) claimsOf(counts func(Other) bool) claims {
	c := claims{map[string]claim{}, map[string]claim{}}
	for _, o := range d.Field.Others {
		if !counts(o) {
			continue
		}
		for _, pointer := range o.Pointers {
			c.at[pointer] = claim{o, pointer}
			for parent := range ancestors(pointer) {
				c.enclosing[parent] = claim{o, pointer}
			}
		}
	}
	return c
}

// ancestors are the pointers of all that a field is in.
func ancestors(pointer string) func(func(string) bool) {
	return func(yield func(string) bool) {
		for at := strings.LastIndexByte(pointer, '/'); at > 0; at = strings.LastIndexByte(pointer[:at], '/') {
			if !yield(pointer[:at]) {
				return
			}
		}
	}
}

// blockerOf says who holds a field, something in it, or what it is in; empty: nobody.
func (c claims) blockerOf(pointer string) string {
	holder, ok := c.at[pointer]
	if !ok {
		holder, ok = c.enclosing[pointer]
	}
	for parent := range ancestors(pointer) {
		if !ok {
			holder, ok = c.at[parent]
		}
	}
	if !ok || pointer == "" {
		return ""
	}
	state := "goes on"
	if holder.Queued {
		state = "is queued before it"
	}
	return fmt.Sprintf("for run %d of the rollout %s to end, which sets %s and %s", holder.Run, holder.Rollout, holder.pointer, state)
}

// takeBack has the fields that the run set go back to what they were, and those that
// the run before it left, which was not done either.
func (d *decider) takeBack(actor intent.Actor, reason string) {
	if d.elsewhere() {
		d.end(intent.RolloutStopped, actor, "rollback", "what it set is not of the document %s, which head's policy names by now: lehr document undo takes it back", d.Field.Document)
		return
	}
	claimed, fields := d.claimsOf(func(o Other) bool { return !o.Queued }), 0
	for i := range d.run.Edits {
		e := &d.run.Edits[i]
		if e.At.IsZero() && e.Changed == "" && d.ours(e) {
			e.At = d.Now
		}
		if !e.Set() {
			continue
		}
		if holds := claimed.at[e.Pointer]; !d.Run.Ended.IsZero() && holds.Rollout != "" {
			e.Changed = fmt.Sprintf("run %d of the rollout %s, which has it now", holds.Run, holds.Rollout)
			d.event(d.holder(), "kept", "%s of %s is left to %s", e.Pointer, e.Document, e.Changed)
			continue
		}
		fields++
	}
	if fields == 0 {
		d.end(intent.RolloutRolledBack, actor, "rollback", "it had set no field: %s", reason)
		return
	}
	d.run.State, d.run.Ended = intent.RolloutRollingBack, time.Time{}
	// What people closed earlier is proposed anew.
	d.run.Proposals = slices.DeleteFunc(d.run.Proposals, func(p intent.RolloutProposal) bool { return p.Back && !p.Pending() })
	d.withdrawUnwanted()
	var returning []intent.AssetID
	for i := range d.Assets {
		a := &d.Assets[i]
		if e := d.editOf(a.Pointer); e != nil && e.Set() {
			returning = append(returning, a.ID)
			a.Seen = a.follows(d.Name, a.Head, d.Now)
			d.decision.Seen[a.ID] = a.Seen
		}
	}
	d.event(actor, "rollback", "%s back, of %s: %s", count(fields, "field goes", "fields go"), count(len(returning), "asset", "assets"), reason)
}

// ours reports whether a field has what the run set, or what the one before it did
// and it took over, and that is not what it goes back to.
func (d *decider) ours(e *intent.RolloutEdit) bool {
	now := d.Field.Now.at(e.Pointer)
	takenOver := e.Revision == "" && d.Field.Base != nil && same(now, d.Field.Base.at(e.Pointer))
	return (takenOver || same(now, d.run.Value)) && !same(now, e.Before)
}

// undo gives the fields that have the run's value still what they had before, and
// waits until head has that and their assets are back.
func (d *decider) undo() {
	var operations []document.Operation
	for i := range d.run.Edits {
		if e := &d.run.Edits[i]; e.Set() && d.ours(e) {
			operations = append(operations, document.Operation{Path: e.Pointer, Value: e.Before})
		}
	}
	wait := func(reason string, assets ...intent.AssetID) {
		d.run.Progress.Wait(intent.CauseBack, "going back waits "+reason, assets)
		d.run.Progress.Next = time.Time{}
	}
	if p := d.withdrawing(); p != nil {
		wait(proposalWords(p))
		return
	}
	if reason := d.keptByPeople(operations); reason != "" {
		d.end(intent.RolloutStopped, d.holder(), "stop", "%s; lehr rollout rollback %s --reason WHY proposes it anew", reason, d.Name)
		return
	}
	if len(operations) > 0 {
		d.change(operations, fmt.Sprintf("run %d of the rollout %s goes back: %s", d.run.Run, d.Name, d.run.Bad))
		wait("for the document " + d.Field.Document + " to be edited")
		switch p := d.proposalOf(operations[0].Path, true); {
		case p != nil && p.Pending():
			wait(proposalWords(p))
		case d.Field.Refused != "":
			wait("for the document: " + d.Field.Refused)
		}
		return
	}
	for _, e := range d.run.Edits {
		if !e.Set() || d.Field.Head == nil || same(d.Field.Head.at(e.Pointer), d.Field.Now.at(e.Pointer)) {
			continue
		}
		reason := fmt.Sprintf("for head to have revision %s of %s", d.Field.Now.Revision, d.Field.Document)
		if c := d.Field.Candidate; d.isUnservedCandidate(c, d.Field.Now.Revision) {
			reason += ": " + unserved(c)
		}
		wait(reason)
		return
	}
	var remaining []*Asset
	for i := range d.Assets {
		a := &d.Assets[i]
		e := d.editOf(a.Pointer)
		if e != nil && e.Set() && (a.Seen.Arrived.IsZero() || !a.Seen.Ill.IsZero() || a.Look.State != intent.StateInSync || a.Look.Effective != a.Head) {
			remaining = append(remaining, a)
		}
	}
	if len(remaining) > 0 {
		first, reason := remaining[0], " to be in sync"
		switch {
		case len(first.Report.Waiting) > 0 && first.Report.Effective == first.Head:
			reason = ": " + first.Report.Waiting[0].Reason
		case !first.Seen.Ill.IsZero():
			reason = " to be healthy: " + first.Report.Health.Reason
		}
		wait(fmt.Sprintf("for %s%s", first.ID, reason), ids(remaining)...)
		return
	}
	d.run.Progress.Wait("", "", nil)
	d.end(intent.RolloutRolledBack, d.holder(), "back", "what it set is as it was before")
	d.wakeAt(d.Now)
}
