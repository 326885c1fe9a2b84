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
	"time"
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

// Found is what a folder tells.
type Found struct {
	// Run is the newest that its keeper began, or that is known not to have begun; else the
	// newest that was reserved, IsStarted being false; nil: there is none.
	Run       *Run
	IsStarted bool
	// Newest is the highest number that was taken: those above Run's never began, unless a
	// keeper is at work.
	Newest uint64
	// IsLive: a keeper is at work.
	IsLive bool
}

// Load reads what ran. Whether a keeper is at work is asked before its files are read,
// so that one that ends meanwhile is seen as ended, or as at work.
func (f Folder) Load() (record Found, err error) {
	if record.IsLive, err = f.isLocked(); err != nil {
		return Found{}, err
	}
	numbers, err := f.numbers()
	if err != nil || len(numbers) == 0 {
		return record, err
	}
	record.Newest = numbers[len(numbers)-1]
	for _, number := range slices.Backward(numbers) {
		run, isStarted, err := f.loadRun(number)
		if err != nil {
			return Found{}, err
		}
		if isBegun := isStarted || run.End != nil; isBegun || record.Run == nil {
			record.Run, record.IsStarted = run, isStarted
			if isBegun {
				break
			}
		}
	}
	return record, nil
}

func (f Folder) loadRun(number uint64) (run *Run, isStarted bool, err error) {
	run = &Run{}
	if err := readJSON(f.file(number, beganSuffix), run); err != nil {
		return nil, false, err
	}
	if run.Number != number {
		return nil, false, fmt.Errorf("%s is of run %d: somebody moved it; what ran is not known, so nothing is run", f.file(number, beganSuffix), run.Number)
	}
	if _, err := os.Lstat(f.file(number, startedSuffix)); err == nil {
		isStarted = true
	} else if !errors.Is(err, fs.ErrNotExist) {
		return nil, false, fmt.Errorf("reading the record of a run: %w", err)
	}
	end := &End{}
	switch err := readJSON(f.file(number, endedSuffix), end); {
	case err == nil:
		run.End = end
	case !errors.Is(err, fs.ErrNotExist):
		return nil, false, err
	}
	return run, isStarted, nil
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
	if err != nil {
		return err
	}
	// The keeper of an earlier run notes that it starts, and then looks for a newer run. So one
	// of the two sees the other, and they never both go on.
	isLive, err := f.isLocked()
	for waited := time.Duration(0); err == nil && isLive && f.hasEnded() && waited < keeperEnds; waited += lockPause {
		time.Sleep(lockPause)
		isLive, err = f.isLocked()
	}
	if err != nil || isLive {
		return errors.Join(fmt.Errorf("%w: another run has begun before %d", ErrTaken, run.Number), err)
	}
	f.collect()
	return nil
}

// A keeper that has noted its run's end is about to end: lockPause is between two looks
// whether it has, and keeperEnds how long that may take.
const (
	lockPause  = 10 * time.Millisecond
	keeperEnds = 5 * time.Second
)

// hasEnded reports whether the newest run that began has its end noted.
func (f Folder) hasEnded() bool {
	record, err := f.Load()
	return err == nil && record.IsStarted && record.Run.End != nil
}

// Start notes durably that the run begins now. Only whoever holds the lock calls it, once.
func (f Folder) Start(number uint64) error {
	if err := writeNew(f.file(number, startedSuffix), struct{}{}); err != nil {
		return err
	}
	numbers, err := f.numbers()
	if err == nil && numbers[len(numbers)-1] != number {
		err = fmt.Errorf("run %d is not the newest: another was reserved", number)
	}
	if err != nil {
		return errors.Join(err, f.Finish(number, &End{Ending: NotStarted, Reason: err.Error(), Ended: time.Now()}))
	}
	return nil
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

// collect removes the files of all but the newest runs, and of the newest that began. What is
// left of them harms nobody.
func (f Folder) collect() {
	numbers, err := f.numbers()
	if err != nil {
		return
	}
	begun := -1
	for i, number := range slices.Backward(numbers) {
		if run, isStarted, err := f.loadRun(number); err != nil {
			return
		} else if isStarted || run.End != nil {
			begun = i
			break
		}
	}
	for i, number := range numbers[:max(0, len(numbers)-mostRuns)] {
		if i == begun {
			continue
		}
		for _, suffix := range []string{endedSuffix, startedSuffix, beganSuffix} {
			_ = os.Remove(f.file(number, suffix))
		}
	}
}

func readJSON(path string, target any) error {
	text, err := os.ReadFile(path)
	if err == nil {
		err = json.NewDecoder(bytes.NewReader(text)).Decode(target)
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
