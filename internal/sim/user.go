package sim

import (
	"context"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"

	"lehr.dev/internal/app"
	"lehr.dev/internal/ground/document"
	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/files"
	"lehr.dev/internal/ground/intent"
)

func partitionID(text string) intent.PartitionID { return intent.PartitionID(text) }

// mostUserBytes bounds what is read of a user's folder.
const mostUserBytes = 64 << 20

// copyFolders takes over a user's partition, and what it is before its edit if
// that is said: what both build to now, and the files of their folders. Nothing
// of them is written to, and nothing is run but their generators.
func (l *Lab) copyFolders() (err error) {
	if l.definition, err = filepath.Abs(l.options.Definition); err != nil {
		return err
	}
	if l.edited, err = l.take(l.definition); err != nil {
		return err
	}
	l.old, l.merged = l.edited, true
	if l.options.Before != "" {
		before, err := filepath.Abs(l.options.Before)
		if err != nil {
			return err
		}
		partition := l.partition
		if l.old, err = l.take(before); err != nil {
			return err
		}
		if partition != l.partition {
			return fault.New(fault.Invalid, "%s is partition %q, and %s is %q", before, l.partition, l.definition, partition).
				WithHint("name the same partition as it was before the edit")
		}
		l.merged = false
	}
	l.Sources.Write(l.old)
	return nil
}

// take reads a definition's folder, as if it were where the partition is
// registered.
func (l *Lab) take(path string) (map[string]string, error) {
	built, err := app.Build(l.ctx, app.Building{Definition: path, Documents: l.document})
	if err != nil {
		return nil, err
	}
	for _, f := range built.Findings {
		if f.Severity == intent.Error {
			return nil, fault.New(fault.Invalid, "the partition does not build: %s:%d: %s", f.File, f.Line, f.Message).WithHint("lehr build %s shows all findings", path)
		}
	}
	l.partition = built.Partition
	for _, asset := range built.Assets {
		if !slices.Contains(l.types, asset.Type) {
			l.types = append(l.types, asset.Type)
		}
	}
	slices.Sort(l.types)
	read, files := map[string]string{}, map[string]string{}
	if err := readFolder(filepath.Dir(path), read); err != nil {
		return nil, err
	}
	for name, text := range read {
		below, err := filepath.Rel(filepath.Dir(path), name)
		if err != nil {
			return nil, err
		}
		if name == path {
			below, text = filepath.Base(l.definition), enforced(text)
		}
		files[filepath.Join(filepath.Dir(l.definition), below)] = text
	}
	return files, nil
}

// document is what one of the user's partition is, as it is said in the options.
func (l *Lab) document(_ context.Context, partition intent.PartitionID, name string) (found document.Document, err error) {
	content, ok := l.options.Documents[name]
	if !ok {
		return found, fault.New(fault.Invalid, "partition %s reads the document %s, and it is not said what that is", partition, name)
	}
	return document.Document{Partition: partition, Name: name, Content: []byte(content), Revision: document.Revision{ID: "given"}}, nil
}

// saveUser makes the sources those with the edit, or those before it.
func (l *Lab) saveUser(number int, merged bool) {
	if l.options.Before == "" || l.merged == merged {
		return
	}
	from, to, what := l.old, l.edited, "the edit is made"
	if !merged {
		from, to, what = l.edited, l.old, "the edit is taken back"
	}
	l.merged, l.changed = merged, l.Now()
	l.intent.merged = merged
	l.tell("#%d %s", number, what)
	l.Sources.Write(to)
	for _, name := range slices.Sorted(maps.Keys(from)) {
		if _, stays := to[name]; !stays {
			l.Sources.Remove(name)
		}
	}
}

// fits reports whether a kind of disturbance can befall a user's partition:
// what its files say is for its owner to change.
func (l *Lab) fits(kind Kind) bool {
	if l.options.Definition == "" {
		return true
	}
	switch kind {
	case EditSlip, SourceFlaps, SourceTorn, SourceGone, SourceEmpty:
		return false
	case Edit, EditBlink, EditRevert, PersonEarly:
		return l.options.Before != ""
	}
	return true
}

// readFolder reads all regular files below a folder.
func readFolder(folder string, found map[string]string) error {
	total := 0
	err := filepath.WalkDir(folder, func(name string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && entry.Name() == ".git":
			return fs.SkipDir
		case !entry.Type().IsRegular():
			return nil
		}
		content, err := files.Read(name, mostUserBytes)
		if total += len(content); err == nil && total > mostUserBytes {
			return fault.New(fault.Invalid, "the folder %s holds more than %d bytes", folder, mostUserBytes).
				WithHint("keep the partition in a folder of its own")
		}
		found[name] = string(content)
		return err
	})
	if err != nil {
		return fault.New(fault.Unavailable, "reading the partition's folder: %w", err)
	}
	return nil
}
