package demo

import (
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestNothingIsWrittenOver: a folder with somebody's files is refused.
func TestNothingIsWrittenOver(t *testing.T) {
	folder := t.TempDir()
	mine := filepath.Join(folder, "service.yaml")
	if err := os.WriteFile(mine, []byte("mine"), 0o644); err != nil {
		t.Fatal(err)
	}
	err := Run(t.Context(), Options{Program: "/nowhere/lehr", Directory: folder, Exit: true, Out: io.Discard})
	if err == nil || !strings.Contains(err.Error(), "not empty") {
		t.Errorf("error %v", err)
	}
	if content, err := os.ReadFile(mine); err != nil || string(content) != "mine" {
		t.Errorf("the file is now %q, %v", content, err)
	}
}

// TestMissingReleasesAreTold: without the example service beside the program
// the demo says what to do.
func TestMissingReleasesAreTold(t *testing.T) {
	err := Run(t.Context(), Options{Program: "/nowhere/lehr", Directory: filepath.Join(t.TempDir(), "new"), Exit: true, Out: io.Discard})
	if err == nil || !strings.Contains(err.Error(), "make build") {
		t.Errorf("error %v", err)
	}
}
