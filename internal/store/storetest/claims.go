package storetest

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/store"
)

const turndown = "lehr.intent.v1.Turndown"

func testClaims(t *testing.T, open func(t *testing.T) store.All) {
	for name, test := range map[string]func(*world){
		"Renamed": claimRenamed, "NamesAnother": claimNamesAnother, "TurnedDown": claimTurnedDown, "OpenPush": claimOpenPush, "Pinned": claimPinned,
		"Removal": claimRemoval, "OtherPartition": claimOtherPartition, "NoKey": claimNoKey, "NeverEnforced": claimNeverEnforced,
		"NeverSeen":   claimNeverSeen,
		"OtherRecord": claimOtherRecord,
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, open)
			w.t = t
			w.publish(entry("a", "x"), entry("b", "x"), entry("c", "x"))
			test(w)
			w.must(w.VerifyAudit(t.Context(), shop))
		})
	}
}

// sighting is a record of an asset of shop, in sync with head.
func (w *world) sighting(asset, key string) store.Enforced {
	w.t.Helper()
	return store.Enforced{
		Asset: intent.AssetID(asset), Type: job, Effective: digestOf("x"), Policy: digestOf("policy"),
		Incarnation: w.partition(shop).Head, ResourceKey: intent.ResourceKey(key), At: noon,
	}
}

func absent(e store.Enforced) store.Enforced {
	e.Absent = true
	return e
}

// enforce saves one record, and returns who has its key instead.
func (w *world) enforce(e store.Enforced) store.Claim {
	w.t.Helper()
	conflicts, err := w.SaveEnforced(w.t.Context(), w.lease, []store.Enforced{e})
	w.must(err)
	return conflicts[e.Asset]
}

// enforced fails the test when the key belongs to another.
func (w *world) enforced(asset, key string) {
	w.t.Helper()
	if conflict := w.enforce(w.sighting(asset, key)); conflict != (store.Claim{}) {
		w.t.Fatalf("%q cannot have %q: it belongs to %+v", asset, key, conflict)
	}
}

// belongsTo fails the test unless the key belongs to the other asset.
func (w *world) belongsTo(asset, key, holder string) {
	w.t.Helper()
	want := store.Claim{Key: intent.ResourceKey(key), Partition: shop, Asset: intent.AssetID(holder)}
	if got := w.enforce(w.sighting(asset, key)); got != want {
		w.t.Fatalf("when %q is seen with %q it belongs to %+v, want %+v", asset, key, got, want)
	}
}

// records lists the assets with an enforced record, those of which nothing is
// left in brackets.
func (w *world) records() string {
	w.t.Helper()
	page, err := w.EnforcedPage(w.t.Context(), shop, "", 0)
	w.must(err)
	var list []string
	for _, e := range page {
		if e.Absent {
			list = append(list, "("+string(e.Asset)+")")
		} else {
			list = append(list, string(e.Asset))
		}
	}
	return strings.Join(list, " ")
}

// carried lists what the audit says of claims.
func (w *world) carried() (details []string) {
	w.t.Helper()
	records, err := w.AuditRecords(w.t.Context(), shop, 0, 0)
	w.must(err)
	for _, r := range records {
		if r.Verb == "claim" {
			if r.By.Name != w.lease.Holder || r.Subject == "" {
				w.t.Errorf("%+v names no holder of the lease, or no asset", r)
			}
			details = append(details, r.Subject+": "+r.Detail)
		}
	}
	return details
}

func (w *world) pin(asset string, target intent.IncarnationID, end time.Time) {
	w.t.Helper()
	_, err := w.SetPin(w.t.Context(), intent.Pin{Asset: intent.AssetID(asset), Incarnation: target, Rank: intent.RankPerson, Holder: bob, Reason: "test", Until: end})
	w.must(err)
}

