package nemesis

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"lehr.dev/internal/pluginhost/plugin"
)

// sound is a short history in which all is well: two incarnations, two epochs,
// an approved removal, a pin, and a stop.
func sound() *history {
	plan := func(n int) string { return strings.Repeat(fmt.Sprintf("%02x", n), 32) }
	h := &history{
		Contents: map[string][]version{
			"f1/thing/0": {{From: 1, Content: content{Value: "1", Disk: "10", Site: "east"}}, {From: 2, Content: content{Value: "2", Disk: "10", Site: "east"}}},
			"f1/thing/1": {{From: 1, Content: content{Value: "1", Disk: "10", Site: "east"}}, {From: 2, Content: content{Value: "1", Disk: "10", Site: "east", Turndown: true}}},
			"f1/thing/2": {{From: 1, Content: content{Value: "1", Disk: "10", Site: "east"}}},
		},
		Audit: map[string][]record{"": {}, "f1": {}}, Deaths: map[string]time.Duration{}, Epochs: map[string]uint64{"f1": 2}, Heads: map[string]uint64{"f1": 2},
		Pins: map[string]bool{"f1/thing/2": true}, Holds: map[string]bool{}, InFlight: inFlight,
		Wanted: map[string]content{"f1/thing/0": {Value: "2", Disk: "10"}, "f1/thing/1": {Turndown: true}},
		Has:    map[string]state{"f1/thing/0": {Value: "2", Disk: "10"}, "f1/thing/1": {Gone: true}},
		Healed: 50 * time.Second, Settled: 55 * time.Second, Ended: 60 * time.Second,
	}
	add := func(second int, by, verb, subject, argument string) {
		h.Audit["f1"] = append(h.Audit["f1"], record{
			Number: uint64(len(h.Audit["f1"]) + 1), Seen: time.Duration(second) * time.Second, By: by, Verb: verb, Subject: subject, Argument: argument,
		})
	}
	version := uint64(0)
	push := func(second int, asset string, epoch, target uint64, before, after state, approved string) {
		number := len(h.Journal) + 1
		a := admission{
			Push: fmt.Sprintf("f1/%d-%d", epoch, number), Partition: "f1", Asset: asset, Target: target, Plan: plan(number), Epoch: epoch,
			Life: "a.1", At: time.Duration(second) * time.Second,
		}
		h.Journal = append(h.Journal, a)
		add(second, "vm:1:X", "admit", asset, fmt.Sprintf("push %s to f1@%d, content 00, plan %s; passed stop mode%s", a.Push, target, a.Plan[:12], approved))
		version++
		after.Version, after.Token = version, epoch
		h.Effects = append(h.Effects, effect{
			At: a.At + 100*time.Millisecond, Partition: "f1", Asset: asset, Class: plugin.Fenced, Push: a.Push, Incarnation: target,
			Plan: a.Plan, Token: epoch, Life: "a.1", Before: before, After: after, Last: true,
		})
	}
	one, two, gone := state{Value: "1", Disk: "10"}, state{Value: "2", Disk: "10"}, state{Gone: true}
	add(1, "vm:1:X", "acquire", "f1", "epoch 1")
	add(2, "lehr", "publish", "f1@1", "3 assets")
	push(3, "thing/0", 1, 1, gone, one, "")
	push(5, "thing/1", 1, 1, gone, one, "")
	add(6, "lehr", "publish", "f1@2", "2 assets")
	push(7, "thing/0", 1, 2, one, two, "")
	add(8, "vm:2:Y", "acquire", "f1", "epoch 2")
	add(9, "person-1", "approve", "thing/1", "plan "+plan(4)[:12]+" of content 00: gone")
	push(10, "thing/1", 2, 2, one, gone, "; approved by ann")
	add(12, "person-2", "pin", "thing/2", "to f1@1: slow")
	add(20, "person-3", "stop", "f1", "look")
	add(30, "person-4", "resume", "f1", "on")
	push(31, "thing/2", 2, 1, gone, one, "")
	answered := func(second int, by, verb, asset string, revision uint64) {
		h.Calls = append(h.Calls, call{
			Asked: time.Duration(second) * time.Second, Answered: time.Duration(second)*time.Second + 1, By: by, Verb: verb, Partition: "f1", Asset: asset,
			Revision: revision, Done: true,
		})
	}
	answered(9, "person-1", "approve", "thing/1", 0)
	answered(12, "person-2", "pin", "thing/2", 1)
	answered(20, "person-3", "stop", "", 0)
	answered(30, "person-4", "resume", "", 0)
	h.Stops = []stopped{{Partition: "f1", From: 20*time.Second + 1, To: 30 * time.Second}}
	h.Takeovers = []takeover{{Fault: "kill -9", Partition: "f1", Took: 4 * time.Second, Promised: failover}}
	return h
}

