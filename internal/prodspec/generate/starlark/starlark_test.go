package starlark_test

import (
	"slices"
	"strings"
	"testing"

	intentpb "lehr.dev/gen/lehr/intent/v1"
	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/ground/schema"
	"lehr.dev/internal/prodspec/generate/starlark"
	"lehr.dev/internal/prodspec/generate/work"
)

// evaluate runs main.star with the files around it.
func evaluate(t *testing.T, files map[string]string, assets ...intent.Asset) work.Result {
	t.Helper()
	job := work.Job{Partition: "shop", Generator: "g", Program: "main.star"}
	bodies := map[string][]byte{}
	for name, text := range files {
		input := work.Input{Name: name, Digest: intent.Sum("test", []byte(text))}
		if strings.HasSuffix(name, ".star") {
			job.Programs = append(job.Programs, input)
		} else {
			job.Files = append(job.Files, input)
		}
	}
	for _, a := range assets {
		body, digest, err := schema.Builtin().Encode(a)
		if err != nil {
			t.Fatal(err)
		}
		bodies[string(a.ID)] = body
		job.Assets = append(job.Assets, work.Input{Name: string(a.ID), Digest: digest, Type: a.Payload.Type})
	}
	for _, list := range [][]work.Input{job.Programs, job.Files, job.Assets} {
		slices.SortFunc(list, func(a, b work.Input) int { return strings.Compare(a.Name, b.Name) })
	}
	evaluator := starlark.New(schema.Builtin(), starlark.Limits{Steps: 1_000_000, OutputBytes: 1_000_000})
	return evaluator.Evaluate(t.Context(), job, func(kind work.Kind, input work.Input) ([]byte, error) {
		if kind == work.ReadAsset {
			return bodies[input.Name], nil
		}
		if text, ok := files[input.Name]; ok {
			return []byte(text), nil
		}
		return nil, fault.New(fault.Unavailable, "%s is gone", input.Name)
	})
}

func TestReadsReallyMade(t *testing.T) {
	payload, err := schema.Builtin().Pack(&intentpb.Owner{Owner: "ann"})
	if err != nil {
		t.Fatal(err)
	}
	other := intent.Asset{ID: "a/two", Payload: payload}
	one := intent.Asset{ID: "a/one", Payload: payload, Addons: []intent.Message{payload}}
	r := evaluate(t, map[string]string{
		"main.star": `
load("lib/name.star", "name")
def generate(ctx):
    found = [a for a in ctx.assets if a.id == "a/one"][0]
    print("owner", found.payload.owner, len(found.addons), ctx.partition, ctx.generator)
    return [asset(name(yaml("used.yaml")["n"]), lehr.intent.v1.Owner(owner = ctx.files["text.txt"]))]
`,
		"lib/name.star":  "def name(n): return 'x/%d' % n\n",
		"lib/other.star": "", "used.yaml": "n: 7", "unused.yaml": "n: 8", "text.txt": "bob",
	}, one, other)
	if len(r.Findings) > 0 || len(r.Assets) != 1 || r.Assets[0].ID != "x/7" || r.Assets[0].Type != "lehr.intent.v1.Owner" || r.Assets[0].Line != 6 {
		t.Fatalf("result %+v", r)
	}
	if r.Log != "owner ann 1 shop g\n" {
		t.Errorf("log %q", r.Log)
	}
	var reads []string
	for _, read := range r.Reads {
		reads = append(reads, string(read.Kind)+":"+read.Name)
	}
	want := "asset:a/one assets: file:text.txt file:used.yaml program:lib/name.star program:main.star"
	if got := strings.Join(reads, " "); got != want {
		t.Errorf("reads %s, want %s", got, want)
	}
}

func TestSameInputsSameBytes(t *testing.T) {
	files := map[string]string{"main.star": `
def generate(ctx):
    labels = {str(i): str(i) for i in range(50)}
    return [asset("x", lehr.intent.v1.Labels(labels = labels), addons = [lehr.intent.v1.Owner(owner = "b"), lehr.intent.v1.Approval(reason = "a")])]
`}
	first := evaluate(t, files)
	for range 20 {
		if again := evaluate(t, files); len(again.Assets) != 1 || again.Assets[0].Digest != first.Assets[0].Digest {
			t.Fatalf("%+v after %+v", again, first)
		}
	}
}

