package app_test

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	processpb "lehr.dev/gen/lehr/process/v1"
	"lehr.dev/internal/app"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/pluginhost/plugin"
	"lehr.dev/internal/pluginhost/remote"
	"lehr.dev/internal/store"
	"lehr.dev/sdk/serve"
)

// asPlugin is the argument with which this binary is a plugin.
const asPlugin = "plugin"

// shelf is a plugin whose production is its own memory.
type shelf struct {
	mutex sync.Mutex
	jobs  map[string]*processpb.Job
}

func (s *shelf) Read(_ context.Context, assets []serve.Asset[*processpb.Job]) ([]serve.State[*processpb.Job], error) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	states := make([]serve.State[*processpb.Job], len(assets))
	for i, asset := range assets {
		states[i].Current, states[i].Key = s.jobs[asset.Payload.Name], serve.ResourceKey("shelf:"+asset.Payload.Name)
	}
	return states, nil
}

func (s *shelf) Resolve(_ context.Context, asset serve.Asset[*processpb.Job]) (*processpb.Job, error) {
	return asset.Payload, nil
}

func (s *shelf) Apply(ctx context.Context, change serve.Change[*processpb.Job], permit serve.Permit) error {
	if err := permit.Effect(ctx); err != nil {
		return err
	}
	s.mutex.Lock()
	defer s.mutex.Unlock()
	s.jobs[change.Target.Name] = proto.CloneOf(change.Target)
	return nil
}

func shelfPlugin() int {
	world := &shelf{jobs: map[string]*processpb.Job{}}
	return serve.Main(serve.Plugin{Name: "shelf", Version: "1", Resources: []serve.Kind{serve.For(world, serve.Serving{})}})
}

// looking is a plugin, and what it was asked about.
type looking struct {
	plugin.Plugin
	mutex sync.Mutex
	// looked at: as of which incarnation last.
	looked map[intent.AssetID]intent.Sequence
}

func (l *looking) Diff(ctx context.Context, request plugin.DiffRequest) ([]intent.Difference, error) {
	incarnation, assets := request.Incarnation, request.Assets
	differences, err := l.Plugin.Diff(ctx, plugin.DiffRequest{Incarnation: incarnation, Assets: assets})
	l.mutex.Lock()
	defer l.mutex.Unlock()
	for _, d := range differences {
		if d.Outcome != intent.Unknown {
			l.looked[d.Asset] = incarnation.Sequence
		}
	}
	return differences, err
}

// lookedAt counts the assets that were looked at as of the incarnation or a newer one.
func (l *looking) lookedAt(sequence intent.Sequence) (count int) {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	for _, at := range l.looked {
		if at >= sequence {
			count++
		}
	}
	return count
}

// counting is a store that counts what is read of intent and reports, and the rows
// that are written of them.
type counting struct {
	store.All
	read, written atomic.Int64
}

func (c *counting) Content(ctx context.Context, id intent.IncarnationID, asset intent.AssetID) (intent.Member, []byte, error) {
	c.read.Add(1)
	return c.All.Content(ctx, id, asset)
}

func (c *counting) Contents(ctx context.Context, incarnation intent.IncarnationID, assets []intent.AssetID) (map[intent.AssetID][]byte, error) {
	c.read.Add(int64(len(assets)))
	return c.All.Contents(ctx, incarnation, assets)
}

func (c *counting) Member(ctx context.Context, id intent.IncarnationID, asset intent.AssetID) (intent.Member, error) {
	c.read.Add(1)
	return c.All.Member(ctx, id, asset)
}

func (c *counting) Body(ctx context.Context, digest intent.Digest) ([]byte, error) {
	c.read.Add(1)
	return c.All.Body(ctx, digest)
}

func (c *counting) EdgesFrom(ctx context.Context, id intent.IncarnationID, asset intent.AssetID) ([]store.Edge, error) {
	c.read.Add(1)
	return c.All.EdgesFrom(ctx, id, asset)
}

func (c *counting) EdgesTo(ctx context.Context, id intent.IncarnationID, asset intent.AssetID) ([]store.Edge, error) {
	c.read.Add(1)
	return c.All.EdgesTo(ctx, id, asset)
}

func (c *counting) Report(ctx context.Context, partition intent.PartitionID, asset intent.AssetID) (intent.Report, error) {
	c.read.Add(1)
	return c.All.Report(ctx, partition, asset)
}

func (c *counting) Members(ctx context.Context, id intent.IncarnationID, filter store.AssetFilter) ([]intent.Member, error) {
	found, err := c.All.Members(ctx, id, filter)
	c.read.Add(int64(len(found)) + 1)
	return found, err
}

func (c *counting) Changes(ctx context.Context, from, to intent.IncarnationID, after intent.AssetID, limit int) ([]store.Change, error) {
	found, err := c.All.Changes(ctx, from, to, after, limit)
	c.read.Add(int64(len(found)) + 1)
	return found, err
}

func (c *counting) ListReports(ctx context.Context, partition intent.PartitionID, filter store.ReportFilter) ([]intent.Report, error) {
	found, err := c.All.ListReports(ctx, partition, filter)
	c.read.Add(int64(len(found)) + 1)
	return found, err
}

