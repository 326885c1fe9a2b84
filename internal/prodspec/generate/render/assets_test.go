package render

import (
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"strings"
	"testing"

	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/ground/schema"
	"lehr.dev/internal/prodspec/generate/work"
)

// render runs a built-in renderer over files.
func render(t testing.TB, format string, files map[string]string, arguments ...string) work.Result {
	t.Helper()
	job := work.Job{Partition: "shop", Generator: "g", Language: work.Render, Program: format, Definition: "lehr.yaml", Arguments: arguments}
	for _, name := range slices.Sorted(maps.Keys(files)) {
		job.Files = append(job.Files, work.Input{Name: name, Digest: intent.Sum("test", []byte(files[name]))})
	}
	return Evaluate(schema.Builtin(), job, func(_ work.Kind, input work.Input) ([]byte, error) {
		text, ok := files[input.Name]
		if !ok {
			return nil, fs.ErrNotExist
		}
		return []byte(text), nil
	}, 10_000_000)
}

// told are the findings, one a line.
func told(result work.Result) string {
	var lines []string
	for _, f := range append(result.Findings, result.Warnings...) {
		lines = append(lines, fmt.Sprintf("%s:%d:%d %s: %s (%s)", f.File, f.Line, f.Column, f.Field, f.Message, f.Hint))
	}
	return strings.Join(lines, "\n")
}

const jobAsset = `
id: job/web
type: Job
payload:
  name: web
  version: v1
  binary: bin/web
  replicas: 2
addons:
  Owner: {owner: web@example.com}
`

// TestWaysToWriteAnAsset: they give the same bytes.
func TestWaysToWriteAnAsset(t *testing.T) {
	full := `{"id":"job/web","payload":{"@type":"type.googleapis.com/lehr.process.v1.Job","name":"web","version":"v1","binary":"bin/web","replicas":2},"addons":[{"@type":"type.googleapis.com/lehr.intent.v1.Owner","owner":"web@example.com"}]}`
	text := `id: "job/web" payload { [type.googleapis.com/lehr.process.v1.Job] { name: "web" version: "v1" binary: "bin/web" replicas: 2 } }
addons { [type.googleapis.com/lehr.intent.v1.Owner] { owner: "web@example.com" } }`
	want := render(t, "assets", map[string]string{"a.yaml": jobAsset})
	if len(want.Assets) != 1 || want.Assets[0].ID != "job/web" || want.Assets[0].File != "a.yaml" || want.Assets[0].Line != 2 {
		t.Fatalf("%+v: %s", want.Assets, told(want))
	}
	for name, c := range map[string]struct {
		file, text string
		line       int
	}{
		"a list":                  {"a.yaml", "\n- " + strings.ReplaceAll(strings.TrimSpace(jobAsset), "\n", "\n  "), 2},
		"a second document":       {"a.yml", "--- # nothing\n---\n" + jobAsset, 4},
		"an anchor":               {"a.yaml", strings.Replace(jobAsset, "{owner: web@example.com}", "&o {owner: web@example.com}", 1), 2},
		"as exported":             {"a.json", full, 1},
		"a line of many":          {"a.jsonl", "\n" + full + "\n", 2},
		"a list in JSON":          {"a.json", "[\n" + full + "]", 2},
		"as built":                {"a.json", `{"id": "job/web", "type": "lehr.process.v1.Job", "payload": {"name": "web", "version": "v1", "binary": "bin/web", "replicas": 2}, "addons": {"lehr.intent.v1.Owner": {"owner": "web@example.com"}}}`, 1},
		"text":                    {"a.textproto", text, 1},
		"several in text":         {"a.txtpb", "# assets {\nassets {\n" + text + "\n}\n", 2},
		"a path outside":          {"../a.yaml", jobAsset, 2},
		"numbers of other digits": {"a.yaml", strings.Replace(jobAsset, "replicas: 2", "replicas: 0x2", 1), 2},
	} {
		result := render(t, "assets", map[string]string{c.file: c.text})
		if len(result.Assets) != 1 || told(result) != "" {
			t.Errorf("%s: %d assets: %s", name, len(result.Assets), told(result))
			continue
		}
		if a := result.Assets[0]; a.Digest != want.Assets[0].Digest || a.Line != c.line || a.File != c.file {
			t.Errorf("%s: another asset, of %s:%d", name, a.File, a.Line)
		}
	}
}

