package web

import (
	"testing"

	"lehr.dev/internal/ground/intent"
)

// TestEveryStateIsShown: the page has a word for each state that there is.
func TestEveryStateIsShown(t *testing.T) {
	known := map[string]bool{string(intent.StateUnseen): true} // It has no report to show.
	for _, state := range states {
		known[state.name] = true
	}
	for _, state := range intent.States() {
		if !known[string(state)] || stateWord(string(state)) == "" {
			t.Errorf("the page has no word for %s", state)
		}
	}
	if len(known) != len(intent.States()) {
		t.Errorf("the page knows %d states, there are %d", len(known), len(intent.States()))
	}
}
