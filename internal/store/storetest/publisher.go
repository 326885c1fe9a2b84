package storetest

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/store"
)

func testPublisher(t *testing.T, open func(t *testing.T) store.All) {
	t.Run("StagedIsInvisible", func(t *testing.T) { stagedIsInvisible(newWorld(t, open)) })
	t.Run("PublishComparesAndSets", func(t *testing.T) { publishComparesAndSets(newWorld(t, open)) })
	t.Run("StagingAgain", func(t *testing.T) { stagingAgain(newWorld(t, open)) })
	t.Run("Fields", func(t *testing.T) { fields(newWorld(t, open)) })
	t.Run("References", func(t *testing.T) { references(newWorld(t, open)) })
	t.Run("MembershipDigest", func(t *testing.T) { membershipDigests(newWorld(t, open)) })
	t.Run("BadEntries", func(t *testing.T) { badEntries(newWorld(t, open)) })
	t.Run("GoesBack", func(t *testing.T) { incarnationGoesBack(newWorld(t, open)) })
	t.Run("ManyEntries", func(t *testing.T) { manyEntries(newWorld(t, open)) })
}

// incarnationGoesBack: that all it changes are undone edits is read as it was published,
// by itself and in lists, and is no matter of the one after it.
func incarnationGoesBack(w *world) {
	t, ctx := w.t, w.t.Context()
	w.publish(entry("a", "1"))
	for sequence, rollback := range []bool{true, false} {
		w.must(w.Stage(ctx, w.lease, at(sequence+1), []store.Entry{entry("a", fmt.Sprint("again", sequence))}))
		next := w.next()
		next.Back = rollback
		published, err := w.Publish(ctx, w.lease, next)
		w.must(err)
		if published.Back != rollback {
			t.Errorf("%s is published with %t, want %t", published.ID, published.Back, rollback)
		}
	}
	want := map[intent.Sequence]bool{1: false, 2: true, 3: false}
	list, err := w.Incarnations(ctx, shop, 0, 0)
	w.must(err)
	for _, listed := range list {
		read, err := w.Incarnation(ctx, listed.ID)
		w.must(err)
		if rollback := want[listed.ID.Sequence]; listed.Back != rollback || read.Back != rollback {
			t.Errorf("%s goes back: %t in the list, %t by itself, want %t", listed.ID, listed.Back, read.Back, rollback)
		}
	}
	if len(list) != len(want) {
		t.Errorf("%d incarnations are listed", len(list))
	}
}

func stagedIsInvisible(w *world) {
	t, ctx := w.t, w.t.Context()
	w.publish(entry("a", "1"), entry("b", "1", intent.Reference{Field: "f", To: "a"}), entry("c", "1"))
	original := content(t, w, at(1))
	revision := w.revision()

	w.must(w.Stage(ctx, w.lease, at(1), []store.Entry{entry("a", "2"), removal("b"), entry("d", "new", intent.Reference{Field: "f", To: "c"})}))
	check := func(label string) {
		t.Helper()
		if diff := cmp.Diff(original, content(t, w, at(1))); diff != "" {
			t.Fatalf("%s, head reads differently:\n%s", label, diff)
		}
		edges, err := w.EdgesFrom(ctx, at(1), "b")
		w.must(err)
		if len(edges) != 1 {
			t.Fatalf("%s, b has references %v", label, edges)
		}
		for _, read := range []func() error{
			func() error { _, err := w.Incarnation(ctx, at(2)); return err },
			func() error { _, err := w.Member(ctx, at(2), "d"); return err },
			func() error { _, err := w.Members(ctx, at(2), store.AssetFilter{}); return err },
			func() error { _, err := w.Changes(ctx, at(1), at(2), "", 0); return err },
			func() error { _, err := w.EdgesTo(ctx, at(2), "c"); return err },
			func() error { _, err := w.Member(ctx, at(1), "d"); return err },
		} {
			w.refused(read(), fault.NotFound)
		}
	}
	check("after staging")
	if w.revision() != revision {
		t.Error("staging moved the revision")
	}
	w.must(w.Unstage(ctx, w.lease))
	check("after unstaging")
	_, err := w.Body(ctx, digestOf("new"))
	w.refused(err, fault.NotFound)

	// What was unstaged does not come back with the next publication.
	published := w.publish(entry("c", "2"))
	if diff := cmp.Diff(map[intent.AssetID]string{"a": "1", "b": "1", "c": "2"}, content(t, w, published.ID)); diff != "" {
		t.Errorf("after unstaging and publishing something else:\n%s", diff)
	}
	if diff := cmp.Diff(original, content(t, w, at(1))); diff != "" {
		t.Errorf("after the next publication 1 reads differently:\n%s", diff)
	}
}

