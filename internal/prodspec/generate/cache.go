package generate

import (
	"cmp"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/intent"
)

// cacheMost is how many bytes of compiled modules a partition keeps, most of
// them: what was made first goes first.
const cacheMost = 512 << 20

// roomInCache makes a partition's own folder for compiled modules, in which
// there is room. Children of others never write there, for what is there is run.
func roomInCache(cache string, partition intent.PartitionID) (string, error) {
	own := filepath.Join(cache, string(partition))
	if err := os.MkdirAll(own, 0o700); err != nil {
		return "", fault.New(fault.Unavailable, "cannot keep compiled modules: %w", err).WithHint("make the folder writable for the server")
	}
	type cachedFile struct {
		path string
		info fs.FileInfo
	}
	var files []cachedFile
	var size int64
	err := filepath.WalkDir(own, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		if info, err := entry.Info(); err == nil {
			files, size = append(files, cachedFile{path, info}), size+info.Size()
		}
		return nil
	})
	if err != nil {
		return "", fault.New(fault.Unavailable, "cannot look at compiled modules: %w", err)
	}
	slices.SortFunc(files, func(a, b cachedFile) int {
		return cmp.Compare(a.info.ModTime().UnixNano(), b.info.ModTime().UnixNano())
	})
	for _, file := range files {
		if size <= cacheMost {
			break
		}
		// What is gone is compiled anew.
		_ = os.Remove(file.path)
		size -= file.info.Size()
	}
	return own, nil
}
