// Command bench measures Lehr's speed and memory on this machine, one line a
// figure: "name value unit", and beside it what the same machine does at the same time of
// what the figure is made of (limits.go). It runs the real app on a store in a temporary
// folder, with real generator children and a plugin whose production is its
// own memory, so that what is measured is Lehr and the protocol. It judges
// nothing; "make bench" runs it.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"runtime/pprof"
	"slices"
	"time"

	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/prodspec/generate"
	"lehr.dev/test/pgserver"
)

func main() { os.Exit(run()) }

func run() int {
	if len(os.Args) > 1 && os.Args[1] == generate.ChildCommand {
		return generate.ChildMain(os.Stdin, os.Stdout)
	}
	programs := flag.String("programs", "bin", "the folder of lehr, lehr-command, lehr-terraform, lehr-kustomize, lehr-helm, render-alone, rates and rates.wasm")
	null := flag.String("null", "bin/lehr-null", "the plugin that does nothing")
	large := flag.Int("large", 100_000, "assets of the large partition")
	million := flag.Int("million", 1_000_000, "assets of the largest partition")
	shared := flag.Int("partitions", 1000, "partitions that ten replicas share, or one server serves")
	only := flag.String("only", "", "measure only pushes, only hung, only terraform, only terraform-modules, only plan (its part of that), only the solver, only partitions, only queries, only generators, only renderers, only judge, only delivery, only workflows, only rollouts, only governed, only replicas, only rest, only million, or only many; of kubernetes nothing, which plugins/kubernetes measures")
	profile := flag.String("cpuprofile", "", "write a CPU profile of this process to a file")
	flag.StringVar(&heapProfile, "memprofile", "", "write a heap profile of the last quiet partition to a file")
	flag.Parse()
	stop, err := startProfile(*profile, *only == "pushes")
	if err == nil {
		defer stop()
		*null, err = filepath.Abs(*null)
	}
	machine.plugin = *null
	defer machine.close()
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
	if err == nil && (*only == "" || *only == "terraform-modules") {
		err = measureTerraformModules(context.Background(), *programs, *large/2000)
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
	if err == nil && (*only == "" || *only == "delivery") {
		if err = measureDelivery(); err == nil {
			err = measureDeliveryPage(context.Background())
		}
	}
	if err == nil && (*only == "" || *only == "releases") {
		err = measureReleases()
	}
	if err == nil && (*only == "" || *only == "rollouts") {
		err = measureRollouts(context.Background(), *null, *large/20)
	}
	if err == nil && (*only == "" || *only == "governed") {
		err = measureOutputs(context.Background(), *programs)
	}
	if err == nil && (*only == "" || *only == "governed") {
		err = measureTasks(context.Background(), *programs, *large/10)
	}
	if err == nil && (*only == "" || *only == "million") {
		err = measureMillion(context.Background(), *null, *million)
	}
	if err == nil && (*only == "" || *only == "many") {
		err = measureMany(context.Background(), *null, *shared, 1000)
	}
	if err == nil && (*only == "" || *only == "governed") {
		err = measureGoverned(context.Background(), *null, *shared)
	}
	if err == nil && (*only == "" || *only == "workflows") {
		err = onDatabase(func(s *site, server *pgserver.Server) error {
			return measureWorkflows(context.Background(), s, server)
		})
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
	if err = errors.Join(err, machine.failed); err != nil {
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
	small := large / growth
	found := map[int]costs{}
	for _, size := range []int{small, large} {
		cost, err := measurePartition(ctx, plugin, size)
		if err != nil {
			return fmt.Errorf("a partition of %d assets: %w", size, err)
		}
		found[size] = cost
	}
	print("heap_per_quiet_asset", float64(found[large].heap-found[small].heap)/float64(large-small), "B")
	grown := func(what string, of func(costs) float64) {
		print(fmt.Sprintf("%s_at_%d_times_the_assets", what, growth), of(found[large])/of(found[small]), "x")
	}
	grown("one_change_to_new_head", func(c costs) float64 { return c.head })
	grown("one_change_to_first_push", func(c costs) float64 { return c.push })
	grown("one_change_bytes_written", func(c costs) float64 { return c.written })
	grown("one_change_bytes_written_within_a_sweep", func(c costs) float64 { return c.swept })
	return nil
}

// growth is how many times as many assets the larger partition has. What a change costs is
// to depend on the change: of ten times the assets it is one, not ten.
const growth = 10

// costs of a partition: its heap in bytes, and of one change the milliseconds to the new
// head and to the push, and the bytes written until the asset is in sync again, and until all
// assets have been looked at again.
type costs struct {
	heap                       uint64
	head, push, written, swept float64
}

func print(name string, value float64, unit string) { fmt.Printf("%s %.4g %s\n", name, value, unit) }

// measurePushes counts pushes a second, the best of three.
func measurePushes(ctx context.Context, plugin string, size int) error {
	best, least := time.Duration(math.MaxInt64), time.Duration(math.MaxInt64)
	for range 3 {
		duration, spent, err := measureCreation(ctx, plugin, size)
		if err != nil {
			return err
		}
		best, least = min(best, duration), min(least, spent)
	}
	machine.figure("durable_pushes", float64(size)/best.Seconds(), "pushes/s", 1, pushing...)
	machine.figure("durable_pushes_computing", float64(least.Microseconds())/float64(size), "us", 1, byCoreTime)
	return nil
}

// measureCreation creates everything, and returns how long it took, from the switch
// to enforce until the last asset was seen in sync after its push: diff, checks,
// admission, journal, push, close and the second diff of each. spent is what was
// computed meanwhile, by the plugin too.
func measureCreation(ctx context.Context, plugin string, size int) (duration, spent time.Duration, err error) {
	b, err := newBed(ctx, plugin, size, "observe")
	if err != nil {
		return 0, 0, err
	}
	defer b.close()
	if err := b.until(ctx, seldom, func() bool { return b.reported(ctx, intent.StateWaiting) == size }); err != nil {
		return 0, 0, err
	}
	start, before := time.Now(), computed()
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
	return time.Since(start), computed() - before, nil
}

// measurePartition measures one change and no-op diffs in a partition whose
// production is as intent says.
func measurePartition(ctx context.Context, plugin string, size int) (c costs, err error) {
	start := time.Now()
	b, err := newBed(ctx, plugin+" -adopt", size, "enforce")
	if err != nil {
		return c, err
	}
	defer b.close()
	if err := b.until(ctx, seldom, func() bool { return b.enforced(ctx) == size }); err != nil {
		return c, err
	}
	name := func(what string) string { return fmt.Sprintf("%s_%d_assets", what, size) }
	machine.figure(name("first_build_and_look"), time.Since(start).Seconds(), "s", size, byRoundTrips, byComputing)
	b.rest(size)
	c.heap = b.heap()
	if err := b.whys(ctx, name); err != nil {
		return c, err
	}
	if c.swept, err = b.sweep(ctx); err != nil {
		return c, err
	}
	if err := b.changes(ctx, &c); err != nil {
		return c, err
	}
	machine.figure(name("one_change_to_new_head"), c.head, "ms", 1, byAdmission, byComputing)
	machine.figure(name("one_change_to_first_push"), c.push, "ms", 1, changing...)
	print(name("one_change_bytes_written"), c.written, "B")
	print(name("one_change_bytes_written_within_a_sweep"), c.swept, "B")
	// What is measured is a sweep, not two at once.
	if err := b.define(`"off"`); err != nil {
		return c, err
	}
	if err := b.until(ctx, seldom, func() bool { return b.reported(ctx, intent.StateOff) >= size }); err != nil {
		return c, err
	}
	rate, each, err := b.noops(ctx)
	machine.figure(name("noop_diffs"), rate, "assets/s", 1, byRoundTrips, byComputing)
	machine.figure(name("noop_diff_computing"), each, "us", 1, byCoreTime)
	return c, err
}

func median(values []float64) float64 {
	slices.Sort(values)
	return values[len(values)/2]
}
