package generate_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/prodspec/definition"
	"lehr.dev/internal/prodspec/generate"
	"lehr.dev/internal/prodspec/generate/native"
	"lehr.dev/internal/prodspec/generate/work"
	"lehr.dev/test/detector"
)

// checking is a graph with a generator of two assets and a checking program.
type checking struct {
	t       *testing.T
	graph   *generate.Graph
	cache   generate.Cache
	runner  generate.Runner
	in      inputs
	checker definition.Generator
	now     time.Time
}

const gives = `
def generate(ctx):
    return [
        asset("note/a", lehr.intent.v1.Owner(owner = ctx.files["a.yaml"])),
        asset("label/a", lehr.intent.v1.Labels(labels = {"text": ctx.files["b.yaml"]})),
    ]
`

func newChecking(t *testing.T, limits generate.Limits) *checking {
	c := &checking{t: t, cache: generate.NewMemory(), runner: shell(t, native.Required, limits), now: time.Unix(1e9, 0), checker: definition.Generator{
		Name: "notes", Language: work.Native, Program: "check", Check: true, Generators: []string{"give"}, File: "lehr.yaml", Line: 9,
	}}
	c.in = inputs{"give.star": gives, "a.yaml": "ann", "b.yaml": "b", "rules.txt": "one\ntwo\n"}
	c.restart()
	return c
}

// restart forgets all but the cache.
func (c *checking) restart() { c.graph = generate.NewGraph(c.runner, c.cache) }

// says has the checking program print lines.
func (c *checking) says(lines ...string) {
	c.in["check"] = "#!/bin/sh\n"
	for _, line := range lines {
		c.in["check"] += "printf '%s\\n' '" + line + "'\n"
	}
}

// build generates and checks, and says how many runs that took.
func (c *checking) build() (generate.Checked, int) {
	c.t.Helper()
	before := c.graph.Executions()
	given := generate.Inputs{
		Partition: "shop", Sources: map[string][]generate.Input{"files": c.in.input("a.yaml", "b.yaml"), "rules": c.in.input("rules.txt")},
		Programs: c.in.input("check", "give.star"), Open: func(input generate.Input) ([]byte, error) { return c.in.open(work.ReadFile, input) },
	}
	findings, err := c.graph.Build(c.t.Context(), []definition.Generator{{Name: "give", Program: "give.star", Sources: []string{"files"}}}, given, c.now)
	if err == nil && len(findings) > 0 {
		err = fmt.Errorf("%+v", findings)
	}
	if err == nil {
		err = c.graph.Check(c.t.Context(), []definition.Generator{c.checker}, given, c.now)
	}
	if err != nil {
		c.t.Fatal(err)
	}
	for _, run := range c.graph.Pending() {
		if run.Generator == c.checker.Name && len(run.Outputs) > 0 {
			c.t.Errorf("the check gave assets: %+v", run.Outputs)
		}
	}
	checked := c.graph.Checked(c.checker.Name)
	checked.Reported = slices.DeleteFunc(checked.Reported, func(r work.Report) bool { return r.Rule == native.NonHermetic })
	return checked, c.graph.Executions() - before
}

const (
	aboutAsset = `{"finding":{"severity":"SEVERITY_ERROR","message":"no owner","asset":"note/a","field":"payload.owner","excerpt":"x: ann"},"from":{"line":2}}`
	aboutFile  = `{"finding":{"severity":"SEVERITY_WARNING","message":"two is odd"},"from":{"file":"rules.txt","line":2,"column":1}}`
	isWhole    = `{"end":{}}`
)

