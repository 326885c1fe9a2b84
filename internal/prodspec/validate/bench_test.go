package validate_test

import (
	"fmt"
	"testing"

	intentpb "lehr.dev/gen/lehr/intent/v1"
	processpb "lehr.dev/gen/lehr/process/v1"

	"lehr.dev/internal/store"
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

// BenchmarkRules judges by a partition's own rules: one changed asset of many,
// and all of them when a rule is new.
func BenchmarkRules(b *testing.B) {
	const size = 10_000
	for name, r := range map[string]*intentpb.ValidationRule{
		"asset":         ownRule("r", `type == "Job"`, "payload.replicas >= 2", failing),
		"neighbourhood": {Id: "r", Where: `type == "Job"`, Must: "to.all(n, n.payload.replicas > 1)", Severity: failing, Scope: intentpb.ValidationRule_SCOPE_NEIGHBOURHOOD},
		"whole":         {Id: "r", Must: `count(type == "Job" && scope == key) >= 1`, Severity: failing, Scope: intentpb.ValidationRule_SCOPE_WHOLE},
	} {
		policy := policyOf(r)
		var all []store.Entry
		for i := range size {
			all = append(all, jobOf(b, fmt.Sprintf("job/%05d", i), 2, fmt.Sprint("c", i%50)))
		}
		w := newWorld(b)
		w.judge(policy, false, all[0])
		b.Run(name+", 10000 new", func(b *testing.B) {
			for b.Loop() {
				w.judge(policy, false, all...)
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*size), "ns/asset")
		})
		changed := jobOf(b, "job/00007", 3, "c7")
		w.publish(policy, nil, changed)
		b.Run(name+", one changed", func(b *testing.B) {
			for b.Loop() {
				w.judge(policy, false, changed)
			}
		})
	}
}
