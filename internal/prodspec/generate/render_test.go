package generate_test

import (
	"encoding/base64"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	intentpb "lehr.dev/gen/lehr/intent/v1"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/ground/schema"
	"lehr.dev/internal/prodspec/definition"
	"lehr.dev/internal/prodspec/generate"
	"lehr.dev/internal/prodspec/generate/render"
	"lehr.dev/internal/prodspec/generate/work"
)

// rendering is a graph with one renderer.
type rendering struct {
	t     *testing.T
	graph *generate.Graph
	in    inputs
	by    definition.Generator
	now   time.Time
	// programs of renderers.
	programs *render.Programs
}

func newRendering(t *testing.T, runner generate.Runner, format string, arguments ...string) *rendering {
	return &rendering{t: t, graph: generate.NewGraph(runner, generate.NewMemory()), in: inputs{}, now: time.Unix(1e9, 0), programs: render.NewPrograms(), by: definition.Generator{
		Name: "web", Language: work.Render, Program: format, Arguments: arguments, File: "lehr.yaml", Line: 7, Sources: []string{"files"},
	}}
}

// build renders, and says how many runs it took and what was found.
func (r *rendering) build(files ...string) (int, string) {
	r.t.Helper()
	before := r.graph.Executions()
	findings, err := r.graph.Build(r.t.Context(), []definition.Generator{r.by}, generate.Inputs{
		Partition: "shop", Sources: map[string][]generate.Input{"files": r.in.input(files...)},
		Renderers: map[string]render.Program{r.by.Program: r.programs.Find(r.by.Program)},
		Open:      func(input generate.Input) ([]byte, error) { return r.in.open(work.ReadFile, input) },
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
	r.by.Line = 9
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
	if _, said := r.build("../b.star", "a.yaml"); !strings.Contains(said, `with has the key "color", which is not known; allowed: colour`) || !strings.Contains(said, "what with: says") {
		t.Errorf("of an unknown option it was said: %s", said)
	}
}

// TestExternalReferences: one without a digest is refused wherever it stands, and so
// is a blob that nobody gives.
func TestExternalReferences(t *testing.T) {
	const module = "id: net\ntype: lehr.terraform.v1.Module\npayload:\n  root: .\n  files: [{path: a, sha256: %s, external: {%s}}]\n"
	sum := intent.BlobSum([]byte("content"))
	digest := base64.StdEncoding.EncodeToString(sum[:])
	blob := "uri: '" + intent.BlobURI(sum) + "', sha256: " + digest
	for name, c := range map[string]struct{ text, want string }{
		"elsewhere":         {fmt.Sprintf(module, digest, "uri: 'https://example.com/a', sha256: "+digest), ""},
		"no digest":         {fmt.Sprintf(module, digest, "uri: 'https://example.com/a'"), "a.yaml: asset net: lehr.terraform.v1.Module.files[0].external names \"https://example.com/a\" without its digest (write its sha256"},
		"half a digest":     {fmt.Sprintf(module, digest, "uri: 'https://example.com/a', sha256: aaaa"), "without its digest"},
		"nothing":           {fmt.Sprintf(module, digest, "sha256: "+digest), "names nothing"},
		"a blob of no kind": {fmt.Sprintf(module, digest, "uri: 'blob:md5:a', sha256: "+digest), "which is no blob"},
		"another digest":    {fmt.Sprintf(module, digest, "uri: '"+intent.BlobURI(intent.BlobSum(nil))+"', sha256: "+digest), "with another digest"},
		"a blob of nobody":  {fmt.Sprintf(module, digest, blob), "asset net names the blob " + sum.String() + ", which no generator gives"},
		"in an Any": {"id: a\ntype: google.protobuf.Any\npayload: {'@type': lehr.terraform.v1.Module, root: ., files: [{path: a, sha256: " + digest + ", external: {uri: x}}]}\n",
			"without its digest"},
	} {
		r := newRendering(t, generate.InProcess{Limits: generate.DefaultLimits()}, "assets")
		r.in["a.yaml"] = c.text
		if _, said := r.build("a.yaml"); (said == "") != (c.want == "") || !strings.Contains(said, c.want) {
			t.Errorf("%s: %s\nwant %s", name, said, c.want)
		}
	}
	// With the blob beside it, it is given, and kept for the store.
	r := newRendering(t, process("true"), "assets")
	r.in["in/a.yaml"], r.in["blobs/"+sum.String()] = fmt.Sprintf(module, digest, blob), "content"
	if _, said := r.build("blobs/"+sum.String(), "in/a.yaml"); said != "" {
		t.Fatal(said)
	}
	if content, err := r.graph.Blob(t.Context(), sum); err != nil || string(content) != "content" {
		t.Errorf("%q (%v)", content, err)
	}
	if named := r.graph.Pending()[0].Outputs[0].Blobs(); len(named) != 1 || named[0] != sum {
		t.Errorf("it names %v", named)
	}
}

// TestRunsOfBuiltInRenderers: one changed file costs one run, a renderer without an
// end is killed, and what it reads is what the run rests on.
func TestRunsOfBuiltInRenderers(t *testing.T) {
	r := newRendering(t, generate.InProcess{Limits: generate.DefaultLimits()}, "assets")
	r.by.ForEachFile = true
	var files []string
	for i := range 100 {
		name := fmt.Sprintf("%03d.yaml", i)
		files, r.in[name] = append(files, name), fmt.Sprintf("{id: a%d, type: Owner, payload: {owner: x}}", i)
	}
	if ran, said := r.build(files...); ran != 100 || said != "" {
		t.Fatalf("%d runs: %s", ran, said)
	}
	r.in["050.yaml"] = "{id: a50, type: Owner, payload: {owner: y}}"
	if ran, said := r.build(files...); ran != 1 || said != "" {
		t.Errorf("one changed file cost %d runs: %s", ran, said)
	}
	if ran, _ := r.build(files[:99]...); ran != 0 {
		t.Errorf("a file that went cost %d runs", ran)
	}
	laughs := "a: &a [x,x,x,x,x,x,x,x,x,x]\n"
	greedy := newRendering(t, process("true"), "assets")
	greedy.in["a.yaml"] = laughs + strings.Repeat("b: ", 1) + "[" + strings.TrimSuffix(strings.Repeat("*a,", 200_000), ",") + "]"
	if _, said := greedy.build("a.yaml"); said == "" {
		t.Error("ten million values were taken")
	}
}
