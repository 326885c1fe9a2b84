package conduct_test

import (
	"maps"
	"slices"
	"testing"
	"time"

	intentpb "lehr.dev/gen/lehr/intent/v1"
	"lehr.dev/internal/annealing/strategist/conduct"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/ground/selection"
	"lehr.dev/internal/ground/sight"
	"lehr.dev/internal/store"
)

// play is a rollout of assets whose every decision is carried out, in a production that
// does at once what pins say.
type play struct {
	t       *testing.T
	now     time.Time
	said    *intentpb.Rollout
	stages  []selection.Stage
	urgent  []selection.Stage
	back    []selection.Stage
	history []map[intent.AssetID]string
	pins    map[store.PinOf]intent.Pin
	seen    map[intent.AssetID]intent.Observation
	known   map[intent.AssetID]map[intent.Digest]bool
	// looks says how assets are found; Healthy and in sync where it says nothing. Not
	// looked: those.
	looks   map[intent.AssetID]sight.Look
	reports map[intent.AssetID]intent.Report
	unseen  bool
	run     *intent.Rollout
	orders  []intent.RolloutOrder
	found   []intent.ValidationVerdict
	retries map[string]int
	blocked map[intent.AssetID]string
	outside []intent.AssetID
	// unread says why the types of head cannot read an incarnation.
	unread map[intent.IncarnationID]string
	stop   *intent.Stop
	// before and done are of rollouts that follow each other; after each decision.
	before func() []conduct.Before
	done   func() intent.IncarnationID
	after  func(conduct.Decision)
	// let is who went on, in order, and asked what was asked.
	let   []intent.AssetID
	asked []conduct.Question
}

// plays a rollout of these assets, which are as version "1" and were healthy for an hour.
func plays(t *testing.T, assets ...intent.AssetID) *play {
	p := &play{
		t: t, now: noon, said: &intentpb.Rollout{Name: "web"}, stages: []selection.Stage{{Name: "all", Wave: selection.Wave{Count: 1}, Soak: 5 * time.Second}},
		history: []map[intent.AssetID]string{{}}, pins: map[store.PinOf]intent.Pin{}, seen: map[intent.AssetID]intent.Observation{},
		known: map[intent.AssetID]map[intent.Digest]bool{}, looks: map[intent.AssetID]sight.Look{}, blocked: map[intent.AssetID]string{},
	}
	first := map[intent.AssetID]string{}
	for _, id := range assets {
		first[id] = "1"
		p.pin(intent.Pin{Asset: id, Incarnation: at(1), Rank: intent.RankRollout, Created: noon.Add(-time.Hour)})
	}
	p.publish(first)
	p.wait(10 * time.Second)
	return p
}

func (p *play) pin(pin intent.Pin) { p.pins[store.PinOf{Asset: pin.Asset, Rank: pin.Rank}] = pin }

// publish what differs from head; empty: the asset is removed.
func (p *play) publish(differs map[intent.AssetID]string) {
	next := maps.Clone(p.history[len(p.history)-1])
	maps.Copy(next, differs)
	maps.DeleteFunc(next, func(_ intent.AssetID, text string) bool { return text == "" })
	p.history = append(p.history, next)
}

func (p *play) head() intent.Sequence { return intent.Sequence(len(p.history) - 1) }

func (p *play) content(at intent.IncarnationID, id intent.AssetID) intent.Digest {
	if text := p.history[at.Sequence][id]; text != "" {
		return intent.Sum(text)
	}
	return intent.Digest{}
}

func (p *play) order(kind intent.OrderKind) {
	p.orders = append(p.orders, intent.RolloutOrder{Name: "web", Kind: kind, Number: uint64(len(p.orders) + 1), Reason: "so said", By: intent.Actor{Name: "ann"}, At: p.now})
}

