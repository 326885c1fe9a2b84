package prodspec

import (
	"cmp"
	"context"
	"path/filepath"
	"slices"
	"time"

	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/loop"
	"lehr.dev/internal/prodspec/definition"
	"lehr.dev/internal/prodspec/source"
)

// WrittenDocument is a document of a partition that lies in a repository.
type WrittenDocument struct {
	// Name is that of its source.
	Name string
	Git  source.Git
}

// WrittenDocuments lists those that a definition names, in the order of their
// names. Unavailable: the definition cannot be read; Invalid: its sources are
// wrong.
func WrittenDocuments(ctx context.Context, program Program, now time.Time) (list []WrittenDocument, err error) {
	program.Limits = source.DefaultLimits()
	if program.Elsewhere.Runtime == nil {
		program.Elsewhere.Runtime = loop.Real()
	}
	s, err := newSources(program)
	if err != nil {
		return nil, err
	}
	defer s.close()
	snapshot, err := s.own.Read(ctx, now, source.Changes{All: true})
	if err != nil {
		return nil, err
	}
	content, err := s.own.Content(snapshot.Files[0])
	if err != nil {
		return nil, err
	}
	sources, findings := definition.SourcesOf(filepath.Base(s.file), content)
	for _, src := range sources {
		if src.Remote == nil || src.Remote.Git == nil || src.Remote.Git.Document == "" {
			continue
		}
		if len(findings) > 0 {
			return nil, fault.New(fault.Invalid, "%s:%d: %s", s.file, findings[0].Line, findings[0].Message).WithHint("mend the definition; until then its documents in repositories are not edited")
		}
		remote, err := s.resolve(*src.Remote)
		if err != nil {
			return nil, err
		}
		list = append(list, WrittenDocument{Name: src.Name, Git: *remote.Git})
	}
	slices.SortFunc(list, func(a, b WrittenDocument) int { return cmp.Compare(a.Name, b.Name) })
	return list, nil
}
