package generate

import (
	"context"
	"errors"
	"slices"
	"testing"

	"lehr.dev/prodspec/generate/starlark"
	"lehr.dev/schema"
)

// TestEverythingIsListedInOneOrder: it is written to the cache.
func TestEverythingIsListedInOneOrder(t *testing.T) {
	one := []Input{{Name: "a"}}
	job := Job{Files: one, Programs: one, Assets: one}
	first := everything(job)
	for range 50 {
		if again := everything(job); !slices.Equal(first, again) {
			t.Fatalf("%v, and before %v", again, first)
		}
	}
}

// TestNothingIsOpenedAfterTheEnd: how far a program gets that is being stopped
// is left to chance, and so is nothing that others see.
func TestNothingIsOpenedAfterTheEnd(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	job := Job{Program: "p.star", Programs: []Input{{Name: "p.star"}}, Files: []Input{{Name: "a"}, {Name: "b"}}}
	var opened []string
	_, err := InProcess{Limits: DefaultLimits()}.Run(ctx, schema.Builtin(), []Job{job}, func(kind starlark.Kind, input Input) ([]byte, error) {
		if kind == starlark.ReadProgram {
			return []byte("def generate(ctx):\n    ctx.files.items()\n    return []\n"), nil
		}
		opened = append(opened, input.Name)
		cancel()
		return nil, nil
	})
	if !errors.Is(err, context.Canceled) || !slices.Equal(opened, []string{"a"}) {
		t.Errorf("opened %v, ended with %v", opened, err)
	}
}
