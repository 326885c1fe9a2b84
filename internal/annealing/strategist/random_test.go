package strategist_test

import (
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	intentpb "lehr.dev/gen/lehr/intent/v1"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/ground/sight"
	"lehr.dev/internal/store"
)

var (
	seeds = flag.Int("seeds", 300, "how many random worlds to live through")
	first = flag.Uint64("seed", 1, "the first of them")
)

// found are worlds in which something was wrong once, and foundFields those where that was
// so of a document's fields.
var (
	found       = []uint64{393, 427, 554, 706, 970, 1106, 1229, 1263, 1472, 1590, 1767, 1905, 1935}
	foundFields = []uint64{353, 698, 1199}
	// foundTrains are of rollouts that come after each other.
	foundTrains = []uint64{4, 1126}
)

// TestRandomRollouts: whatever happens, no rollout exposes more than its stages allow,
// goes back to what is not known to be good, or ends in silence; and when all is well
// again, all that it governs reaches head.
func TestRandomRollouts(t *testing.T) {
	var lock sync.Mutex
	seen, worlds := map[string]int{}, 0
	t.Cleanup(func() {
		for _, what := range []string{"let", "good", "bad", "back", "ill", "fields set", "fields back", "fields done", "after"} {
			if seen[what] == 0 && worlds >= 300 {
				t.Errorf("nothing ever was %s: %v", what, seen)
			}
		}
		t.Logf("looked at in %d worlds: %v", worlds, seen)
	})
	if testing.Short() {
		*seeds = min(*seeds, 10)
	}
	parts := uint64(runtime.GOMAXPROCS(0))
	for part := range parts {
		t.Run(fmt.Sprint("part ", part+1), func(t *testing.T) {
			t.Parallel()
			var mine []uint64
			for seed := *first + part; seed < *first+uint64(*seeds); seed += parts {
				mine = append(mine, seed)
			}
			if part == 0 && *first == 1 && !testing.Short() {
				mine = append(mine, slices.Concat(found, foundFields, foundTrains)...)
			}
			for _, seed := range mine {
				if t.Failed() {
					return
				}
				simulate(t, seed, setting{}, func(w *world) {
					if seed%3 == 2 && !slices.Contains(found, seed) {
						w.withKnobs()
					}
					w.trains = seed%3 == 1 && !slices.Contains(found, seed)
					w.live()
					w.heal()
					lock.Lock()
					defer lock.Unlock()
					worlds++
					for what, n := range w.monitor.seen {
						seen[what] += n
					}
				})
			}
		})
	}
}

// live is what happens before all is well.
func (w *world) live() {
	contents := map[intent.AssetID]word{}
	for _, id := range []intent.AssetID{"c1", "c2", "m1", "m2", "m3", "r1", "r2", "r3", "r4"} {
		if w.random.IntN(8) > 0 {
			contents[id] = w.word(id, true)
		}
	}
	policy := &intentpb.Policy{}
	if w.random.IntN(2) == 0 {
		policy = w.newPolicy()
	}
	w.publish(contents, policy)
	w.pass(time.Duration(2+w.random.IntN(6)) * time.Second)
	if len(policy.Rollouts) == 0 {
		w.publish(contents, w.newPolicy())
		w.pass(time.Duration(w.random.IntN(8)) * time.Second)
	}
	for range 6 + w.random.IntN(8) {
		switch w.random.IntN(8) {
		case 0, 1, 2, 3:
			contents = w.change(contents)
		case 4:
			w.order()
		case 5:
			w.person()
		default:
			w.disturb()
		}
		w.fiddle()
		w.pass(time.Duration(1+w.random.IntN(12)) * time.Second)
	}
	w.change(contents)
}

// word of an asset, unlike all before.
func (w *world) word(id intent.AssetID, good bool) word {
	made := word{text: fmt.Sprintf("%s-%d", id, w.random.Uint32())}
	if good {
		return made
	}
	if w.random.IntN(4) == 0 {
		made.text, made.refused = made.text+"-refused", true
		return made
	}
	made.illIn = w.paced(time.Duration(1+w.random.IntN(10)) * time.Second)
	made.text += "-ill-in-" + made.illIn.String()
	return made
}