func TestErrorsNameTheirPlace(t *testing.T) {
	for name, c := range map[string]struct {
		files   map[string]string
		file    string
		line    int
		field   string
		message string
	}{
		"load of itself":      {map[string]string{"main.star": "load('b.star', 'x')", "b.star": "load('main.star', 'generate')\nx = 1"}, "", 0, "", "in a circle: main.star → b.star → main.star"},
		"load outside":        {map[string]string{"main.star": "load('../b.star', 'x')"}, "main.star", 1, "", "not a declared .star file"},
		"load of a path":      {map[string]string{"main.star": "load('/etc/b.star', 'x')"}, "main.star", 1, "", "not a declared .star file"},
		"a loop of its own":   {map[string]string{"main.star": "def generate(ctx):\n  while True:\n    pass"}, "main.star", 2, "", "while"},
		"file not declared":   {map[string]string{"main.star": "def generate(ctx):\n  return yaml('/etc/passwd')"}, "main.star", 2, "", "not a declared file"},
		"for_each only":       {map[string]string{"main.star": "def generate(ctx):\n  return ctx.file"}, "main.star", 2, "", "for_each"},
		"no generate":         {map[string]string{"main.star": "x = 1"}, "main.star", 1, "", "does not define generate"},
		"fail":                {map[string]string{"main.star": "def f():\n  fail('no')\ndef generate(ctx):\n  f()"}, "main.star", 2, "", "called at main.star:4:4 in generate"},
		"bytes as text":       {map[string]string{"main.star": "def generate(ctx):\n  return [asset('x', lehr.intent.v1.Owner(owner = b'x'))]"}, "main.star", 1, "", "crashed"},
		"twice the same key":  {map[string]string{"main.star": "def generate(ctx):\n  return yaml('m')", "m": "a: 1\nb:\n  c: 1\n  c: 2\n"}, "m", 4, "", "already defined"},
		"merge keys":          {map[string]string{"main.star": "def generate(ctx):\n  return yaml('m')", "m": "a: &a {x: 1}\nb:\n  <<: *a\n"}, "m", 3, "b", "merge"},
		"json":                {map[string]string{"main.star": "def generate(ctx):\n  return json('m')", "m": "{\n\"a\": ]\n}"}, "m", 0, "", "not valid"},
		"json of a type":      {map[string]string{"main.star": "def generate(ctx):\n  return decode('Job', 'm')", "m": "{\n  \"name\": \"x\",\n  \"health\": {\"path\": 7, \"timeout\": \"soon\"}\n}"}, "m", 3, "health.timeout", `is not a length of time: "soon"`},
		"map of a wrong kind": {map[string]string{"main.star": "def generate(ctx):\n  return decode('Job', 'm')", "m": "name: x\nbinary: y\nenv:\n  A: [1]\n"}, "m", 4, `env["A"]`, "must be a text"},
		"scalar at the top":   {map[string]string{"main.star": "def generate(ctx):\n  return decode('Job', 'm')", "m": "hello"}, "m", 1, "", ""},
		"anchor loop":         {map[string]string{"main.star": "def generate(ctx):\n  return yaml('m')", "m": "a: &a [*a]"}, "m", 1, "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			r := evaluate(t, c.files)
			if len(r.Findings) == 0 || len(r.Assets) > 0 {
				t.Fatalf("result %+v, want findings and nothing else", r)
			}
			f := r.Findings[0]
			t.Logf("%s:%d:%d %s: %s (%s)", f.File, f.Line, f.Column, f.Field, f.Message, f.Hint)
			if c.file != "" && f.File != c.file || c.line != 0 && f.Line != c.line || c.field != "" && f.Field != c.field || !strings.Contains(f.Message, c.message) || f.Hint == "" {
				t.Errorf("want %s:%d %s: %s", c.file, c.line, c.field, c.message)
			}
		})
	}
}
