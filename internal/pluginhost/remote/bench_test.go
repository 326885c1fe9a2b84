package remote

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/pluginhost/plugin"
	"lehr.dev/test/building"
)

// nullPlugin builds the null plugin once and starts it.
func nullPlugin(b *testing.B, contents *intents, arguments ...string) *Child {
	b.Helper()
	path := filepath.Join(b.TempDir(), "nullplugin")
	if err := (building.Program{Of: "../../../sdk/plugintest/nullplugin"}).At(path); err != nil {
		b.Fatal(err)
	}
	return started(b, Options{Run: append([]string{path}, arguments...), Contents: contents})
}

// cpu is the time that both processes have computed: on a busy machine it
// tells more than the clock.
func cpu(b *testing.B, child *Child) time.Duration {
	b.Helper()
	s, err := child.connected()
	if err != nil {
		b.Fatal(err)
	}
	total := time.Duration(0)
	for _, pid := range []int{os.Getpid(), s.peer.(*process).pid} {
		stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		if err != nil {
			b.Fatal(err)
		}
		// After the name: user and system time are the 12th and 13th field,
		// in hundredths of a second.
		_, rest, _ := strings.Cut(string(stat), ") ")
		for _, field := range strings.Fields(rest)[11:13] {
			ticks, err := strconv.Atoi(field)
			if err != nil {
				b.Fatal(err)
			}
			total += time.Duration(ticks) * 10 * time.Millisecond
		}
	}
	return total
}

// BenchmarkDiffNoop compares assets that are in sync, in batches of 512, 8 at
// once, through one process that decodes the intent; its cache is warm.
func BenchmarkDiffNoop(b *testing.B) {
	contents := newIntents()
	ids := jobs(contents, 100*plugin.MaxBatch)
	child := nullPlugin(b, contents, "-adopt")
	sweep := func() {
		var group errgroup.Group
		group.SetLimit(8)
		for at := 0; at < len(ids); at += plugin.MaxBatch {
			group.Go(func() error {
				differences, err := child.Diff(b.Context(), plugin.DiffRequest{Incarnation: head, Assets: ids[at : at+plugin.MaxBatch]})
				for _, d := range differences {
					if d.Outcome != intent.InSync {
						return fmt.Errorf("%s is not in sync: %s", d.Asset, d.Reason)
					}
				}
				return err
			})
		}
		if err := group.Wait(); err != nil {
			b.Fatal(err)
		}
	}
	sweep()
	spent := cpu(b, child)
	for b.Loop() {
		sweep()
	}
	b.ReportMetric(float64(cpu(b, child)-spent)/float64(time.Microsecond)/float64(b.N*len(ids)), "cpu-µs/asset")
	b.ReportMetric(float64(b.N*len(ids))/b.Elapsed().Seconds(), "assets/s")
}

// BenchmarkPush carries out pushes that change something, 256 at once.
func BenchmarkPush(b *testing.B) {
	contents := newIntents()
	ids := jobs(contents, 512)
	child := nullPlugin(b, contents)
	plans := map[intent.AssetID]intent.Difference{}
	differences, err := child.Diff(b.Context(), plugin.DiffRequest{Incarnation: head, Assets: ids})
	if err != nil {
		b.Fatal(err)
	}
	for _, d := range differences {
		plans[d.Asset] = d
	}
	// A push of what is there already ends early, so each has its own job.
	var next atomic.Int64
	var prepare sync.Mutex
	spent := cpu(b, child)
	b.ResetTimer()
	var group sync.WaitGroup
	for range 256 {
		group.Go(func() {
			for {
				n := next.Add(1)
				if n > int64(b.N) {
					return
				}
				prepare.Lock()
				id := intent.AssetID(fmt.Sprintf("new/%d", n))
				contents.put(id, job(int(n)+1_000_000))
				prepare.Unlock()
				push := admitted(intent.Difference{Asset: id, Incarnation: head, Plan: planOf(plans[ids[0]].Plan, int(n)+1_000_000)})
				if result := child.Push(context.Background(), push); result.Ending != plugin.Pushed {
					b.Errorf("push of %s: %+v", id, result)
					return
				}
			}
		})
	}
	group.Wait()
	b.ReportMetric(float64(cpu(b, child)-spent)/float64(time.Microsecond)/float64(b.N), "cpu-µs/push")
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "pushes/s")
}

// planOf is the plan of creating job n, made from that of another.
func planOf(plan intent.Plan, n int) intent.Plan {
	made := intent.Plan{Action: plan.Action}
	for _, change := range plan.Changes {
		if change.Path == "name" {
			change.Target = fmt.Sprintf("%q", job(n).Name)
		}
		made.Changes = append(made.Changes, change)
	}
	return made
}
