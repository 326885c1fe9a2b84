package measure_test

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"lehr.dev/internal/ground/measure"
)

func TestHistogram(t *testing.T) {
	var h measure.Histogram
	var adding sync.WaitGroup
	for range 10 {
		adding.Go(func() {
			for range 100 {
				h.Took(30 * time.Millisecond)
				h.Took(2 * time.Minute)
				h.Took(time.Hour)
			}
		})
	}
	adding.Wait()
	count, sum, upTo := h.Read()
	if count != 3000 || sum < 3_720_029 || sum > 3_720_031 {
		t.Errorf("%d values come to %f", count, sum)
	}
	if upTo[0.025] != 0 || upTo[0.05] != 1000 || upTo[30] != 1000 || upTo[120] != 2000 {
		t.Errorf("the buckets are %v", upTo)
	}
	for share, want := range map[float64]float64{0: 0.05, 0.3: 0.05, 0.5: 120, 0.66: 120} {
		if bound, ok := h.Quantile(share); !ok || bound != want {
			t.Errorf("%v of them are at most %v, %v, want %v", share, bound, ok, want)
		}
	}
	if bound, ok := h.Quantile(0.7); ok {
		t.Errorf("70 of 100 are at most %v, and a third took longer than all bounds", bound)
	}
	var none measure.Histogram
	if _, ok := none.Quantile(0.5); ok {
		t.Error("half of nothing took some time")
	}
	var sizes measure.Histogram
	sizes.Size(512)
	sizes.Size(513)
	if _, _, upTo := sizes.Read(); upTo[256] != 0 || upTo[512] != 1 || upTo[1024] != 2 {
		t.Errorf("the buckets are %v", upTo)
	}
}

func TestNamesAreBounded(t *testing.T) {
	var n measure.Named[measure.Counter]
	for i := range 10_000 {
		n.Of(fmt.Sprint("tenant's ", i)).Add(1)
	}
	names, all := 0, uint64(0)
	for name, counter := range n.All() {
		names++
		if all += counter.Value(); name == measure.Others && counter.Value() < 9000 {
			t.Errorf("the others are %d", counter.Value())
		}
	}
	if names > 201 || all != 10_000 {
		t.Errorf("%d names count %d", names, all)
	}
}

func TestTally(t *testing.T) {
	var tally measure.Tally
	waits := measure.Stance{State: "waiting", Kind: "hold"}
	a := tally.Move(0, waits)
	b := tally.Move(0, waits)
	a = tally.Move(a, measure.Stance{State: "in-sync"})
	if by, all := tally.Read(); by[waits] != 1 || by[measure.Stance{State: "in-sync"}] != 1 || all != 2 {
		t.Errorf("%v, together %d", by, all)
	}
	tally.Leave(b)
	if by, all := tally.Read(); by[waits] != 0 || all != 1 {
		t.Errorf("%v, together %d", by, all)
	}
	for i := range 1000 { // More than there is room for.
		a = tally.Move(a, measure.Stance{State: fmt.Sprint(i)})
	}
	if _, all := tally.Read(); all != 1 {
		t.Errorf("%d of one thing are counted", all)
	}
	tally.Reset()
	if _, all := tally.Read(); all != 0 {
		t.Errorf("%d are left", all)
	}
}

func TestPushes(t *testing.T) {
	var p measure.Pushes
	noon := time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)
	p.Open("a", noon, false)
	p.Open("b", noon.Add(time.Second), false)
	p.Open("b", noon.Add(time.Second), true)
	if open, doubt, oldest := p.Read(); open != 2 || doubt != 1 || !oldest.Equal(noon) {
		t.Errorf("%d open, %d in doubt, the oldest of %s", open, doubt, oldest)
	}
	p.End("a", "pushed", noon.Add(time.Minute))
	p.End("a", "pushed", noon.Add(time.Minute)) // Closed again, as after a lost answer.
	if open, _, oldest := p.Read(); open != 1 || !oldest.Equal(noon.Add(time.Second)) {
		t.Errorf("%d open, the oldest of %s", open, oldest)
	}
	if count, sum, _ := p.Ended.Of("pushed").Read(); count != 1 || sum != 60 {
		t.Errorf("%d ended after %f s", count, sum)
	}
}

// BenchmarkPush is what a push costs in measures.
func BenchmarkPush(b *testing.B) {
	var e measure.Enforcer
	now := time.Now()
	place := measure.Place(0)
	b.ReportAllocs()
	for b.Loop() {
		e.Delay.Took(time.Millisecond)
		place = e.Stances.Move(place, measure.Stance{State: "pushing"})
		e.Pushes.Open("shop/1-1", now, false)
		e.Pushes.End("shop/1-1", "pushed", now)
		place = e.Stances.Move(place, measure.Stance{State: "in-sync"})
	}
}
