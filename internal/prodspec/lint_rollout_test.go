package prodspec_test

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"lehr.dev/internal/ground/document"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/prodspec"
	"lehr.dev/internal/prodspec/generate"
)

// TestLintOfRollouts: what selects nothing, stages without assets or groups, and fields
// that two stages share.
func TestLintOfRollouts(t *testing.T) {
	w := newWorld(t, "web")
	w.replace("lehr.yaml", "sources:", "sources:\n  knobs: {document: knobs}")
	w.replace("lehr.yaml", "checks:", `validations: {spare: {metrics: {m: {prometheus: main, query: errors_total, compare: none, at_most: 1}}}}
rollouts:
  all:
    select: type == "Job"
    stages: [{scopes: [a]}, {scopes: [z]}, {rest: true}]
    emergency: [{scopes: [a, b]}, {rest: true}]
    rollback: [{scopes: [b], by: scope zone}, {scopes: [y]}, {rest: true, by: scope cluster, order: [a, p]}]
  grouped:
    select: type == "Job"
    by: {document: knobs, field: "/grouped/{scope}"}
    stages: [{scopes: [a], by: scope zone}, {rest: true, by: label tier, order: [x]}]
  ordered:
    select: type == "Job"
    by: {document: knobs, field: "/ordered/{scope}"}
    stages: [{rest: true, by: scope cluster, order: [b, q]}]
  none: {select: id == "x", stages: [{rest: true}]}
  alike: {select: type == "Job", by: {document: knobs, field: /version}, stages: [{scopes: [a]}, {rest: true}]}
  apart: {select: type == "Job", by: {document: knobs, field: "/{scope}"}, stages: [{scopes: [a]}, {rest: true}]}
checks:`)
	program := prodspec.Program{Definition: filepath.Join(w.folder, "lehr.yaml"), Runner: generate.InProcess{Limits: generate.DefaultLimits()}, Elsewhere: w.elsewhere()}
	program.Elsewhere.Documents = func(context.Context, intent.PartitionID, string) (document.Document, error) {
		return document.Document{Name: "knobs", Revision: document.Revision{ID: "1"}, Content: []byte("{}")}, nil
	}
	built, err := prodspec.Lint(t.Context(), program, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	var said []string
	for _, f := range built.Findings {
		if strings.HasPrefix(f.Field, "rollouts.") || strings.HasPrefix(f.Field, "validations.") {
			said = append(said, fmt.Sprintf("%d %s %s", f.Line, f.Field, f.Message))
		}
	}
	want := []string{
		"31 rollouts.none.select the rollout none selects no asset, so everything goes on at once",
		"20 rollouts.all.stages[1] no asset belongs to the stage 2 of the rollout all",
		"21 rollouts.all.emergency[1] no asset belongs to the stage 2 of the rollout all",
		"22 rollouts.all.rollback[0] no asset of the stage 1 of the rollout all has what its by names, so all of them are one group",
		"22 rollouts.all.rollback[1] no asset belongs to the stage 2 of the rollout all",
		"22 rollouts.all.rollback[2] no asset of the stage 3 of the rollout all is in the group p, which its order names",
		"26 rollouts.grouped.stages[0] no asset of the stage 1 of the rollout grouped has what its by names, so all of them are one group",
		"26 rollouts.grouped.stages[1] no asset of the stage 2 of the rollout grouped has what its by names, so all of them are one group",
		"30 rollouts.ordered.stages[0] no asset of the stage 1 of the rollout ordered is in the group q, which its order names",
		"32 rollouts.alike.by.field the field /version is that of shop/a/frontend in the stage 1 and of shop/b/frontend in the stage 2, so both change at once",
		"16 validations.spare no rollout uses the validation spare",
	}
	if diff := cmp.Diff(want, said); diff != "" {
		t.Errorf("(-want +got):\n%s\n%+v", diff, built.Findings)
	}
}
