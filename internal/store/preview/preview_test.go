package preview_test

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"lehr.dev/internal/ground/document"
	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/store"
	"lehr.dev/internal/store/preview"
	"lehr.dev/internal/store/sqlite"
	"lehr.dev/test/detector"
)

const partition = "p"

// TestItReadsAsIfItWerePublished compares every read of what is supposed with
// the same after it was published.
func TestItReadsAsIfItWerePublished(t *testing.T) {
	for seed := range uint64(detector.Scale(20, 6)) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			random := rand.New(rand.NewPCG(seed, 0))
			s, lease := open(t)
			ctx := t.Context()
			var heads []intent.IncarnationID
			for range 2 {
				heads = append(heads, publish(t, s, lease, delta(t, s, random, last(heads))))
			}
			base := last(heads)
			if seed%5 == 0 {
				s, lease = open(t)
				base, heads = intent.IncarnationID{}, nil // Nothing was there.
			}
			changes := delta(t, s, random, base)
			shown := preview.New(s, preview.Supposed{
				Incarnation: intent.Incarnation{ID: intent.IncarnationID{Partition: partition}, Parent: base}, Changes: changes,
			}, preview.First)
			head := publish(t, s, lease, changes)
			same := cmp.Options{cmpopts.EquateEmpty(), cmp.Transformer("since", func(sequence intent.Sequence) intent.Sequence {
				if sequence == shown.Head().Sequence {
					return head.Sequence
				}
				return sequence
			})}
			check := func(what string, got, want any, err, wanted error) {
				t.Helper()
				if diff := cmp.Diff(want, got, same); diff != "" || fault.Is(err, fault.NotFound) != fault.Is(wanted, fault.NotFound) {
					t.Errorf("%s: %v, want %v\n%s", what, err, wanted, diff)
				}
			}
			for _, filter := range []store.AssetFilter{
				{}, {Prefix: "a1"}, {Type: "t.B"}, {Field: "color"}, {Field: "color", Value: "red"}, {RefersTo: "a1"}, {Limit: 1}, {After: "a2", Limit: 3}, {Field: "color", Limit: 2},
			} {
				got, err := shown.Members(ctx, shown.Head(), filter)
				want, wanted := s.Members(ctx, head, filter)
				check(fmt.Sprintf("Members %+v", filter), got, want, err, wanted)
			}
			for _, from := range heads {
				for _, limit := range []int{1, 3, 0} {
					got, err := all(ctx, shown, shown.Head(), from, limit)
					want, wanted := all(ctx, s, head, from, limit)
					check(fmt.Sprintf("Changes to %s, by %d", from, limit), got, want, err, wanted)
				}
			}
			for _, from := range append(heads, intent.IncarnationID{}) {
				for _, limit := range []int{1, 3, 0} {
					got, err := all(ctx, shown, from, shown.Head(), limit)
					want, wanted := all(ctx, s, from, head, limit)
					check(fmt.Sprintf("Changes from %s, by %d", from, limit), got, want, err, wanted)
				}
			}
			for i := range 20 {
				id := asset(i)
				got, body, err := shown.Content(ctx, shown.Head(), id)
				want, text, wanted := s.Content(ctx, head, id)
				check("Content of "+string(id), got, want, err, wanted)
				check("its body", string(body), string(text), err, wanted)
				from, err := shown.EdgesFrom(ctx, shown.Head(), id)
				wantFrom, wanted := s.EdgesFrom(ctx, head, id)
				check("EdgesFrom "+string(id), from, wantFrom, err, wanted)
				to, err := shown.EdgesTo(ctx, shown.Head(), id)
				wantTo, wanted := s.EdgesTo(ctx, head, id)
				byFrom := cmpopts.SortSlices(func(a, b store.Edge) bool { return a.From+intent.AssetID(a.Field) < b.From+intent.AssetID(b.Field) })
				if diff := cmp.Diff(wantTo, to, byFrom, cmpopts.EquateEmpty()); diff != "" {
					t.Errorf("EdgesTo %s: %v, want %v\n%s", id, err, wanted, diff)
				}
			}
		})
	}
}

