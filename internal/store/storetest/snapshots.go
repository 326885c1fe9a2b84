package storetest

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/store"
)

func testSnapshots(t *testing.T, open func(t *testing.T) store.All) {
	w := newWorld(t, open)
	ctx := t.Context()
	typed := entry("db/main", "s")
	typed.Member.Type = schemaType
	w.publish(entry("a/1", "1"), entry("a/2", "1"), entry("a-b", "1"), entry("b/1", "1"), typed)
	w.publish(entry("a/1", "2"), removal("b/1"))

	for _, c := range []struct {
		filter store.AssetFilter
		want   string
	}{
		{store.AssetFilter{}, "a-b a/1 a/2 db/main"},
		{store.AssetFilter{Prefix: "a/"}, "a/1 a/2"},
		{store.AssetFilter{Prefix: "nothing"}, ""},
		{store.AssetFilter{Type: schemaType}, "db/main"},
		{store.AssetFilter{Type: schemaType, Prefix: "a"}, ""},
		{store.AssetFilter{Limit: 2}, "a-b a/1"},
		{store.AssetFilter{After: "a/1", Limit: 1}, "a/2"},
		{store.AssetFilter{After: "a-b", Prefix: "a", Type: job}, "a/1 a/2"},
	} {
		members, err := w.Members(ctx, at(2), c.filter)
		w.must(err)
		var ids []string
		for _, m := range members {
			ids = append(ids, string(m.Asset))
		}
		if got := strings.Join(ids, " "); got != c.want {
			t.Errorf("members by %+v: %q, want %q", c.filter, got, c.want)
		}
	}

	m, err := w.Member(ctx, at(2), "a/1")
	w.must(err)
	want := entry("a/1", "2").Member
	want.Since = 2
	if diff := cmp.Diff(want, m); diff != "" {
		t.Errorf("member:\n%s", diff)
	}
	gotMember, body, err := w.Content(ctx, at(2), "a/1")
	w.must(err)
	if diff := cmp.Diff(want, gotMember); diff != "" || string(body) != string(entry("a/1", "2").Body) {
		t.Errorf("content %q of a member:\n%s", body, diff)
	}
	testContents(w)
	_, err = w.Member(ctx, at(2), "b/1")
	w.refused(err, fault.NotFound)
	_, _, err = w.Content(ctx, at(2), "b/1")
	w.refused(err, fault.NotFound)
	_, err = w.Body(ctx, digestOf("never"))
	w.refused(err, fault.NotFound)
	_, err = w.Members(ctx, at(9), store.AssetFilter{})
	w.refused(err, fault.NotFound)
	_, err = w.Changes(ctx, at(1), intent.IncarnationID{Partition: theatre, Sequence: 1}, "", 0)
	w.refused(err, fault.Invalid)

	list, err := w.Incarnations(ctx, shop, 0, 0)
	w.must(err)
	if len(list) != 2 || list[0].ID != at(2) || list[1].ID != at(1) {
		t.Errorf("incarnations are %+v", list)
	}
	list, err = w.Incarnations(ctx, shop, 2, 5)
	w.must(err)
	if len(list) != 1 || list[0].ID != at(1) {
		t.Errorf("incarnations before 2 are %+v", list)
	}
}

// testManyChanges pages through more changes than are looked up one by one: assets
// that stay, change, go, come, and change and change back.
func testManyChanges(t *testing.T, open func(t *testing.T) store.All) {
	w := newWorld(t, open)
	const perKind = 200
	name := func(i int, kind string) string { return fmt.Sprintf("%04d/%s", i, kind) }
	var first, second, third []store.Entry
	var want []string
	for i := range perKind {
		first = append(first, entry(name(i, "back"), "1"), entry(name(i, "changes"), "1"), entry(name(i, "goes"), "1"), entry(name(i, "stays"), "1"))
		second = append(second, entry(name(i, "back"), "2"), entry(name(i, "changes"), "2"), removal(name(i, "goes")), entry(name(i, "new"), "1"))
		third = append(third, entry(name(i, "back"), "1"))
		want = append(want, name(i, "changes")+" 1 2", name(i, "goes")+" 1 -", name(i, "new")+" - 1")
	}
	w.publish(first...)
	w.publish(second...)
	w.publish(third...)
	describe := func(asset intent.AssetID, m *intent.Member) string {
		for _, text := range []string{"1", "2"} {
			if m != nil && m.Digest == entry(string(asset), text).Member.Digest {
				return text
			}
		}
		return "-"
	}
	for _, backwards := range []bool{false, true} {
		base, target := at(1), at(3)
		if backwards {
			base, target = target, base
		}
		var got []string
		for cursor := (intent.AssetID)(""); ; {
			page, err := w.Changes(t.Context(), base, target, cursor, 217)
			w.must(err)
			for _, change := range page {
				previous, now := describe(change.Asset, change.Before), describe(change.Asset, change.After)
				if backwards {
					previous, now = now, previous
				}
				got = append(got, fmt.Sprintf("%s %s %s", change.Asset, previous, now))
			}
			if len(page) < 217 {
				break
			}
			cursor = page[len(page)-1].Asset
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("backwards %t:\n%s", backwards, diff)
		}
	}
}