// TestWellKnownPayloads have a JSON of their own.
func TestWellKnownPayloads(t *testing.T) {
	beside := render(t, "assets", map[string]string{"a.yaml": "{id: a, type: google.protobuf.Struct, payload: {a: [1, x]}}"})
	within := render(t, "assets", map[string]string{"a.yaml": "{id: a, payload: {'@type': google.protobuf.Struct, value: {a: [1, x]}}}"})
	if len(beside.Assets) != 1 || len(within.Assets) != 1 || beside.Assets[0].Digest != within.Assets[0].Digest {
		t.Errorf("%s\n%s", told(beside), told(within))
	}
}

// TestWrongAssets: what is wrong is said with its place, and nothing is given.
func TestWrongAssets(t *testing.T) {
	deep := strings.Repeat("[", 10_001) + strings.Repeat("]", 10_001)
	laughs := "a: &a [x,x,x,x,x,x,x,x,x,x]\n"
	for c := 'b'; c < 'j'; c++ {
		laughs += fmt.Sprintf("%c: &%c [%s]\n", c, c, strings.TrimSuffix(strings.Repeat(fmt.Sprintf("*%c,", c-1), 10), ","))
	}
	change := func(old, by string) string { return strings.Replace(jobAsset, old, by, 1) }
	for name, c := range map[string]struct{ file, text, want string }{
		"empty":             {"a.yaml", "", "a.yaml:1:1 : a.yaml is empty (restore its content"},
		"empty documents":   {"a.yaml", "---\n---\n", "a.yaml:1:1 : a.yaml is empty"},
		"empty JSON":        {"a.json", " ", "a.json:1:1 : a.json is empty"},
		"empty text":        {"a.textproto", "", "a.textproto:1:0 id: the asset has no id"},
		"another kind":      {"a.txt", "x", "a.txt:1:0 : a.txt is of no kind that holds assets"},
		"no mapping":        {"a.yaml", "x", `a.yaml:1:1 : an asset is a mapping, this is "x"`},
		"no id":             {"a.yaml", change("id: job/web", "type: Job"), "already defined"},
		"an id that is one": {"a.yaml", change("job/web", "7"), `a.yaml:2:5 id: id must be a text, is "7"`},
		"a bad id":          {"a.yaml", change("job/web", "../web"), `a.yaml:2:1 : asset id "../web": segment ".."`},
		"an id of 4 kB":     {"a.yaml", change("job/web", strings.Repeat("x", 4096)), "at most 253 are allowed"},
		"letters turned":    {"a.yaml", change("job/web", `"job/\u202eweb"`), "is not of the form"},
		"no payload":        {"a.yaml", "id: a\ntype: Job\n", "a.yaml:1:1 payload: the asset has no payload"},
		"no type":           {"a.yaml", "id: a\npayload: {name: x}\n", `a.yaml:2:10 payload: payload does not say of which type it is`},
		"an unknown type":   {"a.yaml", change("Job", "Jobb"), "a.yaml:3:7 type: no message type is named \"Jobb\" (did you mean lehr.process.v1.Job?)"},
		"an unknown key":    {"a.yaml", change("payload:", "paylod:"), "a.yaml:4:1 paylod: an asset has no field \"paylod\" (did you mean payload?"},
		"an unknown field":  {"a.yaml", change("replicas:", "replica:"), "a.yaml:8:3 payload.replica: unknown field payload.replica: a lehr.process.v1.Job has none of that name (did you mean replicas?"},
		"a text for a number": {"a.yaml", change("replicas: 2", "replicas: many"),
			`a.yaml:8:13 payload.replicas: payload.replicas must be a whole number (uint32), is "many" (write replicas: 3)`},
		"a rule":            {"a.yaml", change("name: web", "name: ''"), "a.yaml:5:9 payload.name: payload.name: "},
		"an unknown addon":  {"a.yaml", change("Owner:", "Ownr:"), "a.yaml:10:3 addons.Ownr: no message type is named \"Ownr\" (did you mean lehr.intent.v1.Owner?)"},
		"in an addon":       {"a.yaml", change("{owner:", "{ownr:"), "a.yaml:10:11 addons.Owner.ownr: unknown field"},
		"an addon twice":    {"a.yaml", change("addons:", "addons:\n  lehr.intent.v1.Owner: {owner: b}"), "two addons of type lehr.intent.v1.Owner"},
		"in a second list":  {"a.yaml", "- {id: a, type: Owner, payload: {}}\n- {id: b, type: Owner, payload: {ownr: x}}\n", "a.yaml:2:34 [1].payload.ownr: unknown field"},
		"in a second line":  {"a.jsonl", `{"id":"a","type":"Owner","payload":{}}` + "\n" + `{"id":"b","type":"Owner","payload":{"ownr":"x"}}`, "a.jsonl:2:37 payload.ownr: unknown field"},
		"an id twice":       {"a.yaml", jobAsset + "---" + jobAsset, "a.yaml:12:1 id: asset job/web is in a.yaml, too"},
		"a key twice":       {"a.yaml", change("name: web", "name: web\n  name: webb"), "already defined"},
		"a billion laughs":  {"a.yaml", laughs, "excessive aliasing"},
		"deep":              {"a.yaml", deep, "exceeded max depth"},
		"tabs":              {"a.yaml", "id: a\n\ttype: Job", "a.yaml:2:1 : not valid YAML: found a tab character that violates indentation"},
		"too large a float": {"a.yaml", "{id: a, type: google.protobuf.DoubleValue, payload: 1e309}", "payload: invalid float"},
		"2^53+1":            {"a.yaml", change("replicas: 2", "replicas: 9007199254740993"), "integer is too large"},
		"a merge key":       {"a.yaml", "{id: a, type: Owner, payload: {<<: {owner: x}}}", "payload.<<: unknown field"},
		"half of JSON":      {"a.json", `{"id":"a"`, "a.json:1:1 : not valid YAML: unexpected EOF"},
		"HTML":              {"a.json", "<html>", "not valid YAML"},
		"large":             {"a.yaml", change("owner: web@example.com", "owner: "+strings.Repeat("x", 150_001)), "at most 150000 are allowed"},
		"text of nothing":   {"a.textproto", "\n id: 7", "a.textproto:2:6 : not a textproto of assets"},
		"text, a field":     {"a.txtpb", "assets {\n id: \"a\"\n payload { [lehr.intent.v1.Owner] { ownr: \"x\" } }\n}", "a.txtpb:3:37 : not a textproto of assets: unknown field: ownr"},
		"text, a rule":      {"a.txtpb", "\nassets { id: \"a\" payload { [lehr.process.v1.Job] { } } }", "a.txtpb:2:0 assets[0].payload.name: payload.name: "},
		"text, a type":      {"a.txtpb", `id: "a" payload { type_url: "x/acme.Thing" }`, "no message type is named \"acme.Thing\""},
		"text that is none": {"a.txtpb", "id: \"\xff\"", "not a textproto of assets"},
		"an option":         {"a.yaml", jobAsset, ""},
	} {
		var arguments []string
		if c.want == "" {
			arguments, c.want = []string{"--strict=no"}, `lehr.yaml:1:0 : the run of g failed: with has the key "strict", and none is known: remove it`
		}
		result := render(t, "assets", map[string]string{c.file: c.text}, arguments...)
		if got := told(result); len(result.Assets) > 0 || !strings.Contains(got, c.want) {
			t.Errorf("%s: %d assets, and it was said %.600s\nwant %s", name, len(result.Assets), got, c.want)
		}
	}
}

