package fetch

import (
	"context"
	"fmt"
	"path"
	"slices"
	"strings"

	"lehr.dev/internal/ground/document"
	"lehr.dev/internal/ground/document/written"
	"lehr.dev/internal/prodspec/source"
)

// FileEdit changes fields of a file on a branch of a repository.
type FileEdit struct {
	URL, Branch string
	// Path in the repository.
	Path       string
	Operations []document.Operation
}

// repositoryOf mirrors a repository. Edits of its branch are made to what is read of it.
func (o Options) repositoryOf(git source.Git) repository {
	m := newMirror(o.Folder, git, o.guard())
	var edits []FileEdit
	for _, e := range o.Edits {
		// A repository's HEAD is taken for the branch: its name is not known before the fetch.
		followsBranch := git.Branch == e.Branch || git.Branch == "" && git.Tag == "" && git.Commit == ""
		if git.URL == e.URL && followsBranch {
			edits = append(edits, e)
		}
	}
	if len(edits) == 0 {
		return m
	}
	return &editedRepository{mirror: m, edits: edits, contents: map[string][]byte{}}
}

// editedRepository is a repository as it would be once edits were committed. Commits keep their names, so nothing of what is read
// of it may be kept.
type editedRepository struct {
	*mirror
	edits []FileEdit
	// contents of edited files, by the objects that entries name.
	contents map[string][]byte
}

// editedPrefix begins the name of an object that no repository has.
const editedPrefix = "edited:"

func (r *editedRepository) list(ctx context.Context, commit, directory string, most int) ([]entry, error) {
	entries, err := r.mirror.list(ctx, commit, directory, most)
	if err != nil {
		return nil, err
	}
	for _, edit := range r.edits {
		name, ok := pathBelow(directory, edit.Path)
		at := slices.IndexFunc(entries, func(e entry) bool { return e.path == name })
		if !ok || at < 0 {
			continue // Where its own source misses the file, it says so.
		}
		if err := r.edit(ctx, &entries[at], edit); err != nil {
			return nil, fmt.Errorf("editing %s of %s: %w", edit.Path, r.mirror, err)
		}
	}
	return entries, nil
}

// edit makes an entry name an edited file.
func (r *editedRepository) edit(ctx context.Context, e *entry, edit FileEdit) error {
	text, err := r.read(ctx, e.object, source.DefaultLimits().FileBytes)
	if err != nil {
		return err
	}
	value, err := written.Parse(edit.Path, text)
	if err != nil {
		return err
	}
	content, err := document.Apply(document.Canonical(value), edit.Operations)
	if err != nil {
		return err
	}
	wanted, err := document.Parse(content)
	if err != nil {
		return err
	}
	if text, err = written.Edit(edit.Path, text, wanted); err != nil {
		return err
	}
	e.object, e.size = editedPrefix+source.Digest(text).String(), int64(len(text))
	r.contents[e.object] = text
	return nil
}

func (r *editedRepository) read(ctx context.Context, object string, most int64) ([]byte, error) {
	if text, ok := r.contents[object]; ok {
		return text, nil
	}
	return r.mirror.read(ctx, object, most)
}

// pathBelow is a file's path in a directory; ok: it lies there.
func pathBelow(directory, file string) (name string, ok bool) {
	if directory == "" || directory == "." {
		return file, true
	}
	return strings.CutPrefix(file, path.Clean(directory)+"/")
}