// testSnapshotModel compares any sequence of publications, with what is
// unstaged and collected between them, with maps.
func testSnapshotModel(t *testing.T, open func(t *testing.T) store.All) {
	s := open(t)
	run := 0
	rapid.Check(t, func(r *rapid.T) {
		run++
		m := newModel(r, s, intent.PartitionID(fmt.Sprintf("model-%d", run)))
		steps := rapid.IntRange(1, 12).Draw(r, "steps")
		for range steps {
			switch rapid.IntRange(0, 7).Draw(r, "step") {
			case 0:
				m.stageAndThrowAway(r)
			case 1:
				m.collect(r)
			default:
				m.publish(r)
			}
		}
		m.verify(r)
	})
}

type model struct {
	store.All
	lease store.Lease
	head  intent.IncarnationID
	// retained holds what each retained incarnation says.
	retained map[intent.Sequence]map[intent.AssetID]string
	current  map[intent.AssetID]string
}

func newModel(r *rapid.T, s store.All, partition intent.PartitionID) *model {
	m := &model{
		All: s, head: intent.IncarnationID{Partition: partition},
		retained: map[intent.Sequence]map[intent.AssetID]string{},
		current:  map[intent.AssetID]string{},
	}
	ok(r, s.AddPartition(context.Background(), partition, "/srv/lehr.yaml", "a try", alice))
	lease, err := s.Acquire(context.Background(), partition, "server")
	ok(r, err)
	m.lease = lease
	return m
}

func ok(r *rapid.T, err error) {
	r.Helper()
	if err != nil {
		r.Fatal(err)
	}
}

// fieldsOf is what each text of the model sets: a field comes, goes, stays, and
// changes its value.
var fieldsOf = map[string][]string{
	"1": {"size", "s", "team", "x"},
	"2": {"size", "m", "team", "x", "addon", ""},
	"3": {"size", "s", "addon", ""},
}

func drawDelta(r *rapid.T) (delta []store.Entry) {
	for range rapid.IntRange(0, 6).Draw(r, "entries") {
		asset := rapid.SampledFrom([]string{"a", "a/b", "b", "c", "d/e", "f"}).Draw(r, "asset")
		if rapid.IntRange(0, 3).Draw(r, "kind") == 0 {
			delta = append(delta, removal(asset))
		} else {
			text := rapid.SampledFrom([]string{"1", "2", "3"}).Draw(r, "text")
			delta = append(delta, entryWith(asset, text, fieldsOf[text]...))
		}
	}
	return delta
}

func (m *model) stageAndThrowAway(r *rapid.T) {
	ok(r, m.Stage(context.Background(), m.lease, m.head, drawDelta(r)))
	ok(r, m.Unstage(context.Background(), m.lease))
}

func (m *model) publish(r *rapid.T) {
	delta := drawDelta(r)
	next := maps.Clone(m.current)
	for _, e := range delta {
		if delete(next, e.Asset); !e.Removed {
			next[e.Asset] = string(e.Body)
		}
	}
	id := intent.IncarnationID{Partition: m.head.Partition, Sequence: m.head.Sequence + 1}
	ok(r, m.Stage(context.Background(), m.lease, m.head, delta))
	_, err := m.Publish(context.Background(), m.lease, intent.Incarnation{ID: id, Parent: m.head, Author: alice, Created: noon})
	ok(r, err)
	m.head, m.current, m.retained[id.Sequence] = id, next, next
	if assets := slices.Sorted(maps.Keys(next)); len(assets) > 0 && rapid.IntRange(0, 4).Draw(r, "pin") == 0 {
		// One pin of each asset: a later one takes the place of the earlier.
		asset := rapid.SampledFrom(assets).Draw(r, "pinned")
		_, err := m.SetPin(context.Background(), intent.Pin{Asset: asset, Incarnation: id, Rank: intent.RankPerson, Holder: alice, Reason: "test"})
		ok(r, err)
	}
}

func (m *model) collect(r *rapid.T) {
	keep := rapid.IntRange(0, 3).Draw(r, "keep")
	pins, err := m.Pins(context.Background(), m.head.Partition)
	ok(r, err)
	_, err = m.Collect(context.Background(), m.lease, store.Retention{Incarnations: keep}, noon.AddDate(0, 0, 1))
	ok(r, err)
	for sequence := range m.retained {
		pinned := slices.ContainsFunc(pins, func(p intent.Pin) bool { return p.Incarnation.Sequence == sequence })
		if sequence != m.head.Sequence && int(sequence) <= int(m.head.Sequence)-keep && !pinned {
			delete(m.retained, sequence)
		}
	}
}

