package crash

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/store/storetest"
	"lehr.dev/test/crash/disk"
)

// skipping is a store that never does what the condition says.
func skipping(what func(disk.Event) bool) func(*disk.Disk) {
	return func(d *disk.Disk) {
		d.Inject(func(_ int, e disk.Event) disk.Fault {
			if what(e) {
				return disk.Skip
			}
			return disk.None
		})
	}
}

// badly is an operation in which something is done wrongly, past the store.
func badly(name string, run func(ctx context.Context, w *world) error) operation {
	o := find(name)
	o.run = run
	return o
}

// statements carries out each by itself.
func (w *world) statements(ctx context.Context, all ...string) error {
	for _, s := range all {
		if _, err := w.beside.ExecContext(ctx, s); err != nil {
			return fmt.Errorf("%s: %w", s, err)
		}
	}
	return nil
}

// TestMutantsAreFound: the harness finds each deliberate defect, so it can
// fail. All are ways in which stores have lost data.
func TestMutantsAreFound(t *testing.T) {
	if testing.Short() {
		t.Skip("hundreds of stores")
	}
	t.Parallel()
	crashes := func(o operation, prepare func(*disk.Disk)) func(t *testing.T) error {
		return func(t *testing.T) error {
			_, err := record(t, o, o.start(t), prepare).crashes(t, 1)
			return err
		}
	}
	// unsound looks at no recorded state: the wrong SQL made none.
	unsound := func(o operation) func(t *testing.T) error {
		return func(t *testing.T) error {
			r := record(t, o, o.start(t), nil)
			for n := len(r.events); n >= 0; n-- {
				if err := recovered(t.Context(), find(o.name), r.after(n).Killed(), expectation{}); err != nil {
					return err
				}
			}
			return nil
		}
	}
	for name, found := range map[string]func(t *testing.T) error{
		"nothing is synced": crashes(find("publish"), skipping(func(e disk.Event) bool { return e.Kind == disk.Sync })),
		"the names of new files are not synced": func(t *testing.T) error {
			o := find("publish")
			r := record(t, o, o.start(t), skipping(func(e disk.Event) bool { return e.Kind == disk.SyncFolder }))
			r.events = slices.DeleteFunc(r.events, func(e disk.Event) bool { return e.Kind == disk.Rewrite }) // It syncs them too.
			_, err := r.crashes(t, 3)
			return err
		},
		"the log is begun anew before the file is synced": crashes(find("checkpoint"), skipping(func(e disk.Event) bool {
			return e.Kind == disk.Sync && e.File == "lehr.db"
		})),
		"a write is lost": func(t *testing.T) error {
			o, lost := find("publish"), 0
			r := record(t, o, o.start(t), skipping(func(e disk.Event) bool {
				if e.Kind == disk.Write && e.File == "lehr.db" {
					lost++
					return lost == 3
				}
				return false
			}))
			return recovered(t.Context(), o, r.image(len(r.events), true, 0), expectation{})
		},
		"an answer comes before its commit": crashes(badly("publish", func(ctx context.Context, w *world) error {
			w.promise(1, "SELECT count(*) FROM hold WHERE asset = 'asset-00'")
			return w.store.SetHold(ctx, "shop", intent.Hold{Asset: "asset-00", Owner: storetest.Tester, Reason: "test"})
		}), nil),
		"head moves in a transaction of its own": unsound(badly("publish", func(ctx context.Context, w *world) error {
			return w.statements(ctx,
				"UPDATE partitions SET head = head + 1",
				`INSERT INTO incarnation (partition, seq, created, record) SELECT id, head, 1, '{}' FROM partitions`)
		})),
		"the collector takes what a pin names": unsound(badly("collect", func(ctx context.Context, w *world) error {
			return w.statements(ctx, "DELETE FROM incarnation WHERE seq = 2", "DELETE FROM pin WHERE seq = 2")
		})),
		"a killed process's log is believed, and opening syncs nothing": func(t *testing.T) error {
			o := find("publish")
			r := record(t, o, o.start(t), nil)
			r.trusting = true
			for n := range r.events {
				if _, err := r.twice(t, n, 6, rand.New(rand.NewPCG(1, uint64(n)))); err != nil {
					return err
				}
			}
			return nil
		},
		"a log is believed that a sync failed on": func(t *testing.T) error {
			o := find("publish")
			start := o.start(t)
			for _, k := range syncsOf(record(t, o, start, nil)) {
				r, err := endure(t, o, start, faulties[0], k)
				if err != nil {
					t.Fatal(err)
				}
				r.trusting = true
				if _, err := r.sinceFailure(t, 6, rand.New(rand.NewPCG(1, uint64(k)))); err != nil {
					return err
				}
			}
			return nil
		},
	} {
		t.Run(name, func(t *testing.T) {
			err := found(t)
			if err == nil {
				t.Fatal("it was not found")
			}
			t.Log(err)
		})
	}
}