// change some contents, appear, vanish, change back, or change the policy.
func (w *world) change(before map[intent.AssetID]word) map[intent.AssetID]word {
	contents, policy := maps.Clone(before), w.policy
	good := w.random.IntN(3) > 0
	for _, id := range []intent.AssetID{"c1", "c2", "m1", "m2", "m3", "r1", "r2", "r3", "r4"} {
		_, ok := contents[id]
		switch lot := w.random.IntN(20); {
		case lot < 12 && ok:
			contents[id] = w.word(id, good || w.random.IntN(2) == 0)
		case lot == 12 && ok:
			delete(contents, id)
		case lot < 15:
			contents[id] = w.word(id, good)
		case lot == 15 && ok: // As it was in some incarnation.
			if old := w.members[intent.Sequence(1+w.random.IntN(int(w.head.Sequence)))][id]; !old.IsZero() {
				contents[id] = w.words[old]
			}
		}
	}
	if w.random.IntN(4) == 0 {
		policy = w.newPolicy()
	}
	w.publish(contents, policy)
	return contents
}

// newPolicy is another policy: of one rollout, of two, or of none.
func (w *world) newPolicy() *intentpb.Policy {
	p := &intentpb.Policy{
		Plugins:     []*intentpb.PluginBinding{{Type: string(commandType), Run: []string{"fake"}}},
		Validations: []*intentpb.Validation{{Name: "errors"}},
	}
	switch lot := w.random.IntN(8); {
	case lot == 0, lot > 3 && w.trains:
		p.Rollouts = append(p.Rollouts, w.newRollout("web", "cm"), w.newRollout("rest", "r"))
		if w.trains && w.random.IntN(8) > 0 {
			p.Rollouts[1].After = []string{"web"}
		}
	case lot == 1:
		p.Rollouts = append(p.Rollouts, w.newRollout("renamed", "cmr"))
	case lot == 2:
		p.Rollouts = append(p.Rollouts, w.newRollout("web", "cr"))
	case lot == 3 && w.random.IntN(2) == 0:
	default:
		p.Rollouts = append(p.Rollouts, w.newRollout("web", "cmr"))
	}
	if w.knobs != nil && w.knobs.random.IntN(8) > 0 {
		p.Rollouts = append(p.Rollouts, w.fieldRollout())
	}
	w.tell("policy %v", p.Rollouts)
	return p
}

func starts(letters string) (text string) {
	for i, letter := range letters {
		if i > 0 {
			text += " || "
		}
		text += fmt.Sprintf("id.startsWith(%q)", string(letter))
	}
	return text
}

func (w *world) newRollout(name, letters string) *intentpb.Rollout {
	seconds := func(most int) *durationpb.Duration {
		return durationpb.New(w.paced(time.Duration(w.random.IntN(most+1)) * time.Second))
	}
	r := &intentpb.Rollout{Name: name, Select: starts(letters), Patience: durationpb.New(w.paced(time.Duration(2+w.random.IntN(6)) * time.Second))}
	for _, letter := range letters {
		s := &intentpb.RolloutStage{Name: "stage-" + string(letter), Where: starts(string(letter)), Soak: seconds(4)}
		switch w.random.IntN(5) {
		case 0:
			s.Percent = float64(20 + w.random.IntN(60))
		case 1:
			s.Count, s.Factor = uint32(w.random.IntN(2)), 2
		case 2:
			s.Most = uint32(1 + w.random.IntN(2))
		default:
			s.Count = uint32(1 + w.random.IntN(2))
		}
		if w.random.IntN(4) == 0 {
			s.Delay = seconds(3)
		}
		r.Stages = append(r.Stages, s)
	}
	if w.random.IntN(3) == 0 {
		r.Emergency = []*intentpb.RolloutStage{{Name: "first", Where: starts(letters[:1]), Count: 1, Soak: seconds(1)}, {Name: "all"}}
	}
	if w.random.IntN(4) == 0 {
		r.Validate = []string{"errors"}
	}
	if w.random.IntN(5) == 0 {
		r.OnBad = intentpb.Rollout_ON_BAD_STOP
	}
	if w.random.IntN(3) == 0 {
		r.Newer = intentpb.Rollout_Newer(1 + w.random.IntN(2))
	}
	return r
}

