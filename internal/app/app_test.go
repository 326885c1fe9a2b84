package app_test

import (
	"context"
	"fmt"
	"log/slog"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	apipb "lehr.dev/gen/lehr/api/v1"
	"lehr.dev/internal/app"
	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/pluginhost/plugin"
	"lehr.dev/internal/prodspec/generate"
	"lehr.dev/internal/store"
	"lehr.dev/internal/store/sqlite"
	"lehr.dev/sdk/client"
)

// TestMain runs this binary as a plugin where it is started as one.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == asPlugin {
		os.Exit(shelfPlugin())
	}
	goleak.VerifyTestMain(m)
}

var by = intent.Actor{Name: "ann", Origin: "test"}

// production is a plugin in this process: resources are in sync once pushed.
type production struct {
	mutex  sync.Mutex
	pushed map[intent.AssetID]intent.IncarnationID
	// poison makes a push of that asset panic, that many times.
	poison map[intent.AssetID]int
}

func newProduction() *production {
	return &production{pushed: map[intent.AssetID]intent.IncarnationID{}, poison: map[intent.AssetID]int{}}
}

func (p *production) Describe() (plugin.Description, error) {
	return plugin.Description{Name: "memory", Version: "1", Types: []plugin.Served{{Type: "lehr.command.v1.Command", Guarantee: plugin.CompareAndSet, LongestEffect: time.Second}}}, nil
}

func (p *production) Diff(_ context.Context, request plugin.DiffRequest) ([]intent.Difference, error) {
	incarnation, assets := request.Incarnation, request.Assets
	p.mutex.Lock()
	defer p.mutex.Unlock()
	var differences []intent.Difference
	for _, asset := range assets {
		d := intent.Difference{
			Asset: asset, Incarnation: incarnation, Outcome: intent.InSync, ResourceKey: intent.ResourceKey("memory:" + string(incarnation.Partition) + "/" + string(asset)),
			Health: intent.Health{State: intent.Healthy}, At: time.Now(), Base: p.pushed[asset].String(),
		}
		if p.pushed[asset].IsZero() {
			d.Outcome = intent.Differs
			d.Plan = intent.Plan{Action: intent.ActionCreate, Changes: []intent.FieldChange{{Path: "input", Target: "x"}}}
		}
		differences = append(differences, d)
	}
	return differences, nil
}

func (p *production) Push(_ context.Context, push plugin.Push) plugin.PushResult {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	if p.poison[push.Asset] > 0 {
		p.poison[push.Asset]--
		panic("poison in " + push.Asset)
	}
	p.pushed[push.Asset] = push.Incarnation
	return plugin.PushResult{Ending: plugin.Pushed}
}

// cure an asset: it panics no more.
func (p *production) cure(asset intent.AssetID) {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	delete(p.poison, asset)
}

func (p *production) has(asset intent.AssetID) bool {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	return !p.pushed[asset].IsZero()
}

const definition = `lehr: v1
partition: NAME
owner: ann@example.com
mode: enforce
sources:
  service: {dir: ., files: [list.yaml]}
generate:
  web: {starlark: web.star, from: [service]}
plugins:
  Command: {run: memory}
`

const program = `
def generate(ctx):
    return [asset(id, lehr.command.v1.Command(diff = ["true"], push = ["true"])) for id in yaml("list.yaml")]
`

// partition writes a definition that makes the assets.
func partition(t *testing.T, name string, assets ...string) string {
	t.Helper()
	folder := t.TempDir()
	list := ""
	for _, asset := range assets {
		list += "- " + asset + "\n"
	}
	for file, text := range map[string]string{"lehr.yaml": strings.Replace(definition, "NAME", name, 1), "web.star": program, "list.yaml": list} {
		if err := os.WriteFile(filepath.Join(folder, file), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return filepath.Join(folder, "lehr.yaml")
}

// begin starts an app in process: no socket, no child.
func begin(t *testing.T, p *production, register map[intent.PartitionID]string, changes ...func(*app.Options)) (*app.App, store.All) {
	t.Helper()
	memory, err := sqlite.Memory()
	if err != nil {
		t.Fatal(err)
	}
	opened, err := sqlite.Open(t.Context(), sqlite.Options{DB: memory})
	if err != nil {
		t.Fatal(err)
	}
	options := app.DefaultOptions()
	options.Store, options.Listen, options.Register = "", "", register
	options.Log = slog.New(slog.DiscardHandler)
	options.Parts = app.Parts{
		Store: opened, Plugins: func([]string) plugin.Plugin { return p },
		Runner: generate.InProcess{Limits: generate.DefaultLimits()},
	}
	for _, change := range changes {
		change(&options)
	}
	running, err := app.New(options)
	if err != nil {
		t.Fatal(err)
	}
	if err := running.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		began := time.Now()
		if err := running.Stop(context.Background()); err != nil {
			t.Errorf("stop: %v", err)
		}
		if took := time.Since(began); took > 5*time.Second {
			t.Errorf("stopping took %s", took)
		}
		opened.Close()
		memory.Close()
	})
	return running, opened
}

// eventually waits for a condition.
func eventually(t *testing.T, what string, condition func() bool) {
	t.Helper()
	deadline := time.Now().Add(2 * time.Minute)
	for !condition() {
		if time.Now().After(deadline) {
			t.Fatalf("it never came about: %s", what)
		}
		time.Sleep(10 * time.Millisecond)
	}
}

