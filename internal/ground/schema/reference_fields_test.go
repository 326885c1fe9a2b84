package schema

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"lehr.dev/internal/ground/fault"
)

func TestReferenceFields(t *testing.T) {
	set := Builtin()
	fields, err := set.ReferenceFields("lehr.intent.v1.Dependencies")
	if want := []ReferenceField{{Path: "dependencies[].on"}}; err != nil || !cmp.Equal(fields, want) {
		t.Errorf("%+v, %v, want %+v", fields, err, want)
	}
	if fields, err := set.ReferenceFields("lehr.intent.v1.Owner"); err != nil || len(fields) > 0 {
		t.Errorf("an owner names no asset: %+v, %v", fields, err)
	}
	if _, err := set.ReferenceFields("no.such.Type"); !fault.Is(err, fault.NotFound) {
		t.Errorf("%v, want that it is not found", err)
	}
}
