package sqlite

import (
	"encoding/binary"
	"hash/crc32"
)

// SQLite's pages have no checksum of their own. These have: SQLite leaves the
// last bytes of each page alone, and there stand the page's number and a
// CRC-32C of all before it. It finds every flip of up to three bits, every torn
// page and every page in the place of another; of other damage it misses one in
// 2³².
const (
	// pageBytes is the size of every page, reserved of which are not SQLite's.
	pageBytes = 4096
	reserved  = 8
	// Where the parts stand in a page.
	numberAt, checksumAt = pageBytes - reserved, pageBytes - 4
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// seal writes number and checksum into a page.
func seal(page []byte, number uint32) {
	binary.BigEndian.PutUint32(page[numberAt:], number)
	binary.BigEndian.PutUint32(page[checksumAt:], crc32.Checksum(page[:checksumAt], castagnoli))
}

// sealed reports whether a page is as it was written.
func sealed(page []byte) bool {
	return binary.BigEndian.Uint32(page[checksumAt:]) == crc32.Checksum(page[:checksumAt], castagnoli)
}

func sealedNumber(page []byte) uint32 { return binary.BigEndian.Uint32(page[numberAt:]) }

// The log has a header, and frames of a header and a page. Each frame's header
// has a checksum of all before it: SQLite's, by which it finds the log's end
// after a crash. (https://sqlite.org/fileformat2.html, section 4.)
const (
	logHeaderBytes   = 32
	frameHeaderBytes = 24
	frameBytes       = frameHeaderBytes + pageBytes
	// Where the checksums of the log's header and of a frame's stand, and before
	// the latter what tells frames of one log from those of another.
	logChecksumAt, frameSaltAt, frameChecksumAt = 24, 8, 16
)

// frameOrder is how the checksums of a log read its words, by its magic number.
func frameOrder(magic uint32) binary.ByteOrder {
	if magic&1 == 1 {
		return binary.BigEndian
	}
	return binary.LittleEndian
}

// reseal writes the checksum of a frame, which follows from the one before it.
func reseal(frame []byte, order binary.ByteOrder, previous []byte) {
	one, two := binary.BigEndian.Uint32(previous), binary.BigEndian.Uint32(previous[4:])
	add := func(words []byte) {
		for ; len(words) >= 8; words = words[8:] {
			one += order.Uint32(words) + two
			two += order.Uint32(words[4:]) + one
		}
	}
	if order == binary.LittleEndian { // nearly always, and four times as fast
		add = func(words []byte) {
			for ; len(words) >= 8; words = words[8:] {
				one += binary.LittleEndian.Uint32(words) + two
				two += binary.LittleEndian.Uint32(words[4:]) + one
			}
		}
	}
	add(frame[:8])
	add(frame[frameHeaderBytes:])
	binary.BigEndian.PutUint32(frame[frameChecksumAt:], one)
	binary.BigEndian.PutUint32(frame[frameChecksumAt+4:], two)
}
