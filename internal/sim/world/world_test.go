package world

import (
	"context"

	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	caddypb "lehr.dev/gen/lehr/caddy/v1"
	commandpb "lehr.dev/gen/lehr/command/v1"
	processpb "lehr.dev/gen/lehr/process/v1"
	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/ground/schema"
	"lehr.dev/internal/pluginhost/plugin"
	"lehr.dev/internal/sim/virtual"
)

var dawn = time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)

const (
	jobType      intent.TypeName = "lehr.process.v1.Job"
	commandType  intent.TypeName = "lehr.command.v1.Command"
	balancerType intent.TypeName = "lehr.caddy.v1.Balancer"

	job      intent.AssetID = "shop/job"
	command  intent.AssetID = "shop/command"
	balancer intent.AssetID = "shop/balancer"

	jobKey      intent.ResourceKey = "sim:Job/frontend"
	commandKey  intent.ResourceKey = "sim:Command/shop/command"
	balancerKey intent.ResourceKey = "sim:Balancer/edge"
)

// bench is a world with one replica that a test drives.
type bench struct {
	t       *testing.T
	world   *World
	sim     *virtual.Scheduler
	replica *virtual.Process
	plugin  plugin.Plugin
	effects []Effect
	// bodies are the assets of the incarnations, from 1.
	bodies map[intent.IncarnationID]map[intent.AssetID][]byte
	pushes int
	// permit answers for permits.
	permit func() error
	// memos are kept as Lehr does; keeps is what is said of one.
	memos map[intent.AssetID][]intent.Memo
	keeps error
	// runs that were begun.
	runs []Run
}

func newBench(t *testing.T, seed uint64) *bench {
	t.Helper()
	b := &bench{t: t, sim: virtual.New(seed, dawn), bodies: map[intent.IncarnationID]map[intent.AssetID][]byte{}, permit: func() error { return nil }}
	b.world = New(Options{
		Process: b.sim.World("world"), Random: rand.New(rand.NewPCG(seed, 1)), Contents: b,
		Schemas: func(context.Context, intent.IncarnationID) (*schema.Set, error) { return schema.Builtin(), nil },
		Served: func([]string) []plugin.Served {
			return []plugin.Served{
				{Type: jobType, Guarantee: plugin.Fenced, LongestEffect: time.Second},
				{Type: commandType, Guarantee: plugin.Unguarded, LongestEffect: time.Second},
				{Type: balancerType, Guarantee: plugin.CompareAndSet},
			}
		},
	})
	b.world.OnEffect = func(e Effect) { b.effects = append(b.effects, e) }
	b.world.OnRun = func(r Run) { b.runs = append(b.runs, r) }
	b.start("replica")
	b.intend(1, job, frontend("1"))
	b.intend(1, command, &commandpb.Command{Diff: []string{"a"}, Push: []string{"b"}, Input: "1"})
	b.intend(1, balancer, edge("a", "b"))
	return b
}

func frontend(version string) *processpb.Job {
	return &processpb.Job{Name: "frontend", Replicas: 3, Binary: "/bin/shop", Args: []string{"-v"}, Env: map[string]string{"A": "1", "B": "2"}, Version: version}
}

func edge(upstreams ...string) *caddypb.Balancer {
	balancer := &caddypb.Balancer{Admin: "http://x", Name: "edge", Listen: []string{":80"}, Upstreams: map[string]*caddypb.Upstream{}}
	for _, name := range upstreams {
		balancer.Upstreams[name] = &caddypb.Upstream{Address: name, Weight: 1}
	}
	return balancer
}

// start starts a replica.
func (b *bench) start(name string) {
	b.replica = b.sim.Start(name)
	b.plugin = b.world.Plugin(b.replica, []string{"sim"})
}

func at(sequence intent.Sequence) intent.IncarnationID {
	return intent.IncarnationID{Partition: "shop", Sequence: sequence}
}

// intend says what an asset is as of an incarnation.
func (b *bench) intend(sequence intent.Sequence, id intent.AssetID, payload proto.Message, addons ...proto.Message) {
	b.t.Helper()
	asset := intent.Asset{ID: id}
	pack := func(message proto.Message) intent.Message {
		packed, err := schema.Builtin().Pack(message)
		if err != nil {
			b.t.Fatal(err)
		}
		return packed
	}
	asset.Payload = pack(payload)
	for _, addon := range addons {
		asset.Addons = append(asset.Addons, pack(addon))
	}
	content, _, err := schema.Builtin().Encode(asset)
	if err != nil {
		b.t.Fatal(err)
	}
	if b.bodies[at(sequence)] == nil {
		b.bodies[at(sequence)] = map[intent.AssetID][]byte{}
	}
	b.bodies[at(sequence)][id] = content
}

func (b *bench) Content(_ context.Context, id intent.IncarnationID, asset intent.AssetID) ([]byte, intent.Digest, error) {
	content, ok := b.bodies[id][asset]
	if !ok {
		return nil, intent.Digest{}, fault.New(fault.NotFound, "%s has no %s", id, asset)
	}
	return content, intent.BodyDigest(content), nil
}

func (b *bench) Reads(context.Context, intent.IncarnationID, intent.AssetID) ([]intent.AssetID, error) {
	return nil, nil
}

// run lets virtual time pass.
func (b *bench) run(d time.Duration) {
	b.t.Helper()
	b.sim.Run(b.sim.Now().Add(d))
	if problems := b.sim.Panics(); len(problems) > 0 {
		b.t.Fatal(problems[0])
	}
}

