package sim

import (
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"lehr.dev/app"
	"lehr.dev/fault"
	"lehr.dev/intent"
)

func partitionID(text string) intent.PartitionID { return intent.PartitionID(text) }

// mostUserBytes bounds what is read of a user's folder.
const mostUserBytes = 64 << 20

// copyFolder takes over a user's partition: what it builds to now, and the
// files of its folder. Nothing of it is written to, and nothing is run but its
// generators.
func (l *Lab) copyFolder() error {
	path, err := filepath.Abs(l.options.Definition)
	if err != nil {
		return err
	}
	built, err := app.Build(l.ctx, path)
	if err != nil {
		return err
	}
	for _, f := range built.Findings {
		if f.Severity == intent.Error {
			return fault.New(fault.Invalid, "the partition does not build: %s:%d: %s", f.File, f.Line, f.Message).WithHint("lehr build %s shows all findings", path)
		}
	}
	l.partition, l.definition = built.Partition, path
	for _, asset := range built.Assets {
		if !slices.Contains(l.types, asset.Type) {
			l.types = append(l.types, asset.Type)
		}
	}
	slices.Sort(l.types)
	files := map[string]string{}
	if err := readFolder(filepath.Dir(path), files); err != nil {
		return err
	}
	l.Sources.Write(files)
	return nil
}

// readFolder reads all regular files below a folder.
func readFolder(folder string, files map[string]string) error {
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
		content, err := os.ReadFile(name)
		if total += len(content); err == nil && total > mostUserBytes {
			return fault.New(fault.Invalid, "the folder %s holds more than %d bytes", folder, mostUserBytes).
				WithHint("keep the partition in a folder of its own")
		}
		files[name] = string(content)
		return err
	})
	if err != nil {
		return fault.New(fault.Unavailable, "reading the partition's folder: %w", err)
	}
	return nil
}
