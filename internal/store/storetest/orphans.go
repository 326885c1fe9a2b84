package storetest

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/store"
)

func testOrphans(t *testing.T, open func(t *testing.T) store.All) {
	for name, test := range map[string]func(*world){
		"Listed": orphansListed, "Staged": orphansStaged, "Absent": orphanAbsent, "Disowned": orphanDisowned,
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, open)
			w.t = t
			test(w)
			w.must(w.VerifyAudit(t.Context(), shop))
		})
	}
}

// orphans lists them page by page, and compares with their count.
func (w *world) orphans() string {
	w.t.Helper()
	var all []string
	for cursor := intent.AssetID(""); ; {
		page, err := w.Orphans(w.t.Context(), shop, cursor, 2)
		w.must(err)
		for _, orphan := range page {
			cursor = orphan.Asset
			all = append(all, string(orphan.Asset))
		}
		if len(page) < 2 {
			break
		}
	}
	count, err := w.OrphanCount(w.t.Context(), shop)
	w.must(err)
	if count != len(all) {
		w.t.Errorf("%d orphans are counted, %d are listed: %v", count, len(all), all)
	}
	return strings.Join(all, " ")
}

func (w *world) hasOrphans(want, label string) {
	w.t.Helper()
	if got := w.orphans(); got != want {
		w.t.Errorf("%s the orphans are %q, want %q", label, got, want)
	}
}

func orphansListed(w *world) {
	var delta, removals []store.Entry
	for i := range 5 {
		delta = append(delta, entry(fmt.Sprint("a/", i), "x"))
		removals = append(removals, removal(fmt.Sprint("a/", i)))
	}
	w.publish(append(delta, entry("stays", "x"), entry("never", "x"))...)
	for i := range 5 {
		w.enforced(fmt.Sprint("a/", i), fmt.Sprint("k/", i))
	}
	w.enforced("stays", "k")
	w.hasOrphans("", "in head")
	w.publish(slices.Concat(removals[:3], []store.Entry{removal("never")})...)
	w.hasOrphans("a/0 a/1 a/2", "when three have left head")
	page, err := w.Orphans(w.t.Context(), shop, "a/0", 1)
	w.must(err)
	want := w.sighting("a/1", "k/1")
	want.Incarnation = at(1)
	if diff := cmp.Diff([]store.Enforced{want}, page); diff != "" {
		w.t.Errorf("an orphan:\n%s", diff)
	}
	w.publish(delta[1])
	w.hasOrphans("a/0 a/2", "when one has come back")
	w.publish(removals[3:]...)
	// A sighting that is late, of one that has left, is an orphan too.
	w.publish(removal("stays"))
	w.enforced("late", "late")
	w.hasOrphans("a/0 a/2 a/3 a/4 late stays", "after a late sighting")
	_, err = w.Collect(w.t.Context(), w.lease, store.Retention{}, noon.AddDate(1, 0, 0))
	w.must(err)
	w.hasOrphans("a/0 a/2 a/3 a/4 late stays", "after collecting")
	// Their incarnations stay, so that what they were can be read.
	if got := content(w.t, w, at(1)); got["a/0"] != "x" {
		w.t.Errorf("the last incarnation of an orphan reads %v", got)
	}
	otherOrphans, err := w.Orphans(w.t.Context(), theatre, "", 0)
	w.must(err)
	if len(otherOrphans) > 0 {
		w.t.Errorf("another partition lists %v", otherOrphans)
	}
}

// orphansStaged: what is staged makes no orphans, and hides none.
func orphansStaged(w *world) {
	ctx := w.t.Context()
	stage := func(delta ...store.Entry) {
		w.t.Helper()
		w.must(w.Stage(ctx, w.lease, w.partition(shop).Head, delta))
	}
	w.publish(entry("a", "x"), entry("b", "x"))
	w.enforced("a", "k/a")
	stage(removal("a"))
	w.hasOrphans("", "while a removal is staged")
	w.enforced("a", "k/a")
	w.enforced("b", "k/b") // first seen while its removal will be staged
	stage(removal("b"))
	w.enforced("b", "k/b")
	_, err := w.Publish(ctx, w.lease, w.next())
	w.must(err)
	w.hasOrphans("a b", "after the flip")
	stage(entry("a", "x"))
	w.hasOrphans("a b", "while its return is staged")
	w.enforced("a", "k/a") // seen late, while its return is staged
	w.must(w.Unstage(ctx, w.lease))
	w.hasOrphans("a b", "after the return was unstaged")
	_, err = w.Collect(ctx, w.lease, store.Retention{Incarnations: 10}, noon)
	w.must(err)
	w.hasOrphans("a b", "after collecting")
	w.publish(entry("a", "y"), entry("b", "y"))
	w.hasOrphans("", "after both came back")
	stage(removal("a"))
	_, err = w.Collect(ctx, w.lease, store.Retention{Incarnations: 10}, noon)
	w.must(err)
	_, err = w.Publish(ctx, w.lease, w.next())
	w.must(err)
	w.hasOrphans("a", "after collecting amid staging")
}

