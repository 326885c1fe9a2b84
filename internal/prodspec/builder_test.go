package prodspec

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/prodspec/generate"
	"lehr.dev/internal/prodspec/source"
)

// TestIncrementalEqualsFresh: after any sequence of edits, good and bad, what
// was brought up to date by changes is what a first build gives.
func TestIncrementalEqualsFresh(t *testing.T) {
	runner := generate.InProcess{Limits: generate.DefaultLimits()}
	rapid.Check(t, func(t *rapid.T) {
		folder, err := os.MkdirTemp("", "lehr-builder-")
		if err != nil {
			t.Fatal(err)
		}
		defer os.RemoveAll(folder)
		if err := os.CopyFS(folder, os.DirFS("testdata/many")); err != nil {
			t.Fatal(err)
		}
		write := func(name, content string) {
			if err := os.MkdirAll(filepath.Join(folder, "manifests"), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(filepath.Join(folder, "manifests", name), []byte(content), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		program := Program{Definition: filepath.Join(folder, "lehr.yaml"), Runner: runner, Limits: source.DefaultLimits()}
		kept, err := newBuilder(program, generate.NewMemory())
		if err != nil {
			t.Fatal(err)
		}
		write("a.yaml", "replicas: 1")
		for range rapid.IntRange(1, 6).Draw(t, "builds") {
			changes := source.Changes{Paths: map[string]bool{}}
			for range rapid.IntRange(1, 3).Draw(t, "edits") {
				name := rapid.SampledFrom([]string{"a.yaml", "b.yaml", "c.yaml"}).Draw(t, "file")
				changes.Paths[filepath.Join(folder, "manifests", name)] = true
				switch content := rapid.SampledFrom([]string{"replicas: 1", "replicas: 2", "replicas: [", "", "gone"}).Draw(t, "content"); content {
				case "gone":
					_ = os.Remove(filepath.Join(folder, "manifests", name))
				default:
					write(name, content)
				}
			}
			got := outcome(t, kept, changes)
			fresh, err := newBuilder(program, generate.NewMemory())
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(outcome(t, fresh, source.Changes{All: true}), got); diff != "" {
				t.Fatalf("a fresh build differs: %s", diff)
			}
		}
	})
}

// outcome of a build: its findings, or its members.
func outcome(t *rapid.T, b *builder, changes source.Changes) map[string]string {
	r, err := b.build(t.Context(), time.Now(), changes)
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]string{}
	for i, f := range r.findings {
		out[fmt.Sprint("finding ", i)] = fmt.Sprintf("%s:%d %s", f.File, f.Line, f.Message)
	}
	if len(out) > 0 {
		return out
	}
	for id, m := range b.members.all() {
		out[string(id)] = m.output().Digest.String() + b.effective(id).String()
	}
	if policy, ok := b.members.get(intent.PolicyAsset); b.members.len() > 0 && (!ok || policy.run == nil) {
		t.Fatal("the policy is missing")
	}
	return out
}