// TestItWritesNothing asks for each write, and looks at the store.
func TestItWritesNothing(t *testing.T) {
	s, lease := open(t)
	ctx := t.Context()
	base := publish(t, s, lease, delta(t, s, rand.New(rand.NewPCG(1, 1)), intent.IncarnationID{}))
	before, err := s.Partition(ctx, partition)
	if err != nil {
		t.Fatal(err)
	}
	shown := preview.New(s, preview.Supposed{Incarnation: intent.Incarnation{ID: intent.IncarnationID{Partition: partition}, Parent: base}}, preview.First)
	refusals, err := shown.Admit(ctx, lease, []store.Admission{{Push: "p/1", Asset: "a1", Target: base, Revision: before.Revision, At: time.Now()}})
	if err != nil || len(refusals) != 1 || refusals[0] == nil || refusals[0].Waiting.Kind != intent.WaitPlan {
		t.Errorf("a push is admitted: %v %v", refusals, err)
	}
	if _, err := shown.SaveEnforced(ctx, lease, []store.Enforced{{Asset: "a1", Incarnation: base}}); err != nil {
		t.Error(err)
	}
	if err := shown.SaveReports(ctx, lease, []intent.Report{{Partition: partition, Asset: "a1", State: intent.StateInSync}}); err != nil || len(shown.Reports()) != 1 {
		t.Errorf("its report is not handed on: %v", err)
	}
	for what, err := range map[string]error{
		"Permit":      shown.Permit(ctx, lease, "p/1", time.Now()),
		"ClosePushes": shown.ClosePushes(ctx, lease, []store.Closing{{Push: "p/1"}}),
		"SaveMemo":    shown.SaveMemo(ctx, lease, "p/1", intent.Memo{Key: "k", Bytes: []byte("x")}),
		"SaveOutputs": second(shown.SaveOutputs(ctx, lease, document.Edit{})),
	} {
		if !fault.Is(err, fault.Denied) {
			t.Errorf("%s: %v", what, err)
		}
	}
	enforced, err := s.EnforcedCount(ctx, partition)
	reports, err2 := s.CountReports(ctx, partition)
	pushes, err3 := s.Pushes(ctx, partition, "", 1)
	after, err4 := s.Partition(ctx, partition)
	if enforced > 0 || len(reports) > 0 || len(pushes) > 0 || !cmp.Equal(before, after) || err != nil || err2 != nil || err3 != nil || err4 != nil {
		t.Errorf("something was written: %d %v %v %v", enforced, reports, pushes, after)
	}
	if got, err := shown.Partition(ctx, partition); err != nil || got.Head != shown.Head() || got.Revision != before.Revision {
		t.Errorf("the partition is %+v, %v", got, err)
	}
	changed := shown.Changed(partition)
	shown.Again()
	<-changed
	if got, err := shown.Partition(ctx, partition); err != nil || got.Revision == before.Revision {
		t.Errorf("nothing is judged anew: %+v, %v", got, err)
	}
}

func open(t *testing.T) (store.All, store.Lease) {
	t.Helper()
	db, err := sqlite.Memory()
	if err != nil {
		t.Fatal(err)
	}
	s, err := sqlite.Open(t.Context(), sqlite.Options{DB: db, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		s.Close()
		db.Close()
	})
	if err := s.AddPartition(t.Context(), partition, "/lehr.yaml", "test", intent.Actor{Name: "somebody", Origin: "test"}); err != nil {
		t.Fatal(err)
	}
	lease, err := s.Acquire(t.Context(), partition, "test")
	if err != nil {
		t.Fatal(err)
	}
	return s, lease
}

func asset(i int) intent.AssetID { return intent.AssetID(fmt.Sprintf("a%d", i)) }

func last(heads []intent.IncarnationID) intent.IncarnationID {
	if len(heads) == 0 {
		return intent.IncarnationID{}
	}
	return heads[len(heads)-1]
}

