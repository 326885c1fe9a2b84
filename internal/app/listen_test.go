package app_test

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"time"

	apipb "lehr.dev/gen/lehr/api/v1"
	"lehr.dev/internal/access"
	"lehr.dev/internal/app"
	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/pluginhost/plugin"
	"lehr.dev/internal/prodspec/generate"
	"lehr.dev/sdk/client"
)

// An open watch does not keep the server from ending, and what it left for
// clients to find it by goes with it.
func TestStopEndsOpenWatches(t *testing.T) {
	p := newProduction()
	options := app.DefaultOptions()
	options.Store = filepath.Join(t.TempDir(), "new", "lehr.db")
	options.Register = map[intent.PartitionID]string{"one": partition(t, "one", "a")}
	options.Log = slog.New(slog.DiscardHandler)
	options.Parts.Plugins = func([]string) plugin.Plugin { return p }
	options.Parts.Runner = generate.InProcess{Limits: generate.DefaultLimits()}
	running, err := app.New(options)
	if err != nil {
		t.Fatal(err)
	}
	if err := running.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	c, err := client.Discover(options.Store, by)
	if err != nil {
		t.Fatal(err)
	}
	stream, err := c.Reports.WatchReports(t.Context(), &apipb.WatchReportsRequest{Partition: "one"})
	if err != nil {
		t.Fatal(err)
	}
	defer stream.Close()
	if !stream.Receive() {
		t.Fatalf("the watch said nothing: %v", stream.Err())
	}

	second, err := app.New(options)
	if err != nil {
		t.Fatal(err)
	}
	if err := second.Start(t.Context()); !fault.Is(err, fault.Conflict) {
		t.Errorf("a second server on the store: %v", err)
	}

	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for stream.Receive() {
		}
	}()
	began := time.Now()
	if err := running.Stop(context.Background()); err != nil {
		t.Error(err)
	}
	if took := time.Since(began); took > 3*time.Second {
		t.Errorf("stopping took %s", took)
	}
	select {
	case <-ended:
	case <-time.After(10 * time.Second):
		t.Error("the watch goes on")
	}
	if _, err := os.Stat(access.RendezvousPath(options.Store)); !os.IsNotExist(err) {
		t.Errorf("the token is still there: %v", err)
	}
	c.Close()
}
