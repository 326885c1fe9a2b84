package fetch

import (
	"context"
	"time"

	"lehr.dev/internal/ground/document"
	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/intent"
)

// stored is a document that the store holds, as one file of JSON.
type stored struct {
	inMemory
	name    string
	options Options
}

func (s *stored) fetch(ctx context.Context, last *State) (*State, error) {
	if s.options.Documents == nil {
		return nil, fault.New(fault.Unavailable, "the document %s is held by a server, and none is asked here", s.name).
			WithHint("name the server with --server URL, or give a file in its place: --document %s=%s", s.name, document.File(s.name))
	}
	doc, err := s.options.Documents(ctx, s.options.Partition, s.name)
	if err != nil {
		return nil, err
	}
	if last != nil && last.Revision == doc.Revision.ID {
		return last, nil
	}
	value, err := document.Parse(doc.Content)
	if err != nil {
		return nil, err
	}
	// A field a line, so that it is known where each was written.
	state := newState(map[string][]byte{document.File(s.name): document.Pretty(value)})
	state.Revision = doc.Revision.ID
	state.Commit = intent.Commit{Author: doc.Revision.By.Name, Subject: doc.Revision.Reason, Time: doc.Revision.At.UTC().Truncate(time.Second)}
	return state, nil
}