func (p *play) facts() conduct.Facts {
	f := conduct.Facts{
		Now: p.now, Partition: "shop", Name: "web", Spec: p.said, Head: at(p.head()), Run: p.run, Verdicts: p.found, Retries: p.retries, Gap: 4 * time.Second, Stop: p.stop,
		Content: p.content,
		Course: func(emergency bool) selection.Policy {
			if emergency && p.urgent != nil {
				return selection.Policy{Stages: slices.Clone(p.urgent)}
			}
			return selection.Policy{Stages: slices.Clone(p.stages)}
		},
		Back: func() selection.Policy { return selection.Policy{Stages: slices.Clone(p.back)} },
		Older: func() (older []intent.IncarnationID) {
			for s := p.run.To.Sequence - 1; s > 0; s-- {
				older = append(older, at(s))
			}
			return older
		},
		Unreadable: func(at intent.IncarnationID, _ intent.AssetID) string { return p.unread[at] },
	}
	if p.before != nil {
		f.Before = p.before()
	}
	f.Done = p.done
	for _, o := range p.orders {
		if p.run == nil || o.Number > p.run.Orders {
			f.Orders = append(f.Orders, o)
		}
	}
	assets := map[intent.AssetID]bool{}
	for of := range p.pins {
		assets[of.Asset] = true
	}
	for _, id := range slices.Sorted(maps.Keys(assets)) {
		a := conduct.Asset{
			ID: id, Pin: p.pins[store.PinOf{Asset: id, Rank: intent.RankRollout}], Head: p.content(f.Head, id), Look: p.looks[id], Report: p.reports[id],
			Stored: p.seen[id], Seen: p.seen[id], Known: p.known[id], Blocked: p.blocked[id],
			Target: selection.Target{Asset: id, Stage: "all", Emergency: "now"},
		}
		a.Pinned, a.Selected = p.content(a.Pin.Incarnation, id), !a.Head.IsZero() && !slices.Contains(p.outside, id)
		if back, ok := p.pins[store.PinOf{Asset: id, Rank: intent.RankRollback}]; ok {
			a.Back, a.BackAt = &back, p.content(back.Incarnation, id)
		}
		if p.run != nil {
			a.Goal = p.content(p.run.To, id)
		}
		f.Assets = append(f.Assets, a)
	}
	return f
}

// decide, and carry it out.
func (p *play) decide() conduct.Decision {
	p.t.Helper()
	d := conduct.Decide(p.facts())
	for _, of := range d.Step.Unpin {
		delete(p.pins, of)
	}
	for _, pin := range d.Step.Pins {
		p.pin(pin)
		if pin.Rank == intent.RankRollout && d.Run.State == intent.RolloutRunning {
			p.let = append(p.let, pin.Asset)
		}
	}
	for _, j := range d.Step.Forgiven {
		delete(p.known[j.Asset], j.Effective)
	}
	for _, j := range d.Step.Judged {
		if p.known[j.Asset] == nil {
			p.known[j.Asset] = map[intent.Digest]bool{}
		}
		p.known[j.Asset][j.Effective] = j.Good
	}
	p.seen, p.run, p.asked = d.Seen, d.Run, d.Ask
	if p.after != nil {
		p.after(d)
	}
	return d
}

// look at all assets, as production is.
func (p *play) look() {
	for of, pin := range p.pins {
		if of.Rank == intent.RankRollout {
			if back, ok := p.pins[store.PinOf{Asset: of.Asset, Rank: intent.RankRollback}]; ok {
				pin = back
			}
			look := p.looks[of.Asset]
			if look.State == "" {
				look.State, look.Health = intent.StateInSync, intent.Healthy
			}
			look.At, look.Effective = p.now, p.content(pin.Incarnation, of.Asset)
			if !p.unseen {
				p.looks[of.Asset] = look
			}
		}
	}
}

// wait for so long, looking and deciding each second.
func (p *play) wait(d time.Duration) {
	p.t.Helper()
	for end := p.now.Add(d); p.now.Before(end); {
		p.now = p.now.Add(time.Second)
		p.look()
		p.decide()
	}
}

// find assets in a state from now on.
func (p *play) find(look sight.Look, assets ...intent.AssetID) {
	for _, id := range assets {
		p.looks[id] = look
	}
}

var (
	healthy = sight.Look{State: intent.StateInSync, Health: intent.Healthy}
	illness = sight.Look{State: intent.StateInSync, Health: intent.Unhealthy}
	mute    = sight.Look{State: intent.StateInSync, Health: intent.HealthUnknown}
	backoff = sight.Look{State: intent.StateWaiting, Waits: intent.WaitBackoff}
	broken  = sight.Look{State: intent.StateWaiting, Waits: intent.WaitPlugin}
	pushing = sight.Look{State: intent.StatePushing}
	pending = sight.Look{State: intent.StateWaiting, Waits: intent.WaitPending}
)

// is what the run is.
func (p *play) is(number uint64, state intent.RolloutState) {
	p.t.Helper()
	if p.run == nil || p.run.Run != number || p.run.State != state {
		p.t.Fatalf("the run is %+v, and not %d %s", p.run, number, state)
	}
}

// has says which versions the assets follow.
func (p *play) has(want map[intent.AssetID]string) {
	p.t.Helper()
	for id, text := range want {
		pin := p.pins[store.PinOf{Asset: id, Rank: intent.RankRollout}]
		if back, ok := p.pins[store.PinOf{Asset: id, Rank: intent.RankRollback}]; ok {
			pin = back
		}
		if got := p.history[pin.Incarnation.Sequence][id]; got != text {
			p.t.Errorf("%s follows %q of %s, and not %q", id, got, pin.Incarnation, text)
		}
	}
}