// delta adds, changes and removes at random; some change by what they read only.
func delta(t *testing.T, s store.All, random *rand.Rand, base intent.IncarnationID) (entries []store.Entry) {
	t.Helper()
	for i := range 20 {
		id := asset(i)
		var before *intent.Member
		if !base.IsZero() {
			if member, err := s.Member(t.Context(), base, id); err == nil {
				before = &member
			}
		}
		switch choice := random.IntN(4); {
		case choice == 0:
		case before != nil && choice == 1:
			entries = append(entries, store.Entry{Asset: id, Removed: true})
		case before != nil && choice == 2:
			member := *before
			member.Effective = intent.Sum("test", []byte(fmt.Sprint(random.Int())))
			entries = append(entries, store.Entry{Asset: id, Member: member})
		default:
			body := []byte(fmt.Sprint(id, random.Int()))
			entry := store.Entry{Asset: id, Body: body, Member: intent.Member{
				Asset: id, Type: intent.TypeName("t." + string(rune('A'+random.IntN(2)))), Digest: intent.BodyDigest(body), Effective: intent.BodyDigest(body),
			}}
			if random.IntN(2) == 0 {
				entry.Fields = []intent.Field{{Path: "color", Value: []string{"red", "blue"}[random.IntN(2)]}}
			}
			for range random.IntN(3) {
				to := asset(random.IntN(20))
				entry.References = append(entry.References, intent.Reference{Field: fmt.Sprintf("on[%d]", len(entry.References)), To: to, Read: random.IntN(2) == 0})
			}
			entries = append(entries, entry)
		}
	}
	return entries
}

func publish(t *testing.T, s store.All, lease store.Lease, entries []store.Entry) intent.IncarnationID {
	t.Helper()
	now, err := s.Partition(t.Context(), partition)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Stage(t.Context(), lease, now.Head, entries); err != nil {
		t.Fatal(err)
	}
	next, err := s.Publish(t.Context(), lease, intent.Incarnation{
		ID: intent.IncarnationID{Partition: partition, Sequence: now.Head.Sequence + 1}, Parent: now.Head, Created: time.Unix(1, 0),
		Author: intent.Actor{Name: "somebody", Origin: "test"},
	})
	if err != nil {
		t.Fatal(err)
	}
	return next.ID
}

// all pages of the changes.
func all(ctx context.Context, s interface {
	Changes(ctx context.Context, from, to intent.IncarnationID, after intent.AssetID, limit int) ([]store.Change, error)
}, from, to intent.IncarnationID, limit int) (list []store.Change, err error) {
	for after := intent.AssetID(""); ; {
		page, err := s.Changes(ctx, from, to, after, limit)
		list = append(list, page...)
		if err != nil || limit == 0 || len(page) < limit {
			return list, err
		}
		after = page[len(page)-1].Asset
	}
}

// TestTwoThatAreSupposed compares what two of them differ by with what their members
// say.
func TestTwoThatAreSupposed(t *testing.T) {
	for seed := range uint64(20) {
		random := rand.New(rand.NewPCG(seed, 7))
		s, lease := open(t)
		var bases [2]intent.IncarnationID
		var shown [2]*preview.Snapshot
		for i := range shown {
			if seed%3 > 0 || i > 0 && seed%2 == 0 { // Some have one base, and some none.
				bases[i] = publish(t, s, lease, delta(t, s, random, bases[0]))
			} else if i > 0 {
				bases[i] = bases[0]
			}
			shown[i] = preview.NewSnapshot(s, preview.Supposed{
				Incarnation: intent.Incarnation{ID: intent.IncarnationID{Partition: partition}, Parent: bases[i]}, Changes: delta(t, s, random, bases[i]),
			}, preview.First+intent.Sequence(i))
		}
		both := preview.NewBetween(shown[0], shown[1])
		for _, limit := range []int{1, 3, 0} {
			changes, err := all(t.Context(), both, shown[0].Head(), shown[1].Head(), limit)
			if err != nil {
				t.Fatal(err)
			}
			found := map[intent.AssetID]store.Change{}
			for _, change := range changes {
				found[change.Asset] = change
			}
			for i := range 20 {
				var sides [2]*intent.Member
				for side := range sides {
					if member, err := both.Member(t.Context(), shown[side].Head(), asset(i)); err == nil {
						sides[side] = &member
					}
				}
				change, differs := found[asset(i)]
				same := sides[0] == sides[1] || sides[0] != nil && sides[1] != nil && sides[0].Effective == sides[1].Effective && sides[0].Digest == sides[1].Digest && sides[0].Type == sides[1].Type
				if differs == same || differs && (!cmp.Equal(change.Before, sides[0]) || !cmp.Equal(change.After, sides[1])) {
					t.Errorf("seed %d, pages of %d: %s is told as %+v, and its sides are %+v and %+v", seed, limit, asset(i), change, sides[0], sides[1])
				}
			}
		}
	}
}

func second(_ document.Document, err error) error { return err }
