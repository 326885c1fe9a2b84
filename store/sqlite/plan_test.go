package sqlite

import (
	"strings"
	"testing"
)

// TestPlansFollowTheChange: the statements whose cost must follow the change
// search by what changed, not through the whole partition.
func TestPlansFollowTheChange(t *testing.T) {
	db, err := Memory()
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	s, err := Open(t.Context(), Options{DB: db})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	for _, c := range []struct {
		name, text string
		arguments  int
		searches   []string
	}{
		{"changes", changes, 5, []string{
			"COVERING INDEX member_from (partition=? AND from_seq>? AND from_seq<?)", "COVERING INDEX member_to (partition=? AND to_seq>? AND to_seq<?)",
			"b USING PRIMARY KEY (partition=? AND asset=?", "a USING PRIMARY KEY (partition=? AND asset=?"}},
		{"changed buckets", changedBuckets, 2, []string{
			"COVERING INDEX member_from (partition=? AND from_seq=?)", "COVERING INDEX member_to (partition=? AND to_seq=?)"}},
		{"members of a bucket", membersOfBucket, 2, []string{"COVERING INDEX member_bucket (partition=? AND bucket=?)"}},
		{"rows of an asset", rowsOfAsset, 3, []string{"PRIMARY KEY (partition=? AND asset=?)"}},
		{"edges to an asset", edgesOf("to_asset"), 3, []string{"edge_target (partition=? AND to_asset=?)"}},
		{"edges from an asset", edgesOf("from_asset"), 3, []string{"PRIMARY KEY (partition=? AND from_asset=?)"}},
	} {
		rows, err := db.QueryContext(t.Context(), "EXPLAIN QUERY PLAN "+c.text, make([]any, c.arguments)...)
		if err != nil {
			t.Fatalf("%s: %v", c.name, err)
		}
		var plan []string
		for rows.Next() {
			var id, parent, unused int
			var step string
			if err := rows.Scan(&id, &parent, &unused, &step); err != nil {
				t.Fatal(err)
			}
			plan = append(plan, step)
		}
		rows.Close()
		for _, search := range c.searches {
			if !strings.Contains(strings.Join(plan, "\n"), search) {
				t.Errorf("%s: does not search by %s:\n%s", c.name, search, strings.Join(plan, "\n"))
			}
		}
	}
}