// A renamed asset takes claim and record along, in either of the two ways.
func claimRenamed(w *world) {
	w.enforced("a", "k")
	w.belongsTo("b", "k", "a")
	w.waits(claiming(w.admission("p0", "b", at(1)), "k"), intent.WaitClaim)
	w.publish(removal("a"))
	w.admitted(claiming(w.admission("p1", "b", at(2)), "k"))
	if got := w.records(); got != "" {
		w.t.Errorf("the record of a stayed: %s", got)
	}
	w.closePush("p1", "pushed")
	w.enforced("b", "k")
	w.publish(removal("b"))
	w.enforced("c", "k")
	want := []string{
		`b: claim carried: resource "k" from "a", as it has left head`,
		`c: claim carried: resource "k" from "b", as it has left head`,
	}
	w.enforced("c", "k")
	if diff := cmp.Diff(want, w.carried()); diff != "" {
		w.t.Errorf("audit:\n%s", diff)
	}
	if got := w.records(); got != "c" {
		w.t.Errorf("records are %s, want that of c", got)
	}
	// A late sighting of one that left does not take it back.
	w.belongsTo("b", "k", "c")
}

// An asset that names another resource, and was seen in sync with it, lets the one
// before go, but not before.
func claimNamesAnother(w *world) {
	w.enforced("a", "k")
	w.admitted(claiming(w.admission("p1", "a", at(1)), "other"))
	w.belongsTo("b", "k", "a")
	w.closePush("p1", "pushed")
	w.belongsTo("b", "k", "a")
	w.waits(claiming(w.admission("p2", "b", at(1)), "k"), intent.WaitClaim)
	w.enforced("a", "other")
	w.pin("a", at(1), noon.Add(time.Minute))
	w.belongsTo("b", "k", "a")
	w.must(w.Unpin(w.t.Context(), shop, "a", intent.RankPerson, "a try", bob))
	w.admitted(claiming(w.admission("p3", "b", at(1)), "k"))
	w.closePush("p3", "pushed")
	w.enforced("b", "k")
	w.belongsTo("a", "k", "b")
	if got := w.records(); got != "a b" {
		w.t.Errorf("records are %s, want those of a and b", got)
	}
	// Of what is gone nothing says what it is about.
	w.enforced("c", "c1")
	w.enforced("c", "c2")
	w.enforce(absent(w.sighting("c", "c2")))
	w.enforced("b", "c1")
	want := []string{
		`b: claim carried: resource "k" from "a", as it was seen in sync as another resource since`,
		`c: claim given back: nothing is there, as its Turndown asks: c1, c2`,
	}
	if diff := cmp.Diff(want, w.carried()); diff != "" {
		w.t.Errorf("audit:\n%s", diff)
	}
}

func claimTurnedDown(w *world) {
	w.enforced("a", "k")
	w.publish(entryWith("a", "x", turndown, ""), entryWith("b", "x", turndown, ""))
	w.belongsTo("b", "k", "a") // both are turned down
	waiting := w.waits(claiming(w.admission("p1", "b", at(2)), "k"), intent.WaitClaim)
	if !slices.Equal(waiting.Blockers, []intent.AssetID{"a"}) {
		w.t.Errorf("the refusal does not name the holder: %+v", waiting)
	}
	w.enforced("c", "k")
	w.belongsTo("a", "k", "c")
	want := []string{`c: claim carried: resource "k" from "a", as it is being turned down`}
	if diff := cmp.Diff(want, w.carried()); diff != "" {
		w.t.Errorf("audit:\n%s", diff)
	}
	if got := w.records(); got != "c" {
		w.t.Errorf("records are %s, want that of c", got)
	}
	// Another addon of a like name is none.
	w.publish(entryWith("c", "x", "lehr.intent.v1.Turndown.reason", "r"), entry("b", "x"))
	w.belongsTo("b", "k", "c")
}

