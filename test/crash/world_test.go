package crash

import (
	"context"
	"database/sql"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"lehr.dev/internal/ground/loop"
	"lehr.dev/internal/store"
	"lehr.dev/internal/store/sqlite"
	"lehr.dev/internal/store/storetest"
	"lehr.dev/test/crash/disk"
)

// now never moves, so that two runs of an operation write the same.
var now = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// fixed is a runtime whose clock stands, and that tells of the store's commits.
type fixed struct {
	loop.Runtime
	point func(name string)
}

func (f fixed) Now() time.Time { return now }

func (f fixed) Point(name string) {
	if f.point != nil {
		f.point(name)
	}
}

// world is a served store, and what it was told is durable.
type world struct {
	path  string
	store *sqlite.Store
	lease store.Lease
	// beside is a connection past the store.
	beside *sql.DB
	// told hears what an answer promises: that a query counts so many, from
	// then on.
	told func(promise)
}

// promise: from now on the query counts this many.
type promise struct {
	Query string
	Want  int
}

func (w *world) promise(want int, format string, arguments ...any) {
	if w.told != nil {
		w.told(promise{fmt.Sprintf(format, arguments...), want})
	}
}

// checkpoint moves the log into the file, so that the next write begins it
// anew. Nobody hears when it fails, as of those that SQLite does by itself.
func (w *world) checkpoint(ctx context.Context) {
	_, _ = w.beside.ExecContext(ctx, "PRAGMA wal_checkpoint(RESTART)")
}

// serve opens the store of a folder as a server does, up to taking the lease.
func serve(ctx context.Context, folder string, point func(name string)) (w *world, err error) {
	w = &world{path: filepath.Join(folder, "lehr.db")}
	if w.store, err = sqlite.Open(ctx, sqlite.Options{Path: w.path, Runtime: fixed{loop.Real(), point}}); err != nil {
		return nil, err
	}
	w.beside, err = sqlite.Connect(w.path, "busy_timeout(5000)")
	if err != nil {
		w.store.Close()
		return nil, err
	}
	return w, nil
}

// begin takes the lease and settles what an earlier process left.
func (w *world) begin(ctx context.Context) (err error) {
	if err := w.store.AddPartition(ctx, "shop", "/srv/lehr.yaml", "", storetest.Tester); err != nil {
		return err
	}
	if w.lease, err = w.store.Acquire(ctx, "shop", "server"); err != nil {
		return err
	}
	w.promise(1, "SELECT count(*) FROM partitions WHERE id = 'shop' AND epoch >= %d", w.lease.Epoch)
	pushes, err := w.store.OpenPushes(ctx, "shop")
	if err != nil {
		return err
	}
	for _, push := range pushes {
		if !push.Doubt {
			return fmt.Errorf("push %s of a process before is not in doubt", push.Push)
		}
		if err := w.store.ClosePushes(ctx, w.lease, []store.Closing{{Push: push.Push, Ending: "settled", At: now}}); err != nil {
			return err
		}
		w.promise(0, "SELECT count(*) FROM push WHERE id = '%s' AND open = 1", push.Push)
	}
	return w.store.Unstage(ctx, w.lease)
}

// close may be called again.
func (w *world) close() error {
	if w.store == nil {
		return nil
	}
	w.beside.Close()
	err := w.store.Close()
	w.store = nil
	return err
}

// whole runs an operation from the opening of the store to its closing.
func (o operation) whole(ctx context.Context, folder string, point func(string), opened func(*world)) error {
	w, err := serve(ctx, folder, point)
	if err != nil {
		return err
	}
	defer w.close()
	if opened != nil {
		opened(w)
	}
	if err := w.begin(ctx); err != nil {
		return err
	}
	if err := o.run(ctx, w); err != nil {
		return err
	}
	return w.close()
}

// scratch is a new folder in memory, where there is one: thousands of stores
// come and go there.
func scratch(t testing.TB) string {
	t.Helper()
	parent := ""
	if info, err := os.Stat("/dev/shm"); err == nil && info.IsDir() {
		parent = "/dev/shm"
	}
	folder, err := os.MkdirTemp(parent, "lehr-crash-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(folder) })
	return folder
}

// start is what an operation finds on the disk.
func (o operation) start(t testing.TB) disk.Image {
	t.Helper()
	folder := scratch(t)
	var err error
	switch {
	case o.prepare != nil:
		err = operation{run: o.prepare}.whole(t.Context(), folder, nil, nil)
	case o.file != nil:
		err = o.file(filepath.Join(folder, "lehr.db"))
	default:
		return disk.Image{}
	}
	if err != nil {
		t.Fatalf("preparing %q: %v", o.name, err)
	}
	image, err := disk.Read(folder, "lehr.db")
	if err != nil {
		t.Fatal(err)
	}
	return image
}
