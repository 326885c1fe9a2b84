package explain_test

import (
	"testing"

	"lehr.dev/internal/annealing/explain"
	"lehr.dev/internal/ground/intent"
)

// TestOneThingOutsideIsOneCause: what several partitions wait for outside them has one key, and what is a partition's
// own has none.
func TestOneThingOutsideIsOneCause(t *testing.T) {
	of := func(partition intent.PartitionID, asset intent.AssetID, waiting intent.WaitingOn, stop *intent.Stop) string {
		f := explain.Facts{Partition: partition, Stop: stop, Reports: map[intent.AssetID]intent.Report{
			asset: {Asset: asset, State: intent.StateWaiting, Waiting: []intent.WaitingOn{waiting}},
		}}
		causes := explain.Roll(f, "", map[intent.State]int{intent.StateWaiting: 1}, []intent.AssetID{asset}).Causes
		return causes[0].Root.Shared
	}
	plugin := func(text string) intent.WaitingOn { return intent.WaitingOn{Kind: intent.WaitPlugin, Reason: text} }
	everywhere, here := &intent.Stop{Reason: "a fire", Owner: intent.Actor{Name: "ann"}}, &intent.Stop{Partition: "a", Reason: "a fire"}
	stopped := intent.WaitingOn{Kind: intent.WaitStop, Reason: "stopped"}
	for name, c := range map[string]struct {
		one, other string
		equal      bool
	}{
		"a plugin that is down": {
			of("a", "web", plugin("plugin lehr-x of web is down: 12 times, for a"), nil), of("b", "db", plugin("plugin lehr-x of db is down: 3 times, for b"), nil), true,
		},
		"two plugins":              {of("a", "web", plugin("lehr-x is down"), nil), of("b", "web", plugin("lehr-y is down"), nil), false},
		"a stop of all":            {of("a", "web", stopped, everywhere), of("b", "db", stopped, everywhere), true},
		"a stop of one and of all": {of("a", "web", stopped, here), of("b", "db", stopped, everywhere), false},
		"another partition": {
			of("a", "web", intent.WaitingOn{Kind: intent.WaitPartition, Partition: "z", Reason: "80% of it"}, nil), of("b", "db", intent.WaitingOn{Kind: intent.WaitPartition, Partition: "z", Reason: "is stopped"}, nil), true,
		},
		"two partitions": {
			of("a", "web", intent.WaitingOn{Kind: intent.WaitPartition, Partition: "y"}, nil), of("b", "db", intent.WaitingOn{Kind: intent.WaitPartition, Partition: "z"}, nil), false,
		},
		"two checks that say the same": {
			of("a", "web", intent.WaitingOn{Kind: intent.WaitMetric, Check: "errors", Reason: "too high"}, nil), of("b", "web", intent.WaitingOn{Kind: intent.WaitMetric, Check: "latency", Reason: "too high"}, nil), false,
		},
	} {
		if c.one == "" || c.other == "" || (c.one == c.other) != c.equal {
			t.Errorf("%s: the keys are %q and %q, want equal: %t", name, c.one, c.other, c.equal)
		}
	}
	if key := of("a", "web", intent.WaitingOn{Kind: intent.WaitHold, Reason: "ann holds it"}, nil); key != "" {
		t.Errorf("a hold has the key %q", key)
	}
}
