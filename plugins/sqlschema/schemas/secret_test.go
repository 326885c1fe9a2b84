package schemas

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	sqlschemapb "lehr.dev/gen/lehr/sqlschema/v1"
	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/files"
)

// TestAPasswordIsReadOfARegularFile that is none of Lehr's own: a pipe is not waited for.
func TestAPasswordIsReadOfARegularFile(t *testing.T) {
	home := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(home, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	pipe := filepath.Join(home, "pipe")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	store := write("lehr.db", "a store")
	defer files.Guard([]string{store}, nil)()
	for file, want := range map[string]string{
		write("password", "open sesame\n"): "", pipe: "named pipe", "/dev/zero": "device", home: "folder",
		store: "Lehr's own", filepath.Join(home, "none"): "no such file", write("empty", "\n"): "no password", write("long", strings.Repeat("a", 5000)): "no password",
	} {
		value, err := secret(&sqlschemapb.Secret{Source: &sqlschemapb.Secret_File{File: file}})
		if want == "" && (err != nil || value != "open sesame") || want != "" && (err == nil || !strings.Contains(err.Error(), want) || !fault.Is(err, fault.Denied) && !fault.Is(err, fault.Invalid)) {
			t.Errorf("%s: %q, %v, want %q", file, value, err, want)
		}
	}
}
