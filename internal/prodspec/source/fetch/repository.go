package fetch

import (
	"cmp"
	"context"
	"path/filepath"
	"strings"
	"time"

	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/prodspec/source"
)

// Repository is one in which a definition lies, with what lies beside it. All
// of it is read at one commit: that of the folder that leads.
type Repository struct {
	options Options
	git     source.Git
	read    repository
	lead    *Folder
}

// NewRepository does no I/O. Directory and Commit of git are not used.
func NewRepository(o Options, git source.Git) *Repository {
	return &Repository{options: o, git: git, read: o.repositoryOf(git)}
}

// Here reports whether it lies on this machine.
func (r *Repository) Here() bool { return filepath.IsAbs(r.git.URL) }

// Lead opens a folder, at whose commit all others are read.
func (r *Repository) Lead(name, path string, files []string, limits source.Limits, every time.Duration) (*Folder, error) {
	folder, err := r.open(name, path, files, limits)
	if err != nil {
		return nil, err
	}
	if err := (source.Remote{Git: &r.git}).Check(); err != nil {
		return nil, err
	}
	r.lead, folder.every = folder, cmp.Or(every, source.EveryByDefault)
	t := folder.fetcher.(*tree)
	t.branch, t.at = r.git.Branch, r.read.update
	return folder, nil
}

// Follow opens another folder. It is read at the commit at which the first one
// was read last.
func (r *Repository) Follow(name, path string, files []string, limits source.Limits) (*Folder, error) {
	folder, err := r.open(name, path, files, limits)
	if err != nil {
		return nil, err
	}
	t := folder.fetcher.(*tree)
	t.shared = true
	t.at = func(context.Context) (string, error) {
		if r.lead.state == nil {
			return "", fault.New(fault.Unavailable, "the definition was not read yet")
		}
		return r.lead.state.Revision, nil
	}
	folder.leader = r.lead
	return folder, nil
}

func (r *Repository) open(name, path string, files []string, limits source.Limits) (*Folder, error) {
	patterns, err := source.ParsePatterns(path, files)
	if err != nil {
		return nil, err
	}
	directory, err := filepath.Rel("/", path)
	if err != nil || !filepath.IsLocal(directory) || strings.HasPrefix(directory, ":") {
		return nil, fault.New(fault.Invalid, "%s leads out of the repository", path)
	}
	git := r.git
	git.Directory = directory
	folder := newFolder(r.options, name, path, queryDigest(source.Remote{Git: &git}, files), patterns, limits)
	folder.fetcher = &tree{repository: r.read, directory: directory, patterns: patterns, limits: limits}
	return folder, nil
}
