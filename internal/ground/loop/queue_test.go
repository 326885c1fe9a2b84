package loop

import (
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"
)

var start = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

func TestQueuePopsDueKeysByPriority(t *testing.T) {
	var q Queue[string]
	q.Add("sweep", start, Sweep)
	q.Add("later", start.Add(time.Hour), Fresh)
	q.Add("retry", start.Add(time.Second), Retry)
	q.Add("fresh", start.Add(2*time.Second), Fresh)
	now := start.Add(time.Minute)
	var got []string
	for {
		key, _, due := q.Pop(now)
		if !due {
			break
		}
		got = append(got, key)
	}
	if want := []string{"fresh", "retry", "sweep"}; !slices.Equal(got, want) {
		t.Errorf("popped %v, want %v", got, want)
	}
	if next := q.Next(now); next != 59*time.Minute {
		t.Errorf("next in %s, want 59m", next)
	}
}

func TestQueueKeepsTheEarlierTimeAndTheBetterPriority(t *testing.T) {
	var q Queue[string]
	q.Add("a", start.Add(time.Hour), Fresh)
	q.Add("a", start, Sweep)
	q.Add("a", start.Add(time.Minute), Retry)
	if q.Len() != 1 || !q.Due("a").Equal(start) {
		t.Fatalf("%d keys, a due at %s", q.Len(), q.Due("a"))
	}
	if _, priority, due := q.Pop(start); !due || priority != Fresh {
		t.Errorf("priority %d, due %t", priority, due)
	}
	q.Add("never", time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC), Fresh)
	if _, _, due := q.Pop(start); due {
		t.Error("the year 9999 is due")
	}
	q.Remove("never")
	if q.Next(start) != -1 {
		t.Error("an empty queue has something due")
	}
}

// TestQueueAgainstModel compares with a list that is sorted at every step.
func TestQueueAgainstModel(t *testing.T) {
	type entry struct {
		due      int
		priority Priority
	}
	rapid.Check(t, func(t *rapid.T) {
		var q Queue[int]
		if rapid.Bool().Draw(t, "keys have their places") {
			var places [21]Place
			q.Place = func(key int) *Place { return &places[key] }
		}
		model := map[int]entry{}
		now := 0
		for range rapid.IntRange(1, 200).Draw(t, "steps") {
			key := rapid.IntRange(0, 20).Draw(t, "key")
			switch rapid.IntRange(0, 3).Draw(t, "step") {
			case 0:
				due := now + rapid.IntRange(0, 30).Draw(t, "due")
				priority := Priority(rapid.IntRange(0, 2).Draw(t, "priority"))
				q.Add(key, start.Add(time.Duration(due)), priority)
				if known, ok := model[key]; ok {
					due, priority = min(due, known.due), min(priority, known.priority)
				}
				model[key] = entry{due, priority}
			case 1:
				q.Remove(key)
				delete(model, key)
			case 2:
				now += rapid.IntRange(0, 10).Draw(t, "pass")
			case 3:
				got, priority, ok := q.Pop(start.Add(time.Duration(now)))
				best, any := entry{}, false
				for _, e := range model {
					if e.due <= now && (!any || e.priority < best.priority || e.priority == best.priority && e.due < best.due) {
						best, any = e, true
					}
				}
				if ok != any || ok && (model[got] != best || priority != best.priority) {
					t.Fatalf("popped %d %v %t, want one like %v %t", got, model[got], ok, best, any)
				}
				if ok {
					delete(model, got)
				}
			}
			if q.Len() != len(model) {
				t.Fatalf("%d keys, want %d", q.Len(), len(model))
			}
			if known, ok := model[key]; ok != !q.Due(key).IsZero() || ok && !q.Due(key).Equal(start.Add(time.Duration(known.due))) {
				t.Fatalf("%d is due at %s, want %+v %t", key, q.Due(key), known, ok)
			}
		}
	})
}

// TestQueueGivesRoomBack: what a start needed once is not held for ever.
func TestQueueGivesRoomBack(t *testing.T) {
	var q Queue[int]
	for range 2 {
		for key := range 10 * spare {
			q.Add(key, start, Priority(key%3))
		}
		for left := 10 * spare; left > 0; left-- {
			if _, _, due := q.Pop(start); !due {
				t.Fatalf("%d keys did not leave", left)
			}
		}
		if q.places != nil || q.Len() != 0 {
			t.Errorf("the empty queue has a map of places; length %d", q.Len())
		}
		for in, h := range q.heaps {
			if cap(h.items) > spare {
				t.Errorf("heap %d has room for %d", in, cap(h.items))
			}
		}
	}
}

func TestBatchMakesOneGroupAtATime(t *testing.T) {
	b := Batch[int]{Max: 2}
	if b.Take() != nil {
		t.Fatal("a group out of nothing")
	}
	b.Add(1, 2, 3)
	if got := b.Take(); !slices.Equal(got, []int{1, 2}) {
		t.Fatalf("took %v", got)
	}
	b.Add(4)
	if got := b.Take(); got != nil {
		t.Fatalf("took %v while a group is under way", got)
	}
	b.Done()
	if got := b.Take(); !slices.Equal(got, []int{3, 4}) {
		t.Fatalf("took %v", got)
	}
}

func TestBackoffGrowsToItsLimit(t *testing.T) {
	b := Backoff{First: time.Second, Most: 5 * time.Second}
	for n, want := range []time.Duration{time.Second, time.Second, 2 * time.Second, 4 * time.Second, 5 * time.Second, 5 * time.Second} {
		if got := b.After(n); got != want {
			t.Errorf("after %d: %s, want %s", n, got, want)
		}
	}
	if got := b.After(1 << 20); got != 5*time.Second {
		t.Errorf("after a million: %s", got)
	}
	for i := range 1000 {
		if j := Jitter(10*time.Second, "asset", i); j < 8*time.Second || j > 12*time.Second {
			t.Fatalf("jitter %s", j)
		}
	}
}

// TestQueueByTurnsLetsNobodyWaitForEver: however many better keys come, a key
// leaves within four turns for each that was due before it.
func TestQueueByTurnsLetsNobodyWaitForEver(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var q Queue[int]
		now := start
		before := rapid.IntRange(0, 20).Draw(t, "before")
		for key := range before {
			q.Add(key, now, Priority(rapid.IntRange(0, 2).Draw(t, "priority")))
		}
		now = now.Add(time.Second)
		const waits = 1000
		q.Add(waits, now, Sweep)
		for turn := 1; ; turn++ {
			now = now.Add(time.Second)
			for range rapid.IntRange(1, 3).Draw(t, "storm") {
				q.Add(waits+turn*10+q.Len(), now, Fresh)
			}
			priority, ok := q.Turn(now)
			key, taken := q.PopOf(now, priority)
			if !ok || !taken {
				t.Fatal("nothing is due")
			}
			if key == waits {
				return
			}
			if turn > 4*(before+1) {
				t.Fatalf("it waits after %d turns, with %d before it", turn, before)
			}
		}
	})
}
