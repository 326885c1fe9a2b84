package storetest

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/store"
)

func testLabels(t *testing.T, open func(t *testing.T) store.All) {
	for name, test := range map[string]func(*world){
		"SetAndRemoved": labelsSetAndRemoved, "Refused": labelsRefused, "Retained": labelsRetain,
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, open)
			w.t = t
			test(w)
		})
	}
}

// labels of an incarnation, as every read shows them.
func (w *world) labels(id intent.IncarnationID) map[string]string {
	w.t.Helper()
	read, err := w.Incarnation(w.t.Context(), id)
	w.must(err)
	list, err := w.Incarnations(w.t.Context(), id.Partition, 0, 0)
	w.must(err)
	i := slices.IndexFunc(list, func(i intent.Incarnation) bool { return i.ID == id })
	if diff := cmp.Diff(read, list[i]); diff != "" {
		w.t.Errorf("listed and read alone differ:\n%s", diff)
	}
	return read.Labels
}

func labelsSetAndRemoved(w *world) {
	t, ctx := w.t, w.t.Context()
	next := w.next()
	next.Labels = map[string]string{"lehr/acknowledged": "x"}
	first, err := w.Publish(ctx, w.lease, next)
	w.must(err)
	w.publish(entry("a", "1"))
	previous := w.partition(shop)

	w.must(w.SetLabel(ctx, at(1), "release", "r1", "a try", alice))
	w.must(w.SetLabel(ctx, at(1), "release", "r2", "a try", bob))
	w.must(w.SetLabel(ctx, at(1), "release", "r2", "a try", alice)) // changes nothing
	w.must(w.SetLabel(ctx, at(1), "team/on-call", "ann = bob, 100 %", "a try", alice))
	w.must(w.SetLabel(ctx, at(2), "release", "r3", "a try", alice))
	want := map[string]string{"lehr/acknowledged": "x", "release": "r2", "team/on-call": "ann = bob, 100 %"}
	if diff := cmp.Diff(want, w.labels(at(1))); diff != "" {
		t.Errorf("labels:\n%s", diff)
	}
	w.must(w.SetLabel(ctx, at(1), "release", "", "a try", bob))
	delete(want, "release")
	if diff := cmp.Diff(want, w.labels(at(1))); diff != "" {
		t.Errorf("after removing one:\n%s", diff)
	}
	read, err := w.Incarnation(ctx, at(1))
	w.must(err)
	if read.Digest != first.Digest {
		t.Error("a label changed the digest")
	}
	if diff := cmp.Diff(previous, w.partition(shop)); diff != "" {
		t.Errorf("labels changed the partition:\n%s", diff)
	}

	records, err := w.AuditRecords(ctx, shop, 0, 0)
	w.must(err)
	var lines []string
	for _, r := range records {
		if strings.HasSuffix(r.Verb, "label") {
			lines = append(lines, fmt.Sprintf("%s %s %s %s", r.By.Name, r.Verb, r.Subject, r.Detail))
		}
	}
	wantSaid := []string{
		"alice label shop@1 release=r1", "bob label shop@1 release=r2", "alice label shop@1 team/on-call=ann = bob, 100 %",
		"alice label shop@2 release=r3", "bob unlabel shop@1 release",
	}
	if diff := cmp.Diff(wantSaid, lines); diff != "" {
		t.Errorf("audit:\n%s", diff)
	}
	w.must(w.VerifyAudit(ctx, shop))
}

func labelsRefused(w *world) {
	ctx := w.t.Context()
	next := w.next()
	next.Labels = map[string]string{"given": "x"}
	_, err := w.Publish(ctx, w.lease, next)
	w.must(err)
	long := strings.Repeat("v", store.MaxLabelValue)
	w.must(w.SetLabel(ctx, at(1), strings.Repeat("k", store.MaxLabelKey), long, "a try", alice))
	for _, key := range []string{"", "Release", "a b", "a=b", "/a", "a/", "a//b", "-a", "lehr/acknowledged", "lehr/x", "é", "a\n", strings.Repeat("k", store.MaxLabelKey+1)} {
		w.refused(w.SetLabel(ctx, at(1), key, "v", "a try", alice), fault.Invalid)
		w.refused(w.SetLabel(ctx, at(1), key, "", "a try", alice), fault.Invalid)
	}
	for _, value := range []string{long + "v", "a\x1b[2J", "a\nb", "\xff", "\x00"} {
		w.refused(w.SetLabel(ctx, at(1), "k", value, "a try", alice), fault.Invalid)
	}
	w.refused(w.SetLabel(ctx, at(1), "given", "y", "a try", alice), fault.Conflict)
	w.refused(w.SetLabel(ctx, at(1), "given", "", "a try", alice), fault.Conflict)
	w.refused(w.SetLabel(ctx, at(1), "k", "", "a try", alice), fault.NotFound)
	w.refused(w.SetLabel(ctx, at(2), "k", "v", "a try", alice), fault.NotFound)
	w.refused(w.SetLabel(ctx, intent.IncarnationID{Partition: theatre, Sequence: 1}, "k", "v", "a try", alice), fault.NotFound)
	for i := 2; i < store.MaxLabels; i++ {
		w.must(w.SetLabel(ctx, at(1), fmt.Sprint("k", i), "v", "a try", alice))
	}
	w.refused(w.SetLabel(ctx, at(1), "one-too-many", "v", "a try", alice), fault.Invalid)
	w.must(w.SetLabel(ctx, at(1), "k2", "other", "a try", alice))
	w.must(w.SetLabel(ctx, at(1), "k2", "", "a try", alice))
	w.must(w.SetLabel(ctx, at(1), "one-too-many", "v", "a try", alice))
	if got := w.labels(at(1)); len(got) != store.MaxLabels || got["given"] != "x" {
		w.t.Errorf("%d labels: %v", len(got), got)
	}
}

