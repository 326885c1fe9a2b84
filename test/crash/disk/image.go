package disk

import (
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
)

// sector is what a disk writes whole or not at all, in bytes.
const sector = 512

// Image is the content of a folder's files.
type Image map[string][]byte

// Read reads the files of a folder whose names begin with the prefix, but for
// the shared memory of a database, which is never believed after a crash.
func Read(folder, prefix string) (Image, error) {
	names, err := filepath.Glob(filepath.Join(folder, prefix+"*"))
	if err != nil {
		return nil, err
	}
	image := Image{}
	for _, name := range names {
		if filepath.Ext(name) == ".lock" || filepath.Base(name) == prefix+"-shm" {
			continue
		}
		if image[filepath.Base(name)], err = os.ReadFile(name); err != nil {
			return nil, err
		}
	}
	return image, nil
}

// Write writes the image into a folder.
func (i Image) Write(folder string) error {
	for name, content := range i {
		if err := os.WriteFile(filepath.Join(folder, name), content, 0o600); err != nil {
			return err
		}
	}
	return nil
}

// inode is a file, whatever it is called.
type inode struct {
	// cached is what a process reads, durable what the disk has for certain.
	cached, durable []byte
	// pending is what the next sync will make durable. Doomed is what one that
	// failed was to: the system takes it for written, a process still reads
	// it, and later syncs pass it by.
	pending, doomed []Event
}

// Model is what is known of a disk: what a process sees there, and what will
// be there when the power goes.
type Model struct {
	names, durable map[string]*inode
	// renamed are creations and deletions that no sync of the folder has made
	// durable, in their order.
	renamed []func(map[string]*inode)
}

// NewModel is a disk that has the image, all of it durable.
func NewModel(start Image) *Model {
	m := &Model{names: map[string]*inode{}}
	for name, content := range start {
		m.names[name] = &inode{cached: slices.Clone(content), durable: slices.Clone(content)}
	}
	m.durable = maps.Clone(m.names)
	return m
}

// Apply lets an event happen.
func (m *Model) Apply(e Event) {
	switch e.Kind {
	case Create:
		file := &inode{}
		m.rename(func(names map[string]*inode) { names[e.File] = file })
	case Delete:
		m.rename(func(names map[string]*inode) { delete(names, e.File) })
	case SyncFolder:
		m.durable, m.renamed = maps.Clone(m.names), nil
	case Rewrite:
		file := m.names[e.File]
		file.durable, file.pending, file.doomed = slices.Clone(file.cached), nil, nil
		m.durable, m.renamed = maps.Clone(m.names), nil
	case Write, Truncate:
		file := m.names[e.File]
		file.cached = applied(file.cached, e)
		file.pending = append(file.pending, e)
	case Sync:
		file := m.names[e.File]
		if e.Failed {
			file.doomed = append(file.doomed, file.pending...)
		} else {
			for _, change := range file.pending {
				file.durable = applied(file.durable, change)
			}
			file.doomed = nil // lost
		}
		file.pending = nil
	}
}

func (m *Model) rename(change func(map[string]*inode)) {
	change(m.names)
	m.renamed = append(m.renamed, change)
}

func applied(content []byte, e Event) []byte {
	size := max(len(content), int(e.Offset)+len(e.Data))
	if e.Kind == Truncate {
		size = int(e.Offset)
	}
	if size <= len(content) {
		content = content[:size]
	} else {
		content = append(content, make([]byte, size-len(content))...)
	}
	copy(content[e.Offset:], e.Data)
	return content
}

// Killed is what the next process finds when this one is killed: the system
// lives on, and with it all that was written.
func (m *Model) Killed() Image {
	image := Image{}
	for name, file := range m.names {
		image[name] = slices.Clone(file.cached)
	}
	return image
}

// PowerLoss is what may be there after the power went. Of what was not synced
// each sector may be there or not, in any order, and of the changes of names
// any number of first ones. Without a source of chance nothing is there.
func (m *Model) PowerLoss(chance *rand.Rand) Image {
	names := maps.Clone(m.durable)
	kept, torn := 0.0, false
	if chance != nil {
		for _, change := range m.renamed[:chance.IntN(len(m.renamed)+1)] {
			change(names)
		}
		kept, torn = []float64{0.1, 0.5, 0.9}[chance.IntN(3)], chance.IntN(2) == 0
	}
	image := Image{}
	for name, file := range names {
		content := slices.Clone(file.durable)
		for _, change := range slices.Concat(file.doomed, file.pending) {
			if chance == nil {
				break
			}
			if !torn || change.Kind == Truncate {
				if chance.Float64() < kept {
					content = applied(content, change)
				}
				continue
			}
			for part := range sectors(change) {
				if chance.Float64() < kept {
					content = applied(content, part)
				}
			}
		}
		image[name] = content
	}
	return image
}

// sectors cuts a write at the ends of sectors.
func sectors(e Event) func(func(Event) bool) {
	return func(yield func(Event) bool) {
		for len(e.Data) > 0 {
			size := min(len(e.Data), sector-int(e.Offset%sector))
			part := e
			part.Data = e.Data[:size]
			if !yield(part) {
				return
			}
			e.Data, e.Offset = e.Data[size:], e.Offset+int64(size)
		}
	}
}
