package workfolder

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// Current is which content of an asset was planned last: what else than a plan reads its state,
// as its outputs, reads it there. It holds no secret.
type Current struct {
	Content   Content `json:"content"`
	Engine    string  `json:"engine"`
	Workspace string  `json:"workspace"`
	// Root is the root module's folder among the files.
	Root string `json:"root"`
}

func (a Asset) currentPath() string { return filepath.Join(a.Path, "current.json") }

// SaveCurrent notes it, when it is another than noted.
func (a Asset) SaveCurrent(current Current) error {
	text, err := json.Marshal(current)
	if err != nil {
		return err
	}
	if noted, err := os.ReadFile(a.currentPath()); err == nil && string(noted) == string(text) {
		return nil
	}
	if err := writeWhole(a.currentPath(), text); err != nil {
		return fmt.Errorf("noting which content was planned: %w", err)
	}
	return nil
}

// LoadCurrent reads it. The error wraps fs.ErrNotExist where nothing was planned here.
func (a Asset) LoadCurrent() (current Current, err error) {
	text, err := os.ReadFile(a.currentPath())
	if err != nil {
		return current, fmt.Errorf("reading which content was planned: %w", err)
	}
	err = json.Unmarshal(text, &current)
	if err == nil && (current.Content.Path == "" || current.Content.Root == "") {
		err = errors.New("it names no folder")
	}
	if err != nil {
		return current, fmt.Errorf("reading which content was planned, from %s: %w", a.currentPath(), err)
	}
	return current, nil
}

// IsNothingPlanned reports whether an error is of an asset that was not planned here.
func IsNothingPlanned(err error) bool { return errors.Is(err, fs.ErrNotExist) }
