package serve

import (
	"fmt"
	"slices"
	"testing"

	"google.golang.org/protobuf/proto"
	"pgregory.net/rapid"

	intentpb "lehr.dev/gen/lehr/intent/v1"
	pluginpb "lehr.dev/gen/lehr/plugin/v1"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/pluginhost/plugin"
)

func changesOf(older, newer intent.Sequence, changed ...string) *pluginpb.DiffBatch {
	name := func(sequence intent.Sequence) string {
		return IncarnationID{Partition: "shop", Sequence: sequence}.String()
	}
	changes := &pluginpb.Changes{Older: name(older)}
	for _, asset := range changed {
		changes.Changed = append(changes.Changed, plugin.NumberOf(AssetID(asset)))
	}
	return &pluginpb.DiffBatch{Incarnation: name(newer), Changes: changes}
}

func TestOnlyWhatChangedIsAskedForAgain(t *testing.T) {
	for _, size := range []int{10, 100} {
		l := newLehr(t, 1<<20)
		var ids []AssetID
		for i := range size {
			id := fmt.Sprintf("pool-%d", i)
			l.assets[id] = &intentpb.Owner{Owner: "ann"}
			ids = append(ids, AssetID(id))
		}
		// Reads are held as assets are.
		l.assets["balancer"] = backend("pool-1", "pool-2")
		ids = append(ids, "balancer")
		l.intents(1, ids...)
		l.sent, l.unsent = 0, 0
		l.assets["pool-1"] = &intentpb.Owner{Owner: "bob"}
		l.asker.recordChanges(changesOf(1, 2, "pool-1"))
		assets, failures := l.intents(2, ids...)
		if l.sent != 1 || l.unsent != 0 {
			t.Errorf("of %d assets: %d sent, %d asked about in vain", size, l.sent, l.unsent)
		}
		read := assets[size].Reads["pool-1"]
		owner := &intentpb.Owner{}
		if err := proto.Unmarshal(read.Payload.Bytes, owner); err != nil || owner.Owner != "bob" || failures[size] != nil {
			t.Errorf("the balancer reads %v (%v, %v)", owner, err, failures[size])
		}
	}
}

// Whatever Lehr says and leaves out of what changed, as long as it is true, each asset
// is given as it is in its incarnation.
func TestWhatIsHeldIsAsInTheIncarnation(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		ids := []string{"a", "b", "c", "d"}
		incarnations := []map[string]string{nil}
		l := newLehr(t, rapid.SampledFrom([]int{500, 1 << 20}).Draw(r, "cache"))
		at := func(label string) intent.Sequence {
			return intent.Sequence(rapid.IntRange(1, len(incarnations)-1).Draw(r, label))
		}
		advance := func() {
			next := map[string]string{}
			for _, id := range ids {
				if value := rapid.SampledFrom([]string{"", "x", "x", "y"}).Draw(r, id); value != "" {
					next[id] = value
				}
			}
			incarnations = append(incarnations, next)
		}
		advance()
		r.Repeat(map[string]func(*rapid.T){
			"publish": func(*rapid.T) { advance() },
			"tell": func(*rapid.T) {
				older, newer := at("older"), at("newer")
				var changed []string
				for _, id := range ids {
					if incarnations[older][id] != incarnations[newer][id] {
						changed = append(changed, id)
					}
				}
				l.asker.recordChanges(changesOf(older, newer, changed...))
			},
			"ask": func(r *rapid.T) {
				sequence := at("as of")
				asked := rapid.SliceOfNDistinct(rapid.SampledFrom(ids), 1, len(ids), func(id string) string { return id }).Draw(r, "assets")
				l.assets = map[string]proto.Message{}
				for id, value := range incarnations[sequence] {
					l.assets[id] = &intentpb.Owner{Owner: value}
				}
				var names []AssetID
				for _, id := range asked {
					names = append(names, AssetID(id))
				}
				assets, failures := l.intents(sequence, names...)
				for i, id := range asked {
					owner := &intentpb.Owner{}
					if failures[i] == nil {
						if err := proto.Unmarshal(assets[i].Payload.Bytes, owner); err != nil {
							r.Fatal(err)
						}
					}
					if want := incarnations[sequence][id]; owner.Owner != want {
						r.Fatalf("%s as of %d is %q, want %q (%v)", id, sequence, owner.Owner, want, failures[i])
					}
				}
			},
		})
	})
}

func TestAHistoryIsBounded(t *testing.T) {
	h := &history{}
	many := make([]uint64, historyChanges/4)
	for i := range many {
		many[i] = uint64(i) + 1
	}
	for sequence := intent.Sequence(1); sequence < 20; sequence++ {
		h.extend(sequence, sequence+1, slices.Clone(many))
		if h.changes > historyChanges || len(h.last) > historyChanges {
			t.Fatalf("after %d: %d changes of %d assets", sequence, h.changes, len(h.last))
		}
	}
	if !h.isUnchanged("unchanged", 18, 20) || h.isUnchanged("unchanged", 2, 20) {
		t.Errorf("the newest step is not known, or the oldest still is: %v", h.sequences)
	}
	if h.extend(20, 21, make([]uint64, historyChanges+1)); h.isUnchanged("unchanged", 20, 21) {
		t.Error("a step that is too large is known")
	}
}