func orphanAbsent(w *world) {
	ctx := w.t.Context()
	w.publish(entry("a", "x"), entry("b", "x"))
	w.enforced("a", "k/a")
	w.enforced("b", "k/b")
	w.publish(entryWith("a", "x", turndown, ""))
	if conflict := w.enforce(absent(w.sighting("a", "k/a"))); conflict != (store.Claim{}) {
		w.t.Errorf("an absent asset meets %+v", conflict)
	}
	count, err := w.EnforcedCount(ctx, shop)
	w.must(err)
	if count != 1 || w.records() != "(a) b" {
		w.t.Errorf("%d enforced, records are %s; want b, and that a is absent", count, w.records())
	}
	if diff := cmp.Diff([]string{"a: claim given back: nothing is there, as its Turndown asks: k/a"}, w.carried()); diff != "" {
		w.t.Errorf("audit:\n%s", diff)
	}
	// Seen again it changes nothing; nor does it take or give what is b's.
	w.enforce(absent(w.sighting("a", "k/a")))
	w.enforce(absent(w.sighting("a", "k/b")))
	w.belongsTo("a", "k/b", "b")
	w.enforced("b", "k/a") // the claim was given back

	w.publish(removal("a"))
	w.hasOrphans("", "when a turndown was complete")
	w.refused(w.Disown(ctx, shop, "a", "gone", bob), fault.NotFound)
	if got := w.records(); got != "(a) b" {
		w.t.Errorf("before collecting the records are %s", got)
	}
	_, err = w.Collect(ctx, w.lease, store.Retention{Incarnations: 10}, noon)
	w.must(err)
	if got := w.records(); got != "b" {
		w.t.Errorf("after collecting the records are %s", got)
	}
	// What is in head stays known, also when it comes back and is there again.
	w.publish(entryWith("c", "x", turndown, ""))
	w.enforce(absent(w.sighting("c", "k/c")))
	_, err = w.Collect(ctx, w.lease, store.Retention{Incarnations: 10}, noon)
	w.must(err)
	if got := w.records(); got != "b (c)" {
		w.t.Errorf("records are %s, want that of c, which is in head", got)
	}
	w.publish(entry("c", "x"))
	w.enforced("c", "k/c")
	w.publish(removal("c"))
	w.hasOrphans("c", "when what was made again has left")
}

func orphanDisowned(w *world) {
	ctx := w.t.Context()
	w.publish(entry("a", "x"), entry("b", "x"), entry("c", "x"))
	w.enforced("a", "k/a")
	w.enforced("a", "k/a2") // it holds both
	w.refused(w.Disown(ctx, shop, "a", "in head", bob), fault.NotFound)
	w.refused(w.Disown(ctx, shop, "b", "never enforced", bob), fault.NotFound)
	w.refused(w.Disown(ctx, theatre, "a", "not registered", bob), fault.NotFound)
	w.pin("a", at(1), noon.AddDate(1000, 0, 0))
	w.publish(removal("a"), removal("b"))
	w.refused(w.Disown(ctx, shop, "b", "never enforced", bob), fault.NotFound)
	w.refused(w.Disown(ctx, shop, "a", "pinned", bob), fault.Conflict)
	w.must(w.Unpin(ctx, shop, "a", intent.RankPerson, "a try", bob))
	w.hasOrphans("a", "before it is disowned")
	previous := w.partition(shop)
	w.must(w.Disown(ctx, shop, "a", "the rack burned down", bob))
	w.hasOrphans("", "after it was disowned")
	w.refused(w.Disown(ctx, shop, "a", "again", bob), fault.NotFound)
	if diff := cmp.Diff(previous, w.partition(shop)); diff != "" {
		w.t.Errorf("disowning changed the partition:\n%s", diff)
	}
	records, err := w.AuditRecords(ctx, shop, 0, 0)
	w.must(err)
	last := records[len(records)-1]
	if last.Verb != "disown" || last.By != bob || last.Subject != "a" ||
		last.Reason != "the rack burned down" || !strings.Contains(last.Detail, "k/a2") || !strings.Contains(last.Detail, "shop@1") {
		w.t.Errorf("the audit says %+v", last)
	}
	lease := w.register(theatre)
	for _, key := range []intent.ResourceKey{"k/a", "k/a2"} {
		foreign := w.sighting("z", string(key))
		foreign.Incarnation.Partition = theatre
		conflicts, err := w.SaveEnforced(ctx, lease, []store.Enforced{foreign})
		w.must(err)
		if len(conflicts) > 0 {
			w.t.Errorf("%s still belongs to %+v", key, conflicts)
		}
	}
	if slices.ContainsFunc(w.carried(), func(s string) bool { return strings.Contains(s, "carried") }) {
		w.t.Error("nothing was carried")
	}
}
