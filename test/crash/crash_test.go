package crash

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"lehr.dev/test/crash/disk"
)

// image is what a crash leaves behind the first n events: all of it when the
// process is killed, or what the choices of a seed leave when the power goes;
// seed 0: nothing that was not synced.
func (r *recording) image(n int, kill bool, seed uint64) disk.Image {
	m := disk.NewModel(r.start)
	for _, e := range r.events[:n] {
		m.Apply(e)
	}
	switch {
	case kill:
		return m.Killed()
	case seed == 0:
		return m.PowerLoss(nil)
	default:
		return m.PowerLoss(rand.New(rand.NewPCG(seed, uint64(n))))
	}
}

// crashes constructs crashes behind every event, as many as the rounds ask
// for; half a round is behind every other one. There is a kill, a power loss
// that takes all that was not synced, and others that take some of it, in turn.
// It returns how many there were, and what went wrong at the first that did.
func (r *recording) crashes(t testing.TB, rounds float64) (count int, err error) {
	due := 0.0
	for n := range len(r.events) + 1 {
		if n < len(r.events) && r.events[n].Kind == disk.Note {
			continue // The same as behind the note, which asks for more.
		}
		e, err := r.expect(r.events[:n])
		if err != nil {
			t.Fatal(err)
		}
		for due += rounds; due >= 1; due-- {
			kind, chosen := count%3, uint64(0)
			how := "kill"
			if kind == 1 {
				how = "power loss of all"
			} else if kind == 2 {
				chosen = *seed + uint64(count)
				how = fmt.Sprintf("power loss, seed %d", chosen)
			}
			count++
			if err := recovered(t.Context(), r.operation, r.image(n, kind == 0, chosen), e); err != nil {
				return count, fmt.Errorf("%q, event %d of %d, %s, after %s: %w", r.operation.name, n, len(r.events), how, r.last(n), err)
			}
		}
	}
	return count, nil
}

func (r *recording) last(n int) string {
	for n--; n >= 0; n-- {
		if r.events[n].Kind != disk.Note {
			return r.events[n].String()
		}
	}
	return "nothing"
}

// TestCrashPoints: whatever moment the process is killed at, or the power
// goes, the next server finds every answered write and no half of one (S14).
func TestCrashPoints(t *testing.T) {
	t.Parallel()
	var recordings []*recording
	events := 0
	interrupted := operations
	if testing.Short() {
		interrupted = []operation{find("publish")}
	}
	for _, o := range interrupted {
		r := record(t, o, o.start(t), nil)
		recordings = append(recordings, r)
		for _, e := range r.events {
			if e.Kind != disk.Note {
				events++
			}
		}
	}
	rounds := float64(*points) / float64(events)
	if testing.Short() {
		rounds = 0.5
	}
	total := 0
	for _, r := range recordings {
		t.Run(r.operation.name, func(t *testing.T) {
			count, err := r.crashes(t, rounds)
			if err != nil {
				t.Error(err)
			}
			total += count
			t.Logf("%d crashes at %d events, %d commits", count, len(r.events), len(r.states)-1)
		})
	}
	t.Logf("%d crash points", total)
}