func claimOpenPush(w *world) {
	w.enforced("a", "k")
	w.admitted(claiming(w.admission("p1", "a", at(1)), "other"))
	w.publish(removal("a"))
	w.belongsTo("b", "k", "a")
	waiting := w.waits(claiming(w.admission("p2", "b", at(2)), "k"), intent.WaitClaim)
	if !strings.Contains(waiting.Reason, "p1") || !slices.Equal(waiting.Blockers, []intent.AssetID{"a"}) {
		w.t.Errorf("the refusal does not name the push: %+v", waiting)
	}
	w.refused(w.Disown(w.t.Context(), shop, "a", "gone", bob), fault.Conflict)
	w.closePush("p1", store.EndingInDoubt)
	w.belongsTo("b", "k", "a") // it may still be running
	w.closePush("p1", "settled")
	w.enforced("b", "k")
}

func claimPinned(w *world) {
	w.enforced("a", "k")
	w.pin("a", at(1), noon.Add(time.Minute))
	w.publish(removal("a"))
	w.belongsTo("b", "k", "a")
	want := claiming(w.admission("p1", "b", at(2)), "k")
	if waiting := w.waits(want, intent.WaitClaim); !strings.Contains(waiting.Reason, "pin") {
		w.t.Errorf("the refusal does not name the pin: %+v", waiting)
	}
	want.At = noon.Add(time.Minute)
	w.admitted(want)
	// So does one that follows an incarnation without the Turndown.
	w.publish(entryWith("b", "x", turndown, ""))
	w.pin("b", at(2), time.Time{})
	w.closePush("p1", "pushed")
	w.belongsTo("c", "k", "b")
	w.must(w.Unpin(w.t.Context(), shop, "b", intent.RankPerson, "a try", bob))
	w.enforced("c", "k")
}

// A removal takes nothing over, whatever the holder does.
func claimRemoval(w *world) {
	w.enforced("a", "k")
	removing := func(push, asset string, key intent.ResourceKey) store.Admission {
		a := claiming(w.admission(push, asset, w.partition(shop).Head), key)
		a.Removes = true
		return a
	}
	w.publish(removal("a"), entryWith("b", "x", turndown, ""))
	waiting := w.waits(removing("p1", "b", "k"), intent.WaitClaim)
	if !slices.Equal(waiting.Blockers, []intent.AssetID{"a"}) || !strings.Contains(waiting.Reason, "removal") {
		w.t.Errorf("the refusal does not name the holder: %+v", waiting)
	}
	if got := w.records(); got != "a" {
		w.t.Errorf("a refused removal left the records %q", got)
	}
	w.admitted(removing("p2", "b", "free"))
	w.closePush("p2", "pushed")
	w.enforced("c", "free") // b is turned down, and c is not
}

func claimOtherPartition(w *world) {
	ctx := w.t.Context()
	lease := w.register(theatre)
	foreign := w.sighting("z", "k")
	foreign.Incarnation = intent.IncarnationID{Partition: theatre, Sequence: 1}
	save := func() store.Claim {
		w.t.Helper()
		conflicts, err := w.SaveEnforced(ctx, lease, []store.Enforced{foreign})
		w.must(err)
		return conflicts["z"]
	}
	w.enforced("a", "k")
	for _, delta := range [][]store.Entry{{entryWith("a", "x", turndown, "")}, {removal("a")}} {
		w.publish(delta...)
		if conflict := save(); conflict.Partition != shop || conflict.Asset != "a" {
			w.t.Errorf("another partition took the key of %+v", conflict)
		}
	}
	// It moves when the old partition disowns it.
	w.must(w.Disown(ctx, shop, "a", "moved to theatre", bob))
	if conflict := save(); conflict != (store.Claim{}) {
		w.t.Errorf("after it was disowned the key belongs to %+v", conflict)
	}
	waiting := w.waits(claiming(w.admission("p1", "b", at(3)), "k"), intent.WaitClaim)
	if waiting.Owner != string(theatre) || len(waiting.Blockers) > 0 {
		w.t.Errorf("the refusal names %+v", waiting)
	}
	w.must(w.RemovePartition(ctx, theatre, "a try", alice))
	removing := claiming(w.admission("p1", "b", at(3)), "k")
	removing.Removes = true
	w.waits(removing, intent.WaitClaim)
	w.enforced("b", "k")
	want := []string{`b: claim carried: resource "k" from partition "theatre", as its partition was removed`}
	if diff := cmp.Diff(want, w.carried()); diff != "" {
		w.t.Errorf("audit:\n%s", diff)
	}
}

