package storetest

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/store"
)

// testClaimModel compares claims, enforced records and orphans with maps,
// after any sequence of what moves them.
func testClaimModel(t *testing.T, open func(t *testing.T) store.All) {
	s := open(t)
	run := 0
	rapid.Check(t, func(r *rapid.T) {
		run++
		m := newClaimModel(r, s, run)
		steps := []func(*rapid.T){m.publish, m.publish, m.stage, m.pin, m.unpin, m.admit, m.admit, m.close, m.enforce, m.enforce, m.disown, m.collect}
		for range rapid.IntRange(1, 20).Draw(r, "steps") {
			steps[rapid.IntRange(0, len(steps)-1).Draw(r, "step")](r)
			m.verify(r)
		}
		m.verifyHolders(r)
	})
}

type record struct {
	Key    intent.ResourceKey
	Absent bool
	// Carried: it is the former holder's, and shows only as an orphan.
	Carried bool
}

type claimModel struct {
	store.All
	lease   store.Lease
	head    intent.IncarnationID
	keys    []intent.ResourceKey
	pushes  int
	inHead  map[intent.AssetID]bool // and whether it has a Turndown
	holders map[intent.ResourceKey]intent.AssetID
	records map[intent.AssetID]record
	open    map[intent.AssetID]store.Admission
	pinned  map[intent.AssetID]bool
}

func newClaimModel(r *rapid.T, s store.All, run int) *claimModel {
	base := newModel(r, s, intent.PartitionID(fmt.Sprint("claims-", run)))
	return &claimModel{
		All: s, lease: base.lease, head: base.head,
		// A resource is one in the whole store.
		keys:    []intent.ResourceKey{"", intent.ResourceKey(fmt.Sprint(run, "/x")), intent.ResourceKey(fmt.Sprint(run, "/y"))},
		inHead:  map[intent.AssetID]bool{},
		holders: map[intent.ResourceKey]intent.AssetID{}, records: map[intent.AssetID]record{},
		open: map[intent.AssetID]store.Admission{}, pinned: map[intent.AssetID]bool{},
	}
}

func drawAsset(r *rapid.T) intent.AssetID {
	return rapid.SampledFrom([]intent.AssetID{"a", "b", "c"}).Draw(r, "asset")
}

func (m *claimModel) drawDelta(r *rapid.T) (delta []store.Entry) {
	for _, asset := range []string{"a", "b", "c"} {
		switch rapid.IntRange(0, 4).Draw(r, asset) {
		case 0:
			delta = append(delta, entry(asset, "x"))
		case 1:
			delta = append(delta, entryWith(asset, "turned down", turndown, ""))
		case 2:
			delta = append(delta, removal(asset))
		}
	}
	return delta
}

func (m *claimModel) publish(r *rapid.T) {
	delta := m.drawDelta(r)
	next := m.head
	next.Sequence++
	ok(r, m.Stage(context.Background(), m.lease, m.head, delta))
	_, err := m.Publish(context.Background(), m.lease, intent.Incarnation{ID: next, Parent: m.head, Author: alice, Created: noon})
	ok(r, err)
	m.head = next
	for _, e := range delta {
		if delete(m.inHead, e.Asset); !e.Removed {
			m.inHead[e.Asset] = len(e.Fields) > 0
		}
	}
}

// stage leaves something staged, or throws it away.
func (m *claimModel) stage(r *rapid.T) {
	ok(r, m.Unstage(context.Background(), m.lease))
	if rapid.Bool().Draw(r, "more") {
		m.enforce(r)
	}
	ok(r, m.Stage(context.Background(), m.lease, m.head, m.drawDelta(r)))
	if rapid.Bool().Draw(r, "seen meanwhile") {
		m.enforce(r)
	}
	ok(r, m.Unstage(context.Background(), m.lease))
}

func (m *claimModel) pin(r *rapid.T) {
	assets := slices.Sorted(maps.Keys(m.inHead))
	if len(assets) == 0 {
		return
	}
	asset := rapid.SampledFrom(assets).Draw(r, "asset")
	_, err := m.SetPin(context.Background(), intent.Pin{Asset: asset, Incarnation: m.head, Rank: intent.RankPerson, Holder: bob})
	ok(r, err)
	m.pinned[asset] = true
}

