package remote

import (
	"fmt"
	"log/slog"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	intentpb "lehr.dev/gen/lehr/intent/v1"
	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/pluginhost/plugin"
)

// folderChild starts the folder plugin over contents.
func folderChild(t *testing.T, options Options) (child *Child, dir string) {
	t.Helper()
	dir = t.TempDir()
	options.Run = self(t, "folder", dir)
	return started(t, options), dir
}

// diffed returns the differences by asset.
func diffed(t *testing.T, child *Child, ids ...intent.AssetID) map[intent.AssetID]intent.Difference {
	t.Helper()
	differences, err := child.Diff(t.Context(), plugin.DiffRequest{Incarnation: head, Assets: ids})
	if err != nil {
		t.Fatal(err)
	}
	found := map[intent.AssetID]intent.Difference{}
	for _, d := range differences {
		found[d.Asset] = d
	}
	if len(found) != len(ids) {
		t.Fatalf("%d differences for %d assets", len(found), len(ids))
	}
	return found
}

func TestDescribe(t *testing.T) {
	t.Parallel()
	child, _ := folderChild(t, Options{})
	got, err := child.Describe()
	want := plugin.Description{Name: "folder", Version: "1", Instance: got.Instance, Types: []plugin.Served{{Type: "lehr.process.v1.Job", Guarantee: plugin.Unguarded, LongestEffect: time.Second}}}
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Errorf("%v, -want +got:\n%s", err, diff)
	}
}

func TestDiffAndPushToSync(t *testing.T) {
	t.Parallel()
	contents := newIntents()
	ids := jobs(contents, 3)
	child, _ := folderChild(t, Options{Contents: contents})
	for id, d := range diffed(t, child, ids...) {
		if d.Outcome != intent.Differs || d.Plan.Action != intent.ActionCreate || d.Incarnation != head || d.At.IsZero() {
			t.Fatalf("before: %+v", d)
		}
		if result := child.Push(t.Context(), admitted(d)); result.Ending != plugin.Pushed {
			t.Fatalf("push of %s: %+v", id, result)
		}
	}
	for _, d := range diffed(t, child, ids...) {
		if d.Outcome != intent.InSync || d.Health.State != intent.Healthy || len(d.Current) == 0 || d.ResourceKey == "" {
			t.Errorf("after: %+v", d)
		}
	}
}

func TestUpdateNamesTheFieldsAndWhatTheyDestroy(t *testing.T) {
	t.Parallel()
	contents := newIntents()
	ids := jobs(contents, 1)
	child, _ := folderChild(t, Options{Contents: contents})
	child.Push(t.Context(), admitted(diffed(t, child, ids...)[ids[0]]))

	changed := job(0)
	changed.Replicas, changed.Args[1], changed.BasePort = 5, "--verbose", 9000
	delete(changed.Env, "TIER")
	contents.put(ids[0], changed, &intentpb.Unmanaged{Fields: []*intentpb.UnmanagedField{{Path: "replicas", Reason: "the autoscaler's"}}})
	later := intent.IncarnationID{Partition: "shop", Sequence: 8}
	differences, err := child.Diff(t.Context(), plugin.DiffRequest{Incarnation: later, Assets: ids})
	if err != nil {
		t.Fatal(err)
	}
	want := intent.Plan{Action: intent.ActionUpdate, Changes: []intent.FieldChange{
		{Path: "args[1]", Current: `"{port}"`, Target: `"--verbose"`},
		{Path: "base_port", Current: "8000", Target: "9000", Destructive: true},
		{Path: `env["TIER"]`, Current: `"web"`},
	}}
	if diff := cmp.Diff(want, differences[0].Plan); diff != "" {
		t.Errorf("plan, -want +got:\n%s", diff)
	}
	unmanaged := []intent.FieldChange{{Path: "replicas", Current: "3", Target: "5", Reason: "the autoscaler's"}}
	if diff := cmp.Diff(unmanaged, differences[0].Unmanaged); diff != "" {
		t.Errorf("unmanaged, -want +got:\n%s", diff)
	}
	if result := child.Push(t.Context(), admitted(differences[0])); result.Ending != plugin.Pushed {
		t.Fatalf("push: %+v", result)
	}
	differences, err = child.Diff(t.Context(), plugin.DiffRequest{Incarnation: later, Assets: ids})
	if err != nil || differences[0].Outcome != intent.InSync || len(differences[0].Unmanaged) != 1 {
		t.Errorf("after the push replicas must still be production's: %v, %+v", err, differences[0])
	}
}

func TestContentIsAskedForOnce(t *testing.T) {
	t.Parallel()
	contents := newIntents()
	ids := jobs(contents, 5)
	child, _ := folderChild(t, Options{Contents: contents})
	for range 3 {
		diffed(t, child, ids...)
	}
	for _, id := range ids {
		if contents.asked[id] != 1 {
			t.Errorf("the content of %s was looked up %d times", id, contents.asked[id])
		}
	}
}

func TestOneAssetsTroubleIsItsOwn(t *testing.T) {
	t.Parallel()
	contents := newIntents()
	ids := jobs(contents, 4)
	for i, version := range []string{"read-panic", "read-error"} {
		troubled := job(i)
		troubled.Version = version
		contents.put(ids[i], troubled)
	}
	contents.put("other/type", &intentpb.Owner{Owner: "me"})
	child, _ := folderChild(t, Options{Contents: contents})
	found := diffed(t, child, append(ids, "other/type", "not/there")...)
	for id, reason := range map[intent.AssetID]string{
		ids[0]:       "panicked: no such shelf",
		ids[1]:       "the shelf is locked",
		"other/type": "does not serve the type lehr.intent.v1.Owner",
		"not/there":  "no asset not/there",
	} {
		if d := found[id]; d.Outcome != intent.Unknown || !strings.Contains(d.Reason, reason) {
			t.Errorf("%s: %v %q, want unknown because %q", id, d.Outcome, d.Reason, reason)
		}
	}
	for _, id := range ids[2:] {
		if found[id].Outcome != intent.Differs {
			t.Errorf("%s: %+v", id, found[id])
		}
	}
}