// TestAssetsOfLehrsOwn are made of lehr.yaml.
func TestAssetsOfLehrsOwn(t *testing.T) {
	result := render(t, "assets", map[string]string{"a.yaml": "{id: lehr/policy, type: Policy, payload: {mode: ENFORCEMENT_MODE_OBSERVE}}"})
	if len(result.Assets) != 0 || len(result.Findings) != 0 || !strings.Contains(told(result), "lehr/policy is made of lehr.yaml, and left out here") {
		t.Errorf("%d assets: %s", len(result.Assets), told(result))
	}
}

// TestFormats: each is built in, or a program.
func TestFormats(t *testing.T) {
	for _, format := range work.Formats {
		if _, ok := builtIn[format.Name]; ok == format.Program {
			t.Errorf("%s is built in: %t, and a program: %t", format.Name, ok, format.Program)
		}
	}
	if programs := slices.DeleteFunc(slices.Clone(work.Formats), func(f work.Format) bool { return !f.Program }); len(builtIn)+len(programs) != len(work.Formats) {
		t.Error("work.Formats lacks one that is built in")
	}
}

// FuzzAssets: no file crashes the renderer, and what it gives is an asset.
func FuzzAssets(f *testing.F) {
	f.Add("a.yaml", jobAsset)
	f.Add("a.jsonl", `{"id":"a","type":"Owner","payload":{}}`)
	f.Add("a.txtpb", `assets { id: "a" payload { [lehr.intent.v1.Owner] { } } }`)
	f.Fuzz(func(t *testing.T, name, text string) {
		if strings.Trim(name, ".") == "" || strings.Contains(name, "/") || len(name) > 100 {
			return
		}
		result := render(t, "assets", map[string]string{name: text})
		if said := told(result); strings.Contains(said, "crashed") {
			t.Error(said)
		}
		for _, asset := range result.Assets {
			if intent.BodyDigest(asset.Body) != asset.Digest || len(asset.Body) > intent.MaxAssetBytes {
				t.Errorf("%s is not what it says", asset.ID)
			}
		}
	})
}
