package wasm

import (
	"github.com/tetratelabs/wazero/experimental"
	"golang.org/x/sys/unix"
)

// memory of one run: reserved at once, so that it grows without being copied,
// and given back at once, so that the next run finds room.
type memory struct {
	reserved []byte
	// heap has it where nothing could be reserved.
	heap bool
}

// newMemory is an experimental.MemoryAllocator.
func newMemory(_, most uint64) experimental.LinearMemory {
	reserved, err := unix.Mmap(-1, 0, int(max(most, 1)), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON)
	if err != nil {
		return &memory{heap: true}
	}
	return &memory{reserved: reserved}
}

// Reallocate implements experimental.LinearMemory; nil: there is not so much.
func (m *memory) Reallocate(size uint64) []byte {
	if m.heap {
		grown := make([]byte, size)
		copy(grown, m.reserved)
		m.reserved = grown
		return grown
	}
	if size > uint64(len(m.reserved)) {
		return nil
	}
	return m.reserved[:size:len(m.reserved)]
}

// Free implements experimental.LinearMemory.
func (m *memory) Free() {
	if !m.heap {
		// What cannot be given back ends with the process.
		_ = unix.Munmap(m.reserved)
	}
	m.reserved = nil
}
