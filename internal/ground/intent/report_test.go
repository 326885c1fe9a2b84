package intent

import "testing"

func TestReportIsWorthRewritingForWordsNotForNumbers(t *testing.T) {
	waits := func(reason string) uint64 {
		return Report{State: StateWaiting, Waiting: []WaitingOn{{Kind: WaitPlugin, Reason: reason}}}.Key()
	}
	if waits("push 3 failed: process 4711 listens") != waits("push 12 failed: process 1 listens") {
		t.Error("a number alone makes another report")
	}
	if waits("plugin x is starting") == waits("no program x") {
		t.Error("another cause is not told")
	}
}

func TestReportIsWorthRewritingForWhatIsLeftToProduction(t *testing.T) {
	left := func(changes ...FieldChange) uint64 { return Report{State: StateInSync, Unmanaged: changes}.Key() }
	if left() == left(FieldChange{Path: "replicas", Current: "5"}) {
		t.Error("a field that is now left to production is not told")
	}
	if left(FieldChange{Path: "replicas", Current: "5"}) != left(FieldChange{Path: "replicas", Current: "6"}) {
		t.Error("each value that an autoscaler chooses makes another report")
	}
	if left() == (Report{State: StateInSync, Absent: true}).Key() {
		t.Error("a completed turndown is not told")
	}
}
