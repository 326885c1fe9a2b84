package relational_test

import (
	"fmt"
	"testing"

	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/store"
	"lehr.dev/internal/store/sqlite"
)

// TestSearchWithoutRoom: what finds no room in memory is searched in the database, and found alike.
func TestSearchWithoutRoom(t *testing.T) {
	for _, most := range []int{0, 40, 200, 10_000} {
		db, err := sqlite.Memory()
		if err != nil {
			t.Fatal(err)
		}
		s, err := sqlite.Open(t.Context(), sqlite.Options{DB: db})
		if err != nil {
			t.Fatal(err)
		}
		s.LimitNames(most)
		by := intent.Actor{Name: "tester"}
		for p := range 20 {
			id := intent.PartitionID(fmt.Sprintf("p%02d", p))
			if err := s.AddPartition(t.Context(), id, "/lehr.yaml", "a try", by); err != nil {
				t.Fatal(err)
			}
			lease, err := s.Acquire(t.Context(), id, "test")
			if err != nil {
				t.Fatal(err)
			}
			var delta []store.Entry
			for i := range p % 5 {
				digest := intent.BodyDigest([]byte("x"))
				delta = append(delta, store.Entry{Asset: intent.AssetID(fmt.Sprintf("web/%d", i)), Body: []byte("x"), Member: intent.Member{
					Asset: intent.AssetID(fmt.Sprintf("web/%d", i)), Type: "lehr.command.v1.Command", Digest: digest, Effective: digest,
				}})
			}
			if err := s.Stage(t.Context(), lease, intent.IncarnationID{}, delta); err != nil {
				t.Fatal(err)
			}
			if _, err := s.Publish(t.Context(), lease, intent.Incarnation{ID: intent.IncarnationID{Partition: id, Sequence: 1}, Author: by}); err != nil {
				t.Fatal(err)
			}
		}
		for round := range 3 {
			found, err := s.SearchAssets(t.Context(), store.SearchFilter{Fragment: "b/1"}, func(intent.PartitionID, intent.AssetID) (taken, more bool) { return true, true })
			if err != nil {
				t.Fatal(err)
			}
			if len(found) != 12 || found[0].Partition != "p02" || found[11].Partition != "p19" {
				t.Errorf("with room for %d bytes, round %d: %d are found: %v", most, round, len(found), found)
			}
			if bytes := s.NameBytes(); bytes > most {
				t.Errorf("%d bytes are kept where %d may be", bytes, most)
			}
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		db.Close()
	}
}
