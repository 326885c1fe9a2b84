package crash

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"lehr.dev/test/crash/disk"
)

// resume lets another process do the operation where a killed one left off:
// on what that one wrote, synced or not.
func (r *recording) resume(t testing.TB, m *disk.Model) (*recording, error) {
	t.Helper()
	folder := scratch(t)
	if err := m.Killed().Write(folder); err != nil {
		t.Fatal(err)
	}
	d, err := disk.Watch(folder)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Release()
	second := &recording{operation: r.operation, trusting: r.trusting}
	point, opened := second.observe(t, d)
	err = r.operation.whole(t.Context(), folder, point, func(w *world) {
		opened(w)
		d.Note("%s", noteOpened)
	})
	second.events = d.Events()
	if r.trusting {
		// Opening commits, which would sync what the process before left.
		opened := slices.IndexFunc(second.events, func(e disk.Event) bool { return e.Kind == disk.Note && e.Text == noteOpened })
		second.events = slices.Concat(slices.DeleteFunc(slices.Clone(second.events[:max(opened, 0)]), func(e disk.Event) bool {
			return e.Kind == disk.Sync && e.File == "lehr.db-wal"
		}), second.events[max(opened, 0):])
	}
	return second, err
}

// after are the events' first n, applied to what the operation starts from.
func (r *recording) after(n int) *disk.Model {
	m := disk.NewModel(r.start)
	for _, e := range r.events[:n] {
		m.Apply(e)
	}
	return m
}

// twice kills the process behind the first n events, starts another, and takes
// the power from that one at moments of chance. What the second one answered
// is there then, and what it found, for it may have been seen.
func (r *recording) twice(t testing.TB, n, rounds int, chance *rand.Rand) (count int, err error) {
	first, err := r.expect(r.events[:n])
	if err != nil {
		t.Fatal(err)
	}
	second, err := r.resume(t, r.after(n))
	if err != nil {
		return 0, fmt.Errorf("%q, killed behind event %d: %w", r.operation.name, n, err)
	}
	for range rounds {
		cut := chance.IntN(len(second.events) + 1)
		m := r.after(n)
		for _, e := range second.events[:cut] {
			m.Apply(e)
		}
		e, open, err := second.expectOpened(second.events[:cut])
		if err != nil {
			t.Fatal(err)
		}
		if !open {
			e.states = first.states
		}
		e.promises = append(first.promises[:len(first.promises):len(first.promises)], e.promises...)
		count++
		source := chance
		if chance.IntN(2) == 0 {
			source = nil
		}
		if err := recovered(t.Context(), r.operation, m.PowerLoss(source), e); err != nil {
			return count, fmt.Errorf("%q, killed behind event %d, %s, then power loss behind event %d, %s: %w",
				r.operation.name, n, r.last(n), cut, second.last(cut), err)
		}
	}
	return count, nil
}

// expectOpened also tells whether the store was open by then.
func (r *recording) expectOpened(events []disk.Event) (e expectation, open bool, err error) {
	var notes []string
	for _, event := range events {
		switch {
		case event.Kind == disk.Note && event.Text == noteOpened:
			open = true
		case event.Kind == disk.Note:
			notes = append(notes, event.Text)
		}
	}
	e, err = r.noted(notes)
	return e, open, err
}

// TestCrashesTwice: a process is killed, and the power goes while the next one
// works.
func TestCrashesTwice(t *testing.T) {
	if testing.Short() {
		t.Skip("hundreds of stores")
	}
	t.Parallel()
	chance := rand.New(rand.NewPCG(*seed, 2))
	total := 0
	for _, o := range operations {
		t.Run(o.name, func(t *testing.T) {
			r := record(t, o, o.start(t), nil)
			kills := max(4, *points/(len(operations)*20))
			for range kills {
				count, err := r.twice(t, chance.IntN(len(r.events)+1), 6, chance)
				total += count
				if err != nil {
					t.Fatal(err)
				}
			}
		})
	}
	t.Logf("%d crash points", total)
}
