package validation_test

import (
	"fmt"
	"testing"
	"time"

	"lehr.dev/internal/ground/validation"
)

// BenchmarkLargest is an assessment of as many samples and intervals as there may be.
func BenchmarkLargest(b *testing.B) {
	r := noise(1)
	s := validation.Settings{Interval: 6 * time.Minute, Intervals: 24, Step: 4 * time.Second}
	var readings []validation.Reading
	for i := range 10 {
		s.Metrics = append(s.Metrics, measure(fmt.Sprint(i)))
		readings = append(readings, validation.Reading{
			Metric:     fmt.Sprint(i),
			Control:    validation.Side{Samples: drawn(changed.Add(-144*time.Minute), changed, 4*time.Second, normal(r, 100, 10))},
			Experiment: validation.Side{Samples: drawn(changed, changed.Add(144*time.Minute), 4*time.Second, normal(r, 100, 10))},
		})
	}
	for b.Loop() {
		if a := assess(b, s, 144*time.Minute, readings...); a.Verdict != validation.Good {
			b.Fatalf("%s: %s", a.Verdict, a.Why)
		}
	}
}
