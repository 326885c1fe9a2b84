package prodspec_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"lehr.dev/internal/prodspec"
)

// TestBuildWithoutServer gives what would be served, and says what would not.
func TestBuildWithoutServer(t *testing.T) {
	w := newWorld(t, "web")
	program := prodspec.Program{Definition: filepath.Join(w.folder, "lehr.yaml"), Runner: w.processes()}
	build := func() prodspec.Built {
		t.Helper()
		built, err := prodspec.Build(t.Context(), program, time.Now())
		if err != nil {
			t.Fatal(err)
		}
		return built
	}
	first := build()
	if !first.OK() || first.Partition != "shop" || len(first.Assets) != 3 || len(first.Sources) != 3 {
		t.Fatalf("built %+v", first)
	}
	a := first.Assets[1]
	if a.ID != "shop/a/frontend" || a.Generator != "web" || a.File != "web.star" || a.Line != 18 || !strings.Contains(string(a.Asset), `"replicas"`) {
		t.Errorf("asset %+v", a)
	}
	if again := build(); again.Digest != first.Digest {
		t.Error("the same sources gave another candidate")
	}
	w.replace("service.yaml", "replicas: 3", "replicas: 300")
	broken := build()
	if broken.OK() || len(broken.Assets) > 0 || broken.Findings[0].Field != "clusters[0].replicas" || len(broken.Findings) != 2 {
		t.Errorf("built %+v, want a finding for each cluster and no assets", broken)
	}
	if err := os.Remove(program.Definition); err != nil {
		t.Fatal(err)
	}
	if missing := build(); missing.OK() {
		t.Errorf("built %+v from no definition", missing)
	}
}

// TestServedAfterRestart: a candidate that an earlier life refused is
// overtaken when its cause was mended meanwhile.
func TestServedAfterRestart(t *testing.T) {
	w := newWorld(t, "web")
	w.start()
	w.served(1)
	w.replace("service.yaml", "replicas:", "replicaz:")
	w.refused(prodspec.Rejected, 1)
	w.stop()
	w.replace("service.yaml", "replicaz:", "replicas:")
	w.start()
	w.served(1)
	stored, err := w.store.ListCandidates(t.Context(), "shop", 1)
	if err != nil || len(stored) != 1 || stored[0].State != "superseded" {
		t.Errorf("candidates %+v, %v: want the refused one superseded", stored, err)
	}
}

// TestLostLeaseEndsThePipeline: somebody else acts for the partition now.
func TestLostLeaseEndsThePipeline(t *testing.T) {
	w := newWorld(t, "web")
	w.start()
	w.served(1)
	if _, err := w.store.Acquire(t.Context(), "shop", "test"); err != nil {
		t.Fatal(err)
	}
	w.replace("service.yaml", "replicas: 3", "replicas: 4")
	select {
	case err := <-w.ended:
		if err == nil {
			t.Error("it ended without saying why")
		}
	case <-time.After(waitAtMost):
		t.Fatal("the pipeline goes on without its lease")
	}
	w.cancel()
	w.cancel = nil
	partition, err := w.store.Partition(t.Context(), "shop")
	if err != nil || partition.Head.Sequence != 1 {
		t.Errorf("head %s, %v: want 1", partition.Head, err)
	}
}
