package mutation

import (
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestNothingAsksForMutants: the code carries no hooks; only woven copies of
// it import the switches.
func TestNothingAsksForMutants(t *testing.T) {
	const switches = `"lehr.dev/internal/sim/mutant"`
	looked := 0
	err := filepath.WalkDir(root, func(name string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && (entry.Name() == ".git" || entry.Name() == "bin"):
			return fs.SkipDir
		case entry.IsDir() || filepath.Ext(name) != ".go":
			return nil
		}
		looked++
		text, err := os.ReadFile(name)
		if err != nil || !strings.Contains(string(text), switches) {
			return err
		}
		parsed, err := parser.ParseFile(token.NewFileSet(), name, text, parser.ImportsOnly)
		if err != nil {
			return err
		}
		for _, spec := range parsed.Imports {
			if spec.Path.Value == switches {
				t.Errorf("%s imports %s: a mutant belongs into package mutation", name, switches)
			}
		}
		return nil
	})
	const least = 200
	if err != nil || looked < least {
		t.Errorf("looked at %d files: %v", looked, err)
	}
}
