package server

import (
	"context"
	"encoding/json"
	"slices"

	intentpb "lehr.dev/gen/lehr/intent/v1"
	"lehr.dev/internal/ground/course"
	"lehr.dev/internal/ground/document"
	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/ground/schema"
	"lehr.dev/internal/store"
)

// fields are those that a run sets.
type fields struct {
	value json.RawMessage
	edits map[string]intent.RolloutEdit
	// document is what it has now.
	document any
}

// fieldsOf an open run. A document that is not there has no field.
func (s *Server) fieldsOf(ctx context.Context, spec *intentpb.Rollout, run intent.Rollout) (*fields, error) {
	f := &fields{value: run.Value, edits: map[string]intent.RolloutEdit{}}
	for _, e := range run.Edits {
		f.edits[e.Pointer] = e
	}
	doc, err := s.store.Document(ctx, run.Partition, spec.Field.GetDocument(), "")
	if fault.Is(err, fault.NotFound) {
		return f, nil
	}
	if err != nil {
		return nil, err
	}
	f.document, err = document.Parse(doc.Content)
	return f, err
}

// stateOf says of a field whether it was let go on, and whether the run is about it: not
// where it has the value already, or somebody else set it since.
func (f *fields) stateOf(pointer string) (selected, takesPart bool) {
	if f == nil {
		return false, true
	}
	switch e := f.edits[pointer]; {
	case e.Changed != "":
		return false, false
	case e.Set():
		return true, true
	}
	path, err := document.ParsePath(pointer)
	if err != nil {
		return false, true
	}
	current, exists := document.At(f.document, path)
	return false, !exists || !slices.Equal(document.Canonical(current), f.value)
}

// fieldsFor are the fields that open runs set for an asset, by rollout.
func (s *Server) fieldsFor(ctx context.Context, partition store.Partition, runs map[string]intent.Rollout, id intent.AssetID) (pointers map[string]string, err error) {
	pointers = map[string]string{}
	for name, run := range runs {
		if !run.State.Open() || len(run.Value) == 0 {
			continue
		}
		policy, err := s.policy(ctx, partition.Head)
		if err != nil {
			return nil, err
		}
		spec := specOf(policy, name)
		if spec.GetField() == nil {
			continue
		}
		environment, err := s.queries.Environment(ctx, partition.Head)
		if err != nil {
			return nil, err
		}
		c, err := course.New(environment, policy, spec)
		if err != nil {
			return nil, err
		}
		_, body, err := s.store.Content(ctx, partition.Head, id)
		if fault.Is(err, fault.NotFound) {
			return nil, nil
		}
		if err != nil {
			return nil, err
		}
		asset, err := schema.Decode(body)
		if err != nil {
			return nil, err
		}
		if selects, err := c.Selects(asset); err != nil || !selects {
			continue // That it cannot be judged is told where it is published.
		}
		if pointer, err := c.Pointer(asset); err == nil {
			pointers[name] = pointer
		}
	}
	return pointers, nil
}
