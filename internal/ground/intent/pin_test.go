package intent

import (
	"testing"
	"time"

	"pgregory.net/rapid"
)

var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func at(sequence Sequence) IncarnationID { return IncarnationID{Partition: "shop", Sequence: sequence} }

func TestTarget(t *testing.T) {
	head := at(9)
	tests := []struct {
		name   string
		pins   []Pin
		want   IncarnationID
		pinned bool
	}{
		{name: "head without pins", want: head},
		{name: "governed and not selected", pins: []Pin{{Incarnation: at(0), Rank: RankRollout, Revision: 1}}, want: at(0), pinned: true},
		{name: "a pin beats head", pins: []Pin{{Incarnation: at(3), Rank: RankRollout, Revision: 1}}, want: at(3), pinned: true},
		{name: "a pin selects what is governed", pins: []Pin{{Incarnation: at(3), Rank: RankRollout, Revision: 1}}, want: at(3), pinned: true},
		{name: "a person beats a newer rollback", pins: []Pin{
			{Incarnation: at(3), Rank: RankPerson, Revision: 1}, {Incarnation: at(4), Rank: RankRollback, Revision: 2},
		}, want: at(3), pinned: true},
		{name: "a rollback beats a newer rollout", pins: []Pin{
			{Incarnation: at(8), Rank: RankRollout, Revision: 7}, {Incarnation: at(2), Rank: RankRollback, Revision: 6},
		}, want: at(2), pinned: true},
		{name: "the newer revision wins, also with older content", pins: []Pin{
			{Incarnation: at(8), Rank: RankRollout, Revision: 6}, {Incarnation: at(2), Rank: RankRollout, Revision: 7},
		}, want: at(2), pinned: true},
		{name: "an expired pin is none", pins: []Pin{{Incarnation: at(3), Rank: RankPerson, Until: noon}}, want: head},
		{name: "a pin holds until its end", pins: []Pin{{Incarnation: at(3), Rank: RankPerson, Until: noon.Add(1)}}, want: at(3), pinned: true},
		{name: "an expired person leaves it to the rollout", pins: []Pin{
			{Incarnation: at(3), Rank: RankPerson, Until: noon.Add(-1)}, {Incarnation: at(5), Rank: RankRollout},
		}, want: at(5), pinned: true},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			got, pin := Target(head, test.pins, noon)
			if got != test.want || (pin != nil) != test.pinned {
				t.Errorf("target %v, pin %v; want %v, pinned %t", got, pin, test.want, test.pinned)
			}
		})
	}
}

// TestTargetMovesForward: adding a pin of a higher revision moves the target
// to it, unless a higher rank holds it (S16); and nothing else matters.
func TestTargetMovesForward(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var pins []Pin
		for revision := range rapid.IntRange(0, 6).Draw(t, "pins") {
			pin := Pin{
				Incarnation: at(Sequence(rapid.IntRange(1, 9).Draw(t, "at"))), Revision: uint64(revision + 1),
				Rank: Rank(rapid.IntRange(1, 3).Draw(t, "rank")),
			}
			if rapid.Bool().Draw(t, "ends") {
				pin.Until = noon.Add(time.Duration(rapid.IntRange(-2, 2).Draw(t, "until")))
			}
			pins = append(pins, pin)
		}
		before, holder := Target(at(9), pins, noon)
		next := Pin{Incarnation: at(1), Revision: 100, Rank: RankRollback}
		after, _ := Target(at(9), append(pins, next), noon)
		if holder != nil && holder.Rank > next.Rank {
			if after != before {
				t.Fatalf("a lower rank moved the target from %v to %v", before, after)
			}
		} else if after != next.Incarnation {
			t.Fatalf("target %v, want %v", after, next.Incarnation)
		}
	})
}

func TestEffectiveDigestCoversWhatIsRead(t *testing.T) {
	own, a, b := Sum("x", []byte("own")), Sum("x", []byte("a")), Sum("x", []byte("b"))
	if EffectiveDigest(own, nil) != own {
		t.Error("without reads it is the content's digest")
	}
	seen := map[Digest]string{}
	for name, digest := range map[string]Digest{
		"own": own, "a": EffectiveDigest(own, []Digest{a}), "b": EffectiveDigest(own, []Digest{b}),
		"ab": EffectiveDigest(own, []Digest{a, b}), "ba": EffectiveDigest(own, []Digest{b, a}), "absent": EffectiveDigest(own, []Digest{{}}),
	} {
		if other, same := seen[digest]; same {
			t.Errorf("%s and %s have one digest", name, other)
		}
		seen[digest] = name
	}
}

func TestPlanDigest(t *testing.T) {
	plan := Plan{Action: ActionUpdate, Changes: []FieldChange{{Path: "a", Current: "1", Target: "2", Reason: "why"}, {Path: "b"}}}
	same := Plan{Action: ActionUpdate, Changes: []FieldChange{{Path: "b"}, {Path: "a", Current: "1", Target: "2", Reason: "other words"}}}
	if plan.Digest() != same.Digest() {
		t.Error("order or reasons are part of the digest")
	}
	for name, other := range map[string]Plan{
		"action":      {Action: ActionReplace, Changes: plan.Changes},
		"target":      {Action: ActionUpdate, Changes: []FieldChange{{Path: "a", Current: "1", Target: "3"}, {Path: "b"}}},
		"current":     {Action: ActionUpdate, Changes: []FieldChange{{Path: "a", Current: "0", Target: "2"}, {Path: "b"}}},
		"destructive": {Action: ActionUpdate, Changes: []FieldChange{{Path: "a", Current: "1", Target: "2", Destructive: true}, {Path: "b"}}},
		"one more":    {Action: ActionUpdate, Changes: append(plan.Changes[:2:2], FieldChange{Path: "c"})},
		"shifted":     {Action: ActionUpdate, Changes: []FieldChange{{Path: "a1", Target: "2"}, {Path: "b"}}},
	} {
		if other.Digest() == plan.Digest() {
			t.Errorf("a plan with another %s has the same digest", name)
		}
	}
}

func TestIDs(t *testing.T) {
	for _, good := range []string{"a", "web/a", "0/b.c_d-e/f"} {
		if _, err := ParseAssetID(good); err != nil {
			t.Errorf("%q: %v", good, err)
		}
	}
	long := make([]byte, 254)
	for i := range long {
		long[i] = 'a'
	}
	for _, bad := range []string{"", "/", "a/", "/a", "a//b", "..", "a/../b", "A", "a b", "a\x00", "ä", ".a", "-a", "a/_b", string(long)} {
		if id, err := ParseAssetID(bad); err == nil {
			t.Errorf("%q is taken for the asset id %q", bad, id)
		}
	}
	for _, good := range []string{"shop@1", "a.b-c@9007199254740993"} {
		id, err := ParseIncarnationID(good)
		if err != nil || id.String() != good {
			t.Errorf("%q became %q: %v", good, id, err)
		}
	}
	for _, bad := range []string{"", "shop", "shop@", "@1", "shop@0", "shop@-1", "shop@~ab", "shop@1x", "shop@99999999999999999999", "a/b@1"} {
		if id, err := ParseIncarnationID(bad); err == nil {
			t.Errorf("%q is taken for the incarnation %q", bad, id)
		}
	}
}
