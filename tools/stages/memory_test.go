package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestTemporaryFilesInMemory: a stage's temporary files lie in a file system of its own, which nobody else sees
// and which leaves nothing; those of a stage that is about disks lie where the caller's do.
func TestTemporaryFilesInMemory(t *testing.T) {
	caller := t.TempDir()
	t.Setenv("TMPDIR", caller)
	files, remove := useMemory(t.Context())
	if files.folder == "" {
		t.Skip("SKIPPED: mounting a file system in memory takes root and 16 GB")
	}
	logs := t.TempDir()
	run := func(s stage) []string {
		t.Helper()
		if _, err := runShell(logs, files)(t.Context(), s); err != nil {
			t.Fatal(err)
		}
		said, err := os.ReadFile(filepath.Join(logs, s.Name+".log"))
		if err != nil {
			t.Fatal(err)
		}
		return strings.Fields(string(said))
	}
	const tell = `file=$(mktemp); echo kept >"$file"; echo "${file%/*} $(stat -f -c %T "$file") ${GOTMPDIR-none}"`
	t.Setenv("GOTMPDIR", "")
	os.Unsetenv("GOTMPDIR") // Setenv puts it back.
	if said := run(stage{Name: "memory", Lane: computes, Script: tell}); len(said) != 3 || said[0] != files.folder || said[1] != "tmpfs" || said[2] != files.folder {
		t.Errorf("folder, file system and folder of programs are %q, want %s in a tmpfs", said, files.folder)
	}
	if left, err := os.ReadDir(files.folder); err != nil || len(left) > 0 {
		t.Errorf("outside of the stage its folder has %v, %v; want nothing", left, err)
	}
	if said := run(stage{Name: "disk", Lane: computes, OnDisk: true, Script: tell}); len(said) != 3 || said[0] != caller || said[2] != "none" {
		t.Errorf("folder, file system and folder of programs of a stage about disks are %q, want those of the caller in %s", said, caller)
	}
	remove()
	if _, err := os.Stat(files.folder); !os.IsNotExist(err) {
		t.Errorf("the folder is left: %v", err)
	}
}

// TestAvailableMemory reads what the kernel tells, and says what it does not.
func TestAvailableMemory(t *testing.T) {
	path := filepath.Join(t.TempDir(), "meminfo")
	for text, want := range map[string]int{
		"MemTotal:       24545880 kB\nMemAvailable:   22545880 kB\n": 22545880,
		"MemTotal:       24545880 kB\n":                              0,
		"MemAvailable:   much\n":                                     0,
	} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		got, err := availableMemory(path)
		if got != want || (err == nil) != (want > 0) {
			t.Errorf("%q: %d kB, %v; want %d", text, got, err, want)
		}
	}
}
