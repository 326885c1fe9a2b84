package main

import (
	"context"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	apipb "lehr.dev/gen/lehr/api/v1"
	"lehr.dev/internal/app"
	"lehr.dev/internal/ground/intent"
)

// measureMillion measures the largest partition that nothing enforces: its
// first build, changes of one asset, what differs then, pages of a filtered
// list, memory and disk.
func measureMillion(ctx context.Context, plugin string, size int) error {
	start := time.Now()
	a, err := newAsked(ctx, plugin, size)
	if err != nil {
		return err
	}
	defer a.close()
	name := func(what string) string { return fmt.Sprintf("%s_%d_assets", what, size) }
	if err := a.served(ctx, time.Hour, partition); err != nil {
		return err
	}
	machine.figure(name("first_build"), time.Since(start).Seconds(), "s", size, byComputing)
	var heads []float64
	for i := range 5 {
		previous, saved := a.head(ctx), time.Now()
		if err := a.manifest(i, fmt.Sprintf("v%d", i+2)); err != nil {
			return err
		}
		if err := a.until(ctx, often, func() bool { return a.head(ctx) != previous }); err != nil {
			return err
		}
		heads = append(heads, ms(time.Since(saved)))
	}
	machine.figure(name("one_change_build"), median(heads), "ms", 1, byAdmission, byComputing)
	var differences []float64
	for range 5 {
		start, head := time.Now(), a.head(ctx)
		answer, err := a.client.Incarnations.CompareIncarnations(ctx, &apipb.CompareIncarnationsRequest{
			From: intent.IncarnationID{Partition: partition, Sequence: head.Sequence - 1}.String(), To: head.String(),
		})
		if err != nil {
			return err
		}
		if len(answer.Comparisons) != 1 {
			return fmt.Errorf("%d assets differ, want one", len(answer.Comparisons))
		}
		differences = append(differences, ms(time.Since(start)))
	}
	machine.figure(name("difference"), median(differences), "ms", 1, byComputing)
	for _, page := range []struct{ name, filter string }{
		{"list_page_by_index", `labels.team == "team-7"`},
		{"list_page_by_value", `type == "Job" && payload.replicas == 7`},
	} {
		durations, err := a.pages(ctx, page.filter)
		if err != nil {
			return err
		}
		machine.figure(name(page.name+"_p99"), durations[len(durations)*99/100], "ms", 1, byComputing)
	}
	print(name("heap"), float64(a.heap())/1e6, "MB")
	a.footprint(name)
	return a.enforceAll(ctx, plugin, name)
}

// enforceAll takes up what is in production already, and measures a quiet
// partition: its whole memory, and how fast it tells why.
func (a *asked) enforceAll(ctx context.Context, plugin string, name func(string) string) error {
	a.plugin, a.most = plugin+" -adopt", time.Hour
	start := time.Now()
	if err := a.define("enforce"); err != nil {
		return err
	}
	if err := a.until(ctx, time.Second, func() bool { return a.enforced(ctx) == a.size }); err != nil {
		return err
	}
	machine.figure(name("first_look"), time.Since(start).Seconds(), "s", a.size, byRoundTrips, byComputing)
	a.rest(a.size)
	heap := float64(a.heap())
	print(name("heap_enforced"), heap/1e6, "MB")
	print(name("heap_by_asset"), heap/float64(a.size), "B")
	if err := a.whys(ctx, name); err != nil {
		return err
	}
	a.footprint(name)
	return nil
}

// served waits until the partitions have a head.
func (b *bed) served(ctx context.Context, most time.Duration, partitions ...intent.PartitionID) error {
	deadline := time.Now().Add(most)
	for _, id := range partitions {
		for {
			found, err := b.app.Store().Partition(ctx, id)
			if err == nil && !found.Head.IsZero() {
				break
			}
			if time.Now().After(deadline) {
				candidates, _ := b.app.Store().ListCandidates(ctx, id, 1)
				return fmt.Errorf("%s has no incarnation after %s; newest candidate: %+v", id, most, candidates)
			}
			time.Sleep(seldom)
		}
	}
	return nil
}