// again adds an effect like one that was, later.
func (h *history) again(like int, after time.Duration, change func(*effect)) {
	e := h.Effects[like]
	e.At += after
	change(&e)
	h.Effects = append(h.Effects, e)
	slices.SortStableFunc(h.Effects, func(a, b effect) int { return int(a.At - b.At) })
}

// admit adds an admission to journal and audit.
func (h *history) admit(a admission, argument string) {
	h.Journal = append(h.Journal, a)
	records := h.Audit[a.Partition]
	h.Audit[a.Partition] = append(records, record{Number: uint64(len(records) + 1), Seen: a.At, By: "vm:2:Y", Verb: "admit", Subject: a.Asset, Argument: argument})
}

// TestTheCheckerFails: on a history that breaks any one property, and on
// nothing that is sound.
func TestTheCheckerFails(t *testing.T) {
	t.Parallel()
	if violations := judge(sound()); len(violations) > 0 {
		t.Fatalf("the sound history: %v", violations)
	}
	for name, doctored := range map[string]struct {
		breaks string
		doctor func(h *history)
	}{
		"an effect that nobody admitted":   {"S1", func(h *history) { h.Journal = h.Journal[1:] }},
		"an effect of another plan":        {"S1", func(h *history) { h.Effects[2].Plan = "ff" }},
		"an effect of another asset":       {"S1", func(h *history) { h.Journal[0].Asset = "thing/2" }},
		"an admission after its effect":    {"S1", func(h *history) { h.Journal[2].At += time.Second }},
		"an admission that is in no audit": {"S25", func(h *history) { h.Audit["f1"][2].Verb = "note" }},
		"a push id that comes twice":       {"S1", func(h *history) { h.Journal = append(h.Journal, h.Journal[0]) }},
		"admitted when head was newer": {"S2", func(h *history) {
			a := h.Audit["f1"]
			a[3], a[4] = a[4], a[3]
		}},
		"admitted past a pin": {"S2", func(h *history) {
			h.Audit["f1"][12].Argument = strings.Replace(h.Audit["f1"][12].Argument, "@1", "@2", 1)
		}},
		"other content than the incarnation's": {"S2", func(h *history) { h.Effects[2].After.Value = "7" }},
		"superseded for long":                  {"S2", func(h *history) { h.again(0, 9*time.Second, func(*effect) {}) }},
		"two pushes at once": {"S3", func(h *history) {
			h.again(0, 5*time.Second, func(*effect) {})
		}},
		"an epoch after a newer one":               {"S3", func(h *history) { h.again(1, 6*time.Second, func(e *effect) { e.Class = plugin.Unguarded }) }},
		"a fenced target that took an older token": {"S4", func(h *history) { h.again(1, 6*time.Second, func(*effect) {}) }},
		"a compare-and-set of an older version":    {"S4", func(h *history) { h.Effects[2].Class = plugin.CompareAndSet }},
		"a stale holder for long":                  {"S4", func(h *history) { h.again(1, 9*time.Second, func(*effect) {}) }},
		"an effect after its replica's death":      {"S4", func(h *history) { h.Deaths["a.1"] = 20 * time.Second }},
		"a removal without a Turndown":             {"S5", func(h *history) { h.Contents["f1/thing/1"][1].Content.Turndown = false }},
		"a change of what is not in intent":        {"S5", func(h *history) { h.Contents["f1/thing/0"][1].Absent = true }},
		"more at work than the budget":             {"S8", func(h *history) { h.InFlight = 0 }},
		"a removal without an approval": {"S9", func(h *history) {
			r := &h.Audit["f1"][8]
			r.Argument = strings.Replace(r.Argument, "; approved by ann", "", 1)
		}},
		"an approval that nobody gave":         {"S9", func(h *history) { h.Audit["f1"][7].Verb = "note" }},
		"an approval of another plan":          {"S9", func(h *history) { h.Audit["f1"][7].Argument = "plan 999999999999 of content 00" }},
		"a disk that went without an approval": {"S9", func(h *history) { h.Effects[2].Before.Disk = "5" }},
		"an approval that is used twice": {"S9", func(h *history) {
			a := h.Journal[3]
			a.Push = "f1/2-9"
			h.admit(a, strings.Replace(h.Audit["f1"][8].Argument, "f1/2-4", a.Push, 1))
		}},
		"an answered pin that is nowhere": {"S14", func(h *history) {
			h.Calls = append(h.Calls, call{By: "person-9", Verb: "pin", Partition: "f1", Revision: 9, Done: true, Asked: time.Minute})
		}},
		"a pin that the table lost":                {"S14", func(h *history) { clear(h.Pins) }},
		"a hold that nobody asked for":             {"S14", func(h *history) { h.Holds["f1/thing/0"] = true }},
		"a gap in the audit":                       {"S14", func(h *history) { h.Audit["f1"] = slices.Delete(h.Audit["f1"], 9, 10); clear(h.Pins) }},
		"an epoch that comes again":                {"S15", func(h *history) { h.Audit["f1"][6].Argument = "epoch 1" }},
		"an incarnation that comes again":          {"S15", func(h *history) { h.Audit["f1"][4].Subject = "f1@1" }},
		"a target that saw more than the database": {"S15", func(h *history) { h.Epochs["f1"] = 1 }},
		"a push id of two things":                  {"S15", func(h *history) { h.Effects[1].Push = h.Effects[0].Push }},
		"a pin with a lower revision": {"S16", func(h *history) {
			c := h.Calls[1]
			c.Asked += time.Second
			c.Answered += time.Second
			h.Calls = append(h.Calls, c)
		}},
		"content that the store never had": {"S17", func(h *history) { delete(h.Contents, "f1/thing/2") }},
		"a record of what was collected":   {"S17", func(h *history) { h.Missing = []string{"a pin"} }},
		"an admission in a stop": {"S18", func(h *history) {
			a := h.Journal[4]
			a.Push, a.At = "f1/2-9", 25*time.Second
			h.Journal = append(h.Journal, a)
		}},
		"an admission by the only replica that has the stop": {"S18", func(h *history) {
			a := h.Journal[4]
			a.Push, a.At = "f1/2-9", 25*time.Second
			h.Journal = append(h.Journal, a)
			h.Stops[0].Life = a.Life
		}},
		"an admission behind a stop":      {"S18", func(h *history) { a := h.Audit["f1"]; a[11].Verb = "note" }},
		"effects long after a stop":       {"S18", func(h *history) { h.again(4, -3*time.Second, func(*effect) {}) }},
		"nobody takes over":               {"L5", func(h *history) { h.Takeovers[0].Took = 11 * time.Second }},
		"it never becomes as wanted":      {"L1", func(h *history) { h.Settled = 0 }},
		"it is not as wanted in the end":  {"L1", func(h *history) { h.Has["f1/thing/0"] = state{Value: "1", Disk: "10"} }},
		"what was to go is there":         {"L1", func(h *history) { h.Has["f1/thing/1"] = state{Value: "1", Disk: "10"} }},
		"it changes after it was in sync": {"L1", func(h *history) { h.again(4, 26*time.Second, func(*effect) {}) }},
		"a push that stays open":          {"L6", func(h *history) { h.Journal[0].Open = true }},
	} {
		h := sound()
		doctored.doctor(h)
		found := map[string]bool{}
		for _, v := range judge(h) {
			found[v.Property] = true
		}
		if !found[doctored.breaks] {
			t.Errorf("%s: %s was not found broken, only %v", name, doctored.breaks, slices.Sorted(maps.Keys(found)))
		}
	}
}

// TestAPushThatOutlivedItsPlugin: the one thing that nothing bounds is told
// apart: on class N what was on its way while the plugin stood still.
func TestAPushThatOutlivedItsPlugin(t *testing.T) {
	t.Parallel()
	for class, excused := range map[plugin.Guarantee]bool{plugin.Unguarded: true, plugin.Fenced: false} {
		h := sound()
		h.again(1, 6*time.Second, func(e *effect) { e.Class, e.Late = class, 2*longestEffect })
		if violations := judge(h); (len(violations) == 0) != excused {
			t.Errorf("class %s: %v", class, violations)
		}
	}
}
