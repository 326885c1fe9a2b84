package fetch

import (
	"context"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"

	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/prodspec/source"
	"lehr.dev/internal/prodspec/source/artifact"
)

// tree is a folder of a repository at a commit.
type tree struct {
	repository repository
	// branch, if one is followed: its history is expected to grow only.
	branch string
	// at says which commit is to be read.
	at        func(ctx context.Context) (string, error)
	directory string
	patterns  source.Patterns
	limits    source.Limits
	// shared: another closes the repository.
	shared bool
	// digests of objects that were read.
	digests map[string]intent.Digest
}

func (t *tree) fetch(ctx context.Context, last *State) (*State, error) {
	commit, err := t.at(ctx)
	if err != nil {
		return nil, err
	}
	if last != nil && last.Revision == commit {
		return last, nil
	}
	state := &State{Revision: commit, Objects: map[string]string{}}
	if state.Commit, err = t.repository.commit(ctx, commit); err != nil {
		return nil, err
	}
	if last != nil && t.branch != "" {
		if descends, ok := t.repository.descends(ctx, commit, last.Revision); ok && !descends {
			state.Warning = fmt.Sprintf("the history of branch %s of %s was rewritten: it was at %.12s, which %.12s does not come after", t.branch, t.repository, last.Revision, commit)
		}
	}
	entries, err := t.repository.list(ctx, commit, t.directory, t.limits.Entries)
	if err != nil {
		return nil, err
	}
	digests := make(map[string]intent.Digest, len(t.digests))
	bytes := int64(0)
	for _, e := range entries {
		wanted, err := t.wanted(e)
		if err != nil {
			return nil, err
		}
		if !wanted {
			continue
		}
		if bytes += e.size; bytes > t.limits.TotalBytes {
			return nil, tooLarge(t.repository.String(), t.limits.TotalBytes)
		}
		digest, ok := t.digests[e.object]
		if !ok {
			content, err := t.read(ctx, e.object, e.path)
			if err != nil {
				return nil, err
			}
			digest = source.Digest(content)
		}
		digests[e.object] = digest
		state.Files = append(state.Files, source.File{Path: e.path, Digest: digest, Size: e.size})
		state.Objects[e.path] = e.object
	}
	slices.SortFunc(state.Files, func(a, b source.File) int { return strings.Compare(a.Path, b.Path) })
	t.digests = digests
	return state, nil
}

// wanted reports whether a file matches; one that matches and cannot be read is
// an error, for what is left out would be taken for removed.
func (t *tree) wanted(e entry) (bool, error) {
	place := fmt.Sprintf("%s of %s", path.Join(t.directory, e.path), t.repository)
	if e.mode == submoduleMode && (t.patterns.Match(e.path) || t.patterns.MayBeBelow(e.path)) {
		return false, isSubmodule(place)
	}
	if !t.patterns.Match(e.path) {
		return false, nil
	}
	switch {
	case !fs.ValidPath(e.path) || strings.ContainsAny(e.path, "\\\x00"):
		return false, fault.New(fault.Invalid, "%s has a path that leads elsewhere", intent.Shown(place)).WithHint("rename it")
	case e.mode == "120000":
		return false, fault.New(fault.Invalid, "%s is a link, not a regular file", place).WithHint("replace it by the file that it names, or narrow the patterns")
	case e.mode != "100644" && e.mode != "100755" && e.mode != "100664":
		return false, fault.New(fault.Invalid, "%s is not a regular file", place).WithHint("remove it, or narrow the patterns")
	}
	return true, t.limits.CheckSize(place, e.size)
}

// submoduleMode is what a submodule has in a tree.
const submoduleMode = "160000"

func isSubmodule(place string) error {
	return fault.New(fault.Invalid, "%s is a submodule, and what is in it is not read", place).
		WithHint("name its repository as a source of its own, and narrow the patterns of this one")
}

func (t *tree) read(ctx context.Context, object, name string) ([]byte, error) {
	content, err := t.repository.read(ctx, object, t.limits.FileBytes)
	if err == nil && artifact.IsPointer(content) {
		return nil, fault.New(fault.Invalid, "%s of %s is a pointer of git-lfs: its content is not in the repository", path.Join(t.directory, name), t.repository).
			WithHint("keep it in git itself (git lfs migrate export), or narrow the patterns")
	}
	return content, err
}

func (t *tree) content(ctx context.Context, state *State, file source.File) ([]byte, error) {
	object, ok := state.Objects[file.Path]
	if !ok {
		return nil, source.Changed(file.Path)
	}
	return t.read(ctx, object, file.Path)
}

func (t *tree) hasContent(ctx context.Context, state *State) bool {
	return t.repository.hasCommit(ctx, state.Revision)
}

func (t *tree) close() {
	if !t.shared {
		t.repository.close()
	}
}
