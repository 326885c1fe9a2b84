package recent

import (
	"testing"

	"pgregory.net/rapid"
)

func TestForgetsWhatWasNotUsed(t *testing.T) {
	m := New[string, int](20)
	m.Put("used", 1, 4)
	m.Put("unused", 2, 4)
	for i := range 10 {
		m.Put(string(rune('a'+i)), i, 4)
		if value, ok := m.Get("used"); !ok || value != 1 {
			t.Fatalf("what is used all the time was forgotten after %d others", i+1)
		}
	}
	if _, ok := m.Get("unused"); ok {
		t.Error("what was not used is still held beside ten others")
	}
	if m.Put("heavy", 3, 11); len(m.young) == 0 {
		t.Error("a heavy value pushed out the others")
	}
	if _, ok := m.Get("heavy"); ok {
		t.Error("a value heavier than a generation is held")
	}
}

// What is found is what was put last, and the weight held never exceeds the
// limit.
func TestHoldsWhatWasPutLast(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := New[int, int](100)
		last := map[int]int{}
		t.Repeat(map[string]func(*rapid.T){
			"put": func(t *rapid.T) {
				key, value := rapid.IntRange(0, 20).Draw(t, "key"), rapid.Int().Draw(t, "value")
				m.Put(key, value, rapid.IntRange(1, 60).Draw(t, "weight"))
				last[key] = value
			},
			"get": func(t *rapid.T) {
				key := rapid.IntRange(0, 20).Draw(t, "key")
				if value, ok := m.Get(key); ok && value != last[key] {
					t.Fatalf("key %d is %d, last put was %d", key, value, last[key])
				}
			},
			"": func(t *rapid.T) {
				weight := 0
				for _, e := range m.young {
					weight += e.weight
				}
				if weight != m.weight {
					t.Fatalf("weight is %d, counted %d", m.weight, weight)
				}
				for _, e := range m.old {
					weight += e.weight
				}
				if weight > 100 {
					t.Fatalf("holds %d of 100", weight)
				}
			},
		})
	})
}
