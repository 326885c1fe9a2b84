package prodspec

import (
	"context"

	"lehr.dev/internal/ground/document"
	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/prodspec/definition"
)

// hasDocument reports whether the partition has a document of Lehr's own, which no
// definition names. Where that cannot be told, it is a finding.
func (s *sources) hasDocument(ctx context.Context, name string, src definition.Source, r *reading) (bool, error) {
	if s.program.HasDocument == nil {
		// Without a store it is known by what is kept of its source.
		return s.isKept(ctx, src)
	}
	exists, err := s.program.HasDocument(ctx, r.definition.Partition, name)
	if err != nil {
		return false, s.cannotRead(ctx, err, src, r)
	}
	return exists, nil
}

// HasDocument returns Program.HasDocument for documents that read reads.
func HasDocument(read func(context.Context, intent.PartitionID, string) (document.Document, error)) func(context.Context, intent.PartitionID, string) (bool, error) {
	return func(ctx context.Context, partition intent.PartitionID, name string) (bool, error) {
		_, err := read(ctx, partition, name)
		if fault.Is(err, fault.NotFound) {
			return false, nil
		}
		return err == nil, err
	}
}

// isKept reports whether a source was read before, by a process that had a store.
func (s *sources) isKept(ctx context.Context, src definition.Source) (bool, error) {
	if s.program.Elsewhere.Keep == nil {
		return false, nil
	}
	_, err := s.program.Elsewhere.Keep.Load(ctx, src.Name)
	if fault.Is(err, fault.NotFound) {
		return false, nil
	}
	return err == nil, err
}