func claimNoKey(w *world) {
	w.enforced("a", "")
	w.enforced("b", "")
	w.admitted(w.admission("p1", "a", at(1)))
	w.admitted(w.admission("p2", "b", at(1)))
	if got := w.records(); got != "a b" {
		w.t.Errorf("records are %q", got)
	}
}

// claimNeverEnforced: a claim of which no record tells goes, once its asset
// has left and nothing acts on it, so that another partition may have it.
func claimNeverEnforced(w *world) {
	ctx := w.t.Context()
	collect := func() {
		w.t.Helper()
		_, err := w.Collect(ctx, w.lease, store.Retention{}, noon)
		w.must(err)
	}
	lease := w.register(theatre)
	foreign := w.sighting("z", "k")
	foreign.Incarnation = intent.IncarnationID{Partition: theatre, Sequence: 1}
	blocked := func(label string) {
		w.t.Helper()
		collect()
		conflicts, err := w.SaveEnforced(ctx, lease, []store.Enforced{foreign})
		w.must(err)
		if conflicts["z"].Asset != "a" {
			w.t.Errorf("%s: the key belongs to %+v", label, conflicts["z"])
		}
	}
	w.admitted(claiming(w.admission("p1", "a", at(1)), "k"))
	w.pin("a", at(1), time.Time{})
	blocked("in head")
	w.publish(removal("a"))
	w.closePush("p1", store.EndingInDoubt)
	w.must(w.Unpin(ctx, shop, "a", intent.RankPerson, "a try", bob))
	blocked("its push in doubt")
	w.pin("a", at(1), time.Time{})
	w.closePush("p1", "settled")
	blocked("pinned")
	w.pin("a", at(1), noon.Add(time.Second))
	blocked("pinned for a moment more")
	w.pin("a", at(1), noon)
	collect()
	conflicts, err := w.SaveEnforced(ctx, lease, []store.Enforced{foreign})
	w.must(err)
	if len(conflicts) > 0 {
		w.t.Errorf("after all ended the key belongs to %+v", conflicts)
	}
}

// claimNeverSeen: what an admission takes over, and is never seen in sync,
// stays in sight when the claimant leaves head as well.
func claimNeverSeen(w *world) {
	ctx := w.t.Context()
	w.enforced("a", "k")
	w.publish(removal("a"))
	w.admitted(claiming(w.admission("p1", "b", at(2)), "k"))
	w.closePush("p1", "failed")
	w.hasOrphans("", "while b is in head")
	if got := w.records(); got != "" {
		w.t.Errorf("b was never seen in sync, and has a record: %s", got)
	}
	w.publish(removal("b"))
	_, err := w.Collect(ctx, w.lease, store.Retention{}, noon)
	w.must(err)
	w.hasOrphans("b", "after b left")
	page, err := w.Orphans(ctx, shop, "", 0)
	w.must(err)
	if page[0].ResourceKey != "k" || page[0].Incarnation != at(1) {
		w.t.Errorf("the orphan is %+v, want the resource k as a was last seen", page[0])
	}
	w.publish(entry("b", "x"))
	w.enforced("b", "k")
	w.hasOrphans("", "after b came back")
	w.publish(removal("b"))
	w.must(w.Disown(ctx, shop, "b", "gone", bob))
	w.hasOrphans("", "after b was disowned")
}

// claimOtherRecord: a claim that passes takes along the record with its key,
// not that of another resource, which would be orphaned unseen.
func claimOtherRecord(w *world) {
	w.enforced("a", "k")
	w.enforced("a", "k2")
	w.publish(removal("a"))
	w.enforced("b", "k")
	if got := w.records(); got != "a b" {
		w.t.Errorf("records are %q, want that of a with its other resource", got)
	}
	w.enforced("c", "k2")
	if got := w.records(); got != "b c" {
		w.t.Errorf("records are %q", got)
	}
}
