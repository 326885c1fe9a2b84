// Command bench measures Lehr's speed and memory on this machine, one line a
// figure: "name value unit". It runs the real app on a store in a temporary
// folder, with real generator children and a plugin whose production is its
// own memory, so that what is measured is Lehr and the protocol. It judges
// nothing; "make bench" runs it.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"runtime/pprof"
	"slices"
	"time"

	"lehr.dev/intent"
	"lehr.dev/prodspec/generate"
	"lehr.dev/test/pgserver"
)

func main() { os.Exit(run()) }

func run() int {
	if len(os.Args) > 1 && os.Args[1] == generate.ChildCommand {
		return generate.ChildMain(os.Stdin, os.Stdout)
	}
	programs := flag.String("programs", "bin", "the folder of lehr, lehr-command, lehr-kustomize, lehr-helm, render-alone, rates and rates.wasm")
	null := flag.String("null", "bin/lehr-null", "the plugin that does nothing")
	large := flag.Int("large", 100_000, "assets of the large partition")
	million := flag.Int("million", 1_000_000, "assets of the largest partition")
	shared := flag.Int("partitions", 1000, "partitions that ten replicas share, or one server serves")
	only := flag.String("only", "", "measure only pushes, only hung, only terraform, only plan (its part of that), only the solver, only partitions, only queries, only generators, only renderers, only judge, only rollouts, only replicas, only rest, only million, or only many")
	profile := flag.String("cpuprofile", "", "write a CPU profile of this process to a file")
	flag.StringVar(&heapProfile, "memprofile", "", "write a heap profile of the last quiet partition to a file")
	flag.Parse()
	stop, err := startProfile(*profile, *only == "pushes")
	if err == nil {
		defer stop()
		*null, err = filepath.Abs(*null)
	}
	if err == nil && (*only == "" || *only == "pushes") {
		err = measurePushes(context.Background(), *null, *large/10)
	}
	if err == nil && (*only == "" || *only == "hung") {
		err = measureHung(context.Background(), *null, *large/10)
	}
	if err == nil && (*only == "" || *only == "terraform") {
		err = measureTerraform(context.Background(), *null, []int{*large / 100, *large / 20})
	}
	if err == nil && (*only == "" || *only == "terraform" || *only == "plan") {
		err = measurePlan(context.Background(), *null, *large/100, *large/10)
	}
	if err == nil && (*only == "" || *only == "solver") {
		err = measureSolver(context.Background(), *null, *large/10)
	}
	if err == nil && (*only == "" || *only == "partitions") {
		err = measurePartitions(context.Background(), *null, *large)
	}
	if err == nil && (*only == "" || *only == "queries") {
		err = measureQueries(context.Background(), *null, *large)
	}
	if err == nil && (*only == "" || *only == "generators") {
		err = measureGenerators(context.Background(), *programs, *large/20)
	}
	if err == nil && (*only == "" || *only == "renderers") {
		err = measureRenderers(context.Background(), *programs, *large/10)
	}
	if err == nil && (*only == "" || *only == "judge") {
		err = measureJudge()
	}
	if err == nil && (*only == "" || *only == "rollouts") {
		err = measureRollouts(context.Background(), *null, *large/20)
	}
	if err == nil && (*only == "" || *only == "million") {
		err = measureMillion(context.Background(), *null, *million)
	}
	if err == nil && (*only == "" || *only == "many") {
		err = measureMany(context.Background(), *null, *shared, 1000)
	}
	if err == nil && (*only == "" || *only == "replicas") {
		err = onDatabase(func(s *site, server *pgserver.Server) error {
			return measureReplicas(context.Background(), s, server, *programs)
		})
	}
	if err == nil && (*only == "" || *only == "rest") {
		err = onDatabase(func(s *site, server *pgserver.Server) error {
			return measureRest(context.Background(), s, server, *shared)
		})
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		return 1
	}
	return 0
}

// heapProfile is the file that each heap measurement overwrites; empty: none.
var heapProfile string

// profiling is where the last creation of assets is profiled; nil: nowhere.
var profiling *os.File

// startProfile profiles until the function that it returns is called; of pushes
// only what is measured.
func startProfile(path string, pushes bool) (func(), error) {
	if path == "" {
		return func() {}, nil
	}
	file, err := os.Create(path)
	if err != nil {
		return nil, err
	}
	if pushes {
		profiling = file
		return func() { file.Close() }, nil
	}
	return func() { pprof.StopCPUProfile(); file.Close() }, pprof.StartCPUProfile(file)
}

