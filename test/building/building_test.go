package building

import (
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
