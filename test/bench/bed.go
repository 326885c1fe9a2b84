package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"runtime/metrics"
	"runtime/pprof"
	"slices"
	"strings"
	"sync"
	"time"

	apipb "lehr.dev/gen/lehr/api/v1"
	"lehr.dev/internal/annealing/enforcer"
	"lehr.dev/internal/app"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/pluginhost/plugin"
	"lehr.dev/internal/pluginhost/remote"
	"lehr.dev/internal/store"
	"lehr.dev/sdk/client"
)

const partition intent.PartitionID = "bench"

// perFile is how many assets one manifest makes.
const perFile = 100

// bed is a running app over a generated partition.
type bed struct {
	app    *app.App
	folder string
	plugin string
	size   int
	// partition; empty: the usual one.
	partition intent.PartitionID
	// more lines of its definition, of plugins first.
	more string
	// most is how long it is waited for something; 0: ten minutes.
	most time.Duration
}

// newBed starts an app on a new partition of about size assets.
func newBed(ctx context.Context, plugin string, size int, mode string) (*bed, error) {
	folder, err := os.MkdirTemp("", "lehr-bench-")
	if err != nil {
		return nil, err
	}
	b := &bed{folder: folder, plugin: plugin, size: size, most: max(10*time.Minute, time.Duration(size)*4*time.Millisecond)}
	if err := os.Mkdir(filepath.Join(folder, "manifests"), 0o755); err != nil {
		return nil, err
	}
	for i := range size / perFile {
		if err := b.manifest(i, "v1"); err != nil {
			return nil, err
		}
	}
	program := `def generate(ctx):
    m = yaml(ctx.file)
    return [asset("%s/%d" % (m["name"], i), lehr.process.v1.Job(
        name = "%s/%d" % (m["name"], i), replicas = 3, binary = "/opt/" + m["name"], version = m["versions"][i],
        args = ["--port={port}", "--flag=value", "--cluster=" + m["name"]],
        env = {"MODE": "production", "REGION": "europe-west"},
    )) for i in range(len(m["versions"]))]
`
	if err := os.WriteFile(filepath.Join(folder, "jobs.star"), []byte(program), 0o644); err != nil {
		return nil, err
	}
	if err := b.define(mode); err != nil {
		return nil, err
	}
	return b, b.start(ctx)
}

// start serves the partition, on a loopback socket.
func (b *bed) start(ctx context.Context) (err error) {
	options := app.DefaultOptions()
	options.Store = filepath.Join(b.folder, "store", "lehr.db")
	options.Register = map[intent.PartitionID]string{partition: filepath.Join(b.folder, "lehr.yaml")}
	options.Log = slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelError}))
	if b.app, err = app.New(options); err != nil {
		return err
	}
	return b.app.Start(ctx)
}

func (b *bed) client() *client.Client {
	address := b.app.Address()
	return client.Dial(address.URL, address.Token, intent.Actor{Name: "bench", Origin: "api"})
}

func (b *bed) close() {
	_ = b.app.Stop(context.Background())
	os.RemoveAll(b.folder)
}

func (b *bed) define(mode string) error {
	run := strings.Join(strings.Fields(b.plugin), ", ")
	return b.write("lehr.yaml", fmt.Sprintf(`lehr: v1
partition: %s
owner: bench@example.com
mode: %s
sources:
  manifests: {dir: manifests, files: ["*.yaml"]}
generate:
  jobs: {starlark: jobs.star, from: [manifests], for_each: file}
plugins:
  Job: {run: [%s]}
%s`, cmp.Or(b.partition, partition), mode, run, b.more))
}

// manifest writes the i-th file; the version is of its first asset.
func (b *bed) manifest(i int, version string) error {
	var versions strings.Builder
	for j := range perFile {
		if j > 0 {
			version = "v1"
		}
		fmt.Fprintf(&versions, "  - %s\n", version)
	}
	return b.write(filepath.Join("manifests", fmt.Sprintf("%06d.yaml", i)), fmt.Sprintf("name: job-%06d\nversions:\n%s", i, &versions))
}

// write replaces a file at once.
func (b *bed) write(name, content string) error {
	path := filepath.Join(b.folder, name)
	if err := os.WriteFile(filepath.Join(b.folder, ".new"), []byte(content), 0o644); err != nil {
		return err
	}
	return os.Rename(filepath.Join(b.folder, ".new"), path)
}

// How often a condition is asked: seldom where asking costs a scan.
const (
	often  = 2 * time.Millisecond
	seldom = 100 * time.Millisecond
	// Where it costs a scan and ends what is measured.
	betimes = 25 * time.Millisecond
	// share of the time that asking takes at most, as one in so many.
	share = 20
)

