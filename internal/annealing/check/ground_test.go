package check

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"lehr.dev/internal/ground/intent"
)

// TestGrounds: what a push rests on is told with its values; what found nothing to look
// at is left out; a check of the policy says its own fact.
func TestGrounds(t *testing.T) {
	until := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	f := Facts{
		Now: until.Add(-time.Hour), Asset: "job", Mode: Enforce,
		Order:    []Neighbour{{Asset: "db", Known: true, Until: until}},
		Capacity: []Supply{{Neighbour: Neighbour{Asset: "lb", Known: true}, Serving: true, Serves: "tasks", Own: Amount{5, 3}, Other: Amount{3, 3}}},
		Version:  []Need{{Neighbour: Neighbour{Asset: "schema", Known: true}, AtLeast: "2", Declares: "2.1"}},
		Overrides: []intent.Override{{
			Check: "office", By: intent.Actor{Name: "ann"}, Reason: "an incident", Created: until.Add(-2 * time.Hour), Until: until,
		}},
		Allowed: []string{"office"},
	}
	d := Decision{Verdicts: Decide(f).Verdicts}
	d.Verdicts = append(d.Verdicts, intent.Passed("errors", until).Rests("error_ratio %g < %g, %d s old", 0.004, 0.02, 8),
		f.overridden(intent.Waits("office", intent.WaitingOn{Kind: intent.WaitCalendar})))
	want := []intent.Ground{
		{Check: "order", Fact: "db in sync", Until: until},
		{Check: "capacity", Fact: "lb expects 3 of tasks, job would serve 3"},
		{Check: "version", Fact: "schema declares 2.1, at least 2 is needed"},
		{Check: "errors", Fact: "error_ratio 0.004 < 0.02, 8 s old", Until: until},
		{Check: "office", Fact: "overridden by ann: an incident", Until: until},
	}
	if diff := cmp.Diff(want, d.Grounds(f)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestGroundsAreBounded: however much checks say, little of it is kept.
func TestGroundsAreBounded(t *testing.T) {
	var many []intent.Ground
	for range 100 {
		many = append(many, intent.Ground{Check: "c", Fact: strings.Repeat("ä", 200)})
	}
	kept := intent.Bounded(many)
	if len(kept) != 25 || len(kept[0].Fact) > 200 || !strings.HasSuffix(kept[0].Fact, "ä…") || kept[24].Fact != "76 more checks passed" {
		t.Errorf("%d: %q, %v", len(kept), kept[0].Fact, kept[len(kept)-1])
	}
}
