package virtual

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"
)

var start = time.Date(2026, 3, 29, 0, 0, 0, 0, time.UTC)

// play lets workers hand each other work and returns what happened.
func play(seed uint64, hook func(*Process, string) Act) (story []string, hash uint64) {
	s := New(seed, start)
	s.Hook = hook
	p := s.Start("p")
	wake := make(chan struct{}, 1)
	for i := range 4 {
		p.Go(fmt.Sprintf("worker %d", i), func() {
			for step := range 20 {
				p.Point("step")
				story = append(story, fmt.Sprintf("%d.%d %s", i, step, s.Now().Format(time.RFC3339Nano)))
				if step%5 == 0 {
					select {
					case wake <- struct{}{}:
					default:
					}
				}
				if p.Wait(context.Background(), time.Duration(i)*time.Second, wake) != nil {
					return
				}
			}
		})
	}
	s.Run(start.Add(time.Hour))
	return story, s.Hash()
}

func TestSameSeedSameRun(t *testing.T) {
	one, hash := play(7, nil)
	again, hashAgain := play(7, nil)
	if len(one) != 80 || !slices.Equal(one, again) || hash != hashAgain {
		t.Errorf("%d steps, hashes %x and %x", len(one), hash, hashAgain)
	}
	other, hashOther := play(8, nil)
	if slices.Equal(one, other) || hash == hashOther {
		t.Error("another seed gives the same run")
	}
}

func TestKillEndsAllAtOnceAndRunsWhatIsDeferred(t *testing.T) {
	s := New(1, start)
	p, world := s.Start("p"), s.World("world")
	child := p.Child("child")
	deferred, alive := 0, 0
	for range 3 {
		p.Go("waits", func() {
			defer func() { deferred++ }()
			defer func() { _ = p.Wait(context.Background(), -1, nil) }() // Ends here.
			for {
				_ = p.Wait(context.Background(), time.Second, nil)
				alive++
			}
		})
	}
	child.Go("waits", func() { _ = child.Wait(context.Background(), time.Hour, nil); alive = -1 })
	var gone error
	world.Go("calls", func() { gone = p.Wait(context.Background(), -1, nil) })
	world.Go("kills", func() {
		_ = world.Wait(context.Background(), 10*time.Second, nil)
		s.Kill(p)
	})
	s.Run(start.Add(2 * time.Hour))
	if deferred != 3 || alive < 3*9 || gone == nil || p.Alive() || child.Alive() || len(s.tasks) != 0 {
		t.Errorf("deferred %d, alive %d, a caller got %v, %d tasks left", deferred, alive, gone, len(s.tasks))
	}
	if len(s.Panics()) != 0 {
		t.Error(s.Panics())
	}
}

func TestKillAtAnyStep(t *testing.T) {
	whole, _ := play(3, nil)
	for step := range 60 {
		count := 0
		part, _ := play(3, func(*Process, string) Act {
			count++
			return Act{Kill: count == step+1}
		})
		if len(part) >= len(whole) || !slices.Equal(part, whole[:len(part)]) {
			t.Fatalf("killed at step %d, %d things happened, of %d", step, len(part), len(whole))
		}
	}
}

func TestPauseAndClocks(t *testing.T) {
	s := New(1, start)
	p := s.Start("p")
	var seen []time.Duration
	p.Go("looks", func() {
		for range 6 {
			seen = append(seen, p.Now().Sub(start).Round(time.Second))
			_ = p.Wait(context.Background(), 10*time.Second, nil)
		}
	})
	at := func(d time.Duration, f func()) {
		s.Run(start.Add(d))
		f()
	}
	at(5*time.Second, func() { p.Jump(-time.Hour) })
	at(15*time.Second, func() { p.Correct(); p.Pause(30 * time.Second) })
	at(46*time.Second, func() { p.Rate(0) })
	at(66*time.Second, func() { p.Rate(2) })
	s.Run(start.Add(time.Hour))
	want := []time.Duration{0, 10*time.Second - time.Hour, 45 * time.Second, 46 * time.Second, 46 * time.Second, 64 * time.Second}
	if !slices.Equal(seen, want) {
		t.Errorf("seen %v, want %v", seen, want)
	}
}

func BenchmarkStep(b *testing.B) {
	s := New(1, start)
	p := s.Start("p")
	for range 12 {
		p.Go("waits", func() { _ = p.Wait(context.Background(), -1, nil) })
	}
	for range 3 {
		p.Go("steps", func() {
			for {
				p.Point("step")
			}
		})
	}
	b.ResetTimer()
	for s.Steps() < uint64(b.N) {
		s.Run(s.Now().Add(time.Second))
	}
}
