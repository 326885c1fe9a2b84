package strategist_test

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/protobuf/proto"

	commandpb "lehr.dev/gen/lehr/command/v1"
	intentpb "lehr.dev/gen/lehr/intent/v1"
	"lehr.dev/internal/annealing/landing"
	"lehr.dev/internal/annealing/strategist"
	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/ground/loop"
	"lehr.dev/internal/ground/schema"
	"lehr.dev/internal/ground/sight"
	"lehr.dev/internal/store"
	"lehr.dev/internal/store/sqlite"
)

const (
	shop        intent.PartitionID = "shop"
	commandType intent.TypeName    = "lehr.command.v1.Command"
	// gap between two looks that are one, and tick of the world.
	gap  = 4 * time.Second
	tick = 500 * time.Millisecond
)

var ann = intent.Actor{Name: "ann", Origin: "test"}

// word is a content, and what becomes of whatever has it: it falls ill so long after
// it came (0: never), or cannot be pushed at all.
type word struct {
	text    string
	illIn   time.Duration
	refused bool
}

// thing of production.
type thing struct {
	content intent.Digest
	since   time.Time
	// by says who brought it: the rank of the pin; 0: head.
	by intent.Rank
	// coming until due.
	coming intent.Digest
	due    time.Time
	// sick, blind and mute until then, of itself.
	sick, blind, mute time.Time
	judge             witness
}

// world is a partition, its store, production, and all that happens to them, in
// virtual time. The test holds mu but while it sleeps, and the strategist while it asks
// the world.
type world struct {
	mu     sync.Mutex
	t      *testing.T
	ctx    context.Context
	random *rand.Rand
	seed   uint64
	store  *sqlite.Store
	board  *sight.Board
	lease  store.Lease
	// skew of Lehr's clocks, a duration; the store reads them whoever holds mu.
	skew atomic.Int64
	// start of the story, at origin of the test's time, of which each second is pace.
	start, origin time.Time
	pace          time.Duration
	// calm: nothing fails by itself.
	calm     bool
	words    map[intent.Digest]word
	head     intent.IncarnationID
	members  map[intent.Sequence]map[intent.AssetID]intent.Digest
	entries  map[intent.AssetID]store.Entry
	policies map[intent.Sequence]*intentpb.Policy
	policy   *intentpb.Policy
	things   map[intent.AssetID]*thing
	pins     map[intent.AssetID][]intent.Pin
	holds    []intent.Hold
	stopped  bool
	revision uint64
	unseen   time.Time // no look before
	other    time.Time // another replica has the lease until then
	stop     func()
	close    func()
	ended    chan struct{}
	broken   time.Time                    // the store fails until then
	lost     time.Duration                // the answer to the next step is, and the store fails for so long then
	stored   func(step store.RolloutStep) // is told of each step; nil: nobody is
	monitor  *monitor
	steps    int
	reads    int    // of the partition, one for each pass
	crash    string // where the strategist ends next
	story    []string
	contents map[intent.AssetID]word
	knobs    *knobs  // nil: no rollout sets fields
	branch   *branch // nil: there are no repositories
	// forgotten contents are those of which a collection has removed what was found.
	forgotten map[intent.Digest]bool
	// trains: the rollout of the rest comes after the first.
	trains bool
}

func (w *world) must(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatalf("seed %d: %v", w.seed, err)
	}
}

func (w *world) tell(format string, arguments ...any) {
	w.story = append(w.story, fmt.Sprintf("%6.1f ", w.ago(w.monitor.began).Seconds())+fmt.Sprintf(format, arguments...))
}

func quiet() *slog.Logger { return slog.New(slog.NewTextHandler(io.Discard, nil)) }

// warnings become part of the story.
type warnings struct{ *world }

func (w warnings) Write(line []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.tell("%s", line)
	return len(line), nil
}

// now is what the clocks of Lehr say.
func (w *world) now() time.Time { return w.truth().Add(time.Duration(w.skew.Load())) }

// truth is what time it is: it goes by faster than the test's, where that has weeks.
func (w *world) truth() time.Time { return w.start.Add(w.paced(time.Since(w.origin))) }

func (w *world) ago(at time.Time) time.Duration { return w.truth().Sub(at) }

func (w *world) paced(d time.Duration) time.Duration { return d * w.pace }

// clock is a runtime whose wall clock jumps, and where the strategist may end.
type clock struct {
	loop.Runtime
	*world
}

func (c clock) Now() time.Time { return c.now() }

// Wait ends a little later, when whoever woke it up is at rest: so one seed is one
// story.
func (c clock) Wait(ctx context.Context, d time.Duration, wake <-chan struct{}) error {
	if err := c.Runtime.Wait(ctx, d, wake); err != nil {
		return err
	}
	time.Sleep(time.Millisecond + 3)
	return ctx.Err()
}

