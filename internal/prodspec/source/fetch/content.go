package fetch

import (
	"os"
	"path/filepath"
	"slices"
	"strings"

	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/prodspec/source/artifact"
)

// contentCache keeps what was fetched by its digest, on this machine, for the sources
// of one partition: another may not be allowed to fetch it. Content of a digest never
// changes, so a file is either right or removed. It can be removed at any time.
type contentCache struct {
	folder string
	// most bytes of all; what was not used for longest goes first.
	most int64
}

const (
	// contentFolder is beside the mirrors of a partition.
	contentFolder = "content"
	// mostContent is how many bytes are kept for a partition.
	mostContent = 256 << 20
)

// newContentCache keeps nothing where there is no folder.
func newContentCache(root string, partition intent.PartitionID) contentCache {
	if root == "" {
		return contentCache{}
	}
	return contentCache{folder: filepath.Join(root, string(partition), contentFolder), most: mostContent}
}

func (c contentCache) path(digest string) string {
	return filepath.Join(c.folder, strings.TrimPrefix(digest, "sha256:"))
}

// has reports whether content seems to be kept; it is not read.
func (c contentCache) has(digest string) bool {
	if c.folder == "" {
		return false
	}
	_, err := os.Stat(c.path(digest))
	return err == nil
}

// get reads content that is kept, and verifies it.
func (c contentCache) get(digest string, most int64) (content []byte, ok bool) {
	if c.folder == "" || !artifact.IsDigest(digest) {
		return nil, false
	}
	path := c.path(digest)
	info, err := os.Lstat(path)
	if err != nil || !info.Mode().IsRegular() || info.Size() > most {
		return nil, false
	}
	content, err = os.ReadFile(path)
	if err != nil {
		return nil, false
	}
	if artifact.Digest(content) != digest {
		_ = os.Remove(path) // It was damaged, and is fetched again.
		return nil, false
	}
	used(path)
	return content, true
}

// put keeps content. Where that fails, it is fetched again when it is needed.
func (c contentCache) put(digest string, content []byte) {
	if c.folder == "" || os.MkdirAll(c.folder, 0o700) != nil {
		return
	}
	file, err := os.CreateTemp(c.folder, "new-*")
	if err != nil {
		return
	}
	_, err = file.Write(content)
	if closed := file.Close(); err == nil {
		err = closed
	}
	if err != nil || os.Rename(file.Name(), c.path(digest)) != nil {
		_ = os.Remove(file.Name())
		return
	}
	c.trim()
}

// trim removes what was not used for longest, until the rest has room.
func (c contentCache) trim() {
	entries, err := os.ReadDir(c.folder)
	if err != nil {
		return
	}
	var kept []os.FileInfo
	total := int64(0)
	for _, entry := range entries {
		if info, err := entry.Info(); err == nil && info.Mode().IsRegular() {
			kept, total = append(kept, info), total+info.Size()
		}
	}
	slices.SortFunc(kept, func(a, b os.FileInfo) int { return a.ModTime().Compare(b.ModTime()) })
	for _, info := range kept {
		if total <= c.most {
			return
		}
		if os.Remove(filepath.Join(c.folder, info.Name())) == nil {
			total -= info.Size()
		}
	}
}
