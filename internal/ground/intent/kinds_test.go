package intent_test

import (
	"os"
	"regexp"
	"testing"

	"lehr.dev/internal/ground/intent"
)

// TestListsAreComplete: whoever adds a state or a kind adds it to the list that others
// go through.
func TestListsAreComplete(t *testing.T) {
	source, err := os.ReadFile("report.go")
	if err != nil {
		t.Fatal(err)
	}
	for what, listed := range map[string]int{"State": len(intent.States()), "WaitingKind": len(intent.WaitingKinds())} {
		declared := regexp.MustCompile(`(?m)^\t\w+ +`+what+` += "`).FindAll(source, -1)
		if len(declared) != listed {
			t.Errorf("%d of type %s are declared, and %d are in the list", len(declared), what, listed)
		}
	}
}
