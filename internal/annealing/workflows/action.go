package workflows

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"

	"lehr.dev/internal/ground/document"
	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/ground/workflow"
)

// carryOn does what an action needs next. It returns the event that it has come to, if it has, or
// reports that it stored how far the action got.
func (v *visit) carryOn(ctx context.Context, key string) (event *workflow.Event, stored bool, err error) {
	progress := v.run.Actions[key]
	action, err := workflow.ActionOf(progress)
	if err != nil {
		return nil, false, err
	}
	switch {
	case action.Person != nil, action.Wait != nil:
		return nil, false, nil
	case action.Edit != nil:
		return v.carryOnEdit(ctx, key, progress, action, edit{action.Edit.Document, action.Edit.Field, action.Edit.Value})
	case action.Task != nil && action.Task.Document != "":
		return v.carryOnEdit(ctx, key, progress, action, edit{action.Task.Document, action.Task.Field, action.Task.Value})
	case action.Task != nil:
		return v.awaitTask(ctx, key, progress, action)
	}
	return v.carryOnCall(ctx, key, progress, action)
}

func answer(key string, outcome workflow.Outcome, format string, values ...any) *workflow.Event {
	return &workflow.Event{Kind: workflow.EventAnswer, Key: key, Outcome: outcome, Reason: fmt.Sprintf(format, values...)}
}

// storeReason stores the reason why an action waits, which people read. It stores nothing if the
// reason is the same, or if one was stored less than explainPause ago.
func (v *visit) storeReason(ctx context.Context, key string, progress intent.WorkflowAction, format string, values ...any) (stored bool, err error) {
	text := fmt.Sprintf(format, values...)
	open := v.Driver.runs[v.run.Number]
	if text == progress.Waiting || progress.Waiting != "" && isPausing(open.explained.Add(explainPause), v.now, explainPause) {
		return false, nil
	}
	open.explained, progress.Waiting = v.now, text
	return true, v.keep(ctx, key, progress)
}

// edit of one field.
type edit struct{ document, field, value string }

// carryOnEdit sets the field, and then waits until what follows is enforced.
func (v *visit) carryOnEdit(ctx context.Context, key string, progress intent.WorkflowAction, action *workflow.Action, e edit) (event *workflow.Event, stored bool, err error) {
	doc, err := v.Store.Document(ctx, v.Partition, e.document, "")
	switch {
	case fault.Is(err, fault.NotFound):
		return answer(key, workflow.OutcomeFailed, "there is no document %s", e.document), false, nil
	case err != nil:
		return nil, false, err
	}
	found, written, err := document.TextAt(doc.Content, e.field)
	if fault.Is(err, fault.Invalid) {
		return answer(key, workflow.OutcomeFailed, "%v", err), false, nil
	}
	if err != nil {
		return nil, false, err
	}
	if progress.Revision == "" {
		return v.edit(ctx, key, progress, e, doc, written && found == e.value)
	}
	if !written || found != e.value {
		return answer(key, workflow.OutcomeFailed, "%s of the document %s was set to something else in revision %s", e.field, e.document, doc.Revision.ID), false, nil
	}
	return v.awaitEnforcement(ctx, key, progress, action, e.document)
}

// edit the document, in one transaction with the progress of the action: it is edited once,
// whatever becomes of this process.
func (v *visit) edit(ctx context.Context, key string, progress intent.WorkflowAction, e edit, doc document.Document, isSet bool) (event *workflow.Event, stored bool, err error) {
	if stop := v.partition.Stop; stop != nil {
		stored, err := v.storeReason(ctx, key, progress, "%s stopped the partition: %s", stop.Owner.Name, stop.Reason)
		return nil, stored, err
	}
	progress.Begun, progress.Document, progress.Before, progress.Waiting = v.now, e.document, v.partition.Head, ""
	if isSet {
		progress.Revision = doc.Revision.ID
	}
	value, err := valueFor(doc.Content, e)
	if fault.Is(err, fault.Invalid) {
		return answer(key, workflow.OutcomeFailed, "%v", err), false, nil
	}
	if err != nil {
		return nil, false, err
	}
	step, begins, err := v.planBeginning(key, progress)
	if err != nil {
		return nil, false, err
	}
	if begins && !isSet {
		step.Revision, step.Document, step.EditKey = v.partition.Revision, e.document, key
		step.Edit = &document.Edit{
			Base: doc.Revision.ID, Operations: []document.Operation{{Path: e.field, Value: value}},
			Reason: fmt.Sprintf("run %s#%d: %s", v.run.Workflow, v.run.Number, key),
		}
	}
	err = v.store(ctx, step)
	if fault.Is(err, fault.Invalid) {
		return answer(key, workflow.OutcomeFailed, "the document cannot be edited so: %v", err), false, nil
	}
	return nil, err == nil, err
}

func (v *visit) holder() intent.Actor { return intent.WorkflowHolder(v.Partition, v.run.Workflow) }

// valueFor is the JSON that an edit sets. A field that holds a number or a truth value gets one;
// all others get a text.
func valueFor(content []byte, e edit) (json.RawMessage, error) {
	inner, ok, err := document.ValueAt(content, e.field)
	if err != nil {
		return nil, err
	}
	if ok {
		switch inner.(type) {
		case json.Number:
			if _, err := document.Number(e.value); err != nil {
				return nil, fault.New(fault.Invalid, "%s of the document %s holds a number, and %.100q is not a number", e.field, e.document, e.value)
			}
			return json.RawMessage(e.value), nil
		case bool:
			truth, err := strconv.ParseBool(e.value)
			if err != nil {
				return nil, fault.New(fault.Invalid, "%s of the document %s is true or false, and %.100q is neither", e.field, e.document, e.value)
			}
			return json.RawMessage(strconv.FormatBool(truth)), nil
		}
	}
	return json.Marshal(e.value)
}
