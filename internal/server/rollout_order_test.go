package server

import (
	"strings"
	"testing"

	apipb "lehr.dev/gen/lehr/api/v1"
)

// TestRolloutsAreInOrder: each is listed after those that it comes after, also where
// they come after each other, else by name.
func TestRolloutsAreInOrder(t *testing.T) {
	for after, want := range map[string]string{
		"a b c":           "a b c",
		"a>c b c":         "c a b",
		"a>b b>c c":       "c b a",
		"a>c,b b>d c d":   "d b c a",
		"a>b b>a":         "b a",
		"a>nowhere b":     "a b",
		"prod>eu eu>test": "eu prod",
	} {
		named := map[string]*apipb.Rollout{}
		for word := range strings.FieldsSeq(after) {
			name, before, ordered := strings.Cut(word, ">")
			named[name] = &apipb.Rollout{Name: name}
			if ordered {
				named[name].After = strings.Split(before, ",")
			}
		}
		var got []string
		for _, rollout := range inOrder(named) {
			got = append(got, rollout.Name)
		}
		if got := strings.Join(got, " "); got != want {
			t.Errorf("%s: %s, want %s", after, got, want)
		}
	}
}
