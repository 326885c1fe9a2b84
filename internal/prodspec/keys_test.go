package prodspec_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/prodspec"
)

const keyedDefinition = `lehr: v1
partition: shop
sources:
  services: {files: [services.yaml]}
  shared: {files: [defaults.yaml]}
generate:
  jobs: {starlark: jobs.star, from: [services, shared], for_each: {key: spec.services}}
validate:
  shrink: {max: 100%, floor: 3}
`

const keyedProgram = `def generate(ctx):
    return [asset("jobs/" + ctx.key, lehr.process.v1.Job(name = ctx.key, replicas = ctx.value["replicas"], binary = yaml("defaults.yaml")["binary"]))]
`

// services is a mapping of so many; the changes replace some.
func services(many int, changes map[int]string) string {
	var text strings.Builder
	text.WriteString("spec:\n  services:\n")
	for i := range many {
		value, changed := changes[i]
		if !changed {
			value = "replicas: 1"
		}
		if value != "" {
			fmt.Fprintf(&text, "    s%05d: {%s}\n", i, value)
		}
	}
	return text.String()
}

// TestOneKeyOfManyCostsOneRun: each run depends on its entry's value only, not
// on where or how it is written; also after a restart.
func TestOneKeyOfManyCostsOneRun(t *testing.T) {
	if testing.Short() {
		t.Skip("runs thousands of generators")
	}
	const many = 2000
	w := newWorld(t, "many")
	w.write("lehr.yaml", keyedDefinition)
	w.write("jobs.star", keyedProgram)
	w.write("defaults.yaml", "binary: /bin/true\n")
	w.write("services.yaml", services(many, nil))
	w.start()
	if first := w.served(1); first.Executions != many {
		t.Fatalf("%d runs at first, want %d", first.Executions, many)
	}
	sequence := intent.Sequence(1)
	runs := func(what string, want int, published bool, text string) {
		t.Helper()
		before := w.pipeline.Status()
		w.write("services.yaml", text)
		if published {
			sequence++
		}
		after := w.wait(what, func(s prodspec.Status) bool {
			return s.At.After(before.At) && s.State == prodspec.Serving && s.Head.Sequence == sequence && !slices.Equal(s.Sources, before.Sources)
		})
		if got := after.Executions - before.Executions; got != want {
			t.Errorf("%s: %d runs, want %d", what, got, want)
		}
	}
	runs("one value", 1, true, services(many, map[int]string{7: "replicas: 2"}))
	runs("the same, written otherwise", 0, false, "# A line that moves all.\n"+services(many, map[int]string{7: `"replicas": 2`}))
	runs("a key more, and one less", 1, true, services(many+1, map[int]string{7: "replicas: 2", 9: ""}))
	if ids := w.assets(); slices.Contains(ids, "jobs/s00009") || !slices.Contains(ids, intent.AssetID(fmt.Sprintf("jobs/s%05d", many))) {
		t.Errorf("a key that went is still there, or one that came is not")
	}
	w.stop()
	w.start()
	if status := w.served(sequence); status.Executions != 0 {
		t.Errorf("after a restart: %d runs", status.Executions)
	}
	// All are made anew, of values that were not kept.
	w.write("defaults.yaml", "binary: /bin/false\n")
	status := w.served(sequence + 1)
	if status.Executions != many {
		t.Errorf("after a change for all: %d runs, want %d", status.Executions, many)
	}
	if origin := w.blame(sequence+1, "jobs/s00003", "payload.replicas").Origin; len(origin.Inputs) == 0 || origin.Inputs[0].File != "services.yaml" {
		t.Errorf("the origin is %+v, want the file of the keys", origin)
	}
}

// TestListsHaveKeys: elements that are texts, and mappings by a field.
func TestListsHaveKeys(t *testing.T) {
	for name, c := range map[string]struct{ each, text, program string }{
		"texts":    {"key", "- a\n- b\n", `ctx.value`},
		"mappings": {"key", "- {name: a, of: a}\n- {of: b, name: b}\n", `ctx.value["of"]`},
		"a field":  {"{key: list, by: id}", `{"list": [{"id": "b", "of": "b"}, {"id": "a", "of": "a"}]}`, `ctx.value["of"]`},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, "many")
			w.write("lehr.yaml", strings.Replace(keyedDefinition, "{key: spec.services}", c.each, 1))
			w.write("jobs.star", "def generate(ctx):\n    return [asset(\"jobs/\" + ctx.key, lehr.process.v1.Job(name = "+c.program+", replicas = 1, binary = \"/bin/true\"))]\n")
			w.write("defaults.yaml", "binary: /bin/true\n")
			w.write("services.yaml", c.text)
			w.start()
			w.served(1)
			if ids := w.assets(); !slices.Equal(ids, []intent.AssetID{"jobs/a", "jobs/b", intent.PolicyAsset}) {
				t.Errorf("assets %v", ids)
			}
		})
	}
}

// TestBrokenKeys: each is named with its place, and head stays.
func TestBrokenKeys(t *testing.T) {
	w := newWorld(t, "many")
	w.write("lehr.yaml", keyedDefinition)
	w.write("jobs.star", keyedProgram)
	w.write("defaults.yaml", "binary: /bin/true\n")
	good := services(3, nil)
	w.write("services.yaml", good)
	w.start()
	w.served(1)
	for name, c := range map[string]struct {
		text, told string
		line       int
	}{
		"a list of lists":       {"spec: {services: [[a]]}", "a key is a text", 1},
		"no such path":          {"spec: {service: {}}", `there is no "services"`, 1},
		"a text":                {"spec:\n  services: all\n", "takes a mapping or a list", 2},
		"a key twice in a list": {"spec:\n  services:\n  - a\n  - a\n", "is used at line 3", 4},
		"no name":               {"spec:\n  services:\n  - {id: a}\n", `it has no "name"`, 3},
		"an empty key":          {"spec:\n  services:\n    \"\": {replicas: 1}\n", "1 to 1000 bytes", 3},
		"no YAML":               {"spec: [", "", 1},
		"billion laughs":        {laughs(), "", 0},
		"deep":                  {"spec: " + strings.Repeat("[", 20_000), "", 0},
	} {
		w.write("services.yaml", c.text)
		status := w.wait(name, func(s prodspec.Status) bool {
			return s.State == prodspec.Rejected && len(s.Findings) > 0 && strings.Contains(s.Findings[0].Message, c.told)
		})
		f := status.Findings[0]
		t.Logf("%s: %s:%d %s", name, f.File, f.Line, f.Message)
		if f.File != "services.yaml" || c.line > 0 && f.Line != c.line || f.Hint == "" || status.Head.Sequence != 1 {
			t.Errorf("%s: %+v, head %s", name, f, status.Head)
		}
		w.write("services.yaml", good)
		w.wait("the end of "+name, func(s prodspec.Status) bool { return s.State == prodspec.Serving })
	}
}

func laughs() string {
	text := "a0: &a0 [x, x]\n"
	for i := 1; i < 30; i++ {
		text += fmt.Sprintf("a%d: &a%d [*a%d, *a%d]\n", i, i, i-1, i-1)
	}
	return text + "spec: {services: {a: *a29}}\n"
}