func publishComparesAndSets(w *world) {
	t, ctx := w.t, w.t.Context()
	first := w.next()
	w.publish(entry("a", "1"))
	revision := w.revision()
	_, err := w.Publish(ctx, w.lease, first)
	w.refused(err, fault.Conflict)
	w.refused(w.Stage(ctx, w.lease, intent.IncarnationID{}, []store.Entry{entry("b", "1")}), fault.Conflict)
	w.refused(w.Cover(ctx, w.lease, at(7), nil), fault.Conflict)
	skipping := w.next()
	skipping.ID.Sequence++
	_, err = w.Publish(ctx, w.lease, skipping)
	w.refused(err, fault.Invalid)
	if w.revision() != revision || w.partition(shop).Head != at(1) {
		t.Error("a refused publication changed something")
	}

	next := w.next()
	next.Schema, next.Policy = digestOf("schema"), digestOf("policy")
	next.Count, next.Added, next.Labels = 2, 1, map[string]string{"release": "r1"}
	next.Warnings = []intent.Finding{{Rule: "source", Severity: intent.Warning, Message: "it cannot be read", File: "lehr.yaml", Line: 3}}
	w.must(w.Stage(ctx, w.lease, at(1), []store.Entry{entry("b", "1")}))
	published, err := w.Publish(ctx, w.lease, next)
	w.must(err)
	if published.Digest.IsZero() {
		t.Error("a published incarnation has no membership digest")
	}
	read, err := w.Incarnation(ctx, at(2))
	w.must(err)
	if diff := cmp.Diff(published, read); diff != "" {
		t.Errorf("it reads differently:\n%s", diff)
	}
	head := w.partition(shop)
	if head.Head != at(2) || head.Revision <= revision {
		t.Errorf("after publishing: %+v", head)
	}
	if diff := cmp.Diff(next.Sources, head.Covered); diff != "" {
		t.Errorf("head covers:\n%s", diff)
	}
	moment := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	covered := []intent.SourceRevision{
		{Source: "dir", Revision: "same content"},
		{
			Source: "git", Revision: "0123", Commit: intent.Commit{Author: "Ann <ann@example.com>", Subject: "Begin", Time: moment},
			Failing: intent.Failing{Since: moment, Reason: "it is down"},
		},
	}
	w.must(w.Cover(ctx, w.lease, at(2), covered))
	// They are compared as values, to tell whether anything changed.
	if got := w.partition(shop).Covered; !slices.Equal(got, covered) {
		t.Errorf("after Cover head covers %+v", got)
	}
}

func stagingAgain(w *world) {
	t, ctx := w.t, w.t.Context()
	w.publish(entry("a", "1"), entry("b", "1"), entry("c", "1"))
	base := at(1)
	for _, delta := range [][]store.Entry{
		{entry("a", "2"), removal("b"), entry("d", "1")},
		{entry("a", "2"), removal("b"), entry("d", "1")}, // the same again
		{entry("a", "1"), entry("b", "1"), removal("d")}, // all taken back
		{removal("nothing"), entry("a", "3"), removal("a"), entry("c", "2"), entry("e", "1")},
	} {
		w.must(w.Stage(ctx, w.lease, base, delta))
	}
	_, err := w.Publish(ctx, w.lease, w.next())
	w.must(err)
	if diff := cmp.Diff(map[intent.AssetID]string{"b": "1", "c": "2", "e": "1"}, content(t, w, at(2))); diff != "" {
		t.Errorf("the last entry of each asset should count:\n%s", diff)
	}
	// Identical content keeps its place: nothing is written.
	w.publish(entry("b", "1"))
	m, err := w.Member(ctx, at(3), "b")
	w.must(err)
	if m.Since != 1 {
		t.Errorf("b is as it was in 1, but since %d", m.Since)
	}
	// Only the effective digest moves: no body is needed, references stay.
	moved := entry("b", "1")
	moved.Body, moved.Member.Effective = nil, digestOf("other")
	w.publish(moved)
	m, err = w.Member(ctx, at(4), "b")
	w.must(err)
	if m.Since != 4 || m.Digest != digestOf("1") || m.Effective != digestOf("other") {
		t.Errorf("after its effective digest moved b is %+v", m)
	}
}

