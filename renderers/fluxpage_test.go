package renderers_test

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var (
	pageBlock = regexp.MustCompile("(?ms)^```(\\w*)\n(.*?)^```$")
	pageFile  = regexp.MustCompile(`^# (fleet/\S+)\n`)
)

// TestPageFromFlux does what docs/use/from-flux.md tells, with the files that it shows.
func TestPageFromFlux(t *testing.T) {
	lehr := programs(t)
	page, err := os.ReadFile("../docs/use/from-flux.md")
	if err != nil {
		t.Fatal(err)
	}
	folder, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	ran := 0
	for _, block := range pageBlock.FindAllStringSubmatch(string(page), -1) {
		language, text := block[1], block[2]
		switch name := pageFile.FindStringSubmatch(text); {
		case name != nil:
			at := filepath.Join(folder, name[1])
			if err := errors.Join(os.MkdirAll(filepath.Dir(at), 0o755), os.WriteFile(at, []byte(text), 0o600)); err != nil {
				t.Fatal(err)
			}
		case language == "sh":
			ran++
			runLine(t, lehr, folder, text)
		case language == "console":
			ran++
			line, want, _ := strings.Cut(strings.TrimPrefix(text, "$ "), "\n")
			if got := strings.ReplaceAll(runLine(t, lehr, folder, line), folder, "FOLDER"); got != want {
				t.Errorf("the page shows\n%s\nand it prints\n%s", want, got)
			}
		}
	}
	if ran != 2 {
		t.Errorf("%d commands of the page were run", ran)
	}
}

func runLine(t *testing.T, lehr, folder, line string) string {
	t.Helper()
	command := exec.CommandContext(t.Context(), "sh", "-ec", line)
	command.Dir = folder
	command.Env = append(os.Environ(), "PATH="+filepath.Dir(lehr)+":"+os.Getenv("PATH"), "HOME="+t.TempDir(), "XDG_CACHE_HOME="+t.TempDir())
	out, err := command.CombinedOutput()
	if err != nil {
		t.Fatalf("%s: %v\n%s", line, err, out)
	}
	return string(out)
}
