package explore

import (
	"context"
	"fmt"
	"testing"
	"time"

	"pgregory.net/rapid"

	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/store"
	"lehr.dev/internal/store/sqlite"
)

// TestTheMirrorIsTrue holds the mirror of the store to a real one: after any
// sequence of what it mirrors, both give the same verdicts.
func TestTheMirrorIsTrue(t *testing.T) {
	db, err := sqlite.Memory()
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	real, err := sqlite.Open(t.Context(), sqlite.Options{DB: db})
	if err != nil {
		t.Fatal(err)
	}
	defer real.Close()
	runs := 0
	rapid.Check(t, func(r *rapid.T) {
		runs++
		m := newMirror(r, real, runs)
		steps := []func(){
			m.acquire, m.publish, m.pin, m.unpin, m.pinsEnd, m.stop, m.resume, m.approve,
			m.decide, m.decide, m.admit, m.admit, m.push, m.push, m.push, m.push, m.permit, m.permit, m.close, m.close, m.again,
		}
		for range rapid.IntRange(50, 150).Draw(r, "steps") {
			steps[rapid.IntRange(0, len(steps)-1).Draw(r, "step")]()
			m.compare()
		}
	})
}

// mirror is a state of the model beside a real store.
type mirror struct {
	*rapid.T
	ctx   context.Context
	store store.All
	world *world
	state state
	at    intent.PartitionID
	// now is the clock of both; each pin and verdict that ends does so within
	// the hour.
	now    time.Time
	leases []store.Lease
	// pinned is the revision of the last pin.
	pinned uint64
	// asks are decisions on their way, as the model and the store have them.
	asks  [assets][]decided
	count int
	// ended are pushes that were closed.
	ended []intent.PushID
}

// decided is an ask with what the store is asked.
type decided struct {
	ask
	real store.Admission
}

var (
	actor    = intent.Actor{Name: "somebody", Origin: "test"}
	approver = intent.Actor{Name: "somebody else", Origin: "test"}
)

func newMirror(r *rapid.T, real store.All, run int) *mirror {
	m := &mirror{
		T: r, ctx: context.Background(), store: real, at: intent.PartitionID(fmt.Sprint("mirror-", run)), now: now,
		world: New(World{
			Intent:   [][assets]content{{1, 1}, {2, 0}, {1, 2}, {1, 3}},
			InFlight: uint8(rapid.IntRange(0, 2).Draw(r, "in flight")),
		}).(*world),
	}
	m.state = m.world.Start()[0]
	m.must(real.AddPartition(m.ctx, m.at, "/srv/lehr.yaml", "a try", actor))
	m.acquire()
	m.state.head = 0
	m.publish()
	return m
}

func (m *mirror) must(err error) {
	m.Helper()
	if err != nil {
		m.Fatal(err)
	}
}

// same fails the test unless model and store agree that a lease is lost.
func (m *mirror) same(what string, conflict bool, err error) {
	m.Helper()
	if fault.Is(err, fault.Conflict) != conflict || err != nil && !conflict {
		m.Fatalf("%s: the store says %v, the model conflict: %t", what, err, conflict)
	}
}

func (m *mirror) draw(what string, most int) int { return rapid.IntRange(0, most).Draw(m.T, what) }

func (m *mirror) lease() store.Lease {
	return m.leases[len(m.leases)-1-min(m.draw("lease", 4), len(m.leases)-1)/2]
}

func (m *mirror) incarnation(sequence uint8) intent.IncarnationID {
	return intent.IncarnationID{Partition: m.at, Sequence: intent.Sequence(sequence)}
}

func body(asset int, c content) []byte { return fmt.Appendf(nil, "%s=%d", names[asset], c) }

func planDigest(asset int, from, to content) intent.Digest {
	return (&world{}).plan(from, to).Digest()
}

func (m *mirror) acquire() {
	by := m.draw("replica", replicas-1)
	lease, err := m.store.Acquire(m.ctx, m.at, fmt.Sprint("replica-", by))
	m.must(err)
	m.state.replicas[by] = replica{} // Its asks are kept here.
	m.world.acquire(&m.state, by)
	if lease.Epoch != uint64(m.state.epoch) {
		m.Fatalf("the store is at epoch %d, the model at %d", lease.Epoch, m.state.epoch)
	}
	m.leases = append(m.leases, lease)
}

func (m *mirror) publish() {
	next := m.state.head + 1
	if int(next) > len(m.world.Intent) {
		return
	}
	var delta []store.Entry
	for a := range assets {
		before, after := m.world.contentAt(m.state.head, a), m.world.contentAt(next, a)
		digest := intent.BodyDigest(body(a, after))
		switch {
		case after == nothing:
			delta = append(delta, store.Entry{Asset: names[a], Removed: true})
		case before != after:
			delta = append(delta, store.Entry{
				Asset: names[a], Body: body(a, after),
				Member: intent.Member{Asset: names[a], Type: "lehr.test.v1.Job", Digest: digest, Effective: digest},
			})
		}
	}
	current := m.leases[len(m.leases)-1]
	m.must(m.store.Stage(m.ctx, current, m.incarnation(m.state.head), delta))
	_, err := m.store.Publish(m.ctx, current, intent.Incarnation{
		ID: m.incarnation(next), Parent: m.incarnation(m.state.head), Author: actor, Created: m.now,
	})
	m.must(err)
	m.moves(func() { m.world.publish(&m.state) })
}