// until polls, more seldom where asking takes long; a run that takes too long has failed.
func (b *bed) until(ctx context.Context, pause time.Duration, holds func() bool) error {
	most := cmp.Or(b.most, 10*time.Minute)
	for deadline := time.Now().Add(most); ; {
		requestTime := time.Now()
		if holds() {
			return nil
		}
		duration := time.Since(requestTime)
		if time.Now().After(deadline) {
			candidates, err := b.app.Store().ListCandidates(ctx, partition, 1)
			return errors.Join(fmt.Errorf("gave up after %s; newest candidate: %+v", most, candidates), err)
		}
		time.Sleep(max(pause, share*duration))
	}
}

// reported counts the assets in a state.
func (b *bed) reported(ctx context.Context, in intent.State) int {
	counts, err := b.app.Store().CountReports(ctx, partition)
	if err != nil {
		return 0
	}
	return counts[in]
}

func (b *bed) enforced(ctx context.Context) int {
	count, err := b.app.Store().EnforcedCount(ctx, partition)
	if err != nil {
		return 0
	}
	return count
}

func (b *bed) head(ctx context.Context) intent.IncarnationID {
	found, err := b.app.Store().Partition(ctx, partition)
	if err != nil {
		return intent.IncarnationID{}
	}
	return found.Head
}

// change edits one asset in one file, and returns the milliseconds from the
// saved file to the new head and to the admitted push, and the bytes that the
// process wrote until the asset was in sync again.
func (b *bed) change(ctx context.Context, i int) (head, push, written float64, err error) {
	file := (i * 7) % (b.size / perFile)
	asset := intent.AssetID(fmt.Sprintf("job-%06d/0", file))
	previous, writtenBefore := b.head(ctx), bytesWritten()
	saved := time.Now()
	if err := b.manifest(file, fmt.Sprintf("v%d", i+2)); err != nil {
		return 0, 0, 0, err
	}
	if err := b.until(ctx, often, func() bool { return b.head(ctx) != previous }); err != nil {
		return 0, 0, 0, err
	}
	incarnation, err := b.app.Store().Incarnation(ctx, b.head(ctx))
	if err != nil {
		return 0, 0, 0, err
	}
	var pushes []store.PushRecord
	if err := b.until(ctx, often, func() bool {
		pushes, err = b.app.Store().Pushes(ctx, partition, asset, 1)
		return err == nil && len(pushes) == 1 && pushes[0].Target == incarnation.ID && pushes[0].Ending != ""
	}); err != nil {
		return 0, 0, 0, err
	}
	if err := b.until(ctx, often, func() bool {
		report, err := b.app.Store().Report(ctx, partition, asset)
		return err == nil && report.State == intent.StateInSync
	}); err != nil {
		return 0, 0, 0, err
	}
	return ms(incarnation.Created.Sub(saved)), ms(pushes[0].Admitted.Sub(saved)), bytesWritten() - writtenBefore, nil
}

// changes measures several, and takes the middle of each figure.
func (b *bed) changes(ctx context.Context, c *costs) error {
	var heads, pushes, written []float64
	for i := range 9 {
		head, push, bytes, err := b.change(ctx, i)
		if err != nil {
			return err
		}
		heads, pushes, written = append(heads, head), append(pushes, push), append(written, bytes)
	}
	c.head, c.push, c.written = median(heads), median(pushes), median(written)
	return nil
}

// sweep counts the bytes that the process writes for one change until all assets have
// been looked at as of its head: what it writes in that time, less what it wrote in the
// same time before.
func (b *bed) sweep(ctx context.Context) (float64, error) {
	all := enforcer.DefaultLimits().Sweep * 7 / 6 // The longest pause, and a while for the looks.
	before := bytesWritten()
	time.Sleep(all)
	start, between := time.Now(), bytesWritten()
	if _, _, _, err := b.change(ctx, 9); err != nil {
		return 0, err
	}
	time.Sleep(all - time.Since(start))
	return bytesWritten() - between - (between - before), nil
}

func ms(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// bytesWritten is what this process wrote to files so far.
func bytesWritten() float64 {
	content, err := os.ReadFile("/proc/self/io")
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(content)) {
		var count float64
		if _, err := fmt.Sscanf(line, "wchar: %f", &count); err == nil {
			return count
		}
	}
	return 0
}

// heap that a collection finds live: the least of several moments, as looks under
// way hold some more for a while. Between two of them looks catch up, for a
// collection takes seconds of both cores where there are a million assets.
func (b *bed) heap() uint64 {
	const moments = 20
	live := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	least := uint64(math.MaxUint64)
	for range moments {
		start := time.Now()
		runtime.GC()
		metrics.Read(live)
		least = min(least, live[0].Value.Uint64())
		time.Sleep(max(seldom, 4*time.Since(start)))
	}
	if heapProfile != "" {
		if file, err := os.Create(heapProfile); err == nil {
			_ = pprof.WriteHeapProfile(file)
			file.Close()
		}
	}
	return least
}

