package runrecord

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// mostRuns have their files kept.
const mostRuns = 20

// ErrTaken says that a number is another run's.
var ErrTaken = errors.New("another run has the number")

// Folder holds the records of one task on this machine.
type Folder struct{ Path string }

// FolderOf a task below the plugin's folder. Names of tasks have slashes, and are longer than
// names of files may be.
func FolderOf(root, partition, name string) Folder {
	readable := strings.ReplaceAll(name, "/", "~")
	readable = readable[:min(len(readable), 80)]
	return Folder{Path: filepath.Join(root, partition, fmt.Sprintf("%s-%.8x", readable, sha256.Sum256([]byte(name))))}
}

// Found is what a folder tells of the newest run.
type Found struct {
	// Run is nil when there is none.
	Run *Run
	// IsStarted: its keeper began. IsLive: a keeper is at work.
	IsStarted, IsLive bool
}

// Load reads the newest run. Whether a keeper is at work is asked before its files are read,
// so that one that ends meanwhile is seen as ended, or as at work.
func (f Folder) Load() (found Found, err error) {
	if found.IsLive, err = f.isLocked(); err != nil {
		return Found{}, err
	}
	numbers, err := f.numbers()
	if err != nil || len(numbers) == 0 {
		return found, err
	}
	newest := numbers[len(numbers)-1]
	found.Run = &Run{}
	if err := readJSON(f.file(newest, beganSuffix), found.Run); err != nil {
		return Found{}, err
	}
	if found.Run.Number != newest {
		return Found{}, fmt.Errorf("%s is of run %d: somebody moved it; what ran is not known, so nothing is run", f.file(newest, beganSuffix), found.Run.Number)
	}
	if _, err := os.Lstat(f.file(newest, startedSuffix)); err == nil {
		found.IsStarted = true
	} else if !errors.Is(err, fs.ErrNotExist) {
		return Found{}, fmt.Errorf("reading the record of a run: %w", err)
	}
	end := &End{}
	switch err := readJSON(f.file(newest, endedSuffix), end); {
	case err == nil:
		found.Run.End = end
	case !errors.Is(err, fs.ErrNotExist):
		return Found{}, err
	}
	return found, nil
}

// Reserve takes the run's number: ErrTaken when it is taken. Nothing has begun by that.
func (f Folder) Reserve(run *Run) error {
	if err := makeDurable(f.Path); err != nil {
		return fmt.Errorf("making the folder of a task's records: %w", err)
	}
	err := writeNew(f.file(run.Number, beganSuffix), run)
	if errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("%w: %d", ErrTaken, run.Number)
	}
	if err == nil {
		f.collect()
	}
	return err
}

// Start notes durably that the run begins now. Only whoever holds the lock calls it, once.
func (f Folder) Start(number uint64) error {
	numbers, err := f.numbers()
	switch {
	case err != nil:
		return err
	case len(numbers) == 0 || numbers[len(numbers)-1] != number:
		return fmt.Errorf("run %d is not the newest: another was begun", number)
	}
	return writeNew(f.file(number, startedSuffix), struct{}{})
}

// Finish notes durably how the run ended.
func (f Folder) Finish(number uint64, end *End) error {
	return writeNew(f.file(number, endedSuffix), end)
}

// Remove removes all records.
func (f Folder) Remove() error {
	if err := os.RemoveAll(f.Path); err != nil {
		return fmt.Errorf("removing the records of a task: %w", err)
	}
	return nil
}

// Files of a run.
const (
	beganSuffix   = ".began.json"
	startedSuffix = ".started.json"
	endedSuffix   = ".ended.json"
)

func (f Folder) file(number uint64, suffix string) string {
	return filepath.Join(f.Path, fmt.Sprintf("%08d", number)+suffix)
}

// numbers of the runs whose files are there, in order.
func (f Folder) numbers() (numbers []uint64, err error) {
	entries, err := os.ReadDir(f.Path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading the records of a task: %w", err)
	}
	for _, entry := range entries {
		digits, ok := strings.CutSuffix(entry.Name(), beganSuffix)
		if number, err := strconv.ParseUint(digits, 10, 64); ok && err == nil {
			numbers = append(numbers, number)
		}
	}
	slices.Sort(numbers)
	return numbers, nil
}

// collect removes the files of all but the newest runs. What is left of them harms nobody.
func (f Folder) collect() {
	numbers, err := f.numbers()
	if err != nil {
		return
	}
	for _, number := range numbers[:max(0, len(numbers)-mostRuns)] {
		for _, suffix := range []string{endedSuffix, startedSuffix, beganSuffix} {
			_ = os.Remove(f.file(number, suffix))
		}
	}
}

func readJSON(path string, into any) error {
	text, err := os.ReadFile(path)
	if err == nil {
		err = json.NewDecoder(bytes.NewReader(text)).Decode(into)
	}
	if err != nil {
		return fmt.Errorf("reading the record of a run, %s: %w", path, err)
	}
	return nil
}

// writeNew writes a file that must not exist yet, whole and durable or not at all.
func writeNew(path string, value any) error {
	text, err := json.Marshal(value)
	if err != nil {
		return err
	}
	file, err := os.CreateTemp(filepath.Dir(path), "new-*")
	if err != nil {
		return fmt.Errorf("writing the record of a run: %w", err)
	}
	defer os.Remove(file.Name())
	_, err = file.Write(text)
	if err == nil {
		err = file.Sync()
	}
	if err := errors.Join(err, file.Close()); err != nil {
		return fmt.Errorf("writing the record of a run: %w", err)
	}
	// A link, as a rename would replace what is there.
	if err := os.Link(file.Name(), path); err != nil {
		return fmt.Errorf("writing the record of a run: %w", err)
	}
	return syncFolder(filepath.Dir(path))
}

// makeDurable makes a folder, and all above it.
func makeDurable(path string) error {
	if info, err := os.Stat(path); err == nil && info.IsDir() {
		return nil
	}
	if parent := filepath.Dir(path); parent != path {
		if err := makeDurable(parent); err != nil {
			return err
		}
	}
	if err := os.Mkdir(path, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return syncFolder(filepath.Dir(path))
}

func syncFolder(path string) error {
	folder, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(folder.Sync(), folder.Close())
}
