package runrecord

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
)

// Item is what is known of one item of a list.
type Item struct {
	Item string `json:"item"`
	// Run is the number of the run that began it last.
	Run uint64 `json:"run"`
	// Ending is empty as long as nobody saw its end.
	Ending Ending `json:"ending,omitempty"`
	Code   int32  `json:"code,omitempty"`
	Reason string `json:"reason,omitempty"`
}

// Items are by their names. The map is nil when there is no log: then nothing is known, which
// is not the same as that nothing was done.
type Items map[string]Item

func (f Folder) itemsPath(batch string) string { return filepath.Join(f.Path, "items-"+batch+".log") }

// LoadItems reads what became of the items of a batch.
func (f Folder) LoadItems(batch string) (Items, error) {
	text, err := os.ReadFile(f.itemsPath(batch))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading what became of the items of a task: %w", err)
	}
	items := Items{}
	lines := strings.Split(string(text), "\n")
	// What follows the last newline is half written: its program never began, or its end was
	// not noted.
	for i, line := range lines[:len(lines)-1] {
		var one Item
		if err := json.Unmarshal([]byte(line), &one); err != nil {
			return nil, fmt.Errorf("%s:%d is not what a keeper wrote: which items are done is not known, so nothing is run", f.itemsPath(batch), i+1)
		}
		items[one.Item] = one
	}
	return items, nil
}

// ItemLog is where a keeper notes items. Its methods may be called from many goroutines.
type ItemLog struct {
	mutex sync.Mutex
	file  *os.File
	// broken: a line may be half written, and no other may follow it.
	broken error
}

// mostLogs are kept of batches: one whose log is gone is not repeated unasked.
const mostLogs = 8

// collectItems removes the logs of all but the newest batches and this one.
func (f Folder) collectItems(batch string) {
	paths, err := filepath.Glob(f.itemsPath("*"))
	if err != nil {
		return
	}
	changed := func(path string) int64 {
		info, err := os.Stat(path)
		if err != nil {
			return 0
		}
		return info.ModTime().UnixNano()
	}
	slices.SortFunc(paths, func(a, b string) int { return cmp.Compare(changed(a), changed(b)) })
	for _, path := range paths[:max(0, len(paths)-mostLogs)] {
		if path != f.itemsPath(batch) {
			_ = os.Remove(path)
		}
	}
}

// OpenItems opens the log of a batch, and cuts a last line off that was half written.
func (f Folder) OpenItems(batch string) (*ItemLog, error) {
	f.collectItems(batch)
	path := f.itemsPath(batch)
	file, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("opening the list of a task's items: %w", err)
	}
	text, err := os.ReadFile(path)
	if err == nil {
		whole := int64(strings.LastIndexByte(string(text), '\n') + 1)
		if err = file.Truncate(whole); err == nil {
			_, err = file.Seek(whole, 0)
		}
	}
	if err == nil {
		err = syncFolder(f.Path)
	}
	if err != nil {
		file.Close()
		return nil, fmt.Errorf("opening the list of a task's items: %w", err)
	}
	return &ItemLog{file: file}, nil
}

// Note writes durably what became of an item: before it begins, and when it has ended.
func (l *ItemLog) Note(item Item) error {
	line, err := json.Marshal(item)
	if err != nil {
		return err
	}
	l.mutex.Lock()
	defer l.mutex.Unlock()
	if l.broken != nil {
		return l.broken
	}
	if _, err = l.file.Write(append(line, '\n')); err == nil {
		err = l.file.Sync()
	}
	if err != nil {
		l.broken = fmt.Errorf("noting an item: %w", err)
	}
	return l.broken
}

// Close closes the log.
func (l *ItemLog) Close() error { return l.file.Close() }
