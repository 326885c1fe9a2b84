package sampling

import (
	"slices"

	"lehr.dev/internal/external/placeholder"
	"lehr.dev/internal/ground/validation"
)

// Alone are the settings where nothing is left that did not change, as in the last stage
// of a rollout: a metric that would be compared with that is compared with before, and
// says so. One whose control is something else than the rollout's assets stays as it is.
func Alone(s validation.Settings) validation.Settings {
	s.Metrics = slices.Clone(s.Metrics)
	for i := range s.Metrics {
		m := &s.Metrics[i]
		if m.Compare == validation.Control && (m.Source.Control == "" || placeholder.Uses(m.Source.Control, "asset", "scope")) {
			m.Compare, m.Alone = validation.Before, true
		}
	}
	return s
}