// labelsRetain: what a person labelled is not collected (S17); what only Lehr
// labelled is.
func labelsRetain(w *world) {
	t, ctx := w.t, w.t.Context()
	for i := range 4 {
		next := w.next()
		next.Labels = map[string]string{"lehr/acknowledged": fmt.Sprint(i + 1)}
		w.must(w.Stage(ctx, w.lease, next.Parent, []store.Entry{entry("a", fmt.Sprint(i+1))}))
		_, err := w.Publish(ctx, w.lease, next)
		w.must(err)
	}
	w.must(w.SetLabel(ctx, at(2), "good", "yes", "a try", alice))
	collect := func() {
		t.Helper()
		_, err := w.Collect(ctx, w.lease, store.Retention{Incarnations: 1}, noon.AddDate(1, 0, 0))
		w.must(err)
	}
	collect()
	if got := content(t, w, at(2)); got["a"] != "2" {
		t.Errorf("the labelled incarnation reads %v", got)
	}
	for _, sequence := range []int{1, 3} {
		_, err := w.Incarnation(ctx, at(sequence))
		w.refused(err, fault.NotFound)
	}
	_, err := w.FindIncarnation(ctx, shop, store.Lookup{Label: "lehr/acknowledged", Value: "3"})
	w.refused(err, fault.NotFound)
	w.must(w.SetLabel(ctx, at(2), "good", "", "a try", alice))
	collect()
	_, err = w.Incarnation(ctx, at(2))
	w.refused(err, fault.NotFound)
}

func testFindIncarnation(t *testing.T, open func(t *testing.T) store.All) {
	w := newWorld(t, open)
	ctx := t.Context()
	_, err := w.FindIncarnation(ctx, theatre, store.Lookup{})
	w.refused(err, fault.NotFound)
	_, err = w.FindIncarnation(ctx, shop, store.Lookup{})
	w.refused(err, fault.NotFound)
	for i := range 6 { // 1 at noon, then one a minute
		next := w.next()
		next.Created = noon.Add(time.Duration(i) * time.Minute)
		_, err := w.Publish(ctx, w.lease, next)
		w.must(err)
	}
	w.must(w.SetLabel(ctx, at(2), "release", "r1", "a try", alice))
	w.must(w.SetLabel(ctx, at(4), "release", "r2", "a try", alice))
	w.must(w.SetLabel(ctx, at(5), "good", "r1", "a try", alice))
	find := func(lookup store.Lookup) (intent.Sequence, error) {
		incarnation, err := w.FindIncarnation(ctx, shop, lookup)
		return incarnation.ID.Sequence, err
	}
	minute := func(m float64) time.Time { return noon.Add(time.Duration(m * float64(time.Minute))) }
	for _, c := range []struct {
		lookup store.Lookup
		want   intent.Sequence
	}{
		{store.Lookup{}, 6},
		{store.Lookup{At: noon}, 1},
		{store.Lookup{At: minute(0.99)}, 1},
		{store.Lookup{At: minute(1)}, 2},
		{store.Lookup{At: minute(3.5)}, 4},
		{store.Lookup{At: minute(1000)}, 6},
		{store.Lookup{Label: "release"}, 4},
		{store.Lookup{Label: "release", Value: "r1"}, 2},
		{store.Lookup{At: minute(1.5), Label: "release"}, 2},
		{store.Lookup{At: minute(1.5), Label: "release", Value: "r1"}, 2},
	} {
		if got, err := find(c.lookup); err != nil || got != c.want {
			t.Errorf("%+v finds %d, %v, want %d", c.lookup, got, err, c.want)
		}
	}
	for _, c := range []struct {
		lookup store.Lookup
		says   string
	}{
		{store.Lookup{At: noon.Add(-1)}, "the first is shop@1, of 2026-03-01T12:00:00Z"},
		{store.Lookup{Label: "release", Value: "r9"}, "release=r9"},
		{store.Lookup{Label: "unheard"}, "unheard"},
		{store.Lookup{At: minute(2.5), Label: "release"}, "shop@3 was head"},
		{store.Lookup{At: minute(1.5), Label: "release", Value: "r2"}, "shop@2 was head"},
	} {
		got, err := find(c.lookup)
		w.refused(err, fault.NotFound)
		if !strings.Contains(err.Error(), c.says) {
			t.Errorf("%+v finds %d: %v does not say %q", c.lookup, got, err, c.says)
		}
	}
	_, err = find(store.Lookup{Value: "r1"})
	w.refused(err, fault.Invalid)

	// Of 1 to 3 only 2 stays: it answers for its own time, and for no other.
	_, err = w.Collect(ctx, w.lease, store.Retention{Incarnations: 3}, noon.AddDate(1, 0, 0))
	w.must(err)
	if got, err := find(store.Lookup{At: minute(1.5)}); err != nil || got != 2 {
		t.Errorf("after collecting, its own time finds %d, %v", got, err)
	}
	for at, message := range map[time.Time]string{
		minute(0.5): "is not retained: the oldest that is is shop@2", minute(2.5): "shop@2 was until 2026-03-01T12:02:00Z, shop@4 from",
	} {
		_, err := find(store.Lookup{At: at})
		w.refused(err, fault.NotFound)
		if !strings.Contains(err.Error(), message) {
			t.Errorf("at %s: %v does not say %q", at, err, message)
		}
	}
	for sequence, message := range map[intent.Sequence]string{3: "shop@3 any more: it is not retained", 7: "there is no incarnation shop@7"} {
		_, err := w.Incarnation(ctx, intent.IncarnationID{Partition: "shop", Sequence: sequence})
		w.refused(err, fault.NotFound)
		if !strings.Contains(err.Error(), message) {
			t.Errorf("%v does not say %q", err, message)
		}
	}
}

