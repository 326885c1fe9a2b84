package web

import (
	"testing"
	"time"

	apipb "lehr.dev/gen/lehr/api/v1"
	"lehr.dev/internal/annealing/explain"
	"lehr.dev/internal/ground/intent"
)

// A chain that explain makes now and one that it makes later are one text,
// and what a person wrote in it stays whole.
func TestChainsDoNotAge(t *testing.T) {
	now := time.Date(2026, 11, 21, 22, 0, 0, 0, time.UTC)
	head := intent.IncarnationID{Partition: "shop", Sequence: 7}
	report := intent.Report{Asset: "web", State: intent.StateInSync, Target: head, At: now}
	facts := map[string]explain.Facts{
		"in sync": {},
		"stopped": {Stop: &intent.Stop{Partition: "shop", Owner: intent.Actor{Name: "ann"}, Since: now, Reason: "it broke 5m ago"}},
		"held":    {Blocked: &intent.Candidate{State: intent.CandidateHeld, Created: now}},
	}
	for name, f := range facts {
		f.Asset, f.Partition, f.Head = "web", "shop", head
		f.Reports = map[intent.AssetID]intent.Report{"web": report}
		f.Members = map[intent.AssetID]intent.Member{"web": {Asset: "web"}}
		var first string
		for _, after := range []time.Duration{0, 7 * time.Second, 3 * time.Minute, 26 * time.Hour, 99 * time.Hour} {
			f.Now = now.Add(after)
			answer := explain.Explain(f)
			why := &apipb.WhyResponse{Summary: answer.Summary}
			for _, reason := range answer.Reasons {
				why.Reasons = append(why.Reasons, &apipb.Reason{Kind: reason.Kind, Text: reason.Text})
			}
			ageless(why)
			text := why.Summary + "\n" + why.Reasons[0].Text
			if first == "" {
				first = text
				t.Logf("%s: %s", name, text)
			}
			if text != first {
				t.Errorf("%s: after %s it is %q, before %q", name, after, text, first)
			}
		}
		if name == "stopped" && first != "partition shop is stopped by ann: it broke 5m ago\npartition shop is stopped by ann: it broke 5m ago" {
			t.Errorf("stopped: %q", first)
		}
	}
}
