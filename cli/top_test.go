package cli

import (
	"slices"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	apipb "lehr.dev/gen/lehr/api/v1"
)

func waits(asset string, minute int, kind, reason string, blockers ...string) *apipb.Report {
	return &apipb.Report{
		Asset: asset, At: timestamppb.New(time.Unix(0, 0).Add(time.Duration(minute) * time.Minute)), State: "waiting",
		Waiting: []*apipb.WaitingOn{{Kind: kind, Reason: reason, Blockers: blockers}},
	}
}

// TestCauses: what waits is told by what its chain ends with; a chain that goes round
// ends, too, and what nobody waits for any more is the last one's own.
func TestCauses(t *testing.T) {
	got := causes([]*apipb.Report{
		waits("db", 5, "approval", "needs a person's approval"),
		waits("api", 7, "order", "must come after db", "db"),
		waits("web", 8, "order", "must come after api", "gone", "api"),
		waits("a", 1, "plugin", "plugin x is down"),
		waits("b", 2, "plugin", "plugin x is down"),
		waits("fought", 3, "changed-back", "fields: replicas"),
		waits("ring/1", 4, "version", "ring/2 must declare 2", "ring/2"),
		waits("ring/2", 4, "version", "ring/1 must declare 2", "ring/1"),
		waits("last", 9, "order", "must come after up (pushing)", "up"),
		{Asset: "odd", State: "waiting"},
	})
	type line struct {
		sort, kind, root string
		assets           []string
		minute           int
	}
	want := []line{
		{"fighting", "changed-back", "fought", []string{"fought"}, 3},
		{"failing", "plugin", "", []string{"a", "b"}, 1},
		{"waiting", "approval", "db", []string{"api", "db", "web"}, 5},
		{"waiting", "version", "ring/1", []string{"ring/1", "ring/2"}, 4},
		{"waiting", "order", "last", []string{"last"}, 9},
	}
	if len(got) != len(want) {
		t.Fatalf("%d causes: %+v", len(got), got)
	}
	for i, w := range want {
		c := got[i]
		if string(c.Sort) != w.sort || c.Kind != w.kind || c.Root != w.root || !slices.Equal(c.Assets, w.assets) || int(c.Since.Unix()) != 60*w.minute {
			t.Errorf("%d: %+v, want %+v", i, c, w)
		}
	}
	if who := (cause{Assets: []string{"a", "b", "c", "d"}}).who(); who != "a, b and 2 more" {
		t.Errorf("of four: %s", who)
	}
}
