package provenance

import "testing"

// A line is found only where it is the only one with the name and value.
func TestLines(t *testing.T) {
	var lines Lines
	lines.Read(Place{File: "a.yaml", Source: "s"}, []byte(`# replicas: 9
name: shop # people see it
basePort: 20100
clusters:
  - name: a
    replicas: 3
  - name: b
    replicas: 3
    version: "1.1"
args:
  - "--port=1"
  - '--it''s'
env: {LEVEL: debug}
url: http://example.com/x
text: "not # a comment"
places:
  - {name: c, "size": 7, more: {depth: 'it''s, {deep}', flags: [fast, "so, so"]}} # size: 8
  - {name: d, size: 9, url: http://d.example.com:80/x, none: }
`))
	lines.Read(Place{File: "c.json"}, []byte(`{"zone":"x:y","sizes":[{"wide":11}],"cut":"no end`))
	lines.Read(Place{File: "b.json"}, []byte("{\n  \"owner\": \"ann@example.com\",\n  \"limits\": [\n    \"small\"\n  ],\n  \"basePort\": 20101,\n  \"broken\": \"no end\n}\n"))
	for _, of := range []struct {
		path, value, file string
		line              int
	}{
		{"payload.name", `"shop"`, "a.yaml", 2},
		{"payload.base_port", "20100", "a.yaml", 3},
		{"payload.clusters[0].replicas", "3", "", 0},
		{"payload.replicas", "9", "", 0},
		{"payload.version", `"1.1"`, "a.yaml", 9},
		{"payload.args[0]", `"--port=1"`, "a.yaml", 11},
		{"payload.args[7]", `"--it's"`, "a.yaml", 12},
		{`payload.env["LEVEL"]`, `"debug"`, "a.yaml", 13},
		{"payload.size", "7", "a.yaml", 17},
		{"payload.size", "8", "", 0},
		{"payload.size", "9", "a.yaml", 18},
		{"payload.more.depth", `"it's, {deep}"`, "a.yaml", 17},
		{"payload.more.flags[1]", `"so, so"`, "a.yaml", 17},
		{"payload.url", `"http://d.example.com:80/x"`, "a.yaml", 18},
		{"payload.zone", `"x:y"`, "c.json", 1},
		{"payload.wide", "11", "c.json", 1},
		{"payload.cut", `"no end"`, "", 0},
		{`payload.links["x.url"]`, `"http://example.com/x"`, "", 0},
		{`payload.links["url"]`, `"http://example.com/x"`, "a.yaml", 14},
		{"payload.text", `"not # a comment"`, "a.yaml", 15},
		{"addons.Owner.owner", `"ann@example.com"`, "b.json", 2},
		{"payload.limits[0]", `"small"`, "b.json", 4},
		{"payload.base_port", "20101", "b.json", 6},
		{"payload.broken", `"no end"`, "", 0},
		{"payload.clusters", `""`, "", 0},
	} {
		at, ok := lines.Find(of.path, of.value)
		if at.File != of.file || at.Line != of.line || ok != (of.line > 0) {
			t.Errorf("%s = %s is found at %s:%d, want %s:%d", of.path, of.value, at.File, at.Line, of.file, of.line)
		}
	}
}

func FuzzLines(f *testing.F) {
	f.Add("- a: b\n\"c\": 'd', # e\n", "payload.a", "b")
	f.Add("- \"\n'\n:\n", `payload["`, `"`)
	f.Add("a: {b: [c, 'd''e'], \"f\\\"\":1}}\n{:}]\n[\n", "payload.f", "1")
	f.Fuzz(func(t *testing.T, text, path, value string) {
		var lines Lines
		lines.Read(Place{File: "f"}, []byte(text))
		lines.Find(path, value)
	})
}

// What changed with a field gave it its value: under its name, under another, or as
// a part of it; not where two lines may have.
func TestAlteredLines(t *testing.T) {
	var lines Lines
	lines.Read(Place{File: "values.yaml"}, []byte("replicaCount: 3\ntag: v1.2\nreplicas: 7\nother: 7\nsame: 5\nalso: 5\nold: 9\n"))
	lines.Read(Place{File: "base.yaml"}, []byte("replicas: 7\n"))
	lines.About(func(p Place) Place { p.Change, p.OfLine = "c", true; return p }, func(p Place) bool { return p.File == "values.yaml" && p.Line < 7 })
	for _, c := range []struct {
		path, value, under string
		line               int
	}{
		{"payload.replicas", "3", "replicaCount", 1},
		{"payload.image", `"shop:v1.2"`, "tag", 2},
		{"payload.replicas", "7", "", 3},
		{"payload.n", "5", "", 0},
		{"payload.n", "9", "", 0},
	} {
		got, ok := lines.FindAltered(c.path, c.value)
		if ok != (c.line > 0) || got.Line != c.line || got.Under != c.under {
			t.Errorf("%s: %s is at %+v (%v)", c.path, c.value, got, ok)
		}
	}
	if at, ok := lines.Find("payload.tag", `"v1.2"`); !ok || at.Change != "c" {
		t.Errorf("%+v", at)
	}
}