func TestEnforcesWhatIsRegistered(t *testing.T) {
	p := newProduction()
	_, opened := begin(t, p, map[intent.PartitionID]string{"one": partition(t, "one", "a")})
	eventually(t, "the first partition's asset is pushed", func() bool { return p.has("a") })
	if err := opened.AddPartition(t.Context(), "two", partition(t, "two", "b"), "a try", by); err != nil {
		t.Fatal(err)
	}
	eventually(t, "a partition added while running is enforced", func() bool { return p.has("b") })
	moved := partition(t, "two", "b", "c")
	if err := opened.AddPartition(t.Context(), "two", moved, "a try", by); err != nil {
		t.Fatal(err)
	}
	eventually(t, "a moved definition is followed", func() bool { return p.has("c") })
}

// A panic while one partition's assets are pushed is contained, told, and got
// over; the other partition goes on (S12, L2).
func TestPanicStaysInItsPartition(t *testing.T) {
	if testing.Short() {
		t.Skip("waits until a lease that was taken away may be held again")
	}
	p := newProduction()
	p.poison["bad"] = 1 << 30 // Until it was seen: a server tells of a problem only while there is one.
	running, opened := begin(t, p, map[intent.PartitionID]string{"one": partition(t, "one", "bad"), "two": partition(t, "two", "good")})
	c := client.InProcess(running.Handler())
	eventually(t, "the server tells of it", func() bool {
		answer, err := c.Server.GetServer(t.Context(), &apipb.GetServerRequest{})
		if err != nil {
			t.Fatal(err)
		}
		for _, health := range answer.Partitions {
			if health.Partition == "one" && strings.Contains(health.Problem, "poison in bad") {
				return true
			}
		}
		return false
	})
	eventually(t, "the other partition is enforced", func() bool { return p.has("good") })
	p.cure("bad")
	eventually(t, "the actor comes back", func() bool { return p.has("bad") })
	lease, err := opened.Acquire(t.Context(), "one", "thief")
	if err != nil {
		t.Fatal(err)
	}
	eventually(t, "a lost lease is taken again", func() bool {
		return fault.Is(opened.Check(t.Context(), lease), fault.Conflict)
	})
}

func TestForgetsWhatNothingNeeds(t *testing.T) {
	p := newProduction()
	registered := partition(t, "one", "a")
	_, opened := begin(t, p, map[intent.PartitionID]string{"one": registered}, func(o *app.Options) {
		o.Collecting = app.Collecting{Every: 10 * time.Millisecond, Keep: store.Retention{Incarnations: 1, History: time.Hour}}
	})
	eventually(t, "it is enforced", func() bool { return p.has("a") })
	text, err := os.ReadFile(registered)
	if err != nil {
		t.Fatal(err)
	}
	for count := range 3 {
		budget := fmt.Sprintf("checks:\n  budget: {scope: cluster, in_flight: %d}\n", count+1)
		if err := os.WriteFile(registered, append(text[:len(text):len(text)], budget...), 0o644); err != nil {
			t.Fatal(err)
		}
		eventually(t, "only what was enforced last is kept", func() bool {
			list, err := opened.Incarnations(t.Context(), "one", 0, 10)
			if err != nil {
				t.Fatal(err)
			}
			return len(list) == 1 && list[0].ID.Sequence == intent.Sequence(count+2)
		})
	}
	if !p.has("a") {
		t.Error("forgetting touched production")
	}
}

func TestRemovedPartitionIsLeftAlone(t *testing.T) {
	p := newProduction()
	running, opened := begin(t, p, map[intent.PartitionID]string{"one": partition(t, "one", "a")})
	eventually(t, "it is enforced", func() bool { return p.has("a") })
	if err := opened.RemovePartition(t.Context(), "one", "a try", by); err != nil {
		t.Fatal(err)
	}
	c := client.InProcess(running.Handler())
	eventually(t, "nobody acts for it", func() bool {
		answer, err := c.Server.GetServer(t.Context(), &apipb.GetServerRequest{})
		return err == nil && len(answer.Partitions) == 0
	})
	if !p.has("a") {
		t.Error("removing the registration touched production")
	}
}

func TestRefusesWhatCannotBeServed(t *testing.T) {
	for name, change := range map[string]func(*app.Options){
		"no store":           func(o *app.Options) { o.Store = "" },
		"no pause":           func(o *app.Options) { o.Collecting.Every = 0 },
		"no URL":             func(o *app.Options) { o.Checkpoints = app.Checkpoints{To: "https://", Every: time.Minute} },
		"no rest":            func(o *app.Options) { o.Checkpoints = app.Checkpoints{To: "file", Every: time.Millisecond} },
		"an outside address": func(o *app.Options) { o.Listen = "0.0.0.0:0" },
		"one without TLS": func(o *app.Options) {
			o.Listen, o.Access, o.URLs = "0.0.0.0:0", "access.yaml", []*url.URL{{Scheme: "https", Host: "lehr.example.com"}}
		},
		"one without a policy": func(o *app.Options) {
			o.Listen, o.TLS, o.URLs = "0.0.0.0:0", app.TLS{Certificate: "c", Key: "k"}, []*url.URL{{Scheme: "https", Host: "lehr.example.com"}}
		},
		"one without a name": func(o *app.Options) {
			o.Listen, o.TLS, o.Access = "0.0.0.0:0", app.TLS{Certificate: "c", Key: "k"}, "access.yaml"
		},
		"TLS without a policy":  func(o *app.Options) { o.TLS = app.TLS{Certificate: "c", Key: "k"} },
		"half of a certificate": func(o *app.Options) { o.TLS.Certificate, o.Access = "c", "access.yaml" },
	} {
		options := app.DefaultOptions()
		change(&options)
		if _, err := app.New(options); !fault.Is(err, fault.Invalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
