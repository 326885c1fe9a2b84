package prodspec_test

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/ground/loop"
	"lehr.dev/internal/prodspec"
	"lehr.dev/internal/prodspec/generate"
	"lehr.dev/internal/prodspec/source"
	"lehr.dev/internal/prodspec/source/fetch"
	"lehr.dev/internal/prodspec/validate"
	"lehr.dev/internal/store"
	"lehr.dev/internal/store/sqlite"
	"lehr.dev/test/building"
)

func TestMain(m *testing.M) {
	if len(os.Args) > 1 {
		switch os.Args[1] {
		case prodspec.TrialCommand:
			os.Exit(prodspec.TrialMain(os.Args[2:], os.Stdout))
		case generate.ChildCommand:
			os.Exit(generate.ChildMain(os.Stdin, os.Stdout))
		}
	}
	os.Exit(run(m))
}

// made is the folder of the programs that tests built.
var made string

func run(m *testing.M) int {
	var err error
	if made, err = os.MkdirTemp("", "lehr-prodspec-"); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(made)
	return m.Run()
}

// buildChild builds the program of generator children, once.
var buildChild = sync.OnceValues(func() (string, error) {
	path := filepath.Join(made, "generatorchild")
	return path, building.Program{Of: "./testdata/generatorchild", Flags: []string{"-ldflags", "-s -w"}}.At(path)
})

// generatorChild returns the command of a generator child.
func generatorChild(t testing.TB) []string {
	t.Helper()
	path, err := buildChild()
	if err != nil {
		t.Fatal(err)
	}
	return []string{path}
}

var person = intent.Actor{Name: "ann", Origin: "test"}

// world is a folder, a store, and a pipeline between them.
type world struct {
	t        testing.TB
	folder   string
	limits   generate.Limits
	runner   generate.Runner
	trial    prodspec.Trial
	store    *sqlite.Store
	pipeline *prodspec.Pipeline
	outside  validate.Outside
	place    source.Place
	// through is how the pipeline reaches the store, if not directly.
	through func(prodspec.Store) prodspec.Store
	log     *slog.Logger
	cancel  context.CancelFunc
	ended   chan error
	lease   store.Lease
	// definition of the partition; empty: the folder's. fetched is where mirrors
	// lie.
	definition, fetched string
}

// elsewhere lets sources reach this machine.
func (w *world) elsewhere() fetch.Options {
	w.t.Helper()
	if w.fetched == "" {
		w.fetched = w.t.TempDir()
	}
	policy := &fetch.Policy{Networks: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}}
	return fetch.Options{Folder: w.fetched, Policy: func() *fetch.Policy { return policy }}
}

// newWorld starts from the files of testdata/<name>.
func newWorld(t testing.TB, name string) *world {
	t.Helper()
	w := &world{t: t, folder: t.TempDir(), limits: generate.DefaultLimits()}
	if err := os.CopyFS(w.folder, os.DirFS(filepath.Join("testdata", name))); err != nil {
		t.Fatal(err)
	}
	db, err := sqlite.Memory()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	if w.store, err = sqlite.Open(t.Context(), sqlite.Options{DB: db}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { w.store.Close() })
	return w
}

func (w *world) write(name, content string) {
	w.t.Helper()
	path := filepath.Join(w.folder, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		w.t.Fatal(err)
	}
	// As editors do: a new file takes the old one's place.
	if err := os.WriteFile(path+"~", []byte(content), 0o644); err != nil {
		w.t.Fatal(err)
	}
	if err := os.Rename(path+"~", path); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) replace(name, old, by string) {
	w.t.Helper()
	content, err := os.ReadFile(filepath.Join(w.folder, name))
	if err != nil {
		w.t.Fatal(err)
	}
	if !strings.Contains(string(content), old) {
		w.t.Fatalf("%s does not contain %q", name, old)
	}
	w.write(name, strings.ReplaceAll(string(content), old, by))
}

func (w *world) remove(name string) {
	w.t.Helper()
	if err := os.RemoveAll(filepath.Join(w.folder, name)); err != nil {
		w.t.Fatal(err)
	}
}

