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

// TestReportIsWorthRewritingForWhyItIsUnhealthy: a rollout judges by what is stored, and tells
// its reason. While an asset is healthy its reason makes no other report.
func TestReportIsWorthRewritingForWhyItIsUnhealthy(t *testing.T) {
	key := func(state HealthState, reason string) uint64 {
		return Report{State: StateInSync, Health: Health{State: state, Reason: reason}}.Key()
	}
	if key(Unhealthy, "the controller has not looked yet") == key(Unhealthy, "web: ImagePullBackOff") {
		t.Error("what is found out later is not told")
	}
	if key(Unhealthy, "2 of 5 replicas are ready") != key(Unhealthy, "3 of 5 replicas are ready") {
		t.Error("a number alone makes another report")
	}
	if key(Healthy, "all is well") != key(Healthy, "all is very well") {
		t.Error("what is healthy is told again for its words")
	}
}