// testFindModel compares lookups with a naive search, after any publications
// (by clocks that may go back), labels and collections.
func testFindModel(t *testing.T, open func(t *testing.T) store.All) {
	s := open(t)
	run := 0
	rapid.Check(t, func(r *rapid.T) {
		run++
		m := newModel(r, s, intent.PartitionID(fmt.Sprintf("find-%d", run)))
		created := map[intent.Sequence]time.Time{}
		labels := map[intent.Sequence]string{}
		for range rapid.IntRange(1, 12).Draw(r, "steps") {
			switch retained := slices.Sorted(maps.Keys(m.retained)); {
			case len(retained) > 0 && rapid.IntRange(0, 3).Draw(r, "label") == 0:
				sequence := rapid.SampledFrom(retained).Draw(r, "of")
				labels[sequence] = rapid.SampledFrom([]string{"x", "y"}).Draw(r, "value")
				ok(r, s.SetLabel(t.Context(), m.id(sequence), "k", labels[sequence], "a try", alice))
			case len(retained) > 0 && rapid.IntRange(0, 4).Draw(r, "collect") == 0:
				keep := rapid.IntRange(0, 3).Draw(r, "keep")
				_, err := s.Collect(t.Context(), m.lease, store.Retention{Incarnations: keep}, noon.AddDate(1, 0, 0))
				ok(r, err)
				for _, sequence := range retained {
					if sequence != m.head.Sequence && int(sequence) <= int(m.head.Sequence)-keep && labels[sequence] == "" {
						delete(m.retained, sequence)
					}
				}
			default:
				next := m.id(m.head.Sequence + 1)
				created[next.Sequence] = noon.Add(time.Duration(rapid.IntRange(0, 8).Draw(r, "created")) * time.Second)
				_, err := s.Publish(t.Context(), m.lease, intent.Incarnation{ID: next, Parent: m.head, Author: alice, Created: created[next.Sequence]})
				ok(r, err)
				m.head, m.retained[next.Sequence] = next, nil
			}
		}
		for second := -1; second <= 9; second++ {
			for _, label := range []string{"", "k", "k=x", "none"} {
				var lookup store.Lookup
				lookup.Label, lookup.Value, _ = strings.Cut(label, "=")
				if second >= 0 {
					lookup.At = noon.Add(time.Duration(second) * time.Second)
				}
				var want intent.Sequence
				for sequence := range m.retained {
					end, superseded := created[sequence+1]
					wasHead := lookup.At.IsZero() || !created[sequence].After(lookup.At) && (!superseded || end.After(lookup.At))
					hasLabel := label == "" || label == "k" && labels[sequence] != "" || label == "k=x" && labels[sequence] == "x"
					if wasHead && hasLabel {
						want = max(want, sequence)
					}
				}
				incarnation, err := s.FindIncarnation(t.Context(), m.head.Partition, lookup)
				if incarnation.ID.Sequence != want || (err == nil) != (want != 0) || err != nil && !fault.Is(err, fault.NotFound) {
					r.Fatalf("%+v finds %s, %v, want %d", lookup, incarnation.ID, err, want)
				}
			}
		}
	})
}
