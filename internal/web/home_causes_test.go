package web

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	apipb "lehr.dev/gen/lehr/api/v1"
)

// TestRootCausesAreCountedAcrossPartitions: one thing that holds up several partitions is one cause, and what waits
// for another partition is a symptom of what holds up that.
func TestRootCausesAreCountedAcrossPartitions(t *testing.T) {
	own := func(kind, asset string, assets int64) *apipb.Cause {
		return &apipb.Cause{Root: &apipb.Reason{Kind: kind, Asset: asset}, Assets: assets}
	}
	shared := func(key, kind string, assets int64) *apipb.Cause {
		return &apipb.Cause{Root: &apipb.Reason{Kind: kind}, Assets: assets, Shared: key}
	}
	waitsFor := func(partition string, assets int64) *apipb.Cause {
		return &apipb.Cause{Root: &apipb.Reason{Kind: "partition", Asset: "web", Partition: partition}, Assets: assets, Shared: "partition-" + partition}
	}
	for name, c := range map[string]struct {
		told []toldCauses
		want string
	}{
		"nothing": {nil, "0 causes, 0 assets in 0 partitions"},
		"each partition's own": {
			[]toldCauses{{"a", []*apipb.Cause{own("hold", "db", 3)}}, {"b", []*apipb.Cause{own("hold", "db", 5)}}},
			"2 causes, 8 assets in 2 partitions; hold db: b 5; hold db: a 3",
		},
		"a stop of all, and a plugin of several": {
			[]toldCauses{{"a", []*apipb.Cause{shared("stop-1", "stop", 0), shared("plugin-1", "plugin", 2)}}, {"b", []*apipb.Cause{shared("stop-1", "stop", 0)}}, {"c", []*apipb.Cause{shared("plugin-1", "plugin", 4), own("hold", "x", 1)}}},
			"3 causes, 7 assets in 3 partitions; stop: a all, b all; plugin: a 2, c 4; hold x: c 1",
		},
		"one cause told twice of a partition": {
			[]toldCauses{{"a", []*apipb.Cause{shared("plugin-1", "plugin", 2), shared("plugin-1", "plugin", 3)}}},
			"1 causes, 5 assets in 1 partitions; plugin: a 5",
		},
		"symptoms": {
			[]toldCauses{{"a", []*apipb.Cause{waitsFor("z", 7)}}, {"b", []*apipb.Cause{waitsFor("z", 1), own("hold", "y", 2)}}, {"z", []*apipb.Cause{own("approval", "db", 1), own("hold", "other", 1)}}},
			"3 causes, 12 assets in 3 partitions; approval db: z 1, a 7 for z, b 1 for z; hold y: b 2; hold other: z 1",
		},
		"one waits for what cannot be seen, or is well": {
			[]toldCauses{{"a", []*apipb.Cause{waitsFor("hidden", 7)}}, {"b", []*apipb.Cause{waitsFor("hidden", 1)}}},
			"1 causes, 8 assets in 2 partitions; partition web: a 7, b 1",
		},
		"two that wait for each other": {
			[]toldCauses{{"a", []*apipb.Cause{waitsFor("b", 7)}}, {"b", []*apipb.Cause{waitsFor("a", 1)}}},
			"2 causes, 8 assets in 2 partitions; partition web: a 7; partition web: b 1",
		},
	} {
		view := countCauses(c.told)
		got := []string{fmt.Sprintf("%d causes, %d assets in %d partitions", view.Roots, view.Assets, view.Partitions)}
		for _, cause := range view.Causes {
			var held []string
			for _, h := range cause.Held {
				text := h.Partition + " all"
				if h.Assets > 0 {
					text = fmt.Sprintf("%s %d", h.Partition, h.Assets)
				}
				if h.WaitsFor != "" {
					text += " for " + h.WaitsFor
				}
				held = append(held, text)
			}
			got = append(got, strings.TrimSpace(cause.Root.Kind+" "+cause.Root.Asset)+": "+strings.Join(held, ", "))
		}
		if diff := cmp.Diff(c.want, strings.Join(got, "; ")); diff != "" {
			t.Errorf("%s:\n%s", name, diff)
		}
	}
	var many []toldCauses
	for i := range 100 {
		many = append(many, toldCauses{fmt.Sprint("p", i), []*apipb.Cause{own("hold", "db", 1), shared("plugin-1", "plugin", 1)}})
	}
	if view := countCauses(many); view.Roots != 101 || len(view.Causes) != homeCauses || view.More() != 101-homeCauses || len(view.Causes[0].Named()) != heldShown || view.Causes[0].Others() != 92 {
		t.Errorf("of many are shown %d of %d, %d are more, of the first %d partitions are not named", len(view.Causes), view.Roots, view.More(), view.Causes[0].Others())
	}
}
