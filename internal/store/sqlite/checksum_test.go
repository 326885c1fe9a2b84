package sqlite

import (
	"encoding/binary"
	"testing"
)

// TestEveryFlipOfAPageIsSeen, of one bit and of two beside each other.
func TestEveryFlipOfAPageIsSeen(t *testing.T) {
	page := make([]byte, pageBytes)
	for i := range page {
		page[i] = byte(i * 7)
	}
	seal(page, 9)
	if !sealed(page) || sealedNumber(page) != 9 {
		t.Fatal("a page is not as it was sealed")
	}
	for _, bits := range []byte{1, 3} {
		for at := range page {
			for shift := range 8 {
				page[at] ^= bits << shift
				if sealed(page) {
					t.Fatalf("bits %08b of byte %d are not seen", bits<<shift, at)
				}
				page[at] ^= bits << shift
			}
		}
	}
}

// TestFrameChecksum follows the formula of the file format, in both orders. That
// SQLite reads it so, all tests of crashes show.
func TestFrameChecksum(t *testing.T) {
	frame := make([]byte, frameBytes)
	for i := range frame {
		frame[i] = byte(i * 13)
	}
	for magic, order := range map[uint32]binary.ByteOrder{0x377f0682: binary.LittleEndian, 0x377f0683: binary.BigEndian} {
		if frameOrder(magic) != order {
			t.Errorf("%x is read as %s", magic, frameOrder(magic))
		}
		one, two := uint32(3), uint32(4)
		for _, part := range [][]byte{frame[:8], frame[frameHeaderBytes:]} {
			for i := 0; i < len(part); i += 8 {
				one += order.Uint32(part[i:]) + two
				two += order.Uint32(part[i+4:]) + one
			}
		}
		before := binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint32(nil, 3), 4)
		reseal(frame, order, before)
		if got := binary.BigEndian.Uint64(frame[frameChecksumAt:]); got != uint64(one)<<32|uint64(two) {
			t.Errorf("%s: checksum %x, want %x%x", order, got, one, two)
		}
	}
}

func BenchmarkSeal(b *testing.B) {
	page := make([]byte, pageBytes)
	for b.Loop() {
		seal(page, 9)
	}
}

func BenchmarkReseal(b *testing.B) {
	frame, before := make([]byte, frameBytes), make([]byte, 8)
	for b.Loop() {
		reseal(frame, binary.LittleEndian, before)
	}
}
