package sources

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/prodspec"
	"lehr.dev/internal/prodspec/source"
	"lehr.dev/internal/store"
	"lehr.dev/internal/store/sqlite"
)

// recorded writes down what a pipeline asks of its store.
type recorded struct {
	*sqlite.Store
	calls []string
}

func (r *recorded) note(format string, arguments ...any) {
	r.calls = append(r.calls, fmt.Sprintf(format, arguments...))
}

func (r *recorded) Member(ctx context.Context, in intent.IncarnationID, asset intent.AssetID) (intent.Member, error) {
	r.note("member %s of %s", asset, in)
	return r.Store.Member(ctx, in, asset)
}

func (r *recorded) GetBlob(ctx context.Context, partition intent.PartitionID, kind, name string) ([]byte, error) {
	r.note("get %s %s", kind, name)
	return r.Store.GetBlob(ctx, partition, kind, name)
}

func (r *recorded) PutBlobs(ctx context.Context, lease store.Lease, kind string, blobs map[string][]byte) error {
	r.note("put %s", kind)
	for _, name := range slices.Sorted(maps.Keys(blobs)) {
		r.note("  %s %s", name, source.Digest(blobs[name]))
	}
	return r.Store.PutBlobs(ctx, lease, kind, blobs)
}

func (r *recorded) SaveCandidate(ctx context.Context, lease store.Lease, candidate intent.Candidate, delta []store.Entry) error {
	r.note("save %s %s %+v", candidate.State, candidate.ID, candidate.Findings)
	return r.Store.SaveCandidate(ctx, lease, candidate, delta)
}

func (r *recorded) Stage(ctx context.Context, lease store.Lease, base intent.IncarnationID, entries []store.Entry) error {
	for i := range entries {
		r.note("stage %s %s", entries[i].Asset, entries[i].Member.Effective.Short())
	}
	return r.Store.Stage(ctx, lease, base, entries)
}

const (
	manyDefinition = `lehr: v1
partition: shop
sources:
  manifests: {dir: manifests, files: ["*.yaml"]}
generate:
  jobs: {starlark: jobs.star, from: [manifests], for_each: file}
  sum: {starlark: sum.star, from: [jobs]}
`
	manyExtra = "  one: {starlark: one.star, from: [manifests]}\n  two: {starlark: one.star, from: [manifests]}\n  three: {starlark: one.star, from: [manifests]}\n"
	manyLimit = "validate:\n  shrink: {max: 100%, floor: 0, over: 24h}\n"
	manyJobs  = `def generate(ctx):
    m = yaml(ctx.file)
    return [asset("jobs/" + m["name"], lehr.process.v1.Job(name = m["name"], replicas = m["replicas"], binary = "/bin/true"))]
`
	manySum = `def generate(ctx):
    total = 0
    for a in ctx.assets:
        total += a.payload.replicas
    return [asset("sum", lehr.command.v1.Command(diff = ["true"], push = ["true"], input = "%d" % total))]
`
	manyOne = `def generate(ctx):
    return [asset("extra/" + ctx.generator, lehr.command.v1.Command(diff = ["true"], push = ["true"]))]
`
)

func manifests(names ...string) map[string]string {
	files := map[string]string{}
	for i, name := range names {
		files[fmt.Sprintf("%smanifests/%02d.yaml", home, i)] = fmt.Sprintf("{name: %s, replicas: %d}", name, i+1)
	}
	return files
}

// edits that leave much to be ordered: generators and files that come and go
// together, removals that a guard counts, and one id from several files.
func edits(tree *Tree, then func()) {
	tree.Write(manifests("a", "b", "c", "d", "e", "f"))
	tree.Write(map[string]string{
		home + "lehr.yaml": manyDefinition + manyExtra + manyLimit, home + "jobs.star": manyJobs, home + "sum.star": manySum, home + "one.star": manyOne,
	})
	then()
	tree.Remove(slices.Collect(maps.Keys(manifests("a", "b", "c", "d")))...)
	tree.Write(map[string]string{home + "lehr.yaml": manyDefinition + manyLimit})
	then()
	tree.Write(manifests("g", "b"))
	then()
	tree.Write(manifests("x", "x", "x", "x"))
	then()
	tree.Write(manifests("a", "b", "c", "d"))
	then()
}

// TestSameSourcesSameCalls: what a pipeline asks of its store, writes to it and
// publishes follows from its sources, and from no order of a map.
func TestSameSourcesSameCalls(t *testing.T) {
	var first []string
	for range 8 {
		w := newWorld(t, 1)
		edits(w.tree, func() { w.scheduler.Run(w.scheduler.Now().Add(time.Minute)) })
		w.after(soon, prodspec.Serving, 4)
		if first == nil {
			first = w.store.calls
		}
		if diff := cmp.Diff(first, w.store.calls); diff != "" {
			t.Fatalf("the calls differ: %s", diff)
		}
	}
	if len(first) < 50 {
		t.Errorf("only %d calls", len(first))
	}
}