// TestChecked: what a checking program finds keeps nothing from being built; it runs again when
// something that it reads has changed, and not for a restart.
func TestChecked(t *testing.T) {
	c := newChecking(t, generate.DefaultLimits())
	c.checker.Sources, c.checker.Types = []string{"rules"}, []intent.TypeName{"lehr.intent.v1.Owner"}
	c.says(aboutAsset, aboutFile, isWhole)
	checked, ran := c.build()
	if ran != 2 || len(checked.Failed) > 0 || len(checked.Reported) != 2 || checked.Again {
		t.Fatalf("%d runs gave %+v", ran, checked)
	}
	if r := checked.Reported[0]; r.Asset != "note/a" || r.Severity != intent.Error || r.File != "" || r.Line != 2 || r.Excerpt != "x: ann" {
		t.Errorf("of the asset it says %+v", r)
	}
	if r := checked.Reported[1]; r.File != "rules.txt" || r.Line != 2 || r.Severity != intent.Warning {
		t.Errorf("of the file it says %+v", r)
	}
	if w := c.graph.Warnings(); len(w) > 0 {
		t.Errorf("generators warn of what a check found: %+v", w)
	}
	for _, step := range []struct {
		what   string
		change func()
		runs   int
	}{
		{"nothing", func() {}, 0},
		{"a restart", c.restart, 0},
		{"an asset of another type", func() { c.in["b.yaml"] = "c" }, 1},
		{"an asset", func() { c.in["a.yaml"] = "bob" }, 2},
		{"a file", func() { c.in["rules.txt"] = "three\nfour\n" }, 1},
		{"the program", func() { c.says(aboutFile, isWhole) }, 1},
		{"types", func() { c.checker.Types = nil }, 1},
	} {
		step.change()
		if checked, ran = c.build(); ran != step.runs || len(checked.Failed) > 0 {
			t.Errorf("after a change of %s there were %d runs, want %d: %+v", step.what, ran, step.runs, checked)
		}
	}
	if len(checked.Reported) != 1 {
		t.Errorf("the last program finds one thing, and there is %+v", checked.Reported)
	}
}

// TestChecksThatGiveNoAnswer: whatever a checking program does but to say all of it, it has
// passed nothing.
func TestChecksThatGiveNoAnswer(t *testing.T) {
	detector.SkipSequential(t)
	c := newChecking(t, quick())
	var many []string
	for i := range 60 {
		severity := "WARNING"
		if i > 50 {
			severity = "ERROR"
		}
		many = append(many, fmt.Sprintf(`{"finding":{"severity":"SEVERITY_%s","message":"m%d","asset":"note/a"}}`, severity, i))
	}
	for name, test := range map[string]struct {
		program, told string
		again         bool
	}{
		"crashes":                  {"echo lost its way >&2\nexit 3\n", "ended with exit status 3: lost its way", false},
		"is killed":                {"kill -9 $$\n", "", false},
		"never ends":               {"while :; do :; done\n", "took longer than", true},
		"prints for ever":          {"while :; do echo xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx; done\n", "", false},
		"prints garbage":           {"echo all is well\n", "said what cannot be taken, in line 1", false},
		"says nothing":             {"", "without saying that this was all", false},
		"says half":                {"echo '" + aboutAsset + "'\n", "without saying that this was all", false},
		"names an asset of nobody": {"echo '" + strings.Replace(aboutAsset, "note/a", "note/b", 1) + "'\necho '" + isWhole + "'\n", `the asset "note/b", which it was not given`, false},
		"names a file of nobody":   {"echo '" + aboutFile + "'\necho '" + isWhole + "'\n", `the file "rules.txt", which it was not given`, false},
		"gives an asset":           {"echo '" + strings.TrimSpace(owned) + "'\necho '" + isWhole + "'\n", "it is neither a finding nor the end", false},
		"counts assets":            {"echo '{\"end\":{\"assets\":1}}'\n", "a checking program gives none", false},
		"leaves something out":     {"echo '" + strings.Replace(aboutAsset, "_ERROR", "_LEFT_OUT", 1) + "'\n", "without a severity", false},
	} {
		c.in["check"] = "#!/bin/sh\n" + test.program
		checked, _ := c.build()
		if len(checked.Failed) != 1 || len(checked.Reported) > 0 {
			t.Errorf("one that %s gave %+v", name, checked)
			continue
		}
		f := checked.Failed[0]
		if !strings.Contains(f.Message, test.told) || !strings.Contains(f.Message, "notes") || f.Severity != intent.Error || f.File != "lehr.yaml" || f.Hint == "" {
			t.Errorf("of one that %s it is said: %+v", name, f)
		}
		if test.again && !checked.Again {
			t.Errorf("one that %s is not tried again", name)
		}
	}
	// After what was stopped from outside it runs again by itself, and then passes.
	c.in["check"] = "#!/bin/sh\nwhile :; do :; done\n"
	c.build()
	c.says(append(many, isWhole)...)
	checked, _ := c.build()
	errors := 0
	for _, r := range checked.Reported {
		if r.Severity == intent.Error {
			errors++
		}
	}
	if len(checked.Failed) > 0 || len(checked.Reported) != 51 || errors != 9 {
		t.Errorf("of 60 findings, 9 of them errors, there are %d with %d errors (%+v)", len(checked.Reported), errors, checked.Failed)
	}
}
