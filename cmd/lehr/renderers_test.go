package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"lehr.dev/internal/cli"
)

var (
	shownFile = regexp.MustCompile("(?s)```(?:yaml|sql|hcl)\n(?:#|--) (\\S+)\n(.*?)```")
	shownOut  = regexp.MustCompile("(?s)```console\n\\$ lehr build\n(.*?)```")
)

// TestRenderersOfTheDocument builds the partition that docs/use/renderers.md shows: it
// gives what the page says.
func TestRenderersOfTheDocument(t *testing.T) {
	folder, text := t.TempDir(), documents(t)["docs/use/renderers.md"]
	for _, file := range shownFile.FindAllStringSubmatch(text, -1) {
		name := filepath.Join(folder, file[1])
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(file[2]), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want := shownOut.FindStringSubmatch(text)
	if want == nil {
		t.Fatal("the page does not show what lehr build says")
	}
	var out strings.Builder
	code := cli.Run(t.Context(), cli.Local{Build: build}, cli.Terminal{Out: &out, Err: &out, Getenv: func(string) string { return "" }}, []string{"build", filepath.Join(folder, "lehr.yaml")})
	if out.String() != want[1] || code != 0 {
		t.Errorf("it said (%d)\n%s, and the page shows\n%s", code, out.String(), want[1])
	}
}
