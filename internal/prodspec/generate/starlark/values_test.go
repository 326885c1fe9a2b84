package starlark_test

import (
	"encoding/json"
	"strings"
	"testing"

	"lehr.dev/internal/prodspec/generate/starlark"
	"lehr.dev/internal/prodspec/generate/work"
)

// TestValuesOfManifests: what YAML readers disagree on is read in one way, or
// refused with its place; no number loses digits.
func TestValuesOfManifests(t *testing.T) {
	for text, want := range map[string]string{
		"a: NO":                                `"NO"`,
		"a: off":                               `"off"`,
		"a: 0o7":                               `7`,
		"a: 9007199254740993":                  `9007199254740993`,
		"a: " + strings.Repeat("9", 60) + ".0": `1e+60`,
		"a: 1.50":                              `1.5`,
		"a: ~":                                 `null`,
		"a: '1'":                               `"1"`,
		"a: 2026-01-01":                        `"2026-01-01"`,
		"\ufeffa: 1":                           `1`,
		"a: 1e309":                             "!not a finite number",
		"a: .nan":                              "!not a finite number",
		"a: -.inf":                             "!not a finite number",
		"a: !!binary aGk=":                     "!binary values are not supported",
		"a:\n\t- b":                            "!not valid YAML",
		"a: 1\na: 2":                           "!already defined",
		"a: 1\n---\na: 2":                      "!document",
		"b: &b {x: 1}\na:\n  <<: *b":           "!merge keys",
	} {
		entries, findings := starlark.Split("m.yaml", []byte(text), work.Keys{By: "name"})
		if wrong, refused := strings.CutPrefix(want, "!"); refused {
			if len(findings) != 1 || !strings.Contains(findings[0].Message, wrong) || findings[0].File != "m.yaml" || findings[0].Line == 0 {
				t.Errorf("%q: %s %+v, want %q", text, entries, findings, wrong)
			}
			continue
		}
		if len(findings) > 0 || len(entries) == 0 || string(entries[0].Value) != want {
			t.Errorf("%q is %s (%v), want %s", text, entries, findings, want)
		}
	}
}

// FuzzSplit: nothing panics; entries are sorted, have one value each, and that
// is JSON.
func FuzzSplit(f *testing.F) {
	for _, seed := range []string{"a: {b: 1}", "- a\n- b", "- {name: x}", `{"a": [1, 2.5, null, true]}`, "a: &x [1]\nb: *x", "a: 1e309", "? [a]\n: b", "\xff", "a: !!set {b}"} {
		f.Add([]byte(seed), "")
	}
	f.Add([]byte("spec: {services: {a: 1}}"), "spec.services")
	f.Fuzz(func(t *testing.T, text []byte, path string) {
		keys := work.Keys{By: "name"}
		if path != "" {
			keys.Path = strings.Split(path, ".")
		}
		entries, findings := starlark.Split("m.yaml", text, keys)
		if len(findings) > 0 && len(entries) > 0 {
			t.Fatalf("%d entries in spite of %v", len(entries), findings)
		}
		for i, entry := range entries {
			if entry.Key == "" || i > 0 && entries[i-1].Key >= entry.Key || !json.Valid(entry.Value) {
				t.Fatalf("entry %d is %q: %s", i, entry.Key, entry.Value)
			}
		}
	})
}

// FuzzManifest: a typed manifest gives a message or findings in its file.
func FuzzManifest(f *testing.F) {
	for _, seed := range []string{"owner: ann", "owner: [1]", "owmer: x", "owner: &a a\nowner: *a", "{\"owner\": \"a\"}", "", "\xff", "owner: 1e309", "? owner\n: a"} {
		f.Add(seed)
	}
	const program = "def generate(ctx):\n    return [asset(\"a\", decode(\"lehr.intent.v1.Owner\", \"m.yaml\"))]\n"
	f.Fuzz(func(t *testing.T, text string) {
		r := evaluate(t, map[string]string{"main.star": program, "m.yaml": text})
		if (len(r.Assets) == 1) == (len(r.Findings) > 0) {
			t.Fatalf("%d assets, findings %+v", len(r.Assets), r.Findings)
		}
		for _, finding := range r.Findings {
			if finding.Message == "" || finding.File == "" {
				t.Errorf("%q: finding %+v is not whole", text, finding)
			}
		}
	})
}
