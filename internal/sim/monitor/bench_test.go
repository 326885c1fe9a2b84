package monitor

import (
	"fmt"
	"testing"

	"lehr.dev/internal/ground/intent"
)

// BenchmarkQuietCommit is what a commit costs in which there is nothing new.
func BenchmarkQuietCommit(b *testing.B) {
	r := newRun(b)
	var many []asset
	for i := range 100 {
		many = append(many, job(intent.AssetID(fmt.Sprintf("many/%03d", i)), "1"))
	}
	r.publish(many...)
	for _, a := range many {
		r.sight(a.id, "", false)
		r.report(a.id)
	}
	b.ResetTimer()
	for range b.N {
		r.Monitor.Commit()
	}
}

// BenchmarkPush is what admission, effect and end of a push cost.
func BenchmarkPush(b *testing.B) {
	r := newRun(b)
	b.ResetTimer()
	for range b.N {
		a := r.admit("a")
		r.effect(a)
		r.end(a, "pushed")
	}
}
