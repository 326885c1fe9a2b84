package prodspec

import (
	"cmp"
	"context"
	"path/filepath"
	"slices"
	"time"

	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/intent"
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
	err = readSources(ctx, program, now, func(s *sources, declared []definition.Source, findings []intent.Finding) error {
		list, err = writtenOf(s, declared, findings)
		return err
	})
	return list, err
}

// FindGitSource returns where a source of a definition lies in git, if its repository is the one that
// is named, as the definition writes it. NotFound: no source of that name lies in git. Unavailable: the
// definition cannot be read, or names another repository.
func FindGitSource(ctx context.Context, program Program, name, repository string, now time.Time) (git source.Git, err error) {
	err = readSources(ctx, program, now, func(s *sources, declared []definition.Source, _ []intent.Finding) error {
		for _, src := range declared {
			if src.Name == name && src.Remote != nil && src.Remote.Git != nil {
				if src.Remote.Git.URL != repository {
					return fault.New(fault.Unavailable, "the source %s is in another repository than head says", name).WithHint("once the new definition is served, it counts")
				}
				remote, err := s.resolve(*src.Remote)
				if err != nil {
					return err
				}
				git = *remote.Git
				return nil
			}
		}
		return fault.New(fault.NotFound, "the definition has no source %s in git", name)
	})
	return git, err
}

// readSources hands the sources that a definition declares to a function.
func readSources(ctx context.Context, program Program, now time.Time, use func(*sources, []definition.Source, []intent.Finding) error) error {
	program.Limits = source.DefaultLimits()
	if program.Elsewhere.Runtime == nil {
		program.Elsewhere.Runtime = loop.Real()
	}
	s, err := newSources(program)
	if err != nil {
		return err
	}
	defer s.close()
	snapshot, err := s.own.Read(ctx, now, source.Changes{All: true})
	if err != nil {
		return err
	}
	content, err := s.own.Content(snapshot.Files[0])
	if err != nil {
		return err
	}
	declared, findings := definition.SourcesOf(filepath.Base(s.file), content)
	return use(s, declared, findings)
}

func writtenOf(s *sources, declared []definition.Source, findings []intent.Finding) (list []WrittenDocument, _ error) {
	for _, src := range declared {
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
