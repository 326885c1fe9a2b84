package explain_test

import (
	"slices"
	"testing"
	"time"

	"lehr.dev/internal/annealing/explain"
	"lehr.dev/internal/ground/intent"
)

// TestEveryKindHasAWayOut: whatever an asset waits for, the answer says what would end
// it, who owns the asset, since when it waits, and when it is looked at next; and for
// which sort of person it is.
func TestEveryKindHasAWayOut(t *testing.T) {
	for _, kind := range intent.WaitingKinds() {
		f := facts("web", waiting("web", intent.WaitingOn{Kind: kind, Reason: "so it is", Owner: "ann"}))
		f.Owner, f.Owners, f.Sweep = "shop@example.com", map[intent.AssetID]string{}, 30*time.Second
		root := explain.Explain(f).Root
		if root.Kind != string(kind) || root.Hint == "" || root.Responsible != "shop@example.com" || root.Since.IsZero() {
			t.Errorf("%s: %+v", kind, root)
		}
		if root.Next.Before(now) || root.Next.After(now.Add(f.Sweep)) {
			t.Errorf("%s: it is looked at next at %s", kind, root.Next)
		}
		if !slices.Contains(intent.Sorts(), kind.Sort()) {
			t.Errorf("%s is of no sort", kind)
		}
		f.Owners["web"] = "web@example.com"
		if root := explain.Explain(f).Root; root.Responsible != "web@example.com" {
			t.Errorf("%s: %s is responsible", kind, root.Responsible)
		}
		f.Problem = "it cannot act"
		for _, reason := range explain.Explain(f).Reasons {
			if !reason.Next.IsZero() {
				t.Errorf("%s: it is said to be looked at, and nothing acts: %+v", kind, reason)
			}
		}
	}
}

// TestNextLookBeyondTheSweep: the time that the report tells counts, and not the sweep,
// while it is to come.
func TestNextLookBeyondTheSweep(t *testing.T) {
	const sweep = 30 * time.Second
	for name, c := range map[string]struct{ planned, until, want time.Time }{
		"planned":  {planned: now.Add(6 * time.Hour), want: now.Add(6 * time.Hour)},
		"over":     {planned: now.Add(-time.Hour), want: now.Add(sweep)},
		"unknown":  {want: now.Add(sweep)},
		"an end":   {planned: now.Add(6 * time.Hour), until: now.Add(time.Minute), want: now.Add(time.Minute)},
		"the same": {planned: now.Add(4 * time.Minute), until: now.Add(4 * time.Minute), want: now.Add(4 * time.Minute)},
	} {
		report := waiting("web", intent.WaitingOn{Kind: intent.WaitPlugin, Until: c.until})
		report.Next = c.planned
		f := facts("web", report)
		f.Sweep = sweep
		if next := explain.Explain(f).Root.Next; !next.Equal(c.want) {
			t.Errorf("%s: it is looked at next at %s, want %s", name, next, c.want)
		}
	}
}

// TestEveryStateHasWords: the vocabulary is closed, and each word has its sentence.
func TestEveryStateHasWords(t *testing.T) {
	for _, state := range intent.States() {
		if state.Words() == intent.State("nonsense").Words() {
			t.Errorf("%s has no sentence", state)
		}
		if state == intent.StateModel {
			continue
		}
		if got := intent.Worst(map[intent.State]int{state: 1, intent.StateInSync: 3, intent.StateModel: 5}); got != state {
			t.Errorf("the worst of %s, in sync and models is %s", state, got)
		}
	}
	if got := intent.Worst(map[intent.State]int{intent.StateModel: 1}); got != intent.StateModel {
		t.Errorf("models alone are %s", got)
	}
}
