package generate_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	intentpb "lehr.dev/gen/lehr/intent/v1"
	"lehr.dev/prodspec/definition"
	"lehr.dev/prodspec/generate"
	"lehr.dev/prodspec/generate/work"
	"lehr.dev/schema"
)

// rendering is a graph with one renderer.
type rendering struct {
	t     *testing.T
	graph *generate.Graph
	in    inputs
	by    definition.Generator
	now   time.Time
}

func newRendering(t *testing.T, runner generate.Runner, format string, arguments ...string) *rendering {
	return &rendering{t: t, graph: generate.NewGraph(runner, generate.NewMemory()), in: inputs{}, now: time.Unix(1e9, 0), by: definition.Generator{
		Name: "web", Language: work.Render, Program: format, Arguments: arguments, File: "lehr.yaml", Line: 7, Sources: []string{"files"},
	}}
}

// build renders, and says how many runs it took and what was found.
func (r *rendering) build(files ...string) (int, string) {
	r.t.Helper()
	before := r.graph.Executions()
	findings, err := r.graph.Build(r.t.Context(), []definition.Generator{r.by}, generate.Inputs{
		Partition: "shop", Sources: map[string][]generate.Input{"files": r.in.input(files...)},
		Open: func(input generate.Input) ([]byte, error) { return r.in.open(work.ReadFile, input) },
	}, r.now)
	if err != nil {
		r.t.Fatal(err)
	}
	var said []string
	for _, f := range append(findings, r.graph.Warnings()...) {
		said = append(said, f.File+": "+f.Message+" ("+f.Hint+")")
		if f.File == "lehr.yaml" && (f.Line != r.by.Line || f.Field != "generate.web") {
			r.t.Errorf("the place of %+v is not that of generate.web", f)
		}
	}
	return r.graph.Executions() - before, strings.Join(said, "\n")
}

// asset is the payload of the only one.
func (r *rendering) asset(into *intentpb.Labels) {
	r.t.Helper()
	runs := r.graph.Pending()
	if len(runs) != 1 || len(runs[0].Outputs) != 1 {
		r.t.Fatalf("%d runs, want one with one asset", len(runs))
	}
	body, err := r.graph.Body(r.t.Context(), runs[0], runs[0].Outputs[0].Digest)
	if err != nil {
		r.t.Fatal(err)
	}
	content, err := schema.Decode(body)
	if err == nil {
		err = schema.Payload(content, into)
	}
	if err != nil {
		r.t.Fatal(err)
	}
}

// TestRendererThatIsAProgram: it is found in PATH, runs in a sandbox that nobody
// had to allow, and runs again when its file has changed, and only then.
func TestRendererThatIsAProgram(t *testing.T) {
	if testing.Short() {
		t.Skip("builds a program")
	}
	folder := t.TempDir()
	program := filepath.Join(folder, "lehr-kustomize")
	build := exec.Command("go", "build", "-o", program, "./testdata/renderer")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if text, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	r := newRendering(t, process("true"), "kustomize", "--colour=red", "--colour=blue")
	r.in["a.yaml"], r.in["../b.star"] = "a", "b"
	t.Setenv("PATH", "")
	if _, said := r.build("../b.star", "a.yaml"); !strings.HasPrefix(said, "lehr.yaml: the renderer kustomize is a program, lehr-kustomize, which is neither at ") || !strings.Contains(said, "make build makes it") {
		t.Errorf("without the program it was said: %s", said)
	}
	t.Setenv("PATH", folder)
	r.now, r.by.Line = r.now.Add(2*generate.Quarantine), 9
	if ran, said := r.build("../b.star", "a.yaml"); ran != 1 || said != "" {
		t.Fatalf("with it, %d runs: %s", ran, said)
	}
	told := &intentpb.Labels{}
	r.asset(told)
	if told.Labels["files"] != "a.yaml b.star" || told.Labels["colour"] != "red blue" || told.Labels["environment"] != "" || told.Labels["machine"] != "" {
		t.Errorf("it was given %v, and saw %q of the machine", told.Labels, told.Labels["machine"])
	}
	if ran, _ := r.build("../b.star", "a.yaml"); ran != 0 {
		t.Errorf("%d runs with nothing changed", ran)
	}
	content, err := os.ReadFile(program)
	if err == nil {
		// Another program, as far as its digest goes.
		err = os.WriteFile(program+".new", append(content, 0), 0o755)
	}
	if err == nil {
		err = os.Rename(program+".new", program)
	}
	if err != nil {
		t.Fatal(err)
	}
	if ran, said := r.build("../b.star", "a.yaml"); ran != 1 || said != "" {
		t.Errorf("after an upgrade %d runs: %s", ran, said)
	}
	r.by.Arguments = []string{"--color=red"}
	if _, said := r.build("../b.star", "a.yaml"); !strings.Contains(said, `with has the key "color", which is not known; allowed: colour`) {
		t.Errorf("of an unknown option it was said: %s", said)
	}
}
