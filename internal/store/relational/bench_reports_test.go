package relational_test

import (
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/store/storetest"
)

// BenchmarkReports stores what a thousand healthy pushes report: under way, and in sync.
func BenchmarkReports(b *testing.B) {
	s := open(b, filepath.Join(b.TempDir(), "lehr.db"))
	lease := storetest.Register(b, s)
	const count = 1000
	groups := [2][]intent.Report{}
	for i := range count {
		for state, of := range []intent.State{intent.StatePushing, intent.StateInSync} {
			groups[state] = append(groups[state], intent.Report{Asset: intent.AssetID(fmt.Sprintf("a/%04d", i)), Type: "t", State: of, At: time.Unix(1, 0), Push: "push"})
		}
	}
	for i := 0; b.Loop(); i++ {
		if err := s.SaveReports(b.Context(), lease, groups[i%2]); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.N*count)/b.Elapsed().Seconds(), "reports/s")
}
