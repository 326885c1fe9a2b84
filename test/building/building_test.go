package building

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
)

// TestProgramIsAsItsSourcesAre: it is built anew when they change, and what a test does to
// its copy is nobody else's.
func TestProgramIsAsItsSourcesAre(t *testing.T) {
	dir := t.TempDir()
	write := func(says string) {
		t.Helper()
		for name, text := range map[string]string{
			"go.mod": "module said\n", "main.go": "package main\n\nvar more string\n\nfunc main() { print(\"" + says + "\", more) }\n",
		} {
			if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
		}
	}
	says := func(p Program, want string) string {
		t.Helper()
		path := filepath.Join(t.TempDir(), "new", "program")
		if err := p.At(path); err != nil {
			t.Error(err)
			return ""
		}
		if said, err := exec.Command(path).CombinedOutput(); err != nil || string(said) != want {
			t.Errorf("it says %q, want %q: %v", said, want, err)
		}
		return path
	}
	plain := Program{Of: dir, Env: []string{"CGO_ENABLED=0"}}
	flagged := plain
	flagged.Flags = []string{"-ldflags", "-X main.more=!"}
	shelf, err := plain.shelf()
	if err != nil {
		t.Fatal(err)
	}
	other, _ := flagged.shelf()
	t.Cleanup(func() {
		for _, path := range []string{shelf, shelf + ".lock", other, other + ".lock"} {
			_ = os.Remove(path)
		}
	})
	write("one")
	if err := os.WriteFile(says(plain, "one"), []byte("spoilt"), 0o755); err != nil {
		t.Fatal(err)
	}
	built, err := os.Stat(shelf)
	if err != nil {
		t.Fatal(err)
	}
	says(flagged, "one!")
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() { says(plain, "one") })
	}
	all.Wait()
	if again, err := os.Stat(shelf); err != nil || !os.SameFile(built, again) {
		t.Errorf("it was linked again: %v", err)
	}
	write("two")
	says(plain, "two")
	says(flagged, "two!")
	write("two\" 3")
	if err := plain.At(filepath.Join(t.TempDir(), "program")); err == nil {
		t.Error("what does not compile was given")
	}
}

// TestWhatMakeBuiltIsNotLinkedAgain: nor is it taken for what its sources have become since.
func TestWhatMakeBuiltIsNotLinkedAgain(t *testing.T) {
	t.Setenv(RaceVariable, "")
	dir, err := os.MkdirTemp("", "seedling")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	write := func(name, text string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	write("go.mod", "module seedling\n")
	write("main.go", "package main\n\nfunc main() { print(1) }\n")
	p := Program{Of: dir}
	shelf, err := p.shelf()
	if err != nil {
		t.Fatal(err)
	}
	made := filepath.Join(filepath.Dir(filepath.Dir(shelf)), "lehr-"+filepath.Base(dir))
	t.Cleanup(func() {
		for _, path := range []string{shelf, shelf + ".lock", made} {
			_ = os.Remove(path)
		}
	})
	if err := p.build(made); err != nil {
		t.Fatal(err)
	}
	// What go build writes does not end so.
	const mark = "\nmade by make"
	file, err := os.OpenFile(made, os.O_WRONLY|os.O_APPEND, 0)
	if err == nil {
		_, err = file.WriteString(mark)
		err = errors.Join(err, file.Close())
	}
	if err != nil {
		t.Fatal(err)
	}
	at := func(says string, linked bool) {
		t.Helper()
		path := filepath.Join(t.TempDir(), "program")
		if err := p.At(path); err != nil {
			t.Fatal(err)
		}
		content, err := os.ReadFile(path)
		if err != nil || bytes.HasSuffix(content, []byte(mark)) == linked {
			t.Errorf("linked again: %t, want %t: %v", !linked, linked, err)
		}
		if said, err := exec.Command(path).CombinedOutput(); err != nil || string(said) != says {
			t.Errorf("it says %q, want %q: %v", said, says, err)
		}
	}
	at("1", false)
	write("main.go", "package main\n\nfunc main() { print(2) }\n")
	if err := os.Remove(shelf); err != nil {
		t.Fatal(err)
	}
	at("2", true)
}

// TestRaceFlags: the detector is for programs that it can be in, when it is asked for.
func TestRaceFlags(t *testing.T) {
	for _, c := range []struct {
		asked       string
		environment []string
		want        int
	}{
		{"", nil, 0}, {"-race", nil, 1}, {"-race -gcflags=x=-l", []string{"CGO_ENABLED=1"}, 2},
		{"-race", []string{"CGO_ENABLED=0"}, 0}, {"-race", []string{"GOOS=wasip1", "GOARCH=wasm"}, 0},
	} {
		t.Setenv("CGO_ENABLED", "")
		t.Setenv(RaceVariable, c.asked)
		if got := RaceFlags(c.environment...); len(got) != c.want {
			t.Errorf("%s=%q, %v: %v", RaceVariable, c.asked, c.environment, got)
		}
	}
	t.Setenv(RaceVariable, "")
	plain, _ := Program{Of: "."}.shelf()
	t.Setenv(RaceVariable, "-race")
	if raced, _ := (Program{Of: "."}).shelf(); raced == plain {
		t.Error("a program with the detector takes the place of the one without")
	}
}