func (m *model) verify(r *rapid.T) {
	ctx := context.Background()
	list, err := m.Incarnations(ctx, m.head.Partition, 0, 0)
	ok(r, err)
	var listed []intent.Sequence
	for _, incarnation := range list {
		listed = append(listed, incarnation.ID.Sequence)
	}
	slices.Sort(listed)
	sequences := slices.Sorted(maps.Keys(m.retained))
	if !slices.Equal(listed, sequences) {
		r.Fatalf("retained are %v, want %v", listed, sequences)
	}
	for _, base := range sequences {
		if diff := cmp.Diff(m.retained[base], content(r, m.All, m.id(base))); diff != "" {
			r.Fatalf("as of %d:\n%s", base, diff)
		}
		m.verifyFields(r, base)
		m.verifyChanges(r, 0, base)
		for _, target := range sequences {
			m.verifyChanges(r, base, target)
		}
	}
}

// verifyFields compares what every field and value finds with the naive search.
func (m *model) verifyFields(r *rapid.T, sequence intent.Sequence) {
	for _, c := range []struct{ field, value string }{
		{"size", ""}, {"size", "s"}, {"size", "m"}, {"size", "none"}, {"team", ""}, {"team", "x"}, {"addon", ""}, {"none", ""},
	} {
		var want []intent.AssetID
		for asset, text := range m.retained[sequence] {
			for pair := range slices.Chunk(fieldsOf[text], 2) {
				if pair[0] == c.field && (c.value == "" || pair[1] == c.value) {
					want = append(want, asset)
				}
			}
		}
		slices.Sort(want)
		got := selectAssets(r, m.All, m.id(sequence), store.AssetFilter{Field: c.field, Value: c.value, Limit: 2})
		if !slices.Equal(got, want) {
			r.Fatalf("as of %d, %s=%q finds %v, want %v", sequence, c.field, c.value, got, want)
		}
	}
}

func (m *model) id(sequence intent.Sequence) intent.IncarnationID {
	return intent.IncarnationID{Partition: m.head.Partition, Sequence: sequence}
}

// verifyChanges compares Changes, page by page, with the naive difference.
func (m *model) verifyChanges(r *rapid.T, base, target intent.Sequence) {
	type pair struct{ Before, After string }
	want := map[intent.AssetID]pair{}
	baseContents, targetContents := m.retained[base], m.retained[target]
	for asset, text := range baseContents {
		if targetContents[asset] != text {
			want[asset] = pair{text, targetContents[asset]}
		}
	}
	for asset, text := range targetContents {
		if baseContents[asset] != text {
			want[asset] = pair{baseContents[asset], text}
		}
	}
	texts := map[intent.Digest]string{digestOf("1"): "1", digestOf("2"): "2", digestOf("3"): "3"}
	got := map[intent.AssetID]pair{}
	last := intent.AssetID("")
	for {
		page, err := m.Changes(context.Background(), m.id(base), m.id(target), last, 2)
		ok(r, err)
		if len(page) == 0 {
			break
		}
		for _, change := range page {
			if change.Asset <= last {
				r.Fatalf("changes from %d to %d: %q comes after %q", base, target, change.Asset, last)
			}
			var p pair
			if change.Before != nil {
				p.Before = texts[change.Before.Digest]
			}
			if change.After != nil {
				p.After = texts[change.After.Digest]
			}
			got[change.Asset], last = p, change.Asset
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		r.Fatalf("changes from %d to %d:\n%s", base, target, diff)
	}
}

// testContents: those that are there, as of each incarnation, however many are asked for at
// once; an incarnation that is not there has none.
func testContents(w *world) {
	w.t.Helper()
	assets := []intent.AssetID{"a/1", "b/1", "a/1", "a/2", "a-b"}
	for i := range 40 {
		assets = append(assets, intent.AssetID(fmt.Sprintf("none/%d", i)))
	}
	assets = append(assets, "db/main")
	for _, id := range []intent.IncarnationID{at(1), at(2), at(9)} {
		want := map[intent.AssetID]string{}
		for _, asset := range assets {
			if _, body, err := w.Content(w.t.Context(), id, asset); err == nil {
				want[asset] = string(body)
			}
		}
		if (len(want) == 0) != (id == at(9)) {
			w.t.Errorf("%s has %d of the assets", id, len(want))
		}
		bodies, err := w.Contents(w.t.Context(), id, assets)
		w.must(err)
		got := map[intent.AssetID]string{}
		for asset, body := range bodies {
			got[asset] = string(body)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			w.t.Errorf("contents as of %s:\n%s", id, diff)
		}
	}
}