func (m *claimModel) unpin(r *rapid.T) {
	asset := drawAsset(r)
	if err := m.Unpin(context.Background(), m.head.Partition, asset, intent.RankPerson, "a try", bob); (err == nil) != m.pinned[asset] {
		r.Fatalf("unpinning %s: %v", asset, err)
	}
	delete(m.pinned, asset)
}

// take is the contract of store.Claim.
func (m *claimModel) take(asset intent.AssetID, key intent.ResourceKey, removes bool) bool {
	holder, isHeld := m.holders[key]
	if key == "" || isHeld && holder == asset {
		return true
	}
	if isHeld {
		leaving, stays := m.inHead[holder]
		holderRecord, ok := m.records[holder]
		elsewhere := ok && holderRecord.Key != "" && holderRecord.Key != key && !holderRecord.Absent && !holderRecord.Carried
		passes := !stays || elsewhere || leaving && !m.inHead[asset]
		_, pushed := m.open[holder]
		if removes || !passes || pushed || m.pinned[holder] {
			return false
		}
		if former, ok := m.records[holder]; ok && former.Key == key {
			if _, hasRecord := m.records[asset]; !hasRecord && !former.Absent {
				m.records[asset] = record{key, false, true}
			}
			delete(m.records, holder)
		}
	}
	m.holders[key] = asset
	return true
}

func (m *claimModel) admit(r *rapid.T) {
	p, err := m.Partition(context.Background(), m.head.Partition)
	ok(r, err)
	m.pushes++
	a := store.Admission{
		Push: intent.PushID(fmt.Sprint(m.head.Partition, "/", m.pushes)), Asset: drawAsset(r), Target: m.head, At: noon,
		ResourceKey: rapid.SampledFrom(m.keys).Draw(r, "key"), Removes: rapid.Bool().Draw(r, "removes"), Revision: p.Revision,
	}
	refusals, err := m.Admit(context.Background(), m.lease, []store.Admission{a})
	ok(r, err)
	_, busy := m.open[a.Asset]
	for _, openPush := range m.open {
		busy = busy || a.ResourceKey != "" && openPush.ResourceKey == a.ResourceKey
	}
	holder := m.holders[a.ResourceKey]
	admitted := !busy && m.take(a.Asset, a.ResourceKey, a.Removes)
	switch {
	case admitted != (refusals[0] == nil):
		r.Fatalf("%+v: refused with %+v, should be admitted: %t", a, refusals[0], admitted)
	case admitted:
		m.open[a.Asset] = a
		if record, ok := m.records[a.Asset]; ok && a.ResourceKey != "" {
			record.Absent = false
			m.records[a.Asset] = record
		}
	case !busy && (refusals[0].Waiting.Kind != intent.WaitClaim || !slices.Equal(refusals[0].Waiting.Blockers, []intent.AssetID{holder})):
		r.Fatalf("%+v: refused with %+v, want the claim of %s", a, refusals[0], holder)
	}
}

func (m *claimModel) close(r *rapid.T) {
	if a, found := m.open[drawAsset(r)]; found {
		ok(r, m.ClosePushes(context.Background(), m.lease, []store.Closing{{Push: a.Push, Ending: "pushed", At: noon}}))
		delete(m.open, a.Asset)
	}
}

func (m *claimModel) enforce(r *rapid.T) {
	e := store.Enforced{
		Asset: drawAsset(r), Type: job, Incarnation: m.head, At: noon,
		ResourceKey: rapid.SampledFrom(m.keys).Draw(r, "key"), Absent: rapid.IntRange(0, 3).Draw(r, "absent") == 0,
	}
	conflicts, err := m.SaveEnforced(context.Background(), m.lease, []store.Enforced{e})
	ok(r, err)
	holder := m.holders[e.ResourceKey]
	switch conflict, refused := conflicts[e.Asset]; {
	case e.Absent:
		maps.DeleteFunc(m.holders, func(_ intent.ResourceKey, holder intent.AssetID) bool { return holder == e.Asset })
	case m.take(e.Asset, e.ResourceKey, false) == refused || refused && conflict.Asset != holder:
		r.Fatalf("%+v: refused %t for %+v, the holder is %q", e, refused, conflict, holder)
	case refused:
		return
	}
	m.records[e.Asset] = record{e.ResourceKey, e.Absent, false}
}

