package app_test

import (
	"context"
	"fmt"
	"log/slog"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"lehr.dev/internal/app"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/pluginhost/plugin"
	"lehr.dev/internal/prodspec/generate"
	"lehr.dev/test/pgserver"
)

// replica starts an app that shares a database with others.
func replica(t *testing.T, database string, p *production, register map[intent.PartitionID]string, changes ...func(*app.Options)) *app.App {
	t.Helper()
	options := app.DefaultOptions()
	options.Store, options.Database = filepath.Join(t.TempDir(), "lehr.db"), database
	options.Listen, options.Register = "", register
	options.Log = slog.New(slog.DiscardHandler)
	options.Parts.Plugins = func([]string) plugin.Plugin { return p }
	options.Parts.Runner = generate.InProcess{Limits: generate.DefaultLimits()}
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
	return running
}

// shares waits until the replicas act for so many partitions each.
func shares(t *testing.T, of *app.App, want ...int) (took time.Duration) {
	t.Helper()
	began := time.Now()
	const patience = time.Minute
	for {
		replicas, err := of.Store().Replicas(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		var have []int
		for _, r := range replicas {
			have = append(have, r.Partitions)
		}
		slices.Sort(have)
		if slices.Equal(have, want) {
			return time.Since(began)
		}
		if time.Since(began) > patience {
			t.Fatalf("the replicas act for %d partitions each, want %d", have, want)
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// TestReplicasShareThePartitions: evenly, when one comes and when one goes,
// and each asset is enforced by one of them.
func TestReplicasShareThePartitions(t *testing.T) {
	server := pgserver.New(t)
	server.Start()
	database, p := server.Database(), newProduction()
	register := map[intent.PartitionID]string{}
	for n := range 4 {
		name := fmt.Sprint("shop-", n)
		register[intent.PartitionID(name)] = partition(t, name, "web/"+name)
	}
	stop := func(a *app.App) {
		if err := a.Stop(context.Background()); err != nil {
			t.Error(err)
		}
	}
	first := replica(t, database, p, register)
	defer stop(first)
	shares(t, first, 4)
	second := replica(t, database, p, register)
	t.Logf("a second replica has its share after %s", shares(t, first, 2, 2))
	third := replica(t, database, p, register)
	defer stop(third)
	t.Logf("a third after %s", shares(t, first, 1, 1, 2))
	for id := range register {
		asset := intent.AssetID("web/" + string(id))
		eventually(t, string(asset)+" is pushed", func() bool { return p.has(asset) })
	}
	stop(second)
	t.Logf("what one that ended had is another's after %s", shares(t, first, 2, 2))
}