// measurePartitions measures a partition of the size and one of a tenth, so
// that the growth shows.
func measurePartitions(ctx context.Context, plugin string, large int) error {
	small := large / 10
	heaps := map[int]uint64{}
	for _, size := range []int{small, large} {
		heap, err := measurePartition(ctx, plugin, size)
		if err != nil {
			return fmt.Errorf("a partition of %d assets: %w", size, err)
		}
		heaps[size] = heap
	}
	print("heap_per_quiet_asset", float64(heaps[large]-heaps[small])/float64(large-small), "B")
	return nil
}

func print(name string, value float64, unit string) { fmt.Printf("%s %.4g %s\n", name, value, unit) }

// measurePushes counts pushes a second, the best of three.
func measurePushes(ctx context.Context, plugin string, size int) error {
	best, least := time.Duration(math.MaxInt64), time.Duration(math.MaxInt64)
	for range 3 {
		took, spent, err := measureCreation(ctx, plugin, size)
		if err != nil {
			return err
		}
		best, least = min(best, took), min(least, spent)
	}
	print("durable_pushes", float64(size)/best.Seconds(), "pushes/s")
	print("durable_pushes_computing", float64(least.Microseconds())/float64(size), "us")
	return nil
}

// measureCreation creates everything, and returns how long it took, from the switch
// to enforce until the last asset was seen in sync after its push: diff, checks,
// admission, journal, push, close and the second diff of each. spent is what was
// computed meanwhile, by the plugin too.
func measureCreation(ctx context.Context, plugin string, size int) (took, spent time.Duration, err error) {
	b, err := newBed(ctx, plugin, size, "observe")
	if err != nil {
		return 0, 0, err
	}
	defer b.close()
	if err := b.until(ctx, seldom, func() bool { return b.reported(ctx, intent.StateWaiting) == size }); err != nil {
		return 0, 0, err
	}
	began, before := time.Now(), computed()
	if profiling != nil {
		_ = profiling.Truncate(0)
		_, _ = profiling.Seek(0, io.SeekStart)
		_ = pprof.StartCPUProfile(profiling)
		defer pprof.StopCPUProfile()
	}
	if err := b.define("enforce"); err != nil {
		return 0, 0, err
	}
	if err := b.until(ctx, betimes, func() bool { return b.enforced(ctx) == size }); err != nil {
		return 0, 0, err
	}
	return time.Since(began), computed() - before, nil
}

// measurePartition measures one change and no-op diffs in a partition whose
// production is as intent says, and returns the heap in use.
func measurePartition(ctx context.Context, plugin string, size int) (uint64, error) {
	began := time.Now()
	b, err := newBed(ctx, plugin+" -adopt", size, "enforce")
	if err != nil {
		return 0, err
	}
	defer b.close()
	if err := b.until(ctx, seldom, func() bool { return b.enforced(ctx) == size }); err != nil {
		return 0, err
	}
	name := func(what string) string { return fmt.Sprintf("%s_%d_assets", what, size) }
	print(name("first_build_and_look"), time.Since(began).Seconds(), "s")
	b.rest(size)
	heap := b.heap()
	if err := b.whys(ctx, name); err != nil {
		return 0, err
	}
	var heads, pushes, written []float64
	for i := range 9 {
		head, push, bytes, err := b.change(ctx, i)
		if err != nil {
			return 0, err
		}
		heads, pushes, written = append(heads, head), append(pushes, push), append(written, bytes)
	}
	print(name("one_change_to_new_head"), median(heads), "ms")
	print(name("one_change_to_first_push"), median(pushes), "ms")
	print(name("one_change_bytes_written"), median(written), "B")
	// What is measured is a sweep, not two at once.
	if err := b.define(`"off"`); err != nil {
		return 0, err
	}
	if err := b.until(ctx, seldom, func() bool { return b.reported(ctx, intent.StateOff) >= size }); err != nil {
		return 0, err
	}
	rate, each, err := b.noops(ctx)
	print(name("noop_diffs"), rate, "assets/s")
	print(name("noop_diff_computing"), each, "us")
	return heap, err
}

func median(values []float64) float64 {
	slices.Sort(values)
	return values[len(values)/2]
}
