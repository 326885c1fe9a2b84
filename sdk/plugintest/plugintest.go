// Package plugintest checks from a test that a plugin program keeps the
// protocol: over the real wire, with real effects on one example resource that
// the author gives (see package conformance). Authors of plugins call Run.
package plugintest

import (
	"context"
	"testing"

	"lehr.dev/sdk/plugintest/conformance"
)

// The words of package conformance.
type (
	Target  = conformance.Target
	Secret  = conformance.Secret
	Result  = conformance.Result
	Outcome = conformance.Outcome
)

const (
	Passed  = conformance.Passed
	Failed  = conformance.Failed
	Skipped = conformance.Skipped
)

// Check runs all checks and returns their results in order.
func Check(ctx context.Context, target Target) []Result {
	return conformance.Check(ctx, target).Results
}

// Run checks the target as subtests of t, and logs the measured class.
func Run(t *testing.T, target Target) {
	t.Helper()
	report := conformance.Check(t.Context(), target)
	t.Logf("guarantee class: declared %q, measured %q", report.Declared, report.Measured)
	for _, result := range report.Results {
		t.Run(result.Name, func(t *testing.T) {
			switch result.Outcome {
			case Failed:
				t.Error(result.Detail)
			case Skipped:
				t.Skip(result.Detail)
			case Passed:
				if result.Detail != "" {
					t.Log(result.Detail)
				}
			}
		})
	}
}
