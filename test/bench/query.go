package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"connectrpc.com/connect"

	apipb "lehr.dev/gen/lehr/api/v1"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/sdk/client"
)

// asked is a partition that nothing enforces, served on a loopback socket.
type asked struct {
	*bed
	client *client.Client
}

const askedProgram = `def generate(ctx):
    m = yaml(ctx.file)
    return [asset("%s/%d" % (m["name"], i), lehr.process.v1.Job(
        name = "%s/%d" % (m["name"], i), replicas = i % 10, binary = "/opt/" + m["name"], version = m["versions"][i],
        args = ["--port={port}", "--flag=value", "--cluster=" + m["name"]],
        env = {"MODE": "production", "REGION": "europe-west"},
    ), addons = [
        lehr.intent.v1.Labels(labels = {"team": "team-%d" % (i % 20)}),
    ]) for i in range(len(m["versions"]))]
`

func newAsked(ctx context.Context, plugin string, size int) (*asked, error) {
	folder, err := os.MkdirTemp("", "lehr-bench-")
	if err != nil {
		return nil, err
	}
	b := &bed{folder: folder, plugin: plugin, size: size}
	if err := os.Mkdir(filepath.Join(folder, "manifests"), 0o755); err != nil {
		return nil, err
	}
	for i := range size / perFile {
		if err := b.manifest(i, "v1"); err != nil {
			return nil, err
		}
	}
	if err := b.write("jobs.star", askedProgram); err != nil {
		return nil, err
	}
	if err := b.define(`"off"`); err != nil {
		return nil, err
	}
	if err := b.start(ctx); err != nil {
		return nil, err
	}
	return &asked{b, b.client()}, nil
}

// measureQueries measures pages of a filtered list, and how long a change takes
// to reach the last of many watchers.
func measureQueries(ctx context.Context, plugin string, size int) error {
	a, err := newAsked(ctx, plugin, size)
	if err != nil {
		return err
	}
	defer a.close()
	if err := a.until(ctx, seldom, func() bool { return !a.head(ctx).IsZero() }); err != nil {
		return err
	}
	// Passes over what is off write their reports; what is measured is not
	// that.
	if err := a.until(ctx, seldom, func() bool { return a.reported(ctx, intent.StateOff) >= size }); err != nil {
		return err
	}
	for _, page := range []struct{ name, filter string }{
		{"list_page", ""},
		{"list_page_by_index", `labels.team == "team-7"`},
		{"list_page_by_value", `type == "Job" && payload.replicas == 7`},
		{"list_page_without_match", `type == "Job" && payload.replicas == 77`},
	} {
		durations, err := a.pages(ctx, page.filter)
		if err != nil {
			return fmt.Errorf("%s: %w", page.filter, err)
		}
		machine.figure(fmt.Sprintf("%s_p50_%d_assets", page.name, size), durations[len(durations)/2], "ms", 1, byComputing)
		machine.figure(fmt.Sprintf("%s_p99_%d_assets", page.name, size), durations[len(durations)*99/100], "ms", 1, byComputing)
	}
	return a.fanOut(ctx, 1000)
}

// pages asks for a page of 100 at many places, and returns the milliseconds,
// sorted.
func (a *asked) pages(ctx context.Context, filter string) ([]float64, error) {
	const rounds = 300
	var durations []float64
	for i := range rounds {
		after := fmt.Sprintf("job-%06d/%d", i*7919%(a.size/perFile), i%perFile)
		start := time.Now()
		_, err := a.client.Assets.ListAssets(ctx, &apipb.ListAssetsRequest{Partition: string(partition), Filter: filter, After: after, Limit: 100})
		if err != nil {
			return nil, err
		}
		durations = append(durations, ms(time.Since(start)))
	}
	slices.Sort(durations)
	return durations, nil
}

// fanOut lets many watch the assets of one file, changes that file, and
// measures from the new head's publication until the last watcher has it.
func (a *asked) fanOut(ctx context.Context, watchers int) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	arrived := make(chan string, watchers)
	var running sync.WaitGroup
	defer running.Wait()
	defer cancel()
	for i := range watchers {
		stream, err := a.client.Assets.WatchAssets(ctx, &apipb.WatchAssetsRequest{
			Partition: string(partition), Filter: fmt.Sprintf(`id.startsWith("job-000000/") && payload.replicas >= %d`, -(i % 4)),
		})
		if err != nil {
			return err
		}
		running.Go(func() { follow(stream, arrived) })
	}
	head := a.head(ctx).String()
	if err := gather(arrived, watchers, head); err != nil {
		return err
	}
	var durations []float64
	for round := range 9 {
		if err := a.manifest(0, fmt.Sprintf("v%d", round+2)); err != nil {
			return err
		}
		before := head
		if err := a.until(ctx, often, func() bool { head = a.head(ctx).String(); return head != before }); err != nil {
			return err
		}
		if err := gather(arrived, watchers, head); err != nil {
			return err
		}
		last := time.Now()
		incarnation, err := a.app.Store().Incarnation(ctx, a.head(ctx))
		if err != nil {
			return err
		}
		durations = append(durations, ms(last.Sub(incarnation.Created)))
	}
	machine.figure(fmt.Sprintf("watch_fan_out_%d_watchers", watchers), median(durations), "ms", watchers, byComputing)
	machine.figure(fmt.Sprintf("watch_fan_out_%d_watchers_worst", watchers), slices.Max(durations), "ms", watchers, byComputing)
	return nil
}

// follow says which incarnations have arrived in full.
func follow(stream *connect.ServerStreamForClient[apipb.WatchAssetsResponse], arrived chan<- string) {
	defer stream.Close()
	for stream.Receive() {
		if stream.Msg().Complete {
			arrived <- stream.Msg().Incarnation
		}
	}
}

// gather waits until so many have an incarnation.
func gather(arrived <-chan string, watchers int, wanted string) error {
	deadline := time.After(time.Minute)
	for have := 0; have < watchers; {
		select {
		case incarnation := <-arrived:
			if incarnation == wanted {
				have++
			}
		case <-deadline:
			return fmt.Errorf("after a minute, %d of %d watchers have %s", have, watchers, wanted)
		}
	}
	return nil
}
