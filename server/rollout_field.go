package server

import (
	"context"
	"encoding/json"
	"slices"

	"lehr.dev/document"
	"lehr.dev/fault"
	intentpb "lehr.dev/gen/lehr/intent/v1"
	"lehr.dev/intent"
)

// fields are those that a run sets.
type fields struct {
	value json.RawMessage
	edits map[string]intent.RolloutEdit
	// document is what it has now.
	document any
}

// fieldsOf an open run. A document that is not there has no field.
func (s *Server) fieldsOf(ctx context.Context, said *intentpb.Rollout, run intent.Rollout) (*fields, error) {
	f := &fields{value: run.Value, edits: map[string]intent.RolloutEdit{}}
	for _, e := range run.Edits {
		f.edits[e.Pointer] = e
	}
	found, err := s.store.Document(ctx, run.Partition, said.Field.GetDocument(), "")
	if fault.Is(err, fault.NotFound) {
		return f, nil
	}
	if err != nil {
		return nil, err
	}
	f.document, err = document.Parse(found.Content)
	return f, err
}

// of says of a field whether it was let go on, and whether the run is about it: not
// where it has the value already, or somebody else set it since.
func (f *fields) of(pointer string) (selected, takesPart bool) {
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
	has, there := document.At(f.document, path)
	return false, !there || !slices.Equal(document.Canonical(has), f.value)
}