func (c clock) Point(name string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.falls(name)
}

// falls ends the calling goroutine, as a server that is killed, if it is to end here.
func (w *world) falls(at string) {
	if w.crash == at {
		w.crash = ""
		runtime.Goexit()
	}
}

// faulty is the store, as it fails.
type faulty struct {
	*sqlite.Store
	*world
}

func (f faulty) Changed(p intent.PartitionID) <-chan struct{} { return f.Store.Changed(p) }

func (f faulty) Partition(ctx context.Context, id intent.PartitionID) (store.Partition, error) {
	f.mu.Lock()
	away := f.truth().Before(f.broken)
	if !away {
		f.reads++
	}
	f.mu.Unlock()
	if away {
		return store.Partition{}, fault.New(fault.Unavailable, "the store is away")
	}
	return f.Store.Partition(ctx, id)
}

func (f faulty) SaveRollout(ctx context.Context, lease store.Lease, step store.RolloutStep) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.truth().Before(f.broken) {
		return fault.New(fault.Unavailable, "the store is away")
	}
	before := f.monitor.before(step)
	f.mu.Unlock() // A store may take its time, in which the world goes on.
	err := f.Store.SaveRollout(ctx, lease, step)
	f.mu.Lock()
	if err != nil {
		f.tell("a step is refused: %v", err)
		return err
	}
	f.steps++
	before()
	if f.stored != nil {
		f.stored(step)
	}
	f.falls("saved")
	return f.loses()
}

func (f faulty) Judgements(ctx context.Context, partition intent.PartitionID, assets []intent.AssetID) ([]intent.Judgement, error) {
	judged, err := f.Store.Judgements(ctx, partition, assets)
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.DeleteFunc(judged, func(j intent.Judgement) bool { return f.forgotten[j.Effective] }), err
}

// loses an answer, if that is to be lost.
func (w *world) loses() error {
	if w.lost == 0 {
		return nil
	}
	w.tell("its answer is lost")
	w.broken, w.lost = w.truth().Add(w.lost), 0
	w.monitor.disturbed = latest(w.broken, w.monitor.disturbed)
	return fault.New(fault.Unavailable, "the answer is lost")
}

// schemas knows the types of Lehr.
type schemas struct{}

func (schemas) Schema(context.Context, intent.PartitionID, intent.Digest) (*schema.Set, error) {
	return schema.Builtin(), nil
}

// begin with a strategist under a new lease, or under the one that there is.
func (w *world) begin(anew bool) {
	w.t.Helper()
	if anew {
		lease, err := w.store.Acquire(w.ctx, shop, "test")
		w.must(err)
		w.lease, w.board = lease, &sight.Board{Gap: w.paced(gap)}
	}
	var repositories landing.Repositories
	if w.branch != nil {
		repositories = w.branch
	}
	s := strategist.New(strategist.Options{
		Repositories: repositories,
		Partition:    shop, Store: faulty{w.store, w}, Schemas: schemas{}, Sight: w.board, Gap: w.paced(gap),
		Assess: w.assess, Runtime: clock{loop.Real(), w}, Log: slog.New(slog.NewTextHandler(warnings{w}, &slog.HandlerOptions{Level: slog.LevelWarn})),
	})
	ctx, cancel := context.WithCancel(w.ctx)
	ended := make(chan struct{})
	w.ended = ended
	lease := w.lease
	go func() {
		defer close(ended)
		_ = s.Run(ctx, lease) // Until it is stopped, killed, or its lease is lost.
	}()
	w.stop = func() {
		cancel()
		w.mu.Unlock()
		<-ended
		w.mu.Lock()
	}
}

// assess answers for validations: by what the assets have, or not at all.
func (w *world) assess(_ context.Context, of strategist.Assessing) (v strategist.Assessed, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	v.ValidationVerdict = intent.ValidationVerdict{Result: "waiting", Reason: "too few samples", At: of.Now}
	v.Next = of.Now.Add(w.paced(time.Second))
	lot := rand.New(rand.NewPCG(w.seed, of.Run.Run<<40|uint64(of.Changed.UnixNano()))).IntN(12)
	lot = (lot + int(w.ago(of.Changed.Add(-time.Duration(w.skew.Load()))).Seconds())) % 12
	switch {
	case w.calm || lot < 7:
		v.Result = "good"
	case lot < 9:
		return v, fault.New(fault.Unavailable, "prometheus is away")
	case lot == 9:
		v.Result = "inconclusive"
		v.Next = time.Time{}
	case lot == 10:
		v.Result = "bad"
	}
	return v, nil
}

// setting of a world. The zero value has its store in memory, and begins when the
// test's time does.
type setting struct {
	path  string
	start time.Time
	pace  time.Duration
}

