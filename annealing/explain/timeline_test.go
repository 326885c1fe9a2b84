package explain_test

import (
	"testing"
	"time"

	"lehr.dev/annealing/explain"
	"lehr.dev/intent"
)

// TestOneWaitIsOneEvent: a report is written anew for each head, also for one that does not
// concern the asset.
func TestOneWaitIsOneEvent(t *testing.T) {
	var past []intent.Report
	for n := range 25 {
		past = append(past, intent.Report{
			At: now.Add(time.Duration(n) * time.Minute), State: intent.StateWaiting, Target: intent.IncarnationID{Partition: "shop", Sequence: intent.Sequence(7 + n)},
			Effective: intent.Sum("v1"), Waiting: []intent.WaitingOn{{Kind: intent.WaitApproval, Reason: "needs an approval"}},
		})
	}
	other := past[24]
	other.At, other.Effective = now.Add(time.Hour), intent.Sum("v2")
	done := intent.Report{At: now.Add(2 * time.Hour), State: intent.StateInSync, Effective: intent.Sum("v2")}
	events := explain.Reports(append(past, other, done))
	if len(events) != 3 {
		t.Fatalf("%d events, want one for each content and one for the end: %+v", len(events), events)
	}
	if !events[0].At.Equal(now) || !events[0].Until.Equal(other.At) || !events[1].Until.Equal(done.At) || events[2].Kind != string(intent.StateInSync) {
		t.Errorf("events are %+v", events)
	}
}
