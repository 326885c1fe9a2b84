package building

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestToolIsKeptByVersion: scripts/keep-tool builds a tool once for all checkouts, and
// anew when anything that it is made of has changed.
func TestToolIsKeptByVersion(t *testing.T) {
	script, err := filepath.Abs("../../scripts/keep-tool")
	if err != nil {
		t.Fatal(err)
	}
	shelf := filepath.Join(t.TempDir(), "tools")
	checkout := func(text string) string {
		folder := t.TempDir()
		for name, content := range map[string]string{
			"go.mod":       "module example.com/tool\n",
			"main.go":      "package main\n\nvar flag string\n\nfunc main() { print(\"" + text + "\", flag) }\n",
			"main_test.go": "package main\n",
		} {
			if err := os.WriteFile(filepath.Join(folder, name), []byte(content), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		return folder
	}
	// keep returns the path of the tool, and whether it was built.
	keep := func(folder, want string, flags ...string) (path string, built bool) {
		t.Helper()
		command := exec.Command(script, append([]string{folder, "example.com/tool"}, flags...)...)
		command.Env = append(os.Environ(), "LEHR_TOOLS="+shelf)
		var log strings.Builder
		command.Stderr = &log
		out, err := command.Output()
		if err != nil {
			t.Fatalf("%v\n%s", err, &log)
		}
		path = strings.TrimSpace(string(out))
		printed, err := exec.Command(path).CombinedOutput()
		if err != nil || string(printed) != want {
			t.Errorf("the tool printed %q, want %q: %v", printed, want, err)
		}
		return path, strings.Contains(log.String(), "building")
	}

	first, built := keep(checkout("one"), "one")
	if !built || filepath.Dir(first) != shelf {
		t.Errorf("it was built: %t, want true; it is %s, want a file in %s", built, first, shelf)
	}
	folder := checkout("one")
	if path, built := keep(folder, "one"); built || path != first {
		t.Errorf("another checkout of the same sources: built %t, %s, want the tool of the first, %s", built, path, first)
	}
	if err := os.WriteFile(filepath.Join(folder, "main_test.go"), []byte("package main // changed\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, built := keep(folder, "one"); built {
		t.Error("it was built again because a test had changed")
	}
	if path, built := keep(folder, "one!", "-ldflags", "-X main.flag=!"); !built || path == first {
		t.Errorf("other flags: built %t, %s", built, path)
	}
	if path, built := keep(checkout("two"), "two"); !built || path == first {
		t.Errorf("other sources: built %t, %s", built, path)
	}
	if err := os.WriteFile(filepath.Join(folder, "go.mod"), []byte("module example.com/tool\n\ngo 1.25\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, built := keep(folder, "one"); !built {
		t.Error("it was not built again though what it requires had changed")
	}
}