// simulate runs a test in a bubble of virtual time.
func simulate(t *testing.T, seed uint64, in setting, test func(*world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := &world{
			t: t, ctx: t.Context(), seed: seed, random: rand.New(rand.NewPCG(seed, 7)),
			words: map[intent.Digest]word{}, members: map[intent.Sequence]map[intent.AssetID]intent.Digest{0: {}},
			entries: map[intent.AssetID]store.Entry{}, policies: map[intent.Sequence]*intentpb.Policy{0: {}},
			things: map[intent.AssetID]*thing{}, pins: map[intent.AssetID][]intent.Pin{}, policy: &intentpb.Policy{},
			start: time.Now(), origin: time.Now(), pace: 1,
		}
		if in.pace > 0 {
			w.start, w.pace = in.start, in.pace
		}
		w.mu.Lock()
		defer w.mu.Unlock()
		w.head.Partition = shop
		w.monitor = newMonitor(w)
		w.open(in.path)
		w.must(w.store.AddPartition(w.ctx, shop, "/shop/lehr.yaml", "a try", ann))
		w.begin(true)
		defer func() {
			w.stop()
			w.close()
			if t.Failed() {
				for _, line := range w.story {
					t.Log(line)
				}
			}
		}()
		test(w)
	})
}

// open the store in a file, or in memory.
func (w *world) open(path string) {
	w.t.Helper()
	options := sqlite.Options{Path: path, Runtime: times{loop.Real(), w}, Log: quiet()}
	w.close = func() { w.store.Close() }
	if path == "" {
		db, err := sqlite.Memory()
		w.must(err)
		options.DB = db
		w.close = func() {
			w.store.Close()
			db.Close()
		}
	}
	s, err := sqlite.Open(w.ctx, options)
	w.must(err)
	w.store = s
}

// times is the runtime of the store, with the clock of its machine.
type times struct {
	loop.Runtime
	*world
}

func (t times) Now() time.Time { return t.now() }

// entry of an asset with a content.
func (w *world) entry(id intent.AssetID, payload proto.Message) store.Entry {
	set := schema.Builtin()
	packed, err := set.Pack(payload)
	w.must(err)
	body, digest, err := set.Encode(intent.Asset{ID: id, Payload: packed})
	w.must(err)
	return store.Entry{Asset: id, Body: body, Member: intent.Member{Asset: id, Type: packed.Type, Digest: digest, Effective: digest}}
}

// publish the contents and the policy, as the pipeline does: what is governed has its
// pin before.
func (w *world) publish(contents map[intent.AssetID]word, policy *intentpb.Policy) {
	w.t.Helper()
	members := map[intent.AssetID]intent.Digest{}
	next := map[intent.AssetID]store.Entry{intent.PolicyAsset: w.entry(intent.PolicyAsset, policy)}
	w.contents = contents
	for id, word := range w.withFields(contents) {
		e := w.entry(id, &commandpb.Command{Diff: []string{"diff"}, Push: []string{"push"}, Input: word.text})
		next[id], members[id], w.words[e.Member.Digest] = e, e.Member.Digest, word
		if w.knobs != nil && w.knobs.served[id] != "" {
			w.knobs.means[e.Member.Digest] = intent.Sum(w.knobs.served[id])
		}
	}
	var sources []intent.SourceRevision
	if w.knobs != nil {
		sources = []intent.SourceRevision{{Source: "held", Revision: w.knobs.revision}}
	}
	if w.branch != nil {
		sources = []intent.SourceRevision{{Source: "knobs", Revision: w.branch.built}}
	}
	moved := !proto.Equal(policy, w.policy)
	if moved {
		w.monitor.moved = w.truth()
	}
	var delta []store.Entry
	var governed []store.Governed
	for _, id := range sorted(next) {
		changed := w.entries[id].Member.Digest != next[id].Member.Digest
		if changed {
			delta = append(delta, next[id])
		}
		if r := governs(policy, id); r != "" && (changed || moved) {
			governed = append(governed, store.Governed{Asset: id, Rollout: r})
		}
	}
	for _, id := range sorted(w.entries) {
		if _, stays := next[id]; !stays {
			delta = append(delta, store.Entry{Asset: id, Removed: true})
		}
	}
	id := intent.IncarnationID{Partition: shop, Sequence: w.head.Sequence + 1}
	w.must(w.store.Unstage(w.ctx, w.lease))
	w.must(w.store.Stage(w.ctx, w.lease, w.head, delta))
	if w.random.IntN(2) == 0 { // As where there are many.
		w.must(w.store.Govern(w.ctx, w.lease, id, governed))
	}
	w.members[id.Sequence], w.policies[id.Sequence] = members, policy
	published, err := w.store.Publish(w.ctx, w.lease, intent.Incarnation{
		ID: id, Parent: w.head, Count: len(next), Author: ann, Created: w.now(), Policy: next[intent.PolicyAsset].Member.Digest,
		Governed: governed, Sources: sources,
	})
	w.must(err)
	w.head, w.entries, w.policy = published.ID, next, policy
	w.tell("publish %s: %v", id, contents)
}

