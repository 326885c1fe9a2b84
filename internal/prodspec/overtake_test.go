package prodspec_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/ground/schema"
	"lehr.dev/internal/prodspec"
	"lehr.dev/internal/prodspec/generate"
)

// sluggish loops for ever over a manifest that says so.
const sluggish = `def generate(ctx):
    name = ctx.file.removeprefix("manifests/").removesuffix(".yaml")
    manifest = yaml(ctx.file)
    for _ in range((1 << 40) if "slow" in manifest else 0):
        pass
    return [asset("jobs/" + name, lehr.process.v1.Job(name = name, replicas = manifest["replicas"], binary = "/bin/true"))]
`

// TestNewerSourcesEndTheBuild: the build under way ends, what its runs gave is
// not made again, and nothing of it is to be seen.
func TestNewerSourcesEndTheBuild(t *testing.T) {
	w := newWorld(t, "many")
	w.limits.Steps, w.limits.Milliseconds = 1<<62, 60_000
	w.write("jobs.star", sluggish)
	w.write("manifests/a.yaml", "replicas: 1")
	w.start()
	w.served(1)
	before := w.pipeline.Status()

	// In one step, so that they are read together.
	const more = 20
	for i := range more {
		w.write(fmt.Sprintf("more/b%02d.yaml", i), "replicas: 1")
	}
	w.write("more/z.yaml", "replicas: 1\nslow: true")
	if err := os.Rename(filepath.Join(w.folder, "more"), filepath.Join(w.folder, "manifests/more")); err != nil {
		t.Fatal(err)
	}
	child(t)
	w.write("notes.txt", "no source has it")
	w.write("manifests/more/z.yaml", "replicas: 2")
	after := w.served(2)
	if after.Overtaken != 1 || after.Took > waitAtMost/2 {
		t.Errorf("%d builds were overtaken, and the last took %s", after.Overtaken, after.Took)
	}
	// Each file once, and the generator that takes from them.
	if ran := after.Executions - before.Executions; ran != more+2 {
		t.Errorf("%d runs, want %d: what had ended ran again", ran, more+2)
	}
	if got := len(w.assets()); got != more+4 {
		t.Errorf("%d assets, want %d", got, more+4)
	}
	stored, err := w.store.ListCandidates(t.Context(), "shop", 10)
	if err != nil || len(stored) != 0 {
		t.Errorf("candidates %+v (%v), want none", stored, err)
	}
}

// restless is a runner under which the sources change whenever they are worked
// on.
type restless struct {
	generate.Runner
	change func()
	rests  atomic.Bool
	ended  atomic.Int32
}

func (r *restless) Run(ctx context.Context, set *schema.Set, jobs []generate.Job, open generate.Opener) ([]generate.Result, error) {
	if !r.rests.Load() {
		r.change()
		select {
		case <-ctx.Done():
			r.ended.Add(1)
		case <-time.After(time.Second): // It is not to be ended this time.
		}
	}
	return r.Runner.Run(ctx, set, jobs, open)
}

// TestRestlessSourcesAreServed: every few builds one ends, however often newer
// sources come.
func TestRestlessSourcesAreServed(t *testing.T) {
	if testing.Short() {
		t.Skip("changes sources for seconds")
	}
	w := newWorld(t, "many")
	runner := &restless{Runner: generate.InProcess{Limits: generate.DefaultLimits()}}
	changes := 0
	runner.change = func() { changes++; w.write("manifests/a.yaml", fmt.Sprintf("replicas: %d", changes)) }
	runner.rests.Store(true)
	w.runner = runner
	w.write("manifests/a.yaml", "replicas: 1000")
	w.write("manifests/b.yaml", "replicas: 1")
	w.start()
	w.served(1)
	runner.rests.Store(false)
	w.replace("manifests/b.yaml", "1", "2")
	status := w.wait("two incarnations among restless sources", func(s prodspec.Status) bool { return s.Head.Sequence >= 3 })
	if status.Overtaken == 0 || runner.ended.Load() == 0 {
		t.Errorf("%d builds were overtaken, want some", status.Overtaken)
	}
	runner.rests.Store(true)
	w.wait("the last change", func(s prodspec.Status) bool {
		_, body, err := w.store.Content(t.Context(), s.Head, intent.AssetID("jobs/a"))
		if err != nil {
			return false
		}
		asset, err := schema.Decode(body)
		text, err2 := schema.Builtin().JSON(asset)
		return err == nil && err2 == nil && strings.Contains(strings.ReplaceAll(string(text), " ", ""), fmt.Sprintf(`"replicas":%d`, changes))
	})
}
