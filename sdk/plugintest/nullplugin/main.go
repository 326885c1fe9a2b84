// Command nullplugin is a plugin whose production is its own memory: it costs
// nothing, so that what is measured is Lehr and the protocol. Benchmarks and
// the simulator's demonstrations run it; nobody else should.
package main

import (
	"context"
	"os"
	"slices"
	"sync"

	"google.golang.org/protobuf/proto"

	commandpb "lehr.dev/gen/lehr/command/v1"
	processpb "lehr.dev/gen/lehr/process/v1"
	"lehr.dev/sdk/serve"
)

func main() {
	world := &memory{jobs: map[string]*processpb.Job{}, adopts: slices.Contains(os.Args[1:], "-adopt")}
	kind := serve.For(world, serve.Serving{})
	if slices.Contains(os.Args[1:], "-hang") {
		kind = serve.For(hung{}, serve.Serving{})
	}
	os.Exit(serve.Main(serve.Plugin{Name: "null", Version: "1", Resources: []serve.Kind{kind}}))
}

// hung never tells what production is, and gives up at no word.
type hung struct{}

func (hung) Read(context.Context, []serve.Asset[*commandpb.Command]) ([]serve.State[*commandpb.Command], error) {
	select {}
}

func (hung) Resolve(_ context.Context, asset serve.Asset[*commandpb.Command]) (*commandpb.Command, error) {
	return asset.Payload, nil
}

func (hung) Apply(context.Context, serve.Change[*commandpb.Command], serve.Permit) error { select {} }

// memory is production.
type memory struct {
	// adopts: what was never pushed is found as intent said first.
	adopts bool

	mutex sync.Mutex
	jobs  map[string]*processpb.Job
}

func (m *memory) Read(_ context.Context, assets []serve.Asset[*processpb.Job]) ([]serve.State[*processpb.Job], error) {
	m.mutex.Lock()
	defer m.mutex.Unlock()
	states := make([]serve.State[*processpb.Job], len(assets))
	for i, asset := range assets {
		job := m.jobs[asset.Payload.Name]
		if job == nil && m.adopts {
			// A copy, so that comparing costs what it does.
			job = proto.CloneOf(asset.Payload)
			m.jobs[job.Name] = job
		}
		states[i].Current, states[i].Key = job, serve.ResourceKey("null:"+asset.Payload.Name)
	}
	return states, nil
}

func (m *memory) Resolve(_ context.Context, asset serve.Asset[*processpb.Job]) (*processpb.Job, error) {
	return asset.Payload, nil
}

func (m *memory) Remove(ctx context.Context, change serve.Change[*processpb.Job], permit serve.Permit) error {
	if err := permit.Effect(ctx); err != nil {
		return err
	}
	m.mutex.Lock()
	defer m.mutex.Unlock()
	delete(m.jobs, change.Asset.Payload.Name)
	return nil
}

func (m *memory) Apply(ctx context.Context, change serve.Change[*processpb.Job], permit serve.Permit) error {
	if err := permit.Effect(ctx); err != nil {
		return err
	}
	m.mutex.Lock()
	defer m.mutex.Unlock()
	m.jobs[change.Target.Name] = change.Target
	return nil
}
