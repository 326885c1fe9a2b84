package relational_test

import (
	"maps"
	"testing"

	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/store/sqlite"
)

// TestANewOwnerCountsReports: what an owner of an older version wrote and did not count is right once another one acts.
func TestANewOwnerCountsReports(t *testing.T) {
	db, err := sqlite.Memory()
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	s, err := sqlite.Open(t.Context(), sqlite.Options{DB: db})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if err := s.AddPartition(t.Context(), "shop", "/lehr.yaml", "a try", intent.Actor{Name: "tester"}); err != nil {
		t.Fatal(err)
	}
	lease, err := s.Acquire(t.Context(), "shop", "test")
	if err != nil {
		t.Fatal(err)
	}
	if err := s.SaveReports(t.Context(), lease, []intent.Report{{Asset: "a", State: intent.StateInSync}, {Asset: "b", State: intent.StateWaiting}}); err != nil {
		t.Fatal(err)
	}
	for _, older := range []string{
		"UPDATE report SET state = 'pushing' WHERE asset = 'b'",
		"INSERT INTO report (partition, asset, state, record, settled) SELECT partition, 'c', 'in-sync', record, settled FROM report WHERE asset = 'a'",
	} {
		if _, err := db.ExecContext(t.Context(), older); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := s.Acquire(t.Context(), "shop", "test"); err != nil {
		t.Fatal(err)
	}
	counts, err := s.CountReports(t.Context(), "shop")
	if err != nil {
		t.Fatal(err)
	}
	if want := map[intent.State]int{intent.StateInSync: 2, intent.StatePushing: 1}; !maps.Equal(counts, want) {
		t.Errorf("counts are %v, want %v", counts, want)
	}
}
