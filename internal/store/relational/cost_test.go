package relational_test

import (
	"fmt"
	"testing"

	"lehr.dev/internal/store"
	"lehr.dev/internal/store/sqlite"
	"lehr.dev/internal/store/storetest"
)

// open opens a store that is closed when the test ends.
func open(t testing.TB, path string) *sqlite.Store {
	t.Helper()
	s, err := sqlite.Open(t.Context(), sqlite.Options{Path: path})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// TestCostFollowsTheChange: one changed asset costs as many rows among many
// assets as among few.
func TestCostFollowsTheChange(t *testing.T) {
	cost := func(count int) int64 {
		s := open(t, t.TempDir()+"/lehr.db")
		lease := storetest.Register(t, s)
		delta := make([]store.Entry, count)
		for i := range delta {
			delta[i] = storetest.Text(fmt.Sprintf("asset/%d", i), fmt.Sprint("content ", i))
		}
		storetest.Publish(t, s, lease, delta)
		before := s.RowsWritten()
		storetest.Publish(t, s, lease, []store.Entry{storetest.Text("asset/7", "changed")})
		return s.RowsWritten() - before
	}
	few, many := cost(10), cost(5000)
	if few != many || few > 20 {
		t.Errorf("one change wrote %d rows among 10 assets, %d among 5000", few, many)
	}
}