// rest lets virtual time go by, until all others are at rest.
func (w *world) rest(d time.Duration) {
	w.mu.Unlock()
	time.Sleep(d)
	synctest.Wait()
	w.mu.Lock()
}

// pass lets virtual time go by, in which the enforcer goes on.
func (w *world) pass(d time.Duration) {
	for end := w.truth().Add(d); w.truth().Before(end); {
		w.rest(tick)
		select {
		case <-w.ended: // It was killed, or another had the lease.
			w.tell("the strategist is started again")
			w.begin(w.random.IntN(2) == 0 || w.store.Check(w.ctx, w.lease) != nil)
		default:
			if !w.other.IsZero() && w.truth().After(w.other) {
				w.tell("it has the lease again")
				w.other = time.Time{}
				w.stop()
				w.begin(true)
			}
		}
		w.build()
		w.buildBranch()
		w.enforce()
		w.monitor.look()
		if w.t.Failed() {
			w.t.FailNow()
		}
	}
}

// enforce is what an enforcer does: each thing goes to its target, and what is seen
// of it is noted.
func (w *world) enforce() {
	p, err := w.store.Partition(w.ctx, shop)
	w.must(err)
	if p.Revision != w.revision {
		pins, err := w.store.Pins(w.ctx, shop)
		w.must(err)
		w.revision, w.stopped = p.Revision, p.Stop != nil
		w.holds, err = w.store.Holds(w.ctx, shop)
		w.must(err)
		w.pins = map[intent.AssetID][]intent.Pin{}
		for _, pin := range pins {
			w.pins[pin.Asset] = append(w.pins[pin.Asset], pin)
		}
		w.monitor.pinned(pins)
	}
	for _, id := range sorted(w.members[w.head.Sequence]) {
		if w.things[id] == nil {
			w.things[id] = &thing{}
		}
	}
	for _, id := range sorted(w.things) {
		w.enforceOne(id, w.things[id])
	}
}

func (w *world) enforceOne(id intent.AssetID, thing *thing) {
	target, pin := intent.Target(w.head, w.pins[id], w.now())
	content := w.members[target.Sequence][id]
	look := sight.Look{At: w.now(), Effective: content, State: intent.StateWaiting}
	true := w.truth()
	held := slices.ContainsFunc(w.holds, func(h intent.Hold) bool { return h.Asset == id && !intent.Expired(h.Until, w.now()) })
	switch {
	case content.IsZero():
		look.Waits = intent.WaitNotSelected
	case true.Before(thing.blind):
		look.Waits = intent.WaitPlugin
	case thing.content == content:
		look.State, look.Health = intent.StateInSync, w.health(thing, true)
	case w.stopped || held:
		look.Waits = intent.WaitHold
	case w.words[content].refused:
		look.Waits = intent.WaitBackoff
	case thing.coming != content:
		thing.coming, thing.due = content, true.Add(time.Duration(w.random.IntN(4))*w.paced(tick))
		look.State = intent.StatePushing
	case true.Before(thing.due):
		look.State = intent.StatePushing
	default:
		thing.content, thing.since, thing.coming, thing.by = content, true, intent.Digest{}, 0
		if pin != nil {
			thing.by = pin.Rank
		}
		w.tell("%s is %s", id, w.words[content].text)
		w.must2(w.store.SaveEnforced(w.ctx, w.lease, []store.Enforced{{
			Asset: id, Type: commandType, Effective: content, Incarnation: target, ResourceKey: intent.ResourceKey("thing/" + id), At: w.now(),
		}}))
		look.State, look.Health = intent.StateInSync, w.health(thing, true)
	}
	if true.Before(w.unseen) {
		return
	}
	if w.board.Watches(id) {
		w.board.Saw(id, look)
		look.Effective = w.meant(content)
		thing.judge.saw(look, true, w.paced(gap))
	}
}

func (w *world) must2(_ map[intent.AssetID]store.Claim, err error) {
	w.t.Helper()
	if !fault.Is(err, fault.Conflict) {
		w.must(err)
	}
}

// health is the truth, if it is told.
func (w *world) health(thing *thing, now time.Time) intent.HealthState {
	of := w.words[thing.content]
	switch {
	case now.Before(thing.mute):
		return intent.HealthUnknown
	case now.Before(thing.sick) || of.illIn > 0 && now.Sub(thing.since) >= of.illIn:
		return intent.Unhealthy
	}
	return intent.Healthy
}