// moves runs what moves the revision: the decisions on their way are stale.
func (m *mirror) moves(step func()) {
	step()
	for a := range m.asks {
		for i := range m.asks[a] {
			m.asks[a][i].marks |= stale
		}
	}
}

func (m *mirror) pin() {
	a, rank, at := m.draw("asset", assets-1), m.draw("rank", ranks-1), uint8(1+m.draw("incarnation", int(m.state.head)-1))
	to, until := pin(at), time.Time{}
	if rapid.Bool().Draw(m.T, "ends") {
		to, until = to|pinEnds, m.now.Add(time.Hour)
	}
	set, err := m.store.SetPin(m.ctx, intent.Pin{Asset: names[a], Incarnation: m.incarnation(at), Rank: rankOf(rank), Holder: actor, Until: until})
	if m.world.contentAt(at, a) == nothing {
		if !fault.Is(err, fault.NotFound) {
			m.Fatalf("pinning to an incarnation without the asset: %v", err)
		}
		return
	}
	m.must(err)
	if set.Revision <= m.pinned {
		m.Fatalf("S16: a pin has revision %d after %d", set.Revision, m.pinned)
	}
	m.pinned = set.Revision
	m.moves(func() { m.state.setPin(a, rank, to) })
}

func (m *mirror) unpin() {
	a, rank := m.draw("asset", assets-1), m.draw("rank", ranks-1)
	err := m.store.Unpin(m.ctx, m.at, names[a], rankOf(rank), "a try", actor)
	if m.state.pins[a][rank] == 0 {
		if !fault.Is(err, fault.NotFound) {
			m.Fatalf("unpinning what is not pinned: %v", err)
		}
		return
	}
	m.must(err)
	m.moves(func() { m.state.setPin(a, rank, 0) })
}

func (m *mirror) pinsEnd() {
	m.now = m.now.Add(time.Hour)
	for a := range assets {
		for rank := range ranks {
			m.state.pins[a][rank].end()
		}
		for i := range m.asks[a] {
			if m.asks[a][i].marks&lapses != 0 {
				m.asks[a][i].marks |= expired
			}
		}
	}
}

func (m *mirror) stop() {
	stopped := m.state.stopped != 0
	m.must(m.store.SetStop(m.ctx, intent.Stop{Partition: m.at, Owner: actor}))
	if stopped {
		m.state.setStop() // It changes nothing, and makes nothing stale.
	} else {
		m.moves(m.state.setStop)
	}
}

func (m *mirror) resume() {
	err := m.store.Resume(m.ctx, m.at, "over", actor)
	if m.state.stopped == 0 {
		if !fault.Is(err, fault.NotFound) {
			m.Fatalf("resuming what is not stopped: %v", err)
		}
		return
	}
	m.must(err)
	m.moves(m.state.resume)
}

func (m *mirror) drawPlan() (a int, from, to content) {
	return m.draw("asset", assets-1), content(m.draw("from", 2)), content(1 + m.draw("to", int(most)-1))
}

func (m *mirror) approve() {
	a, from, to := m.drawPlan()
	m.must(m.store.Approve(m.ctx, intent.Approval{
		Partition: m.at, Asset: names[a], Effective: intent.BodyDigest(body(a, to)), Plan: planDigest(a, from, to), By: approver,
	}))
	m.moves(func() { m.state.approve(a, planTo(from, to)) })
}

// decide puts a decision on its way, a good one or not.
func (m *mirror) decide() {
	a, from, _ := m.drawPlan()
	target := uint8(1 + m.draw("target", int(m.state.head)-1))
	with := m.world.contentAt(target, a)
	if with == nothing {
		return
	}
	m.count++
	d := decided{ask: ask{stage: flying, target: target, with: with, from: from}, real: store.Admission{
		Push: intent.PushID(fmt.Sprintf("%s/%d", m.at, m.count)), Asset: names[a], Target: m.incarnation(target),
		Effective: intent.BodyDigest(body(a, with)), Plan: planDigest(a, from, with), Revision: m.revision(),
	}}
	if rapid.Bool().Draw(m.T, "lapses") {
		d.marks |= lapses
		d.real.ValidUntil = m.now.Add(time.Hour)
	}
	if rapid.Bool().Draw(m.T, "needs approval") {
		d.marks |= needsApproval
		d.real.NeedsApproval = true
	}
	if rapid.Bool().Draw(m.T, "relies on the other") {
		d.quiet = 1 << (1 - a)
		d.real.Quiet = []intent.AssetID{names[1-a]}
	}
	if m.world.InFlight > 0 {
		d.real.Budgets = []store.BudgetUse{{Key: "scope", Limit: int(m.world.InFlight)}}
	}
	m.asks[a] = append(m.asks[a], d)
}

func (m *mirror) revision() uint64 {
	m.Helper()
	p, err := m.store.Partition(m.ctx, m.at)
	m.must(err)
	return p.Revision
}
