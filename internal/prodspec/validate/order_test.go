package validate

import (
	"slices"
	"strings"
	"testing"

	processpb "lehr.dev/gen/lehr/process/v1"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/ground/schema"
)

// TestFindingsOfAMapKeepTheirOrder: they are stored with the candidate.
func TestFindingsOfAMapKeepTheirOrder(t *testing.T) {
	job := &processpb.Job{Name: "a", Binary: "/bin/true", Env: map[string]string{"a b": "x", "c d": "x", "e f": "x", "g h": "x"}}
	payload, err := schema.Builtin().Pack(job)
	if err != nil {
		t.Fatal(err)
	}
	contents, err := NewContents(schema.Builtin())
	if err != nil {
		t.Fatal(err)
	}
	for range 20 {
		findings := contents.Judge(intent.Asset{ID: "a", Payload: payload}, LinkedTypes)
		if len(findings) < 4 || !slices.IsSortedFunc(findings, func(a, b intent.Finding) int { return strings.Compare(a.Field, b.Field) }) {
			t.Fatalf("findings %+v", findings)
		}
	}
}