// noops compares every asset with production through a plugin process of its
// own, in full batches, after a first round that fills its cache. It returns how
// many a second, and the computing time of each in microseconds.
func (b *bed) noops(ctx context.Context) (rate, each float64, err error) {
	options := remote.DefaultOptions()
	options.Run, options.Contents = strings.Fields(b.plugin), contents{b.app.Store()}
	options.Log = slog.New(slog.NewTextHandler(io.Discard, nil))
	child := remote.Start(ctx, options)
	defer child.Close()
	if err := b.until(ctx, seldom, func() bool { _, err := child.Describe(); return err == nil }); err != nil {
		return 0, 0, err
	}
	head := b.head(ctx)
	var batches [][]intent.AssetID
	for cursor := (intent.AssetID)(""); ; {
		members, err := b.app.Store().Members(ctx, head, store.AssetFilter{Type: "lehr.process.v1.Job", After: cursor, Limit: plugin.MaxBatch})
		if err != nil {
			return 0, 0, err
		}
		if len(members) == 0 {
			break
		}
		var batch []intent.AssetID
		for _, member := range members {
			batch = append(batch, member.Asset)
		}
		batches, cursor = append(batches, batch), batch[len(batch)-1]
	}
	if err := b.round(ctx, child, head, batches); err != nil {
		return 0, 0, err
	}
	const rounds = 5
	spent, best := computed(), time.Duration(math.MaxInt64)
	for range rounds {
		start := time.Now()
		if err := b.round(ctx, child, head, batches); err != nil {
			return 0, 0, err
		}
		best = min(best, time.Since(start))
	}
	return float64(b.size) / best.Seconds(), float64((computed() - spent).Microseconds()) / float64(rounds*b.size), nil
}

// whys asks why assets at many places are as they are, and prints the middle and
// the 99th of a hundred: the best of several rounds, for others may be busy.
func (b *bed) whys(ctx context.Context, name func(string) string) error {
	const rounds, asked = 5, 300
	c := b.client()
	middle, last := math.Inf(1), math.Inf(1)
	for round := range rounds {
		var durations []float64
		for i := range asked {
			asset := fmt.Sprintf("job-%06d/%d", (round*asked+i)*7919%(b.size/perFile), i%perFile)
			start := time.Now()
			if _, err := c.Reports.Why(ctx, &apipb.WhyRequest{Partition: string(partition), Asset: asset}); err != nil {
				return err
			}
			durations = append(durations, ms(time.Since(start)))
		}
		slices.Sort(durations)
		middle, last = min(middle, durations[asked/2]), min(last, durations[asked*99/100])
	}
	machine.figure(name("why_p50"), middle, "ms", 1, byComputing)
	machine.figure(name("why_p99"), last, "ms", 1, byComputing)
	return nil
}

// rest waits until looks at so many assets in sync come at their longest pause: the
// pauses between them double from one second on, so each is looked at six times
// until then.
func (b *bed) rest(size int) { time.Sleep(70*time.Second + time.Duration(size/5000)*time.Second) }

// round looks at everything once, four batches at a time as the enforcer does.
func (b *bed) round(ctx context.Context, child plugin.Plugin, head intent.IncarnationID, batches [][]intent.AssetID) error {
	work := make(chan []intent.AssetID)
	var running sync.WaitGroup
	var lock sync.Mutex
	var failed error
	for range 4 {
		running.Go(func() {
			for batch := range work {
				differences, err := child.Diff(ctx, plugin.DiffRequest{Incarnation: head, Assets: batch})
				for _, d := range differences {
					if d.Outcome != intent.InSync {
						err = fmt.Errorf("%s is not in sync: %s", d.Asset, d.Reason)
					}
				}
				if err != nil {
					lock.Lock()
					failed = err
					lock.Unlock()
				}
			}
		})
	}
	for _, batch := range batches {
		work <- batch
	}
	close(work)
	running.Wait()
	return failed
}

// contents answers the plugin from the store.
type contents struct{ store store.All }

func (c contents) Content(ctx context.Context, id intent.IncarnationID, asset intent.AssetID) ([]byte, intent.Digest, error) {
	member, body, err := c.store.Content(ctx, id, asset)
	return body, member.Digest, err
}

func (c contents) Reads(context.Context, intent.IncarnationID, intent.AssetID) ([]intent.AssetID, error) {
	return nil, nil
}