func (c *counting) EnforcedPage(ctx context.Context, partition intent.PartitionID, after intent.AssetID, limit int) ([]store.Enforced, error) {
	found, err := c.All.EnforcedPage(ctx, partition, after, limit)
	c.read.Add(int64(len(found)) + 1)
	return found, err
}

func (c *counting) Stage(ctx context.Context, lease store.Lease, base intent.IncarnationID, delta []store.Entry) error {
	c.written.Add(int64(len(delta)) + 1)
	return c.All.Stage(ctx, lease, base, delta)
}

func (c *counting) SaveReports(ctx context.Context, lease store.Lease, reports []intent.Report) error {
	c.written.Add(int64(len(reports)))
	return c.All.SaveReports(ctx, lease, reports)
}

func (c *counting) SaveEnforced(ctx context.Context, lease store.Lease, enforced []store.Enforced) (map[intent.AssetID]store.Claim, error) {
	c.written.Add(int64(len(enforced)))
	return c.All.SaveEnforced(ctx, lease, enforced)
}

func (c *counting) Admit(ctx context.Context, lease store.Lease, admissions []store.Admission) ([]*store.Refusal, error) {
	c.written.Add(int64(len(admissions)))
	return c.All.Admit(ctx, lease, admissions)
}

func (c *counting) ClosePushes(ctx context.Context, lease store.Lease, closings []store.Closing) error {
	c.written.Add(int64(len(closings)))
	return c.All.ClosePushes(ctx, lease, closings)
}

const growthProgram = `
def generate(ctx):
    return [asset(id, lehr.process.v1.Job(name = id, replicas = 1, binary = "/opt/web", version = version)) for id, version in yaml("list.yaml").items()]
`

// changeOne counts what one change of one asset reads and writes in a partition of that
// size, until production is as it says and all assets were looked at as of its head.
func changeOne(t *testing.T, size int) (read, written int64) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	definition := partition(t, "grown")
	write := func(name, content string) {
		path := filepath.Join(filepath.Dir(definition), name)
		if err := os.WriteFile(path+".new", []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(path+".new", path); err != nil {
			t.Fatal(err)
		}
	}
	list := func(first string) {
		content := "job-0: " + first + "\n"
		for i := 1; i < size; i++ {
			content += fmt.Sprintf("job-%d: v1\n", i)
		}
		write("list.yaml", content)
	}
	write("web.star", growthProgram)
	write("lehr.yaml", `lehr: v1
partition: grown
owner: ann@example.com
mode: enforce
sources:
  service: {dir: ., files: [list.yaml]}
generate:
  web: {starlark: web.star, from: [service]}
plugins:
  Job: {run: shelf}
`)
	list("v1")
	counted, looks := &counting{}, &looking{looked: map[intent.AssetID]intent.Sequence{}}
	var child *remote.Child
	_, opened := begin(t, nil, map[intent.PartitionID]string{"grown": definition}, func(o *app.Options) {
		counted.All = o.Parts.Store
		o.Parts.Store = counted
		// A look at what is in sync comes each second, at most.
		o.Limits.Sweep = time.Second
		child = remote.Start(context.WithoutCancel(t.Context()), remote.Options{
			Name: "shelf", Run: []string{self, asPlugin}, Contents: app.Contents(counted), Log: slog.New(slog.DiscardHandler),
		})
		looks.Plugin = child
		o.Parts.Plugins = func([]string) plugin.Plugin { return looks }
	})
	t.Cleanup(child.Close)
	head := func() intent.IncarnationID {
		found, err := opened.Partition(t.Context(), "grown")
		if err != nil {
			t.Fatal(err)
		}
		return found.Head
	}
	inSync := func() int {
		counts, err := opened.CountReports(t.Context(), "grown")
		if err != nil {
			t.Fatal(err)
		}
		return counts[intent.StateInSync]
	}
	eventually(t, "all are in sync", func() bool { return inSync() == size && looks.lookedAt(head().Sequence) == size })
	before := head()
	reads, writes := counted.read.Load(), counted.written.Load()
	list("v2")
	eventually(t, "the change is head", func() bool { return head() != before })
	eventually(t, "the change is carried out", func() bool {
		pushes, err := opened.Pushes(t.Context(), "grown", "job-0", 1)
		return err == nil && len(pushes) == 1 && pushes[0].Target == head() && pushes[0].Ending == "pushed" && inSync() == size
	})
	eventually(t, "all were looked at as of the new head", func() bool { return looks.lookedAt(head().Sequence) == size })
	return counted.read.Load() - reads, counted.written.Load() - writes
}

// The cost of a change depends on the change, not on the partition.
func TestWhatAChangeCosts(t *testing.T) {
	const size, slack = 30, 20
	read, written := changeOne(t, size)
	readOfMany, writtenOfMany := changeOne(t, 10*size)
	t.Logf("of %d assets %d rows read and %d written; of %d assets %d and %d", size, read, written, 10*size, readOfMany, writtenOfMany)
	if readOfMany > read+slack {
		t.Errorf("one change reads %d rows of %d assets, and %d of %d", read, size, readOfMany, 10*size)
	}
	if writtenOfMany > written+slack {
		t.Errorf("one change writes %d rows of %d assets, and %d of %d", written, size, writtenOfMany, 10*size)
	}
}
