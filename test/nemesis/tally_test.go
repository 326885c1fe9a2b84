package nemesis

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"
)

// tally is what a run did.
type tally struct {
	mutex           *sync.Mutex
	counts, strikes map[string]int
	takeovers       map[string][]time.Duration
}

func newTally() tally {
	return tally{mutex: &sync.Mutex{}, counts: map[string]int{}, strikes: map[string]int{}, takeovers: map[string][]time.Duration{}}
}

func (t *tally) count(what string) {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	t.counts[what]++
}

func (t *tally) strike(fault string) {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	t.strikes[fault]++
}

func (t *tally) took(took takeover) {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	t.takeovers[took.Fault] = append(t.takeovers[took.Fault], took.Took)
}

func (t *tally) String() string {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	var text strings.Builder
	for _, part := range []struct {
		name   string
		counts map[string]int
	}{{"faults", t.strikes}, {"people and starts", t.counts}} {
		fmt.Fprintf(&text, "%s:\n", part.name)
		for _, name := range slices.Sorted(maps.Keys(part.counts)) {
			fmt.Fprintf(&text, "  %5d %s\n", part.counts[name], name)
		}
	}
	fmt.Fprintf(&text, "until others act (least, median, most):\n")
	for _, fault := range slices.Sorted(maps.Keys(t.takeovers)) {
		list := slices.Sorted(slices.Values(t.takeovers[fault]))
		fmt.Fprintf(&text, "  %5d %s: %s %s %s\n", len(list), fault, short(list[0]), short(list[len(list)/2]), short(list[len(list)-1]))
	}
	return text.String()
}

func short(d time.Duration) time.Duration { return d.Round(10 * time.Millisecond) }

// told sums up what a history holds.
func (h *history) told() string {
	refused, late := map[string]int{}, 0
	for _, e := range h.Effects {
		if e.Refused != "" {
			refused[string(e.Class)]++
		}
		if e.excused() {
			late++
		}
	}
	records := 0
	for _, list := range h.Audit {
		records += len(list)
	}
	answered := 0
	for _, c := range h.Calls {
		if c.Done {
			answered++
		}
	}
	return fmt.Sprintf("%d effects (refused by targets: %d F, %d C; %d outlived E in a plugin that stood still), %d admissions, %d records of the audit, %d of %d calls answered well, %d stops",
		len(h.Effects), refused["F"], refused["C"], late, len(h.Journal), records, answered, len(h.Calls), len(h.Stops))
}
