package explain_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"lehr.dev/internal/annealing/explain"
	"lehr.dev/internal/ground/intent"
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

// TestPushesEndTheirEvents: a push that was reported once lasts as long as it was under way,
// not until the next report that was kept; and after it the asset is in sync.
func TestPushesEndTheirEvents(t *testing.T) {
	at := func(seconds int) time.Time { return now.Add(time.Duration(seconds) * time.Second) }
	span := func(push string, from, to int, done bool) explain.PushSpan {
		return explain.PushSpan{Push: intent.PushID(push), From: at(from), To: at(to), Done: done}
	}
	report := func(seconds int, state intent.State, push string) intent.Report {
		r := intent.Report{At: at(seconds), State: state, Push: intent.PushID(push)}
		if state == intent.StateWaiting {
			r.Waiting = []intent.WaitingOn{{Kind: intent.WaitHold, Reason: "held"}}
		}
		return r
	}
	for name, c := range map[string]struct {
		reports []intent.Report
		pushes  []explain.PushSpan
		want    string
	}{
		"in sync, and seen again later": {
			[]intent.Report{report(0, intent.StateWaiting, ""), report(1, intent.StatePushing, "p1"), report(23, intent.StateWaiting, "")},
			[]explain.PushSpan{span("p1", 1, 4, true)},
			"waiting 0-1, pushing 1-4, in-sync 4-23, waiting 23-",
		},
		"reported late": {
			[]intent.Report{report(1, intent.StatePushing, "p1"), report(23, intent.StateInSync, "")},
			[]explain.PushSpan{span("p1", 1, 4, true)},
			"pushing 1-4, in-sync 4-",
		},
		"it failed": {
			[]intent.Report{report(1, intent.StatePushing, "p1"), report(23, intent.StateWaiting, "")},
			[]explain.PushSpan{span("p1", 1, 4, false)},
			"pushing 1-4, waiting 23-",
		},
		"under way": {[]intent.Report{report(1, intent.StatePushing, "p1")}, nil, "pushing 1-"},
		"repaired twice": {
			[]intent.Report{report(0, intent.StateInSync, "")},
			[]explain.PushSpan{span("p2", 20, 22, true), span("p1", 10, 13, true)},
			"in-sync 0-10, in-sync 13-20, in-sync 22-",
		},
		"it waits after it": {
			[]intent.Report{report(0, intent.StateWaiting, ""), report(9, intent.StateInSync, "")},
			[]explain.PushSpan{span("p1", 2, 4, true)},
			"waiting 0-9, in-sync 9-",
		},
		"of before what is kept": {
			[]intent.Report{report(9, intent.StateInSync, "")}, []explain.PushSpan{span("p1", 2, 4, true)}, "in-sync 9-",
		},
	} {
		var got []string
		for _, e := range explain.EndPushes(explain.Reports(c.reports), c.pushes) {
			text := fmt.Sprintf("%s %d-", e.Kind, int(e.At.Sub(now).Seconds()))
			if !e.Until.IsZero() {
				text += fmt.Sprint(int(e.Until.Sub(now).Seconds()))
			}
			got = append(got, text)
		}
		if got := strings.Join(got, ", "); got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
}
