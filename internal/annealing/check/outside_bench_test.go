package check

import (
	"fmt"
	"testing"

	"google.golang.org/protobuf/proto"

	intentpb "lehr.dev/gen/lehr/intent/v1"
)

// BenchmarkSides is what an answer of the most series costs for each asset that
// waits for it.
func BenchmarkSides(b *testing.B) {
	c := Configure(&intentpb.Check{Name: "errors", Kind: &intentpb.Check_Query{Query: &intentpb.Metric{
		Prometheus: "main", Query: "errors", Below: proto.Float64(1), Labels: map[string]string{"job": "id"},
	}}}, builtin)
	a := Answer{At: now}
	for i := range 2000 {
		a.Samples = append(a.Samples, sample(0.5, "job", fmt.Sprint("job", i), "cluster", "a", "service", "b"))
	}
	facts := Facts{Now: now, Own: map[*Configured]Own{c: {Labels: map[string]string{"job": "job7"}}}, Checks: []Required{{Configured: c}}, Answers: map[Question]Answer{*c.Question: a.Indexed()}}
	for b.Loop() {
		Sides(facts)
	}
}
