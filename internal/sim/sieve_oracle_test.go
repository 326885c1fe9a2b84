package sim

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/pluginhost/plugin"
)

// TestSieveComparesEffects changes what a run did, and has it compared.
func TestSieveComparesEffects(t *testing.T) {
	reference := &history{of: SieveCase{Pattern: Undisturbed}}
	if err := reference.unfold(t.Context()); err != nil || len(reference.wrong) > 0 {
		t.Fatal(err, reference.wrong)
	}
	// find an effect that is the last of its push.
	find := func(h *history, fits func(sieved) bool) int {
		at := slices.IndexFunc(h.done, func(e sieved) bool { return e.Step == e.Steps && fits(e) })
		if at < 0 {
			t.Fatal("the history has no such effect")
		}
		return at
	}
	class := func(c plugin.Guarantee) func(sieved) bool {
		return func(e sieved) bool { return e.Class == c && e.Action == intent.ActionUpdate }
	}
	again := func(h *history, at int) {
		e := h.done[at]
		e.Before = e.After
		h.done = slices.Insert(h.done, at+1, e)
	}
	for name, test := range map[string]struct {
		change func(h *history)
		want   string
		// retries that are accepted.
		retries int
	}{
		"nothing": {change: func(*history) {}},
		"the same again, class N": {change: func(h *history) {
			again(h, find(h, class(plugin.Unguarded)))
		}, retries: 1},
		"the same again, class C": {change: func(h *history) {
			again(h, find(h, class(plugin.CompareAndSet)))
		}, want: "in the reference by 1"},
		"the same again, class F": {change: func(h *history) {
			again(h, find(h, class(plugin.Fenced)))
		}, want: "in the reference by 1"},
		"half of it again, class F": {change: func(h *history) {
			at := find(h, class(plugin.Fenced))
			again(h, at)
			h.done[at].Steps++
		}, want: "was given its content"},
		"one effect less": {change: func(h *history) {
			at := find(h, class(plugin.Fenced))
			h.done = slices.Delete(h.done, at, at+1)
		}, want: "and in the reference to"},
		"another state": {change: func(h *history) {
			h.done[find(h, class(plugin.Fenced))].After = "v99 12345678"
		}, want: "and left 12345678"},
		"an older intent's": {change: func(h *history) {
			at := find(h, func(e sieved) bool { return e.root == reference.rests[4].root })
			h.done[at].root = reference.rests[3].root
		}, want: "an intent that is not to be served then: [4] are"},
		"a removal that nobody asks for": {change: func(h *history) {
			h.done[find(h, class(plugin.Fenced))].Delete = true
		}, want: "and no intent of [7] asks for it"},
		"one removal more": {change: func(h *history) {
			again(h, find(h, func(e sieved) bool { return e.Delete }))
		}, want: "was deleted 2 times"},
		"something more at a rest": {change: func(h *history) {
			h.rests[3].production["sim:Job/other"] = "something"
		}, want: "after intent 3 sim:Job/other exists"},
	} {
		t.Run(name, func(t *testing.T) {
			h := &history{of: SieveCase{Pattern: Undisturbed}, reference: reference, done: slices.Clone(reference.done)}
			for _, r := range reference.rests {
				h.rests = append(h.rests, rest{r.root, maps.Clone(r.production)})
			}
			test.change(h)
			h.compare()
			told := strings.Join(h.wrong, "\n")
			if (told == "") != (test.want == "") || !strings.Contains(told, test.want) || h.retries != test.retries {
				t.Errorf("told %q and %d retries, want %q and %d", told, h.retries, test.want, test.retries)
			}
		})
	}
}

// TestSieveSeesNothingOfTheUnseen: what was never to be served is not accepted,
// though the reference serves it.
func TestSieveSeesNothingOfTheUnseen(t *testing.T) {
	reference := &history{of: SieveCase{Pattern: Undisturbed}}
	if err := reference.unfold(t.Context()); err != nil || len(reference.wrong) > 0 {
		t.Fatal(err, reference.wrong)
	}
	h := &history{of: SieveCase{Pattern: UnobservedState, From: 2, To: 5}, reference: reference, done: slices.Clone(reference.done), rests: reference.rests}
	for at := range h.done {
		// As the run would have had it: between the rests 1 and 5 only these.
		if e := &h.done[at]; slices.Contains([]int{2, 3, 4, 5}, e.serving[0]) {
			e.serving = []int{1, 5}
		}
	}
	h.compare()
	if told := strings.Join(h.wrong, "\n"); !strings.Contains(told, "not to be served then: [1 5] are") {
		t.Errorf("told %q", told)
	}
}