func TestLargeResultsComeInSeveralMessages(t *testing.T) {
	t.Parallel()
	contents := newIntents()
	ids := jobs(contents, 60)
	for i, id := range ids {
		large := job(i)
		for range 100 {
			large.Args = append(large.Args, strings.Repeat("x", 1000))
		}
		contents.put(id, large)
	}
	child, _ := folderChild(t, Options{Contents: contents})
	for _, d := range diffed(t, child, ids...) {
		if d.Outcome != intent.Differs {
			t.Fatalf("%s: %+v", d.Asset, d)
		}
		if result := child.Push(t.Context(), admitted(d)); result.Ending != plugin.Pushed {
			t.Fatalf("push: %+v", result)
		}
	}
	for _, d := range diffed(t, child, ids...) {
		if d.Outcome != intent.InSync || len(d.Current) < 100_000 {
			t.Errorf("%s: %v, %d bytes", d.Asset, d.Outcome, len(d.Current))
		}
	}
}

func TestLiesAreNotBelieved(t *testing.T) {
	t.Parallel()
	child := started(t, Options{Run: self(t, "liar"), DiffTimeout: 2 * time.Second})
	ids := []intent.AssetID{"honest", "left-out"}
	for id := range lies {
		if id != "not/asked" {
			ids = append(ids, intent.AssetID(id))
		}
	}
	for id, d := range diffed(t, child, ids...) {
		switch {
		case id == "honest" && d.Outcome != intent.InSync:
			t.Errorf("%s: %+v", id, d)
		case id != "honest" && d.Outcome != intent.Unknown:
			t.Errorf("the lie about %s was believed: %+v", id, d)
		case id != "honest" && (d.Reason == "" || len(d.Reason) > 5*maxReason || strings.ContainsAny(d.Reason, "\x07\x1b")):
			t.Errorf("%s: reason %.80q", id, d.Reason)
		}
	}
}

func TestContentIsGivenForOpenCallsOnly(t *testing.T) {
	t.Parallel()
	contents := newIntents()
	jobs(contents, 1)
	contents.put("read/by", job(2))
	contents.put("older/one", job(3))
	contents.reads["a/wants/read/by"] = []intent.AssetID{"read/by"}
	child := started(t, Options{Run: self(t, "curious"), Contents: contents})
	found := diffed(t, child, "a/wants/job/0", "a/wants/read/by", "a/wants/older/one")
	for id, want := range map[intent.AssetID]string{
		"a/wants/job/0":     "got 0 bytes, refused: no open call names job/0",
		"a/wants/older/one": "got 0 bytes, refused: no open call names older/one",
	} {
		if !strings.HasPrefix(found[id].Reason, want) {
			t.Errorf("%s: %s", id, found[id].Reason)
		}
	}
	if reason := found["a/wants/read/by"].Reason; !strings.HasSuffix(reason, "refused: ") || strings.HasPrefix(reason, "got 0") {
		t.Errorf("what an asset of the call reads was refused: %s", reason)
	}
}

func TestFloodEndsTheChild(t *testing.T) {
	t.Parallel()
	child := started(t, Options{Run: self(t, "flood"), MinBackoff: time.Hour, MaxBackoff: time.Hour})
	if _, err := child.Diff(t.Context(), plugin.DiffRequest{Incarnation: head, Assets: []intent.AssetID{"job/0"}}); !fault.Is(err, fault.Unavailable) {
		t.Fatal(err)
	}
	eventually(t, "the flooding child is ended", func() bool {
		_, err := child.Describe()
		return err != nil && strings.Contains(err.Error(), "answer nothing")
	})
}

func TestDiffRefusesTooMuch(t *testing.T) {
	t.Parallel()
	child := start(t, Options{Run: self(t, "exits")})
	if _, err := child.Diff(t.Context(), plugin.DiffRequest{Incarnation: head, Assets: make([]intent.AssetID, plugin.MaxBatch+1)}); !fault.Is(err, fault.Internal) {
		t.Error(err)
	}
}

// S12: however much a plugin says, and for however long, what is held of it is
// bounded, and what is too much is not believed.
func TestEndlessTalkIsBounded(t *testing.T) {
	quiet := slog.New(slog.DiscardHandler)
	child := started(t, Options{Run: self(t, "endless"), DiffTimeout: 3 * time.Minute, Log: quiet})
	ids := make([]intent.AssetID, 100)
	for i := range ids {
		ids[i] = intent.AssetID(fmt.Sprintf("job/%d", i))
	}
	believed, refused := 0, 0
	for id, d := range diffed(t, child, ids...) {
		switch {
		case d.Outcome == intent.InSync:
			believed += len(d.Current)
		case strings.Contains(d.Reason, "more than"):
			refused++
		default:
			t.Errorf("%s: %+.200v", id, d)
		}
	}
	if believed > maxBatch || refused == 0 {
		t.Errorf("%d bytes were taken of one call, %d answers refused", believed, refused)
	}
	var memory runtime.MemStats
	runtime.ReadMemStats(&memory)
	if memory.HeapAlloc > 1<<30 {
		t.Errorf("%d MB are held", memory.HeapAlloc>>20)
	}
}
