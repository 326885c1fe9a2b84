package python_test

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"google.golang.org/protobuf/types/known/structpb"

	"lehr.dev/sdk/plugintest/conformance"
	"lehr.dev/test/interpreter"
)

// textFile is the payload of the example.
func textFile(t *testing.T, path, text string) *structpb.Struct {
	t.Helper()
	payload, err := structpb.NewStruct(map[string]any{"path": path, "text": text})
	if err != nil {
		t.Fatal(err)
	}
	return payload
}

// production reads the file without the plugin.
func production(path string) func(context.Context) (string, error) {
	return func(context.Context) (string, error) {
		content, err := os.ReadFile(path)
		if errors.Is(err, fs.ErrNotExist) {
			return "nothing", nil
		}
		return string(content), err
	}
}

// TestExampleConforms holds a plugin in Python to every rule that plugins in Go pass, killed
// in the middle of a push included.
func TestExampleConforms(t *testing.T) {
	if testing.Short() {
		t.Skip("waits for permits to run out")
	}
	t.Parallel()
	path := filepath.Join(t.TempDir(), "greeting.txt")
	check(t, slices.Concat(notInAFile, []string{"withdrawn permit stops a push", "a push ends with its permit"}), conformance.Target{
		Run:   []string{interpreter.Python(t), "textfile.py"},
		First: textFile(t, path, "Hello, world\n"), Second: textFile(t, path, "Bonjour le monde\n"), Production: production(path),
	})
	if _, err := os.Stat(path); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the suite has not removed its example: %v", err)
	}
}

// TestPushesEndWithTheirPermits is for the rules that a push which takes no time cannot
// show: while it is slow, its permit is withdrawn, then not renewed.
func TestPushesEndWithTheirPermits(t *testing.T) {
	if testing.Short() {
		t.Skip("waits for permits to run out")
	}
	t.Parallel()
	path := filepath.Join(t.TempDir(), "greeting.txt")
	check(t, notInAFile, conformance.Target{
		Run:   []string{interpreter.Python(t), "testdata/slow.py"},
		First: textFile(t, path, "Hello, world\n"), Second: textFile(t, path, "Bonjour le monde\n"), Production: production(path),
		Tell: func(result conformance.Result) {
			switch result.Name {
			case "absence deletes nothing":
				if err := os.WriteFile(path+".slow", nil, 0o600); err != nil {
					t.Error(err)
				}
			case "a push ends with its permit":
				if err := os.Remove(path + ".slow"); err != nil {
					t.Error(err)
				}
			}
		},
	})
	if steps, err := os.ReadFile(path + ".steps"); err != nil || len(steps) == 0 {
		t.Errorf("no push was slow: %v", err)
	}
}

// notInAFile are the rules of what the example has none of: memos, hints, changes that are
// pending, secrets.
var notInAFile = []string{
	"a lost memo is survived", "the stream of hints beats", "hints name what was asked about", "pending says what, and ends",
	"a secret that cannot be read is unknown", "a rotated secret is another plan", "a secret is never shown",
}

// check runs all rules; those may be skipped, for they cannot be measured.
func check(t *testing.T, maySkip []string, target conformance.Target) {
	t.Helper()
	report := conformance.Check(t.Context(), target)
	for _, result := range report.Results {
		switch {
		case result.Outcome == conformance.Failed, result.Outcome == conformance.Skipped && !slices.Contains(maySkip, result.Name):
			t.Errorf("%s: %s: %s", result.Outcome, result.Name, result.Detail)
		case result.Detail != "":
			t.Logf("%s: %s: %s", result.Outcome, result.Name, result.Detail)
		}
	}
	if report.Left || report.Measured != report.Declared || len(report.Results) != len(conformance.Rules) {
		t.Errorf("%+v", report)
	}
}
