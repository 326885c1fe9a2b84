package hclnesting

import (
	"strings"
	"testing"
)

func TestWhatIsNestedTooDeepIsFound(t *testing.T) {
	deep := func(opening string) string { return strings.Repeat(opening, 2_000) }
	for name, text := range map[string]string{
		"brackets": "a = " + deep("["), "signs": "a = " + deep("!"), "choices": "a = " + strings.Repeat("b ? c : ", 6_000) + "d",
		"templates": "a = " + deep(`"${`), "blocks": deep("a {\n"),
	} {
		if !IsTooDeep([]byte(text)) {
			t.Errorf("%s are not found", name)
		}
	}
	if IsTooDeep([]byte("a = [" + strings.Repeat("[1], ", 2_000) + "]\n")) {
		t.Error("what lies side by side is taken for nested")
	}
	for name, text := range map[string]string{
		"no JSON": deep("{"), "brackets": deep("[") + strings.Repeat("]", 2_000)[:1_999],
		"in a text": `{"a": "${` + deep("[") + `}"}`, "in a name": `{"${` + deep("(") + `}": 1}`,
	} {
		if !IsTooDeepJSON([]byte(text)) {
			t.Errorf("%s: it is not found", name)
		}
	}
	for _, text := range []string{"{", `{"a": "` + deep("[") + `"}`, `{"a": [` + strings.Repeat("[1], ", 2_000) + "2]}"} {
		if IsTooDeepJSON([]byte(text)) {
			t.Errorf("it is taken for nested: %.40s", text)
		}
	}
}