// order something of a rollout, whether it makes sense or not.
func (w *world) order() {
	kinds := intent.OrderKinds()
	name := "web"
	if w.trains && w.random.IntN(2) == 0 {
		name = "rest"
	}
	order := intent.RolloutOrder{Partition: shop, Name: name, Kind: kinds[w.random.IntN(len(kinds))], Reason: "why not", By: ann, At: w.now()}
	_, err := w.store.OrderRollout(w.ctx, order)
	w.must(err)
	w.tell("order %s of %s", order.Kind, name)
}

// pick an asset of head.
func (w *world) pick() intent.AssetID {
	ids := sorted(w.members[w.head.Sequence])
	return ids[w.random.IntN(len(ids))]
}

// person does something for some seconds.
func (w *world) person() {
	if len(w.members[w.head.Sequence]) == 0 {
		return
	}
	id, until := w.pick(), w.now().Add(time.Duration(2+w.random.IntN(10))*time.Second)
	switch w.random.IntN(3) {
	case 0:
		w.tell("hold %s", id)
		w.must(w.store.SetHold(w.ctx, shop, intent.Hold{Asset: id, Owner: ann, Reason: "racks", Until: until}))
	case 1:
		at := intent.IncarnationID{Partition: shop, Sequence: intent.Sequence(1 + w.random.IntN(int(w.head.Sequence)))}
		if !w.members[at.Sequence][id].IsZero() {
			w.tell("pin %s %s", id, at)
			_, err := w.store.SetPin(w.ctx, intent.Pin{Asset: id, Incarnation: at, Rank: intent.RankPerson, Holder: ann, Reason: "a look", Until: until})
			w.must(err)
		}
	default:
		w.tell("stop")
		w.must(w.store.SetStop(w.ctx, intent.Stop{Partition: shop, Owner: ann, Reason: "fire"}))
		w.pass(time.Duration(1+w.random.IntN(5)) * time.Second)
		w.must(w.store.Resume(w.ctx, shop, "out", ann))
	}
}

// disturb what a strategist stands on.
func (w *world) disturb() {
	length := time.Duration(1+w.random.IntN(12)) * time.Second
	until := w.truth().Add(length)
	w.monitor.disturbed = latest(until, w.monitor.disturbed)
	things := sorted(w.things)
	id := things[w.random.IntN(len(things))]
	t := w.things[id]
	switch w.random.IntN(9) {
	case 0, 1:
		w.crash = []string{"rollout", "saved"}[w.random.IntN(2)]
		w.tell("killed at its next step")
	case 2:
		if length > 6*time.Second {
			w.tell("the answer to its next step is lost, and the store is away for %s then", length)
			w.lost = length
			break
		}
		w.tell("the store is away for %s", length)
		w.broken = until
	case 3:
		w.tell("another has the lease for %s", length)
		lease, err := w.store.Acquire(w.ctx, shop, "other")
		w.must(err)
		w.lease, w.board, w.other = lease, &sight.Board{Gap: w.paced(gap)}, until
	case 4:
		jump := []time.Duration{-time.Hour, time.Hour, -365 * 24 * time.Hour, 365 * 24 * time.Hour}[w.random.IntN(4)]
		w.tell("clocks jump by %s", jump)
		w.skew.Add(int64(jump))
	case 5:
		w.tell("nobody looks for %s", length)
		w.unseen = until
	case 6:
		w.tell("%s is sick for %s", id, length)
		t.sick = until
	case 7:
		w.tell("%s is blind for %s", id, length)
		t.blind = until
	default:
		w.tell("%s is mute for %s", id, length)
		t.mute = until
	}
}