func references(w *world) {
	t, ctx := w.t, w.t.Context()
	toA := intent.Reference{Field: "spec.on", To: "a"}
	toB := intent.Reference{Field: "spec.reads", To: "b", Read: true}
	w.publish(entry("a", "1"), entry("b", "1"), entry("c", "1", toA, toB), entry("d", "1", toA))
	w.publish(entry("c", "2", toA))
	moved := entry("c", "2")
	moved.Body, moved.Member.Effective = nil, digestOf("moved")
	w.publish(moved)
	w.publish(removal("d"))
	edge := func(from string, r intent.Reference) store.Edge {
		return store.Edge{From: intent.AssetID(from), To: r.To, Field: r.Field, Read: r.Read}
	}
	for _, c := range []struct {
		sequence int
		fromC    []store.Edge
		toA      []store.Edge
		toB      []store.Edge
	}{
		{1, []store.Edge{edge("c", toA), edge("c", toB)}, []store.Edge{edge("c", toA), edge("d", toA)}, []store.Edge{edge("c", toB)}},
		{2, []store.Edge{edge("c", toA)}, []store.Edge{edge("c", toA), edge("d", toA)}, nil},
		{3, []store.Edge{edge("c", toA)}, []store.Edge{edge("c", toA), edge("d", toA)}, nil},
		{4, []store.Edge{edge("c", toA)}, []store.Edge{edge("c", toA)}, nil},
	} {
		from, err := w.EdgesFrom(ctx, at(c.sequence), "c")
		w.must(err)
		toA, err := w.EdgesTo(ctx, at(c.sequence), "a")
		w.must(err)
		toB, err := w.EdgesTo(ctx, at(c.sequence), "b")
		w.must(err)
		if diff := cmp.Diff([][]store.Edge{c.fromC, c.toA, c.toB}, [][]store.Edge{from, toA, toB}); diff != "" {
			t.Errorf("references as of %d (from c, to a, to b):\n%s", c.sequence, diff)
		}
	}
}

func fields(w *world) {
	toA := intent.Reference{Field: "spec.on", To: "a"}
	c := entryWith("c/1", "1", "size", "s", "addon", "")
	c.References = []intent.Reference{toA, {Field: "spec.also", To: "a"}}
	d := entryWith("d", "1", "size", "m")
	d.References = []intent.Reference{toA}
	d.Member.Type = schemaType
	w.publish(entryWith("a", "1", "size", "s"), entryWith("b", "1", "size", "m", "label", "x = \"y\""), c, d, entryWith("e", "1"))
	// The size changes and is taken back; only the effective digest of c moves.
	w.must(w.Stage(w.t.Context(), w.lease, at(1), []store.Entry{entryWith("b", "2", "size", "l"), removal("a")}))
	moved := entry("c/1", "1")
	moved.Body, moved.Member.Effective = nil, digestOf("moved")
	w.publish(entryWith("b", "3", "size", "m"), moved)
	for _, c := range []struct {
		sequence int
		filter   store.AssetFilter
		want     []intent.AssetID
	}{
		{1, store.AssetFilter{Field: "size"}, []intent.AssetID{"a", "b", "c/1", "d"}},
		{1, store.AssetFilter{Field: "size", Value: "m"}, []intent.AssetID{"b", "d"}},
		{1, store.AssetFilter{Field: "label", Value: "x = \"y\""}, []intent.AssetID{"b"}},
		{1, store.AssetFilter{Field: "siz"}, nil},
		{1, store.AssetFilter{Value: "m"}, []intent.AssetID{"a", "b", "c/1", "d", "e"}},
		{2, store.AssetFilter{Field: "size"}, []intent.AssetID{"b", "c/1", "d"}},
		{2, store.AssetFilter{Field: "size", Value: "l"}, nil},
		{2, store.AssetFilter{Field: "label"}, nil},
		{2, store.AssetFilter{Field: "addon"}, []intent.AssetID{"c/1"}},
		{2, store.AssetFilter{Field: "size", Type: schemaType}, []intent.AssetID{"d"}},
		{2, store.AssetFilter{Field: "size", Prefix: "c/"}, []intent.AssetID{"c/1"}},
		{2, store.AssetFilter{RefersTo: "a"}, []intent.AssetID{"c/1", "d"}},
		{2, store.AssetFilter{RefersTo: "b"}, nil},
		{2, store.AssetFilter{RefersTo: "a", Field: "size", Value: "m"}, []intent.AssetID{"d"}},
		{2, store.AssetFilter{RefersTo: "a", Field: "addon", Prefix: "c", Type: job}, []intent.AssetID{"c/1"}},
	} {
		for limit := range 3 {
			c.filter.Limit = limit
			if diff := cmp.Diff(c.want, selectAssets(w.t, w, at(c.sequence), c.filter)); diff != "" {
				w.t.Errorf("as of %d, %+v (-want +got):\n%s", c.sequence, c.filter, diff)
			}
		}
	}
}

