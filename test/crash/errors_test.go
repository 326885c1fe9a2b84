package crash

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"lehr.dev/internal/ground/fault"
	"lehr.dev/test/crash/disk"
)

// faulty is a way in which a disk fails, and what the error must say.
type faulty struct {
	name  string
	words []string
	// at is the fault of an operation when the k-th is the first to fail.
	at func(k, operation int, event disk.Event) disk.Fault
}

var faulties = []faulty{
	{"an error", []string{"disk"}, func(k, operation int, _ disk.Event) disk.Fault {
		if operation == k {
			return disk.Broken
		}
		return disk.None
	}},
	{"errors from then on", []string{"disk"}, func(k, operation int, _ disk.Event) disk.Fault {
		if operation >= k {
			return disk.Broken
		}
		return disk.None
	}},
	{"a full disk", []string{"disk", "space"}, func(k, operation int, _ disk.Event) disk.Fault {
		if operation >= k {
			return disk.Full
		}
		return disk.None
	}},
	{"a short write", []string{"disk", "space"}, func(k, operation int, event disk.Event) disk.Fault {
		if operation >= k {
			return disk.Short
		}
		return disk.None
	}},
}

// clear: the error says what is wrong and what to do, and that it may pass.
func (f faulty) clear(err error) error {
	if !fault.Is(err, fault.Unavailable) {
		return fmt.Errorf("%s is told with an error of kind %q: %w", f.name, fault.KindOf(err), err)
	}
	for _, word := range f.words {
		if !strings.Contains(err.Error(), word) {
			return fmt.Errorf("%s is told without the word %q: %w", f.name, word, err)
		}
	}
	return nil
}

// endure runs an operation on a disk whose k-th operation fails. When the disk
// works again the same process must be able to do it, without a restart (L7).
func endure(t testing.TB, o operation, start disk.Image, f faulty, k int) (*recording, error) {
	t.Helper()
	folder := scratch(t)
	if err := start.Write(folder); err != nil {
		t.Fatal(err)
	}
	d, err := disk.Watch(folder)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Release()
	d.Inject(func(operation int, event disk.Event) disk.Fault { return f.at(k, operation, event) })
	r := &recording{operation: o, start: start}
	err = r.endure(t, d, folder, f)
	r.events = d.Events()
	return r, err
}

func (r *recording) endure(t testing.TB, d *disk.Disk, folder string, f faulty) error {
	ctx := t.Context()
	point, opened := r.observe(t, d)
	w, err := serve(ctx, folder, point)
	if err != nil {
		if wrong := f.clear(err); wrong != nil {
			return fmt.Errorf("opening the store: %w", wrong)
		}
		d.Inject(nil)
		if w, err = serve(ctx, folder, point); err != nil {
			return fmt.Errorf("opening the store again: %w", err)
		}
	}
	defer w.close()
	opened(w)
	do := func() error {
		if err := w.begin(ctx); err != nil {
			return err
		}
		return r.operation.run(ctx, w)
	}
	if err := do(); err != nil {
		if wrong := f.clear(err); wrong != nil {
			return wrong
		}
		if err := w.sound(ctx); err != nil {
			return fmt.Errorf("reading while the disk fails: %w", err)
		}
		d.Inject(nil)
		if err := do(); err != nil {
			return fmt.Errorf("when the disk works again: %w", err)
		}
	}
	if err := w.sound(ctx); err != nil {
		return err
	}
	return w.close()
}

// promised is what was answered by then. Which states may be found is left
// open: what was answered with an error may still have been written, whole.
func (r *recording) promised(events []disk.Event) (e expectation, err error) {
	e, err = r.expect(events)
	e.states = nil
	return e, err
}

// TestDiskErrors: any operation on the files may fail. What was answered is
// there, what was refused says why, and once the disk works it goes on.
func TestDiskErrors(t *testing.T) {
	if testing.Short() {
		t.Skip("hundreds of stores")
	}
	t.Parallel()
	total := 0
	for _, o := range operations {
		t.Run(o.name, func(t *testing.T) {
			start := o.start(t)
			count := operationsOf(record(t, o, start, nil))
			step := max(1, 5*count*len(faulties)*len(operations) / *points)
			for i, f := range faulties {
				for k := 1 + (int(*seed)+i)%step; k <= count; k += step {
					r, err := endure(t, o, start, f, k)
					if err == nil {
						err = r.judgeEnd(t.Context())
					}
					if err != nil {
						t.Errorf("%s at operation %d of %d: %v", f.name, k, count, err)
						break
					}
					total++
				}
			}
		})
	}
	t.Logf("%d errors of the disk", total)
}

