package written

import (
	"strings"
	"testing"
)

func TestLineOf(t *testing.T) {
	const text = "# a comment\nkind: A\nspec:\n  list:\n  - name: x\n    value: 1.10\n  - {name: y, value: 2}\n---\nkind: List\nitems:\n- kind: B\n  data: &d\n    on: True\n  more: *d\n"
	const object = "{\n \"kind\": \"C\",\n \"spec\": {\n  \"n\": 3\n }\n}\n"
	for _, test := range []struct {
		text, path, excerpt string
		begins, line        int
	}{
		{text, "kind", "kind: A", 2, 2},
		{text, "spec list 0 value", "value: 1.1", 2, 6},
		{text, "spec list 1 value", "value: 2", 2, 7},
		{text, "spec list 1", "", 2, 7},
		// A patch gave it another value.
		{text, "spec list 1 value", "value: 3", 2, 0},
		{text, "kind", "kind: a", 2, 0},
		{text, "spec list 2", "", 2, 0},
		{text, "spec none", "", 2, 0},
		{text, "kind", "kind: B", 11, 11},
		{text, "data on", "on: true", 11, 13},
		{text, "more on", "on: true", 11, 13},
		{text, "kind", "", 3, 0},
		{object, "spec n", "n: 3", 1, 4},
		{"def generate(ctx):\n    return [asset()]\n", "spec", "", 2, 0},
	} {
		line, ok := LineOf([]byte(test.text), test.begins, strings.Fields(test.path), test.excerpt)
		if line != test.line || ok != (test.line > 0) {
			t.Errorf("%q of what begins at line %d: %d %v, want %d", test.path, test.begins, line, ok, test.line)
		}
	}
}