// start runs the pipeline until the test ends or stop is called.
func (w *world) start() {
	w.t.Helper()
	ctx := context.Background()
	definition := cmp.Or(w.definition, filepath.Join(w.folder, "lehr.yaml"))
	if err := w.store.AddPartition(ctx, "shop", definition, "a try", person); err != nil {
		w.t.Fatal(err)
	}
	partition, err := w.store.Partition(ctx, "shop")
	if err != nil {
		w.t.Fatal(err)
	}
	if w.lease, err = w.store.Acquire(ctx, "shop", "test"); err != nil {
		w.t.Fatal(err)
	}
	runner := w.runner
	if runner == nil {
		runner = w.processes()
	}
	var reached prodspec.Store = w.store
	if w.through != nil {
		reached = w.through(reached)
	}
	w.pipeline, err = prodspec.New(prodspec.Options{
		Partition: partition, Store: reached, Runner: runner, Runtime: loop.Real(), Trial: w.trial, Elsewhere: w.elsewhere(), Outside: w.outside, Place: w.place,
		Log: w.log,
	})
	if err != nil {
		w.t.Fatal(err)
	}
	running, cancel := context.WithCancel(ctx)
	w.cancel, w.ended = cancel, make(chan error, 1)
	go func() {
		// As app does, for whom a panic ends one actor.
		defer func() {
			if cause := recover(); cause != nil {
				w.ended <- fmt.Errorf("it panicked: %v", cause)
			}
		}()
		w.ended <- w.pipeline.Run(running, w.lease)
	}()
	w.t.Cleanup(w.stop)
}

func (w *world) processes() *generate.Process {
	return generate.NewProcess(generate.Options{
		Child: generatorChild(w.t), Limits: w.limits,
	})
}

func (w *world) stop() {
	if w.cancel == nil {
		return
	}
	w.cancel()
	<-w.ended
	w.cancel = nil
}

// wait until the pipeline's status is as described, and returns it.
func (w *world) wait(what string, is func(prodspec.Status) bool) prodspec.Status {
	w.t.Helper()
	deadline := time.Now().Add(waitAtMost)
	for {
		if status := w.pipeline.Status(); status != nil && is(*status) {
			return *status
		}
		select {
		case err := <-w.ended:
			w.cancel = nil
			w.t.Fatalf("the pipeline ended while waiting for %s: %v", what, err)
		case <-time.After(2 * time.Millisecond):
		}
		if time.Now().After(deadline) {
			w.t.Fatalf("no %s; the status is %+v", what, w.pipeline.Status())
		}
	}
}

func (w *world) served(sequence intent.Sequence) prodspec.Status {
	w.t.Helper()
	status := w.wait("incarnation", func(s prodspec.Status) bool {
		return s.State == prodspec.Serving && s.Head.Sequence >= sequence
	})
	if status.Head.Sequence != sequence {
		w.t.Fatalf("head is %s, want sequence %d", status.Head, sequence)
	}
	return status
}

// refused waits until the sources are not served, and returns the first
// finding. Head must still be the sequence.
func (w *world) refused(state prodspec.State, head intent.Sequence) intent.Finding {
	w.t.Helper()
	status := w.wait(string(state), func(s prodspec.Status) bool { return s.State == state })
	if status.Head.Sequence != head || len(status.Findings) == 0 {
		w.t.Fatalf("status is %+v, want findings and head %d", status, head)
	}
	partition, err := w.store.Partition(context.Background(), "shop")
	if err != nil || partition.Head.Sequence != head {
		w.t.Fatalf("head is %s (%v), want %d: something was published", partition.Head, err, head)
	}
	stored, err := w.store.ListCandidates(context.Background(), "shop", 1)
	if err != nil || len(stored) != 1 || len(stored[0].Findings) == 0 {
		w.t.Fatalf("the candidate was not stored: %+v, %v", stored, err)
	}
	return status.Findings[0]
}

func (w *world) assets() []intent.AssetID {
	w.t.Helper()
	partition, err := w.store.Partition(context.Background(), "shop")
	if err != nil {
		w.t.Fatal(err)
	}
	members, err := w.store.Members(context.Background(), partition.Head, store.AssetFilter{Limit: 10_000})
	if err != nil {
		w.t.Fatal(err)
	}
	var ids []intent.AssetID
	for _, m := range members {
		ids = append(ids, m.Asset)
	}
	slices.Sort(ids)
	return ids
}

// waitAtMost is far beyond what anything here takes.
const waitAtMost = 3 * time.Minute