// idle: nothing acts on the asset, which is not in head.
func (m *claimModel) idle(asset intent.AssetID) bool {
	_, inHead := m.inHead[asset]
	_, pushed := m.open[asset]
	return !inHead && !pushed && !m.pinned[asset]
}

func (m *claimModel) disown(r *rapid.T) {
	asset := drawAsset(r)
	err := m.Disown(context.Background(), m.head.Partition, asset, "test", bob)
	switch {
	case !slices.Contains(m.orphans(), asset):
		if !fault.Is(err, fault.NotFound) {
			r.Fatalf("disowning %s, which is no orphan: %v", asset, err)
		}
		return
	case !m.idle(asset):
		if !fault.Is(err, fault.Conflict) {
			r.Fatalf("disowning %s, on which something acts: %v", asset, err)
		}
		return
	}
	ok(r, err)
	delete(m.records, asset)
	maps.DeleteFunc(m.holders, func(_ intent.ResourceKey, holder intent.AssetID) bool { return holder == asset })
}

func (m *claimModel) collect(r *rapid.T) {
	_, err := m.Collect(context.Background(), m.lease, store.Retention{Incarnations: 2, History: time.Hour}, noon)
	ok(r, err)
	maps.DeleteFunc(m.records, func(asset intent.AssetID, e record) bool { return e.Absent && m.idle(asset) })
	maps.DeleteFunc(m.holders, func(_ intent.ResourceKey, holder intent.AssetID) bool {
		_, ok := m.records[holder]
		return m.idle(holder) && !ok
	})
}

func (m *claimModel) orphans() (assets []intent.AssetID) {
	for asset, e := range m.records {
		if _, inHead := m.inHead[asset]; !inHead && !e.Absent {
			assets = append(assets, asset)
		}
	}
	slices.Sort(assets)
	return assets
}

func (m *claimModel) verify(r *rapid.T) {
	page, err := m.EnforcedPage(context.Background(), m.head.Partition, "", 0)
	ok(r, err)
	got, enforced := map[intent.AssetID]record{}, 0
	for _, e := range page {
		if got[e.Asset] = (record{e.ResourceKey, e.Absent, false}); !e.Absent {
			enforced++
		}
	}
	visible := maps.Clone(m.records)
	maps.DeleteFunc(visible, func(_ intent.AssetID, e record) bool { return e.Carried })
	if diff := cmp.Diff(visible, got); diff != "" {
		r.Fatalf("enforced records:\n%s", diff)
	}
	count, err := m.EnforcedCount(context.Background(), m.head.Partition)
	ok(r, err)
	if count != enforced {
		r.Fatalf("%d enforced, want %d", count, enforced)
	}
	var orphans []intent.AssetID
	page, err = m.Orphans(context.Background(), m.head.Partition, "", 0)
	ok(r, err)
	for _, e := range page {
		orphans = append(orphans, e.Asset)
	}
	count, err = m.OrphanCount(context.Background(), m.head.Partition)
	ok(r, err)
	if want := m.orphans(); !slices.Equal(orphans, want) || count != len(want) {
		r.Fatalf("orphans are %v, %d counted; want %v", orphans, count, want)
	}
}

// verifyHolders asks for each key as another partition, which gets none that
// is held.
func (m *claimModel) verifyHolders(r *rapid.T) {
	otherModel := newModel(r, m.All, m.head.Partition+"-other")
	for _, key := range m.keys[1:] {
		conflicts, err := m.SaveEnforced(context.Background(), otherModel.lease, []store.Enforced{{Asset: "z", Type: job, ResourceKey: key, At: noon}})
		ok(r, err)
		if got := conflicts["z"].Asset; got != m.holders[key] {
			r.Fatalf("%s belongs to %q, want %q", key, got, m.holders[key])
		}
	}
	ok(r, m.VerifyAudit(context.Background(), m.head.Partition))
}
