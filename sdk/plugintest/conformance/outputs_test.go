package conformance

import (
	"strings"
	"testing"

	"lehr.dev/internal/pluginhost/plugin"
)

// TestOutputsThatChangeAreCaught, and those beyond limits; what stays the same passes.
func TestOutputsThatChangeAreCaught(t *testing.T) {
	notShort(t)
	const rule = "outputs stay the same"
	for _, c := range []struct {
		lie, says string
		outcome   Outcome
	}{
		{"", "it tells no outputs", Passed},
		{"tells an output", "", Passed},
		{"tells an output that changes", "two looks at what did not change", Failed},
		{"tells a megabyte of outputs", "at most 4000 are taken", Failed},
	} {
		t.Run(strings.ReplaceAll(c.lie, " ", "-"), func(t *testing.T) {
			t.Parallel()
			result := checkRules(t, plugin.Unguarded, c.lie, rule, "create from nothing", rule).result(t, rule)
			if result.Outcome != c.outcome || !strings.Contains(result.Detail, c.says) {
				t.Errorf("%+v, want %s because %q", result, c.outcome, c.says)
			}
		})
	}
}