// do runs something in the replica and waits for it, at most two minutes.
func (b *bench) do(f func()) {
	b.t.Helper()
	done := false
	b.replica.Go("test", func() {
		f()
		done = true
	})
	for range 12_000 {
		if done {
			return
		}
		b.run(10 * time.Millisecond)
	}
	b.t.Fatal("it did not end within two minutes")
}

// up waits until the plugin is.
func (b *bench) up() {
	b.t.Helper()
	b.do(func() {
		for {
			if _, err := b.plugin.Describe(); err == nil {
				return
			}
			_ = b.replica.Wait(context.Background(), 100*time.Millisecond, nil)
		}
	})
}

func (b *bench) diffs(sequence intent.Sequence, assets ...intent.AssetID) (differences []intent.Difference, err error) {
	b.t.Helper()
	b.up()
	b.do(func() {
		differences, err = b.plugin.Diff(context.Background(), plugin.DiffRequest{Incarnation: at(sequence), Assets: assets, Memos: b.memos})
	})
	return differences, err
}

func (b *bench) diff(sequence intent.Sequence, asset intent.AssetID) intent.Difference {
	b.t.Helper()
	differences, err := b.diffs(sequence, asset)
	if err != nil {
		return intent.Difference{Reason: "error: " + err.Error()}
	}
	return differences[0]
}

func (b *bench) order(d intent.Difference, token uint64) plugin.Push {
	b.pushes++
	return plugin.Push{
		ID: intent.PushID(fmt.Sprintf("push-%d", b.pushes)), Incarnation: d.Incarnation, Asset: d.Asset,
		Plan: d.Plan.Digest(), Base: d.Base, Token: token,
		Permit: func(context.Context, string) error { return b.permit() },
		Memos:  b.memos[d.Asset],
		SaveMemo: func(_ context.Context, memo intent.Memo) error {
			if b.memos == nil {
				b.memos = map[intent.AssetID][]intent.Memo{}
			}
			if b.keeps == nil {
				b.memos[d.Asset] = []intent.Memo{memo}
			}
			return b.keeps
		},
	}
}

func (b *bench) push(d intent.Difference) (result plugin.PushResult) {
	b.t.Helper()
	return b.pushAs(d, 1)
}

func (b *bench) pushAs(d intent.Difference, token uint64) (result plugin.PushResult) {
	b.t.Helper()
	order := b.order(d, token)
	b.do(func() { result = b.plugin.Push(context.Background(), order) })
	return result
}

// settled waits until a push in doubt can no longer be running.
func (b *bench) settled(result plugin.PushResult) {
	b.t.Helper()
	if result.Ending == plugin.InDoubt {
		b.do(func() { _ = b.replica.Wait(context.Background(), -1, result.Gone) })
	}
}

// enforce looks and pushes until it is in sync.
func (b *bench) enforce(sequence intent.Sequence, asset intent.AssetID) {
	b.t.Helper()
	for range 10 {
		d := b.diff(sequence, asset)
		switch d.Outcome {
		case intent.InSync:
			if matches, why := b.world.Matches(context.Background(), at(sequence), asset); !matches {
				b.t.Fatalf("in sync, but %s", why)
			}
			return
		case intent.Differs:
			b.settled(b.push(d))
		}
	}
	b.t.Fatalf("%s never came in sync: %+v", asset, b.diff(sequence, asset))
}

func TestDiffPushDiffEndsInSync(t *testing.T) {
	for _, asset := range []intent.AssetID{job, command, balancer} {
		b := newBench(t, 1)
		d := b.diff(1, asset)
		if d.Outcome != intent.Differs || d.Plan.Action != intent.ActionCreate || d.Plan.Destructive() {
			t.Fatalf("%+v", d)
		}
		if result := b.push(d); result.Ending != plugin.Pushed {
			t.Fatalf("%+v", result)
		}
		if d = b.diff(1, asset); d.Outcome != intent.InSync || d.Health.State != intent.Healthy || len(d.Current) == 0 {
			t.Fatalf("%+v", d)
		}
		for i, e := range b.effects {
			if e.By != ByLehr || e.Asset != asset || e.Push != "push-1" || e.PermitLeft <= 0 || e.PermitLeft > plugin.PermitPeriod || e.Step != i+1 || e.Steps != len(b.effects) {
				t.Errorf("%+v", e)
			}
		}
	}
}

func TestSameSeedSameEffects(t *testing.T) {
	play := func(seed uint64) (string, uint64) {
		b := newBench(t, seed)
		for i, kind := range Kinds() {
			b.world.Trouble(Trouble{Kind: kind, Seed: seed + uint64(i)})
		}
		b.world.Writer(jobKey, 3*time.Second, 3)
		for range 40 {
			for _, asset := range []intent.AssetID{job, command, balancer} {
				if d := b.diff(1, asset); d.Outcome == intent.Differs {
					b.settled(b.push(d))
				}
			}
			b.world.Drift(commandKey, seed)
		}
		return fmt.Sprintf("%+v", b.effects), b.sim.Hash()
	}
	one, hash := play(3)
	again, hashAgain := play(3)
	t.Logf("seed 3: %x", hash)
	if one != again || hash != hashAgain || len(one) < 1000 {
		t.Errorf("%d and %d bytes of effects, hashes %x and %x", len(one), len(again), hash, hashAgain)
	}
	if _, other := play(4); other == hash {
		t.Error("another seed gives the same run")
	}
}
