package remote

import (
	"context"
	"crypto/sha256"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"

	intentpb "lehr.dev/gen/lehr/intent/v1"
	processpb "lehr.dev/gen/lehr/process/v1"
	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/pluginhost/plugin"
)

// TestMain runs this binary as one of the plugins of plugins_test.go when it
// is started as "<binary> plugin:<name> …".
func TestMain(m *testing.M) {
	if len(os.Args) > 1 {
		if name, ok := strings.CutPrefix(os.Args[1], "plugin:"); ok {
			os.Exit(testPlugins[name](os.Args[2:]))
		}
	}
	os.Exit(m.Run())
}

// self is the command line that runs this binary as a plugin.
func self(t testing.TB, name string, arguments ...string) []string {
	t.Helper()
	path, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return append([]string{path, "plugin:" + name}, arguments...)
}

// intents is a Contents in memory.
type intents struct {
	mutex  sync.Mutex
	assets map[intent.AssetID][]byte
	reads  map[intent.AssetID][]intent.AssetID
	asked  map[intent.AssetID]int
}

func newIntents() *intents {
	return &intents{assets: map[intent.AssetID][]byte{}, reads: map[intent.AssetID][]intent.AssetID{}, asked: map[intent.AssetID]int{}}
}

func (c *intents) put(id intent.AssetID, payload proto.Message, addons ...proto.Message) {
	pack := func(message proto.Message) *anypb.Any {
		carried, err := anypb.New(message)
		if err != nil {
			panic(err)
		}
		return carried
	}
	asset := &intentpb.Asset{Id: string(id), Payload: pack(payload)}
	for _, addon := range addons {
		asset.Addons = append(asset.Addons, pack(addon))
	}
	bytes, err := proto.MarshalOptions{Deterministic: true}.Marshal(asset)
	if err != nil {
		panic(err)
	}
	c.mutex.Lock()
	defer c.mutex.Unlock()
	c.assets[id] = bytes
}

func (c *intents) Content(_ context.Context, _ intent.IncarnationID, asset intent.AssetID) ([]byte, intent.Digest, error) {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	c.asked[asset]++
	bytes, ok := c.assets[asset]
	if !ok {
		return nil, intent.Digest{}, fault.New(fault.NotFound, "no asset %s", asset)
	}
	return bytes, sha256.Sum256(bytes), nil
}

func (c *intents) Reads(_ context.Context, _ intent.IncarnationID, asset intent.AssetID) ([]intent.AssetID, error) {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	return c.reads[asset], nil
}

func job(n int) *processpb.Job {
	return &processpb.Job{
		Name: fmt.Sprintf("shop/job-%d", n), Replicas: 3, Binary: "/usr/bin/frontend",
		Args: []string{"--port", "{port}", "--task={task}"}, Env: map[string]string{"REGION": "north", "TIER": "web"},
		Version: "1.4.2", BasePort: 8000, Health: &processpb.HealthCheck{Path: "/healthz"},
	}
}

// jobs fills contents with n jobs and returns their ids.
func jobs(contents *intents, n int) []intent.AssetID {
	ids := make([]intent.AssetID, n)
	for i := range ids {
		ids[i] = intent.AssetID(fmt.Sprintf("job/%d", i))
		contents.put(ids[i], job(i))
	}
	return ids
}

var head = intent.IncarnationID{Partition: "shop", Sequence: 7}

// start runs a plugin for the length of the test.
func start(t testing.TB, options Options) *Child {
	t.Helper()
	if options.Log == nil {
		options.Log = slog.New(slog.NewTextHandler(t.Output(), nil))
	}
	if options.Contents == nil {
		options.Contents = newIntents()
	}
	if options.DiffTimeout == 0 {
		options.DiffTimeout = 2 * time.Minute // How fast the machine is, is no test's subject.
	}
	child := Start(t.Context(), options)
	t.Cleanup(child.Close)
	return child
}

// started runs a plugin and waits until it serves.
func started(t testing.TB, options Options) *Child {
	t.Helper()
	child := start(t, options)
	eventually(t, "the plugin serves", func() bool {
		_, err := child.Describe()
		return err == nil
	})
	return child
}

// eventually waits for a condition, up to a generous limit.
func eventually(t testing.TB, what string, condition func() bool) {
	t.Helper()
	for deadline := time.Now().Add(2 * time.Minute); !condition(); {
		if time.Now().After(deadline) {
			t.Fatalf("not within 2 min: %s", what)
		}
		time.Sleep(time.Millisecond)
	}
}

// closes waits for a channel to be closed, up to a generous limit.
func closes(t testing.TB, what string, channel <-chan struct{}) {
	t.Helper()
	select {
	case <-channel:
	case <-time.After(2 * time.Minute):
		t.Fatalf("not within 2 min: %s", what)
	}
}

// admitted is a push of what a diff found, of which its owner is sure for long:
// Permit is not asked at the start.
func admitted(d intent.Difference) plugin.Push {
	return plugin.Push{
		ID: intent.PushID("push-of-" + string(d.Asset)), Incarnation: d.Incarnation, Asset: d.Asset,
		Plan: d.Plan.Digest(), Base: d.Base, Token: 1, Checked: time.Now().Add(time.Hour),
		Permit: func(context.Context, string) error { return nil },
	}
}
