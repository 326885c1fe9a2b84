package prodspec_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/ground/loop"
	"lehr.dev/internal/prodspec"
	"lehr.dev/internal/prodspec/generate"
	"lehr.dev/internal/prodspec/generate/native"
)

// buildVaries builds the program of testdata/varies, as a module and for this machine.
var buildVaries = sync.OnceValue(func() error {
	for name, environment := range map[string][]string{"gen.wasm": {"GOOS=wasip1", "GOARCH=wasm"}, "gen": {"CGO_ENABLED=0"}} {
		command := exec.Command("go", "build", "-ldflags", "-s -w", "-o", filepath.Join(made, name), "./testdata/varies")
		command.Env = append(os.Environ(), environment...)
		if output, err := command.CombinedOutput(); err != nil {
			return &exec.Error{Name: string(output), Err: err}
		}
	}
	return nil
})

// programs are the two ways to run it, by what lehr.yaml says.
var programs = map[string]string{"module": "wasm: gen.wasm, args: [MODE]", "native": "command: [./gen, MODE]"}

// variedWorld is a partition with the program in one of its modes.
func variedWorld(t *testing.T, program, mode string) *world {
	t.Helper()
	if testing.Short() {
		t.Skip("builds programs")
	}
	if err := buildVaries(); err != nil {
		t.Fatal(err)
	}
	w := newWorld(t, "web")
	for _, name := range []string{"gen.wasm", "gen"} {
		if err := os.Link(filepath.Join(made, name), filepath.Join(w.folder, name)); err != nil {
			t.Fatal(err)
		}
	}
	w.write("in/a.yaml", "a: 1\n")
	w.write("in/b.yaml", "b: 1\n")
	w.write("lehr.yaml", `lehr: v1
partition: shop
sources:
  in: {dir: in, files: ["*.yaml"]}
generate:
  g: {`+strings.ReplaceAll(program, "MODE", mode)+`, from: [in]}
`)
	return w
}

func (w *world) runnerOf(elsewhere bool) generate.Runner {
	return generate.NewProcess(generate.Options{
		Child: generatorChild(w.t), Limits: w.limits, Elsewhere: elsewhere,
		Cache:  filepath.Join(made, "modules"),
		Native: func(intent.PartitionID) (native.Policy, error) { return native.Policy{Sandbox: native.Required}, nil },
	})
}

func (w *world) verify() prodspec.Built {
	w.t.Helper()
	program := prodspec.Program{Definition: filepath.Join(w.folder, "lehr.yaml"), Runner: w.runnerOf(false)}
	built, err := prodspec.Verify(w.t.Context(), program, w.runnerOf(true), loop.Real())
	if err != nil {
		w.t.Fatal(err)
	}
	return built
}

// TestVerifyFindsWhatVaries: clock, chance and the order of maps show, with
// generator, asset and field; what does not vary is let be.
func TestVerifyFindsWhatVaries(t *testing.T) {
	for kind, program := range programs {
		for _, mode := range []string{"time", "random", "map", "come-and-go", "steady"} {
			built := variedWorld(t, program, mode).verify()
			switch {
			case mode == "steady":
				if !built.OK() || len(built.Assets) != 2 {
					t.Errorf("%s: what does not vary: %+v", kind, built.Findings)
				}
			case built.OK() || len(built.Assets) > 0:
				t.Errorf("%s %s: nothing was found", kind, mode)
			default:
				f := built.Findings[0]
				if f.Rule != "verify" || f.Severity != intent.Error || !strings.Contains(f.Message, "generator g ") || f.Asset == "" {
					t.Errorf("%s %s: %+v", kind, mode, f)
				}
				if mode != "come-and-go" && (f.Asset != "owner/x" || f.Field != "payload.owner") {
					t.Errorf("%s %s: %+v, want the field", kind, mode, f)
				}
			}
		}
	}
}

// TestProgramsSeeTheirInputsOnly: a program that looks for anything else finds
// nothing, and changes nothing.
func TestProgramsSeeTheirInputsOnly(t *testing.T) {
	for kind, program := range programs {
		w := variedWorld(t, program, "look")
		if err := os.Symlink("/etc", filepath.Join(w.folder, "link")); err != nil {
			t.Fatal(err)
		}
		built, err := prodspec.Build(t.Context(), prodspec.Program{Definition: filepath.Join(w.folder, "lehr.yaml"), Runner: w.runnerOf(false)}, loop.Real().Now())
		if err != nil || !built.OK() {
			t.Fatalf("%s: %v %+v", kind, err, built.Findings)
		}
		if text := string(built.Assets[1].Asset); !strings.Contains(text, `"in/a.yaml, in/b.yaml"`) {
			t.Errorf("%s: it saw, or did, more: %s", kind, text)
		}
		if text, err := os.ReadFile(filepath.Join(w.folder, "in/a.yaml")); err != nil || string(text) != "a: 1\n" {
			t.Errorf("%s: its input is %q now (%v)", kind, text, err)
		}
	}
}

// TestProgramsReadOtherGenerators: what one generator gives, with derived
// addons, a program reads, whatever it is written in.
func TestProgramsReadOtherGenerators(t *testing.T) {
	for kind, program := range programs {
		w := variedWorld(t, program, "others")
		w.write("first.star", "def generate(ctx):\n    return [asset(\"team/\" + n, lehr.intent.v1.Owner(owner = n)) for n in [\"a\", \"b\"]]\n")
		w.replace("lehr.yaml", "from: [in]", "from: [in, first]")
		w.replace("lehr.yaml", "generate:\n", "generate:\n  first: {starlark: first.star, from: [in]}\n  tag: {derive: Labels, where: 'type == \"lehr.intent.v1.Owner\"', labels: {tag: id}}\n")
		built, err := prodspec.Build(t.Context(), prodspec.Program{Definition: filepath.Join(w.folder, "lehr.yaml"), Runner: w.runnerOf(false)}, loop.Real().Now())
		if err != nil || !built.OK() {
			t.Fatalf("%s: %v %+v", kind, err, built.Findings)
		}
		if a := built.Assets[0]; a.ID != "copy/team/a" || !strings.Contains(string(a.Asset), `"tag"`) || !strings.Contains(string(a.Asset), `"owner"`) {
			t.Errorf("%s: %s %s", kind, a.ID, a.Asset)
		}
	}
}

// TestModulesRunForWhatTheyRead: a module runs again when what it opened changed,
// and not when another input did; a native program when any input did. What ran
// outside a sandbox is labelled.
func TestModulesRunForWhatTheyRead(t *testing.T) {
	for kind, program := range programs {
		w := variedWorld(t, program, "steady")
		w.runner = w.runnerOf(false)
		w.start()
		serving := w.wait("served", func(s prodspec.Status) bool { return s.State == prodspec.Serving })
		runs := serving.Executions
		w.write("in/a.yaml", "a: 2\n")
		seen := w.wait("the change was seen", func(s prodspec.Status) bool {
			return s.State == prodspec.Serving && !slices.Equal(s.Sources, serving.Sources)
		})
		// The module lists its folder, and opens none of its files.
		if again := seen.Executions - runs; (kind == "module") != (again == 0) {
			t.Errorf("%s: %d runs for a file that no run opened", kind, again)
		}
		w.write("in/c.yaml", "c: 1\n")
		w.wait("the list changed", func(s prodspec.Status) bool { return s.Executions > seen.Executions })
		w.stop()
	}
}
