package schedule

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"
)

// recordName is the file, in a schedule's folder, of what its keeper remembers.
const recordName = "keeper.json"

// record is what a keeper remembers. Only its keeper writes it.
type record struct {
	// Considered are all times up to this one: no run begins for them any more.
	Considered time.Time `json:"considered"`
	// Running are the runs that have begun, as far as is known.
	Running []run `json:"running,omitempty"`
	// Last is the run that ended last.
	Last ended `json:"last,omitzero"`
	// Counts since the record began. Missed are times at which nothing kept the
	// schedule, and skipped those at which a run was under way.
	Runs    int `json:"runs"`
	Failed  int `json:"failed"`
	Missed  int `json:"missed"`
	Skipped int `json:"skipped"`
	// MissedLast is the last of the missed times.
	MissedLast time.Time `json:"missedLast,omitzero"`
}

// run that has begun.
type run struct {
	Due     time.Time `json:"due"`
	Started time.Time `json:"started"`
}

// ended is how a run ended.
type ended struct {
	run
	Ended time.Time `json:"ended"`
	// Result in words; empty: well.
	Result string `json:"result,omitempty"`
	// Log of what it wrote.
	Log string `json:"log,omitempty"`
}

func (e ended) ok() bool { return e.Result == "" }

// words for people.
func (r record) words() string {
	text := "no run has ended yet"
	if !r.Last.Ended.IsZero() {
		how := "ended well"
		if !r.Last.ok() {
			how = r.Last.Result + "; its log is " + r.Last.Log
		}
		text = fmt.Sprintf("the run of %s %s", r.Last.Due.Format(time.RFC3339), how)
	}
	if len(r.Running) > 0 {
		text += fmt.Sprintf("; that of %s is under way", r.Running[len(r.Running)-1].Due.Format(time.RFC3339))
	}
	if r.Skipped > 0 {
		text += fmt.Sprintf("; skipped while one was under way: %d", r.Skipped)
	}
	if r.Missed > 0 {
		text += fmt.Sprintf("; missed while nothing kept it: %s, the last of %s", count(r.Missed), r.MissedLast.Format(time.RFC3339))
	}
	return text
}

func count(n int) string {
	if n >= mostMissed {
		return fmt.Sprintf("%d or more", n)
	}
	return fmt.Sprint(n)
}

// load is empty when there is no record yet.
func load(path string) (r record, err error) {
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return r, nil
	}
	if err == nil {
		err = json.NewDecoder(bytes.NewReader(text)).Decode(&r)
	}
	if err != nil {
		return record{}, fmt.Errorf("what the keeper remembers in %s cannot be read: %w; if it is damaged, remove it: times until now then count as considered", path, err)
	}
	return r, nil
}

// save replaces the record, which then outlives a crash of the machine.
func (r record) save(path string) error {
	text, err := json.Marshal(r)
	if err != nil {
		return err
	}
	file, err := os.CreateTemp(filepath.Dir(path), recordName+".*")
	if err != nil {
		return err
	}
	defer os.Remove(file.Name())
	_, err = file.Write(text)
	if err = errors.Join(err, file.Sync(), file.Close()); err != nil {
		return err
	}
	if err := os.Rename(file.Name(), path); err != nil {
		return err
	}
	folder, err := os.Open(filepath.Dir(path))
	if err != nil {
		return err
	}
	return errors.Join(folder.Sync(), folder.Close())
}