// judgeEnd checks what a kill, and what a power loss, at the end leaves.
func (r *recording) judgeEnd(ctx context.Context) error {
	e, err := r.promised(r.events)
	if err != nil {
		return err
	}
	m := r.after(len(r.events))
	return errors.Join(recovered(ctx, r.operation, m.Killed(), e), recovered(ctx, r.operation, m.PowerLoss(nil), e))
}

func operationsOf(r *recording) (count int) {
	for _, e := range r.events {
		if e.Operation() {
			count++
		}
	}
	return count
}

// TestFailedSyncs: what a sync failed on may never reach the disk, though the
// system lets it be read and the next sync succeeds. What is answered afterwards
// does not rest on it: neither in the process that was told of the error, nor
// in the one that follows it.
func TestFailedSyncs(t *testing.T) {
	if testing.Short() {
		t.Skip("hundreds of stores")
	}
	t.Parallel()
	chance := rand.New(rand.NewPCG(*seed, 3))
	total := 0
	for _, o := range operations {
		t.Run(o.name, func(t *testing.T) {
			start := o.start(t)
			syncs := syncsOf(record(t, o, start, nil))
			step := max(1, 30*len(syncs)*len(operations) / *points)
			for i := int(*seed) % step; i < len(syncs); i += step {
				count, err := failSync(t, o, start, syncs[i], 6, chance)
				total += count
				if err != nil {
					t.Fatalf("the sync that is operation %d fails: %v", syncs[i], err)
				}
			}
		})
	}
	t.Logf("%d power losses after syncs that failed", total)
}

// syncsOf are the numbers of the operations that are syncs of a file.
func syncsOf(r *recording) (numbers []int) {
	number := 0
	for _, e := range r.events {
		if e.Operation() {
			number++
		}
		if e.Kind == disk.Sync && e.Operation() {
			numbers = append(numbers, number)
		}
	}
	return numbers
}

// failSync lets the k-th operation fail. sinceFailure takes the power at moments
// after it: half of them from the same process, half from the next one, which
// follows a kill.
func failSync(t testing.TB, o operation, start disk.Image, k, rounds int, chance *rand.Rand) (count int, err error) {
	r, err := endure(t, o, start, faulties[0], k)
	if err != nil {
		return 0, err
	}
	return r.sinceFailure(t, rounds, chance)
}

func (r *recording) sinceFailure(t testing.TB, rounds int, chance *rand.Rand) (count int, err error) {
	o := r.operation
	failed := 0
	for failed < len(r.events) && !r.events[failed].Failed {
		failed++
	}
	if failed == len(r.events) {
		return 0, nil // It was another operation this time.
	}
	for range rounds {
		n := failed + 1 + chance.IntN(len(r.events)-failed)
		e, err := r.promised(r.events[:n])
		if err != nil {
			t.Fatal(err)
		}
		count++
		if err := recovered(t.Context(), o, r.after(n).PowerLoss(nil), e); err != nil {
			return count, fmt.Errorf("power loss behind event %d, %s: %w", n, r.last(n), err)
		}
	}
	// The process ends just after the error, before it has written anew.
	second, err := r.resume(t, r.after(failed+1))
	if err != nil {
		return count, fmt.Errorf("killed after the error, and started again: %w", err)
	}
	for range rounds {
		cut := chance.IntN(len(second.events) + 1)
		e, err := r.promised(r.events[:failed+1])
		if err != nil {
			t.Fatal(err)
		}
		then, _, err := second.expectOpened(second.events[:cut])
		if err != nil {
			t.Fatal(err)
		}
		e.promises = append(e.promises, then.promises...)
		m := r.after(failed + 1)
		for _, event := range second.events[:cut] {
			m.Apply(event)
		}
		count++
		if err := recovered(t.Context(), o, m.PowerLoss(nil), e); err != nil {
			return count, fmt.Errorf("killed after the error, then power loss behind event %d, %s: %w", cut, second.last(cut), err)
		}
	}
	return count, nil
}
