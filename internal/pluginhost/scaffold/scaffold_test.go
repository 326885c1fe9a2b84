package scaffold

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/pluginhost/trial"
	"lehr.dev/sdk/plugintest/conformance"
	"lehr.dev/test/interpreter"
)

// A new plugin builds and conforms as it is, by its own test and by its
// example.
func TestNewPluginConforms(t *testing.T) {
	if testing.Short() {
		t.Skip("builds and starts programs")
	}
	for _, options := range []Options{
		{Name: "text-file"},
		{Name: "net", Type: "acme.store.v1.Plank"},
	} {
		t.Run(options.Name, func(t *testing.T) {
			options.Folder = filepath.Join(t.TempDir(), "new")
			written, err := New(t.Context(), options)
			if err != nil {
				t.Fatal(err)
			}
			t.Log(written)
			run(t, options.Folder, "go", "vet", "./...")
			run(t, options.Folder, "go", "build")
			run(t, options.Folder, "go", "test", "-run", "NotKnown|Listed")
			if out := run(t, options.Folder, "gofmt", "-l", "."); out != "" {
				t.Errorf("not formatted: %s", out)
			}
			set, err := trial.Types(t.Context(), filepath.Join(options.Folder, "proto"))
			if err != nil {
				t.Fatal(err)
			}
			example, err := trial.Read(besideIt(t, options.Folder), set)
			if err != nil {
				t.Fatal(err)
			}
			report := conformance.Check(t.Context(), conformance.Target{
				Run: []string{filepath.Join(options.Folder, options.Name), "--folders", filepath.Join(options.Folder, "folders.yaml")}, First: example.First, Second: example.Second,
			})
			for _, result := range report.Results {
				if result.Outcome == conformance.Failed {
					t.Errorf("%s: %s", result.Name, result.Detail)
				}
			}
			if report.Left || len(report.Results) != len(conformance.Rules) {
				t.Errorf("%+v", report)
			}
		})
	}
}

// A new plugin in Python passes its own tests, as it is and after its types are generated
// anew. The scripts hold one to the protocol.
func TestNewPythonPlugin(t *testing.T) {
	python := interpreter.Python(t)
	folder := filepath.Join(t.TempDir(), "new")
	if _, err := New(t.Context(), Options{Name: "text-file", Folder: folder, Python: true}); err != nil {
		t.Fatal(err)
	}
	run(t, folder, python, "-B", "-m", "unittest")
	types := filepath.Join(folder, compiledTypes)
	before, err := os.ReadFile(types)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(types); err != nil {
		t.Fatal(err)
	}
	if err := Generate(t.Context(), folder); err != nil {
		t.Fatal(err)
	}
	if after, err := os.ReadFile(types); err != nil || string(after) != string(before) {
		t.Errorf("generated anew, the types are others: %v", err)
	}
	run(t, folder, python, "-B", "-m", "unittest")
	proto := filepath.Join(folder, "proto/text_file/v1/textfile.proto")
	if err := os.WriteFile(proto, []byte(`edition = "2023"; package text_file.v1; message TextFile { TextFile t = 1 [features.message_encoding = DELIMITED]; }`), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := Generate(t.Context(), folder); !fault.Is(err, fault.Invalid) || !strings.Contains(err.Error(), "text_file.v1.TextFile.t is a delimited message") {
		t.Errorf("of what proto3 cannot say: %v", err)
	}
}

// besideIt is the example with a folder of this test's own in the operator's list.
func besideIt(t *testing.T, folder string) string {
	t.Helper()
	name := filepath.Join(folder, "folders.yaml")
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	changed := strings.ReplaceAll(string(text), "/tmp", t.TempDir())
	if err := os.WriteFile(name, []byte(changed), 0o600); err != nil {
		t.Fatal(err)
	}
	return filepath.Join(folder, "example.yaml")
}

func run(t *testing.T, folder string, argv ...string) string {
	t.Helper()
	command := exec.CommandContext(t.Context(), argv[0], argv[1:]...)
	// Offline: Lehr's own modules are all that is needed.
	command.Dir, command.Env = folder, append(os.Environ(), "GOPROXY=off", "GOFLAGS=-mod=readonly -trimpath")
	out, err := command.CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %v\n%s", argv, err, out)
	}
	return string(out)
}

func TestRefusals(t *testing.T) {
	full := t.TempDir()
	if err := os.WriteFile(filepath.Join(full, "mine"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		options Options
		kind    fault.Kind
	}{
		"no name":            {Options{Name: ""}, fault.Invalid},
		"name as a path":     {Options{Name: "../evil"}, fault.Invalid},
		"name for a go file": {Options{Name: "Text File"}, fault.Invalid},
		"type of lehr":       {Options{Name: "a", Type: "lehr.process.v1.Job"}, fault.Invalid},
		"short type":         {Options{Name: "a", Type: "Job"}, fault.Invalid},
		"not lehr":           {Options{Name: "a", Lehr: full}, fault.Invalid},
		"not empty":          {Options{Name: "a", Folder: full}, fault.Conflict},
		"python, not empty":  {Options{Name: "a", Folder: full, Python: true}, fault.Conflict},
		"python, a folder":   {Options{Name: "lehr", Type: "a.v1.A", Python: true}, fault.Invalid},
		"python, no name":    {Options{Python: true}, fault.Invalid},
		"python, a source":   {Options{Name: "a", Lehr: full, Python: true}, fault.Invalid},
	} {
		if c.options.Folder == "" {
			c.options.Folder = filepath.Join(t.TempDir(), "new")
		}
		if _, err := New(context.Background(), c.options); !fault.Is(err, c.kind) {
			t.Errorf("%s: %v", name, err)
		}
		if c.options.Folder != full {
			if _, err := os.Stat(c.options.Folder); !os.IsNotExist(err) {
				t.Errorf("%s: the folder was made", name)
			}
		}
	}
}
