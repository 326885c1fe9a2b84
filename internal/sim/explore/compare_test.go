package explore

import (
	"fmt"
	"slices"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/store"
)

// admit sends decisions about one or both assets, in one call.
func (m *mirror) admit() {
	var group []decided
	var about []int
	for a := range assets {
		if len(m.asks[a]) == 0 || len(group) > 0 && rapid.Bool().Draw(m.T, "alone") {
			continue
		}
		last := len(m.asks[a]) - 1
		group, about = append(group, m.asks[a][last]), append(about, a)
		m.asks[a] = m.asks[a][:last]
	}
	if len(group) == 0 {
		return
	}
	lease := m.lease()
	asked := make([]store.Admission, len(group))
	for i, d := range group {
		asked[i] = d.real
		asked[i].At = m.now
	}
	refusals, err := m.store.Admit(m.ctx, lease, asked)
	for i, d := range group {
		said := m.world.admit(&m.state, uint8(lease.Epoch), 0, about[i], d.ask)
		m.same("admitting", said.conflict, err)
		if err != nil {
			continue
		}
		got := intent.WaitingKind("")
		if refusals[i] != nil {
			got = refusals[i].Waiting.Kind
		}
		if got != said.waiting {
			m.Fatalf("admitting %+v of %s: the store says %q, the model %q", d.ask, names[about[i]], got, said.waiting)
		}
	}
}

// push decides, and asks at once.
func (m *mirror) push() {
	m.decide()
	m.admit()
}

// some picks an open push, if there is one.
func (m *mirror) some() (slot int, id intent.PushID, found bool) {
	open, err := m.store.OpenPushes(m.ctx, m.at)
	m.must(err)
	if len(open) == 0 {
		return 0, "", false
	}
	picked := open[m.draw("push", len(open)-1)]
	for slot, p := range m.state.pushes {
		if p.asset != 0 && p.row != closed && names[p.asset-1] == picked.Asset {
			return slot, picked.Push, true
		}
	}
	m.Fatalf("the model has no push of %s open", picked.Asset)
	return 0, "", false
}

func (m *mirror) permit() {
	slot, id, found := m.some()
	if !found {
		return
	}
	lease := m.lease()
	err := m.store.Permit(m.ctx, lease, id, m.now)
	m.same("permitting", !m.world.permitted(&m.state, uint8(lease.Epoch), m.state.pushes[slot]), err)
}

// close ends a push, or says that its end was lost.
func (m *mirror) close() {
	slot, id, found := m.some()
	if !found {
		return
	}
	lease, ending := m.lease(), "pushed"
	if rapid.Bool().Draw(m.T, "in doubt") {
		ending = store.EndingInDoubt
	}
	err := m.store.ClosePushes(m.ctx, lease, []store.Closing{{Push: id, Ending: ending, At: m.now}})
	before := m.state.pushes[slot]
	said := m.state.close(uint8(lease.Epoch), slot)
	m.same("closing", said.conflict, err)
	switch {
	case said.conflict:
	case ending == store.EndingInDoubt:
		m.state.pushes[slot] = before
		m.state.pushes[slot].row = doubt
	default:
		m.ended = append(m.ended, id)
		m.state.pushes[slot].run = over
		m.state.tidy(true)
	}
}

// again tells the store twice what it was told before: that changes nothing.
func (m *mirror) again() {
	if len(m.ended) == 0 {
		return
	}
	id, current := m.ended[m.draw("ended", len(m.ended)-1)], m.leases[len(m.leases)-1]
	m.must(m.store.ClosePushes(m.ctx, current, []store.Closing{{Push: id, Ending: "failed", At: m.now}}))
	m.must(m.store.ClosePushes(m.ctx, current, []store.Closing{{Push: id, Ending: store.EndingInDoubt, At: m.now}}))
	m.same("permitting what has ended", true, m.store.Permit(m.ctx, current, id, m.now))
}

// compare what can be read of both.
func (m *mirror) compare() {
	p, err := m.store.Partition(m.ctx, m.at)
	m.must(err)
	got := fmt.Sprintf("head %d, stopped %t", p.Head.Sequence, p.Stop != nil)
	want := fmt.Sprintf("head %d, stopped %t", m.state.head, m.state.stopped != 0)
	if got != want {
		m.Fatalf("the store is at %s, the model at %s", got, want)
	}
	open, err := m.store.OpenPushes(m.ctx, m.at)
	m.must(err)
	var real, model []string
	for _, p := range open {
		real = append(real, fmt.Sprintf("%s to %d under %d, in doubt %t", p.Asset, p.Target.Sequence, p.Epoch, p.Doubt))
	}
	for _, p := range m.state.pushes {
		if p.asset != 0 && p.row != closed {
			model = append(model, fmt.Sprintf("%s to %d under %d, in doubt %t", names[p.asset-1], p.target, p.epoch, p.row == doubt))
		}
	}
	consents, err := m.store.Consents(m.ctx, m.at)
	m.must(err)
	for _, a := range consents.Approvals {
		real = append(real, fmt.Sprintf("%s may %s to %s", a.Asset, a.Plan.Short(), a.Effective.Short()))
	}
	for a := range assets {
		for from := nothing; from <= foreign; from++ {
			for to := content(1); to <= most; to++ {
				if m.state.approvals[a]&planTo(from, to) != 0 {
					model = append(model, fmt.Sprintf("%s may %s to %s", names[a], planDigest(a, from, to).Short(), intent.BodyDigest(body(a, to)).Short()))
				}
			}
		}
	}
	slices.Sort(real)
	slices.Sort(model)
	if difference := cmp.Diff(real, model); difference != "" {
		m.Fatalf("the store (-) and the model (+) differ:\n%s", difference)
	}
}