// heal all, and see that everything comes to what is newest.
func (w *world) heal() {
	w.calm, w.crash, w.broken, w.lost, w.unseen = true, "", time.Time{}, 0, time.Time{}
	for _, t := range w.things {
		t.sick, t.blind, t.mute = time.Time{}, time.Time{}, time.Time{}
	}
	w.monitor.disturbed = w.truth()
	holds, err := w.store.Holds(w.ctx, shop)
	w.must(err)
	for _, h := range holds {
		if h.Until.Sub(w.now()) < 15*time.Second {
			continue // It ends by itself, or has.
		}
		w.must(w.store.Unhold(w.ctx, shop, h.Asset, "healed", ann))
	}
	pins, err := w.store.Pins(w.ctx, shop)
	w.must(err)
	for _, p := range pins {
		if p.Rank == intent.RankPerson && p.Until.Sub(w.now()) >= 15*time.Second {
			w.must(w.store.Unpin(w.ctx, shop, p.Asset, p.Rank, "healed", ann))
		}
	}
	contents := map[intent.AssetID]word{}
	for _, id := range []intent.AssetID{"c1", "c2", "m1", "r1", "r2"} {
		contents[id] = w.word(id, true)
	}
	w.random = rand.New(rand.NewPCG(w.seed, 8))
	policy := &intentpb.Policy{
		Plugins:  []*intentpb.PluginBinding{{Type: string(commandType), Run: []string{"fake"}}},
		Rollouts: []*intentpb.Rollout{w.newRollout("web", "cmr")},
	}
	if w.trains {
		policy.Rollouts = []*intentpb.Rollout{w.newRollout("web", "cm"), w.newRollout("rest", "r")}
		policy.Rollouts[1].After = []string{"web"}
	}
	for _, r := range policy.Rollouts {
		r.Newer, r.Validate = intentpb.Rollout_NEWER_SUPERSEDES, nil
	}
	if w.knobs != nil {
		fields := w.fieldRollout()
		fields.Validate = nil
		policy.Rollouts = append(policy.Rollouts, fields)
	}
	w.publish(contents, policy)
	for _, gone := range []string{"renamed", "rest"} { // What is left of them is let go.
		_, err := w.store.OrderRollout(w.ctx, intent.RolloutOrder{Partition: shop, Name: gone, Kind: intent.OrderRelease, Reason: "healed", By: ann, At: w.now()})
		w.must(err)
	}
	const most = 120
	for range most {
		w.pass(w.paced(time.Second))
		w.resume()
		w.healFields()
		if w.arrived() {
			return
		}
	}
	runs, err := w.store.Rollouts(w.ctx, shop, store.RolloutFilter{Newest: true})
	w.must(err)
	for _, run := range runs {
		w.tell("left: %s %d %s to %s waits %q", run.Name, run.Run, run.State, run.To, run.Progress.Waits)
	}
	w.monitor.broken("L9", "all is well, and after %d s not all is as head says", most)
}

// resume what waits for a person, as what came with its own rollout loosened does.
func (w *world) resume() {
	open, err := w.store.Rollouts(w.ctx, shop, store.RolloutFilter{Open: true})
	w.must(err)
	for _, run := range open {
		if run.State == intent.RolloutPaused {
			_, err := w.store.OrderRollout(w.ctx, intent.RolloutOrder{Partition: shop, Name: run.Name, Kind: intent.OrderResume, Reason: "healed", By: ann, At: w.now()})
			w.must(err)
		}
	}
}

// arrived: production is as head says, and no run is open.
func (w *world) arrived() bool {
	for id, content := range w.members[w.head.Sequence] {
		if w.things[id] == nil || w.things[id].content != content {
			return false
		}
	}
	open, err := w.store.Rollouts(w.ctx, shop, store.RolloutFilter{Open: true})
	w.must(err)
	return len(open) == 0
}