// footprint prints what the process and its store take.
func (b *bed) footprint(name func(string) string) {
	for what, key := range map[string]string{"resident": "VmRSS:", "most_resident": "VmHWM:"} {
		print(name(what), status(key)/1e3, "MB")
	}
	var bytes int64
	_ = filepath.WalkDir(filepath.Join(b.folder, "store"), func(_ string, entry fs.DirEntry, err error) error {
		if err == nil && !entry.IsDir() {
			if info, err := entry.Info(); err == nil {
				bytes += info.Size()
			}
		}
		return nil
	})
	print(name("disk"), float64(bytes)/1e6, "MB")
}

// status is a figure of /proc/self/status, in kB.
func status(key string) (found float64) {
	file, err := os.Open("/proc/self/status")
	if err != nil {
		return 0
	}
	defer file.Close()
	var word string
	for {
		if _, err := fmt.Fscan(file, &word); err != nil {
			return 0
		}
		if word == key {
			fmt.Fscan(file, &found)
			return found
		}
	}
}

// crowd is many partitions on one server.
type crowd struct {
	*bed
	beds []*bed
	ids  []intent.PartitionID
	// took is how long it was until all were built for the first time.
	took time.Duration
}

// newCrowd starts an app on many partitions of so many assets, and returns when all are built.
// Close ends it.
func newCrowd(ctx context.Context, plugin string, partitions, each int, alter func(folder string, options *app.Options) error) (_ *crowd, err error) {
	root, err := os.MkdirTemp("", "lehr-bench-")
	if err != nil {
		return nil, err
	}
	c := &crowd{bed: &bed{folder: root}}
	defer func() {
		if err != nil {
			c.end()
		}
	}()
	options := app.DefaultOptions()
	options.Store, options.Listen = filepath.Join(root, "store", "lehr.db"), ""
	options.Register = map[intent.PartitionID]string{}
	options.Log = slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))
	for i := range partitions {
		id := intent.PartitionID(fmt.Sprintf("bench-%04d", i))
		b := &bed{folder: filepath.Join(root, string(id)), plugin: plugin, size: each, partition: id}
		if err := os.MkdirAll(filepath.Join(b.folder, "manifests"), 0o755); err != nil {
			return nil, err
		}
		for file := range each / perFile {
			if err := b.manifest(file, "v1"); err != nil {
				return nil, err
			}
		}
		if err := b.write("jobs.star", askedProgram); err != nil {
			return nil, err
		}
		if err := b.define(`"off"`); err != nil {
			return nil, err
		}
		c.beds, c.ids = append(c.beds, b), append(c.ids, id)
		options.Register[id] = filepath.Join(b.folder, "lehr.yaml")
	}
	if alter != nil {
		if err := alter(root, &options); err != nil {
			return nil, err
		}
	}
	running, err := app.New(options)
	if err != nil {
		return nil, err
	}
	start := time.Now()
	if err := running.Start(ctx); err != nil {
		return nil, err
	}
	c.app = running
	err = c.served(ctx, time.Hour, c.ids...)
	c.took = time.Since(start)
	return c, err
}

// end stops the app and removes its folder.
func (c *crowd) end() {
	if c.app != nil {
		_ = c.app.Stop(context.Background()) // What is measured is over.
	}
	os.RemoveAll(c.folder)
}

// measureMany measures many partitions on one server: until all are built for
// the first time, and changes of one asset in one of them.
func measureMany(ctx context.Context, plugin string, partitions, each int) error {
	c, err := newCrowd(ctx, plugin, partitions, each, nil)
	if err != nil {
		return err
	}
	defer c.end()
	name := func(what string) string { return fmt.Sprintf("%s_%d_partitions_of_%d", what, partitions, each) }
	machine.figure(name("all_built"), c.took.Seconds(), "s", partitions*each, byComputing)
	var heads []float64
	for i := range 9 {
		at := i * 7919 % partitions
		before, err := c.app.Store().Partition(ctx, c.ids[at])
		if err != nil {
			return err
		}
		saved := time.Now()
		if err := c.beds[at].manifest(0, fmt.Sprintf("v%d", i+2)); err != nil {
			return err
		}
		if err := c.until(ctx, often, func() bool {
			now, err := c.app.Store().Partition(ctx, c.ids[at])
			return err == nil && now.Head != before.Head
		}); err != nil {
			return err
		}
		heads = append(heads, ms(time.Since(saved)))
	}
	machine.figure(name("one_change_build"), median(heads), "ms", 1, byAdmission, byComputing)
	print(name("heap"), float64(c.heap())/1e6, "MB")
	c.footprint(name)
	return nil
}
