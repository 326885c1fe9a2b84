package applykeeper

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"lehr.dev/plugins/terraform/tfplan"
	"lehr.dev/plugins/terraform/workfolder"
	"lehr.dev/sdk/keeper"
)

// Apply is one apply of a saved plan, as it was begun on this machine and how it ended.
type Apply struct {
	// Push is the id of the push that began it: unique for ever.
	Push  string    `json:"push"`
	Began time.Time `json:"began"`
	// Process is Terraform's.
	Process int `json:"process,omitempty"`
	// StateDigest is of the state that it began from.
	StateDigest string `json:"state_digest,omitempty"`
	// End is nil as long as nobody saw how it ended.
	End *End `json:"end,omitempty"`
}

// End is how an apply ended.
type End struct {
	IsApplied bool `json:"applied"`
	// IsStale: the state has moved since the plan was made, so nothing was applied. IsLocked:
	// somebody held the state's lock, so nothing was.
	IsStale  bool `json:"stale,omitempty"`
	IsLocked bool `json:"locked,omitempty"`
	// IsInterrupted: it was to begin no more operations.
	IsInterrupted bool `json:"interrupted,omitempty"`
	// StateLeft is the file with the state that could not be written; empty: it was written.
	StateLeft string    `json:"state_left,omitempty"`
	Reason    string    `json:"reason,omitempty"`
	Ended     time.Time `json:"ended"`
}

const (
	recordName   = "apply.json"
	progressName = "progress.jsonl"
	logName      = "keeper.log"
)

// Found is what is known of the last apply of a module on this machine.
type Found struct {
	// Last is nil when there was none.
	Last *Apply
	// IsLive: it is under way.
	IsLive bool
	// Progress is the last that it told.
	Progress string
}

// Load reads it. Whether it is under way is asked first, so that one that ends meanwhile is
// seen as under way, or with its end.
func Load(asset workfolder.Asset) (found Found, err error) {
	if found.IsLive, err = keeper.IsLocked(asset.LockPath()); err != nil {
		return Found{}, err
	}
	text, err := os.ReadFile(filepath.Join(asset.Path, recordName))
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return found, nil
	case err != nil:
		return Found{}, fmt.Errorf("reading the record of an apply: %w", err)
	}
	found.Last = &Apply{}
	if err := json.Unmarshal(text, found.Last); err != nil {
		return Found{}, fmt.Errorf("reading the record of an apply, %s: %w", filepath.Join(asset.Path, recordName), err)
	}
	if found.IsLive {
		found.Progress = lastProgress(asset)
	}
	return found, nil
}

func lastProgress(asset workfolder.Asset) (progress string) {
	for _, event := range Events(asset) {
		if event.IsProgress() {
			progress = event.Message
		}
	}
	return progress
}

// Events are what the last apply has told so far.
func Events(asset workfolder.Asset) []tfplan.Event {
	text, err := os.ReadFile(filepath.Join(asset.Path, progressName))
	if err != nil {
		return nil
	}
	return tfplan.Events(text)
}

// save writes the record whole and durably.
func (a Apply) save(asset workfolder.Asset) error {
	text, err := json.Marshal(a)
	if err != nil {
		return err
	}
	path := filepath.Join(asset.Path, recordName)
	file, err := os.OpenFile(path+".new", os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("writing the record of an apply: %w", err)
	}
	_, err = file.Write(text)
	if err == nil {
		err = file.Sync()
	}
	if err := errors.Join(err, file.Close()); err != nil {
		return fmt.Errorf("writing the record of an apply: %w", err)
	}
	if err := os.Rename(path+".new", path); err != nil {
		return fmt.Errorf("writing the record of an apply: %w", err)
	}
	return nil
}
