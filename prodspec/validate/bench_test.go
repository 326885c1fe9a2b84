package validate_test

import (
	"fmt"
	"testing"

	processpb "lehr.dev/gen/lehr/process/v1"

	"lehr.dev/store"
)

// BenchmarkRun judges candidates of assets that depend on one another.
func BenchmarkRun(b *testing.B) {
	for _, size := range []int{1, 10_000} {
		var delta []store.Entry
		for i := range size {
			on := []string{}
			if i > 0 {
				on = append(on, string(number(i-1)))
			}
			payload := &processpb.Job{Name: fmt.Sprint("job-", i), Binary: "/usr/bin/frontend", Replicas: 3, Args: []string{"--port={port}"}, Version: "1.2.3", BasePort: 8100}
			delta = append(delta, entry(b, number(i), payload, dependsOn(on...)))
		}
		b.Run(fmt.Sprint(size, " new assets"), func(b *testing.B) {
			w := newWorld(b)
			w.judge(nil, false, delta[0]) // compiles the rules
			for b.Loop() {
				if got := w.judge(nil, false, delta...); got.Rejected {
					b.Fatalf("%+v", got.Findings[0])
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*size), "ns/asset")
		})
	}
}