// digestFrom computes the membership digest from what can be read.
func digestFrom(w *world, id intent.IncarnationID) intent.Digest {
	members := map[int][]intent.MemberDigest{}
	for cursor := intent.AssetID(""); ; {
		page, err := w.Members(w.t.Context(), id, store.AssetFilter{After: cursor, Limit: 1000})
		w.must(err)
		for _, m := range page {
			bucket := intent.BucketOf(m.Asset)
			members[bucket] = append(members[bucket], intent.MemberDigest{Asset: m.Asset, Digest: m.Digest})
			cursor = m.Asset
		}
		if len(page) == 0 {
			break
		}
	}
	var buckets [intent.Buckets]intent.Digest
	for bucket, list := range members {
		buckets[bucket] = intent.BucketDigest(list)
	}
	return intent.MembershipDigest(&buckets)
}

func membershipDigests(w *world) {
	var delta []store.Entry
	for i := range 200 {
		delta = append(delta, entry(fmt.Sprintf("a/%d", i), "1"))
	}
	digests := map[intent.Digest]int{}
	for i, part := range [][]store.Entry{delta, {entry("a/7", "2")}, {removal("a/8"), entry("b", "1")}, {removal("b")}, {entry("a/7", "1"), entry("a/8", "1")}} {
		published := w.publish(part...)
		if want := digestFrom(w, published.ID); published.Digest != want {
			w.t.Errorf("%s has digest %s, its members %s", published.ID, published.Digest.Short(), want.Short())
		}
		digests[published.Digest] = i
	}
	// The last is as the first, every other differs.
	if len(digests) != 4 || digests[digestFrom(w, at(1))] != 4 {
		w.t.Errorf("five incarnations of four memberships have %d digests", len(digests))
	}
}

func badEntries(w *world) {
	lie := entry("a", "1")
	lie.Body = []byte("something else")
	missing := entry("a", "never stored")
	missing.Body = nil
	nameless := entry("", "1")
	for _, bad := range []store.Entry{lie, missing, nameless} {
		w.refused(w.Stage(w.t.Context(), w.lease, intent.IncarnationID{}, []store.Entry{bad}), fault.Invalid)
	}
	empty := entry("empty", "")
	empty.Body = []byte{}
	w.publish(empty)
	if diff := cmp.Diff(map[intent.AssetID]string{"empty": ""}, content(w.t, w, at(1))); diff != "" {
		w.t.Errorf("an asset without content:\n%s", diff)
	}
}

func manyEntries(w *world) {
	var delta []store.Entry
	for i := range 2500 {
		delta = append(delta, entry(fmt.Sprintf("many/%04d", i), fmt.Sprint("content ", i)))
	}
	w.must(w.Stage(w.t.Context(), w.lease, intent.IncarnationID{}, delta))
	w.must(w.Unstage(w.t.Context(), w.lease))
	w.publish(delta[:5]...)
	if got := content(w.t, w, at(1)); len(got) != 5 {
		w.t.Errorf("after unstaging 2500 assets and staging 5 there are %d", len(got))
	}
	published := w.publish(delta...)
	if got := content(w.t, w, at(2)); len(got) != 2500 || got["many/2499"] != "content 2499" {
		w.t.Errorf("%d of 2500 assets", len(got))
	}
	if published.Digest != digestFrom(w, at(2)) {
		w.t.Error("the membership digest is not that of the members")
	}
}
