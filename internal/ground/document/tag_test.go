package document_test

import (
	"testing"

	"go.yaml.in/yaml/v3"

	"lehr.dev/internal/ground/document"
)

func TestUnknownTags(t *testing.T) {
	for text, line := range map[string]int{
		"a: 1\nb: {c: [x, \"y\"]}\n<<: {}\n": 0, "a: !!str 1\nb: !!int 2\nc: !!map {}\nd: !!seq []\ne: !!null\nf: !!binary eA==\ng: ! x\n": 0,
		"a: !<tag:yaml.org,2002:str> x\n": 0, "a: 1\nb: !vault |\n  x\n": 2, "a: !include x.yaml\n": 1, "!x\na: 1\n": 1, "a:\n- !x {}\n": 2, "a: !x []\n": 1, "? !x a\n: 1\n": 1,
		"a: !!python/object/apply:os.system [x]\n": 1, "a: !!set {x, y}\n": 1, "a: !!map x\n": 1, "a: !!str {}\n": 1, "a: !<!x> y\n": 1, "%TAG !e! tag:example.com,2000:\n---\na: !e!x y\n": 3,
	} {
		var node yaml.Node
		if err := yaml.Unmarshal([]byte(text), &node); err != nil {
			t.Fatal(text, err)
		}
		at, ok := document.UnknownTag(&node)
		if ok != (line > 0) || ok && at.Line != line {
			t.Errorf("%q: %v, %t", text, at, ok)
		}
	}
}
