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
