package relational_test

import (
	"testing"
	"time"

	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/store"
	"lehr.dev/internal/store/sqlite"
	"lehr.dev/internal/store/storetest"
)

// TestFieldRows: a change writes the rows of the fields that changed and no
// others, and what is unstaged or collected leaves none behind.
func TestFieldRows(t *testing.T) {
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
	rows := func(want int, when string) {
		t.Helper()
		var got int
		if err := db.QueryRowContext(t.Context(), "SELECT count(*) FROM field").Scan(&got); err != nil || got != want {
			t.Errorf("%s: %d rows of fields, %v, want %d", when, got, err, want)
		}
	}
	lease := storetest.Register(t, s)
	asset := func(text, version string) store.Entry {
		e := storetest.Text("a", text)
		e.Fields = []intent.Field{{Path: "version", Value: version}, {Path: "name", Value: "n"}, {Path: "addon"}}
		return e
	}
	other := storetest.Text("b", "1")
	other.Fields = []intent.Field{{Path: "version", Value: "1"}}
	storetest.Publish(t, s, lease, []store.Entry{asset("1", "1"), other})
	rows(4, "four fields of two assets")
	storetest.Publish(t, s, lease, []store.Entry{asset("2", "2")})
	rows(5, "one field changed")
	head := storetest.Publish(t, s, lease, []store.Entry{asset("3", "2")})
	rows(5, "none changed")
	if err := s.Stage(t.Context(), lease, head.ID, []store.Entry{asset("4", "4"), {Asset: "b", Removed: true}}); err != nil {
		t.Fatal(err)
	}
	rows(6, "staged")
	if err := s.Unstage(t.Context(), lease); err != nil {
		t.Fatal(err)
	}
	rows(5, "unstaged")
	if _, err := s.Collect(t.Context(), lease, store.Retention{Incarnations: 1}, time.Now().Add(time.Hour)); err != nil {
		t.Fatal(err)
	}
	rows(4, "all but head collected")
}
