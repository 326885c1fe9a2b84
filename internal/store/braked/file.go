package braked

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"errors"
	"io"
	"os"
	"sync"
	"syscall"

	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/files"
	"lehr.dev/internal/ground/intent"
)

// FileOf is the file beside a store.
func FileOf(store string) string { return store + ".brake" }

// The file has two slots, of which the newer one that is whole counts: a write that is
// cut off leaves the other. Both are on the disk from the first start on, so that a
// brake fits when nothing else does.
const (
	slotBytes  = 32 << 10
	slots      = 2
	slotHeader = len(slotMagic) + 8 + 4 + sha256.Size
	slotMagic  = "LEHRBRK1"
)

// file holds the stops that are in force and not in the store. Processes share it.
type file struct {
	path string
	mu   sync.Mutex
	open *os.File
}

// reserve opens the file, and makes it where it is not there.
func (f *file) reserve() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.open != nil {
		return nil
	}
	if err := files.CheckPlace(f.path); err != nil {
		return err
	}
	opened, err := os.OpenFile(f.path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	if info, err := opened.Stat(); err != nil || info.Size() < slots*slotBytes {
		if err == nil {
			_, err = opened.WriteAt(make([]byte, slots*slotBytes-info.Size()), info.Size())
		}
		if err == nil {
			err = opened.Sync()
		}
		if err != nil {
			opened.Close()
			return err
		}
	}
	f.open = opened
	return nil
}

func (f *file) close() {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.open != nil {
		f.open.Close()
		f.open = nil
	}
}

// read returns the stops; none where there is no file.
func (f *file) read() ([]intent.Stop, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	source := f.open
	if source == nil {
		opened, err := files.OpenGiven(f.path)
		if errors.Is(err, os.ErrNotExist) {
			return nil, nil
		}
		if err != nil {
			return nil, err
		}
		defer opened.Close()
		source = opened
	}
	_, stops, _, err := newest(source)
	return stops, err
}

// change replaces the stops by what it is handed. Another process does not at that
// time.
func (f *file) change(next func([]intent.Stop) []intent.Stop) error {
	if err := f.reserve(); err != nil {
		return err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.open == nil {
		return os.ErrClosed
	}
	if err := syscall.Flock(int(f.open.Fd()), syscall.LOCK_EX); err != nil {
		return err
	}
	defer func() { _ = syscall.Flock(int(f.open.Fd()), syscall.LOCK_UN) }()
	number, stops, slot, err := newest(f.open)
	if err != nil {
		return err
	}
	text, err := json.Marshal(next(stops))
	if err != nil {
		return err
	}
	if slotHeader+len(text) > slotBytes {
		return fault.New(fault.Invalid, "the brake file %s has room for %d bytes, and these stops take %d", f.path, slotBytes-slotHeader, len(text))
	}
	if _, err := f.open.WriteAt(encodeSlot(number+1, text), int64((slot+1)%slots)*slotBytes); err != nil {
		return err
	}
	return f.open.Sync()
}

func encodeSlot(number uint64, text []byte) []byte {
	var head bytes.Buffer
	head.WriteString(slotMagic)
	_ = binary.Write(&head, binary.BigEndian, number)
	_ = binary.Write(&head, binary.BigEndian, uint32(len(text)))
	sum := sha256.Sum256(append(head.Bytes(), text...))
	return append(append(head.Bytes(), sum[:]...), text...)
}

// newest returns what the newer whole slot says. A file that has none has no stops, if
// nothing was ever written to it; else it is damaged, and nobody knows which there were.
func newest(reader io.ReaderAt) (number uint64, stops []intent.Stop, slot int, err error) {
	slot = slots - 1
	damaged := 0
	for i := range slots {
		raw := make([]byte, slotBytes)
		n, err := reader.ReadAt(raw, int64(i)*slotBytes)
		if err != nil && !errors.Is(err, io.EOF) {
			return 0, nil, 0, err
		}
		if raw = raw[:n]; len(bytes.Trim(raw, "\x00")) == 0 {
			continue
		}
		slotNumber, text, ok := decodeSlot(raw)
		if !ok {
			damaged++
			continue
		}
		if slotNumber > number {
			var list []intent.Stop
			if err := json.Unmarshal(text, &list); err != nil {
				return 0, nil, 0, err
			}
			number, stops, slot = slotNumber, list, i
		}
	}
	if number == 0 && damaged == slots {
		return 0, nil, 0, fault.New(fault.Internal, "neither half of the brake file is whole").
			WithHint("if nothing is to be stopped, remove the file that ends in .brake beside the store")
	}
	return number, stops, slot, nil
}

func decodeSlot(raw []byte) (number uint64, text []byte, ok bool) {
	if len(raw) < slotHeader || string(raw[:len(slotMagic)]) != slotMagic {
		return 0, nil, false
	}
	at := len(slotMagic)
	number = binary.BigEndian.Uint64(raw[at:])
	length := int(binary.BigEndian.Uint32(raw[at+8:]))
	if length > len(raw)-slotHeader {
		return 0, nil, false
	}
	text = raw[slotHeader : slotHeader+length]
	sum := sha256.Sum256(append(bytes.Clone(raw[:at+12]), text...))
	return number, text, bytes.Equal(sum[:], raw[at+12:slotHeader])
}
