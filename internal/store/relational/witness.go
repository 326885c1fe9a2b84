package relational

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/files"
	"lehr.dev/internal/ground/intent"
)

// mark is how far a writer was, as it is known outside the database.
type mark struct {
	Timeline string `json:"timeline"`
	Writer   string `json:"writer"`
	Commits  int64  `json:"commits"`
}

const (
	// markBytes is the size of a witness: one sector, which a disk writes whole
	// or not at all.
	markBytes = 512
	// witnessPeriod bounds what a power cut takes from a witness. The end of the
	// process takes nothing.
	witnessPeriod = time.Second
)

// Witness remembers in a file outside the database what its writer committed
// last (S15). It is written after each commit, before anybody is told of it, so
// it is never ahead of what is durable. A nil one
// forgets.
type Witness struct {
	file *os.File
	// lastMark is what it said when it was opened, text what it is to say.
	lastMark mark
	text     []byte
	// synced is when the file was made durable last; later: it was written since.
	synced time.Time
	later  bool
	// failed: it may not say so, or not for long.
	failed bool
}

// OpenWitness opens the file, or makes it if it may. A missing or empty one
// knows nothing; a damaged one is Internal.
func OpenWitness(path string, make bool) (_ *Witness, err error) {
	w := &Witness{}
	attempt := "reading the store's witness " + path
	if err := files.CheckPlace(path); err != nil {
		return nil, err
	}
	w.file, err = os.OpenFile(path, os.O_RDWR, 0)
	if errors.Is(err, fs.ErrNotExist) {
		if !make {
			return nil, nil
		}
		w.file, err = makeWitness(path)
	}
	if err != nil {
		return nil, fault.New(fault.Unavailable, "%s: %w", attempt, err).WithHint("lehr must be able to read and write it")
	}
	text, err := io.ReadAll(io.LimitReader(w.file, markBytes+1))
	if err == nil && len(text) > 0 {
		w.lastMark, err = decodeMark(text)
	}
	if err != nil {
		w.Close()
		return nil, fault.New(fault.Internal, "%s: %w", attempt, err).
			WithHint("nobody can tell whether the store lost anything: move the file away, start the server, look, and then lehr store adopt")
	}
	return w, nil
}

// makeWitness makes it empty, which says nothing, and durable in its folder.
func makeWitness(path string) (*os.File, error) {
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return nil, err
	}
	folder, err := os.Open(filepath.Dir(path))
	if err == nil {
		err = errors.Join(folder.Sync(), folder.Close())
	}
	if err != nil {
		file.Close()
		return nil, err
	}
	return file, nil
}

// A witness is a line of JSON with its digest before it, filled up with spaces.
func encodeMark(m mark) ([]byte, error) {
	text, err := json.Marshal(m)
	if err != nil {
		return nil, err
	}
	line := fmt.Sprintf("%s %s", intent.Sum("lehr.witness.v1", text).Short(), text)
	if len(line) >= markBytes {
		return nil, fault.New(fault.Internal, "the witness of %d bytes does not fit into %d", len(line), markBytes)
	}
	return fmt.Appendf(nil, "%-*s\n", markBytes-1, line), nil
}

func decodeMark(text []byte) (m mark, err error) {
	_, line, _ := bytes.Cut(text, []byte(" "))
	if json.Unmarshal(line, &m) == nil {
		if again, err := encodeMark(m); err == nil && bytes.Equal(again, text) {
			return m, nil
		}
	}
	return mark{}, errors.New("it is damaged")
}

// raise writes what is durable in the store.
func (w *Witness) raise(m mark) (err error) {
	if w == nil {
		return nil
	}
	if w.text, err = encodeMark(m); err != nil {
		w.failed = true
		return err
	}
	return w.write()
}

// write also makes durable what a sync that failed was to: that is written anew
// with it.
func (w *Witness) write() error {
	_, err := w.file.WriteAt(w.text, 0)
	if err == nil && w.failed {
		err = w.file.Sync()
	}
	w.failed, w.later = err != nil, true
	return err
}

// settle makes the file durable when it is time, and tries again what failed.
func (w *Witness) settle(now time.Time) error {
	if w == nil {
		return nil
	}
	if w.failed {
		return w.write()
	}
	if age := now.Sub(w.synced); !w.later || age >= 0 && age < witnessPeriod {
		return nil
	}
	w.synced, w.later = now, false
	err := w.file.Sync()
	w.failed = err != nil
	return err
}

// Close makes it durable and closes it.
func (w *Witness) Close() error {
	if w == nil {
		return nil
	}
	var err error
	if w.later {
		err = w.file.Sync()
	}
	return errors.Join(err, w.file.Close())
}
