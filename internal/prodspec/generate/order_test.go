package generate

import (
	"context"
	"errors"
	"slices"
	"testing"

	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/ground/schema"
	"lehr.dev/internal/prodspec/generate/work"
)

// TestEverythingIsListedInOneOrder: it is written to the cache.
func TestEverythingIsListedInOneOrder(t *testing.T) {
	one := []Input{{Name: "a"}}
	job := Job{Files: one, Programs: one, Assets: one}
	first := work.Everything(job)
	for range 50 {
		if again := work.Everything(job); !slices.Equal(first, again) {
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
	_, err := InProcess{Limits: DefaultLimits()}.Run(ctx, schema.Builtin(), []Job{job}, func(kind work.Kind, input Input) ([]byte, error) {
		if kind == work.ReadProgram {
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

// TestFindingsOfAMapKeepTheirOrder: they name the refused candidate.
func TestFindingsOfAMapKeepTheirOrder(t *testing.T) {
	manifest := "name: a\nreplicas: 1\nbinary: /bin/true\nenv: {\"a b\": x, \"c d\": x, \"e f\": x, \"g h\": x}\n"
	job := Job{Program: "p.star", Programs: []Input{{Name: "p.star"}}, Files: []Input{{Name: "job.yaml"}}}
	open := func(kind work.Kind, input Input) ([]byte, error) {
		if kind == work.ReadProgram {
			return []byte("def generate(ctx):\n    return [decode(\"lehr.process.v1.Job\", \"job.yaml\")]\n"), nil
		}
		return []byte(manifest), nil
	}
	for range 20 {
		results, err := InProcess{Limits: DefaultLimits()}.Run(t.Context(), schema.Builtin(), []Job{job}, open)
		if err != nil {
			t.Fatal(err)
		}
		findings := results[0].Findings
		if len(findings) != 4 || !slices.IsSortedFunc(findings, func(a, b intent.Finding) int { return a.Column - b.Column }) {
			t.Fatalf("findings %+v", findings)
		}
	}
}
