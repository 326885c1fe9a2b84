package starlark_test

import (
	"strings"
	"testing"
)

// FuzzLayers lays any text over any other: it is decoded, or refused at a place
// that one of them has.
func FuzzLayers(f *testing.F) {
	const base = "service: shop\nbinary: /b\nversion: v1\nclusters:\n- {name: a, replicas: 1, base_port: 2000}\n"
	for _, above := range []string{
		"version: v2\n", "clusters: {a: {replicas: 2}}\n", "clusters: {b: {replicas: 2}}\n", "version: null\n", "- a\n", "env: {A: &x b, C: *x}\n", "<<: {a: b}\n", "a: [\n", "",
		"env: {A: |\n  b\n  c\n}\n", "env:\n  A: |\n    b\n    c\nversion: [x]\n", "clusters:\n  a:\n    name: null\n", "\"service\": 'x'\n", "? [a]\n: b\n", "version: !!int 3\n", "binary: 'it''s'\nlabels: {\"a\\tb\": c}\n",
	} {
		f.Add(base, above)
		f.Add(above, base)
	}
	f.Fuzz(func(t *testing.T, below, above string) {
		files := map[string]string{
			"main.star": "def generate(ctx):\n    decode('lehr.model.v1.WebService', ['a.yaml', 'b.yaml'])\n    return []\n",
			"a.yaml":    below, "b.yaml": above,
		}
		for _, finding := range evaluate(t, files).Findings {
			text, ok := files[finding.File]
			lines := 1
			for _, r := range text { // YAML knows more breaks than one.
				if strings.ContainsRune("\n\r\u0085\u2028\u2029", r) {
					lines++
				}
			}
			if strings.Contains(finding.Message, "crashed") || !ok || finding.Line < 1 || finding.Line > lines+1 {
				t.Errorf("%s:%d: %s", finding.File, finding.Line, finding.Message)
			}
		}
	})
}
