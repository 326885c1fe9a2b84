package prodspec_test

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"lehr.dev/internal/ground/loop"
	"lehr.dev/internal/prodspec"
)

const procedureDefinition = `workflow: v1
name: drain
inputs: {firmware: string}
machines:
  drain:
    initial: draining
    states:
      draining: {action: {tell: {url: "/drain?to=${inputs.firmware}"}, runs: at-least-once, leaves: []}}
      drained: {end: success}
      failed: {end: failure}
    transitions:
      - {from: draining, to: drained, on: done}
      - {from: draining, to: failed, on: failed}
`

const procedureProgram = `
def generate(ctx):
    return [asset("switch/" + name, lehr.workflow.v1.Procedure(
        endpoint = "fabric", path = "/" + name, definition = ctx.files["drain.yaml"],
        inputs = {"firmware": "2"},
        observe = lehr.workflow.v1.Observation(want = {"/firmware": "${inputs.firmware}"}),
    )) for name in ["a", "b"]]
`

// TestDefinitionThatIsWrongIsNotServed: it is an error of the build, told once at its place in the
// file that it comes from, however many assets have it.
func TestDefinitionThatIsWrongIsNotServed(t *testing.T) {
	for name, test := range map[string]struct{ file, old, new, want string }{
		"all is well":             {"", "", "", ""},
		"a misspelt state":        {"drain.yaml", "to: drained", "to: darined", `drain.yaml:12 to names the state "darined", which machine drain does not have`},
		"it gets stuck":           {"drain.yaml", "drained: {end: success}", "drained:", "drain.yaml:9 a run can get stuck in drain/drained"},
		"what pushes do not do":   {"drain.yaml", `tell: {url: "/drain?to=${inputs.firmware}"}`, "edit: {document: d, field: /f, value: v}", "drain.yaml:8 edit has no place in a push"},
		"no input":                {"db.star", `{"firmware": "2"}`, "{}", "db.star:3 workflow drain needs input firmware"},
		"a placeholder":           {"db.star", "${inputs.firmware}", "${inputs.frimware}", "db.star:3 \"${inputs.frimware}\" has the placeholder"},
		"an endpoint":             {"drain.yaml", "tell: {url", "tell: {endpoint: pager, url", "db.star:3 the action of drain/draining calls the endpoint \"pager\", which the asset does not name"},
		"a path out of the thing": {"db.star", "want = {", `get = "/../x", want = {`, "db.star:3 \"/../x\" is no path below the thing"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, "web")
			for file, text := range map[string]string{"drain.yaml": procedureDefinition, "db.star": procedureProgram} {
				if file == test.file {
					text = strings.Replace(text, test.old, test.new, 1)
				}
				w.write(file, text)
			}
			w.write("lehr.yaml", "lehr: v1\npartition: fabric\nsources: {in: {files: [drain.yaml, db.star]}}\ngenerate:\n  switches: {starlark: db.star, from: [in]}\n")
			built, err := prodspec.Build(t.Context(), prodspec.Program{Definition: filepath.Join(w.folder, "lehr.yaml"), Runner: w.runnerOf(false)}, loop.Real().Now())
			if err != nil {
				t.Fatal(err)
			}
			var told []string
			for _, f := range built.Findings {
				told = append(told, fmt.Sprintf("%s:%d %s", f.File, f.Line, f.Message))
			}
			if test.want == "" {
				if !built.OK() || len(built.Assets) != 3 {
					t.Errorf("%d assets, findings %q", len(built.Assets), told)
				}
				return
			}
			if built.OK() || !slices.ContainsFunc(told, func(text string) bool { return strings.HasPrefix(text, test.want) }) {
				t.Errorf("it told %q, want %q", told, test.want)
			}
			if strings.HasPrefix(test.want, "drain.yaml") && len(told) > 1 {
				t.Errorf("it is told more than once: %q", told)
			}
		})
	}
}

// TestDefinitionWithinAnotherFile is placed by its lines, indented as they are; one that a program
// wrote is placed in the program.
func TestDefinitionWithinAnotherFile(t *testing.T) {
	wrong := strings.Replace(procedureDefinition, "to: drained", "to: darined", 1)
	w := newWorld(t, "web")
	w.write("list.yaml", "- id: switch/a\n  type: lehr.workflow.v1.Procedure\n  payload:\n    endpoint: fabric\n    path: /a\n    inputs: {firmware: '2'}\n    observe: {want: {/firmware: '2'}}\n    definition: |\n      "+
		strings.TrimRight(strings.ReplaceAll(wrong, "\n", "\n      "), " \n")+"\n")
	w.write("lehr.yaml", "lehr: v1\npartition: fabric\nsources: {in: {files: list.yaml}}\ngenerate:\n  switches: {render: assets, from: in}\n")
	build := func() string {
		built, err := prodspec.Build(t.Context(), prodspec.Program{Definition: filepath.Join(w.folder, "lehr.yaml"), Runner: w.runnerOf(false)}, loop.Real().Now())
		if err != nil || len(built.Findings) != 1 {
			t.Fatal(err, built.Findings)
		}
		f := built.Findings[0]
		return fmt.Sprintf("%s:%d %s", f.File, f.Line, f.Message)
	}
	if told := build(); told != `list.yaml:20 to names the state "darined", which machine drain does not have` {
		t.Errorf("it told %q", told)
	}
	w.write("db.star", strings.Replace(procedureProgram, `ctx.files["drain.yaml"]`, fmt.Sprintf("%q", wrong), 1))
	w.write("lehr.yaml", "lehr: v1\npartition: fabric\nsources: {in: {files: db.star}}\ngenerate:\n  switches: {starlark: db.star, from: in}\n")
	if told := build(); told != `db.star:3 line 12 of the definition: to names the state "darined", which machine drain does not have` {
		t.Errorf("it told %q", told)
	}
}
