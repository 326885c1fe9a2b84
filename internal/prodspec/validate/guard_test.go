package validate_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"
	"pgregory.net/rapid"

	intentpb "lehr.dev/gen/lehr/intent/v1"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/prodspec/validate"
	"lehr.dev/internal/store"
)

func shrinkPolicy(removed, changed, floor uint32, period time.Duration) *intentpb.Policy {
	return &intentpb.Policy{Shrink: &intentpb.ShrinkGuard{
		MaxRemovedPercent: removed, MaxChangedPercent: changed, Floor: floor, Period: durationpb.New(period),
	}}
}

// policyContent is the content of a policy asset.
func policyContent() *intentpb.Policy {
	return &intentpb.Policy{Mode: intentpb.EnforcementMode_ENFORCEMENT_MODE_OBSERVE}
}

func number(i int) intent.AssetID { return intent.AssetID(fmt.Sprintf("a%04d", i)) }

// many entries, made of one template so that large partitions are cheap.
func many(t testing.TB, from, to int, text string) []store.Entry {
	template := plain(t, "template", text)
	var entries []store.Entry
	for i := from; i < to; i++ {
		e := template
		e.Asset, e.Member.Asset, e.Body = number(i), number(i), nil
		entries = append(entries, e)
	}
	return entries
}

func removedMany(from, to int) (entries []store.Entry) {
	for i := from; i < to; i++ {
		entries = append(entries, removed(number(i)))
	}
	return entries
}

func TestShrinkGuard(t *testing.T) {
	day := 24 * time.Hour
	tests := []struct {
		name         string
		size         int
		enforced     int // the first so many
		head, policy *intentpb.Policy
		delta        []store.Entry
		held         bool
		says         []string
	}{
		{name: "within the limit", size: 100, delta: removedMany(0, 20)},
		{name: "beyond the limit", size: 100, delta: removedMany(0, 21), held: true,
			says: []string{"21 of the 100 assets removed within 24h (21.0 %); at most 20 %", "up to 3 always", "a0000, a0001, a0002, a0003, a0004, and 16 more"}},
		{name: "up to the floor", size: 5, delta: removedMany(0, 3)},
		{name: "beyond the floor", size: 5, delta: removedMany(0, 4), held: true, says: []string{"4 of the 5 assets"}},
		{name: "nothing remains, under the floor", size: 2, delta: removedMany(0, 2), held: true, says: []string{"all of the 2 assets removed", "nothing remains"}},
		{name: "nothing remains of what was there", size: 2, delta: append(removedMany(0, 2), many(t, 10, 20, "")...), held: true, says: []string{"nothing remains"}},
		{name: "only the policy remains", size: 2, delta: append(removedMany(0, 2), entry(t, intent.PolicyAsset, policyContent())), held: true, says: []string{"nothing remains"}},
		{name: "most of the enforced ones", size: 100, enforced: 10, delta: removedMany(0, 5), held: true, says: []string{"5 of the 10 enforced assets removed within 24h (50.0 %)"}},
		{name: "all of the enforced ones, under the floor", size: 100, enforced: 2, delta: removedMany(0, 2), held: true, says: []string{"all of the 2 enforced assets"}},
		{name: "none of the enforced ones", size: 100, enforced: 10, delta: removedMany(50, 60)},
		{name: "many that were not enforced", size: 100, enforced: 10, delta: removedMany(50, 90), held: true, says: []string{"40 of the 100 assets"}},
		{name: "the candidate loosens its guard", size: 100, head: shrinkPolicy(10, 100, 3, day), policy: shrinkPolicy(100, 100, 1000, time.Hour), delta: removedMany(0, 11), held: true, says: []string{"at most 10 %", "up to 3 always"}},
		{name: "the candidate shortens the period", size: 100, head: shrinkPolicy(10, 100, 3, day), policy: shrinkPolicy(10, 100, 3, time.Second), delta: removedMany(0, 11), held: true, says: []string{"within 24h"}},
		{name: "the candidate tightens its guard", size: 100, head: shrinkPolicy(100, 100, 3, day), policy: shrinkPolicy(5, 100, 0, day), delta: removedMany(0, 6), held: true, says: []string{"at most 5 %"}},
		{name: "a policy that allows all but everything", size: 100, head: shrinkPolicy(100, 100, 0, day), policy: shrinkPolicy(100, 100, 0, day), delta: removedMany(0, 99)},
		{name: "a policy that allows all, and nothing remains", size: 100, head: shrinkPolicy(100, 100, 0, day), policy: shrinkPolicy(100, 100, 0, day), delta: removedMany(0, 100), held: true},
		{name: "no removal is allowed", size: 100, head: shrinkPolicy(0, 100, 0, day), policy: shrinkPolicy(0, 100, 0, day), delta: removedMany(0, 1), held: true},
		{name: "no removal of enforced ones is allowed", size: 100, enforced: 50, head: shrinkPolicy(0, 100, 0, day), policy: shrinkPolicy(0, 100, 0, day), delta: removedMany(0, 1), held: true, says: []string{"1 of the 50 enforced assets removed within 24h (2.0 %); at most 0 %"}},
		{name: "removal of what is not there", size: 100, delta: removedMany(200, 300)},
		{name: "growth", size: 100, delta: many(t, 100, 900, "")},
		{name: "all changed, by default", size: 100, delta: many(t, 0, 100, "new")},
		{name: "too much changed", size: 100, head: shrinkPolicy(20, 30, 3, day), policy: shrinkPolicy(20, 30, 3, day), delta: many(t, 0, 31, "new"), held: true, says: []string{"31 of the 100 assets changed", "at most 30 %"}},
		{name: "just not too much changed", size: 100, head: shrinkPolicy(20, 30, 3, day), policy: shrinkPolicy(20, 30, 3, day), delta: many(t, 0, 30, "new")},
		{name: "tenfold growth", size: 100, delta: many(t, 100, 1000, ""), held: true, says: []string{"from 100 assets to 1000 within 24h; 1000 or more are held"}},
		{name: "just not tenfold growth", size: 100, delta: many(t, 100, 999, "")},
		{name: "growth of a few", size: 5, delta: many(t, 5, 999, "")},
		{name: "growth of a few beyond measure", size: 5, delta: many(t, 5, 1000, ""), held: true, says: []string{"from 5 assets to 1000 within 24h; 1000 or more are held"}},
		{name: "growth of none beyond measure", size: 0, delta: many(t, 0, 1000, ""), held: true, says: []string{"from 0 assets to 1000"}},
		{name: "growth by other means", size: 100, delta: append(removedMany(0, 10), many(t, 100, 1010, "")...), held: true, says: []string{"from 100 assets to 1000"}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			w := newWorld(t)
			w.publish(test.head, nil, many(t, 0, test.size, "")...)
			for i := range test.enforced {
				w.enforced[number(i)] = true
			}
			w.now = w.now.Add(time.Minute)
			got := w.judge(test.policy, false, test.delta...)
			if got.Held != test.held || got.Rejected {
				t.Fatalf("held %v, want %v; %+v", got.Held, test.held, got)
			}
			if !test.held {
				return
			}
			for _, says := range test.says {
				told := got.Findings[0]
				if !strings.Contains(told.Message, says) {
					t.Errorf("%q lacks %q", told.Message, says)
				}
				if !strings.Contains(told.Hint, "lehr approve --candidate shop@~") || told.Severity != intent.Holding {
					t.Errorf("finding %+v", told)
				}
			}
			acknowledged := w.judge(test.policy, true, test.delta...)
			if acknowledged.Held || acknowledged.Rejected || acknowledged.Labels[validate.AcknowledgedLabel] == "" {
				t.Errorf("acknowledged, and yet %+v", acknowledged)
			}
			if len(acknowledged.Findings) == 0 || acknowledged.Findings[0].Severity != intent.Warning {
				t.Errorf("what was acknowledged is not told: %+v", acknowledged.Findings)
			}
		})
	}
}

func TestFirstIncarnationPasses(t *testing.T) {
	w := newWorld(t)
	if got := w.judge(nil, false, many(t, 0, 5000, "")...); got.Held || got.Rejected {
		t.Errorf("%+v", got)
	}
}

// The policy asset is always there; it is not what remains.
func TestPolicyIsNotCounted(t *testing.T) {
	w := newWorld(t)
	policy := entry(t, intent.PolicyAsset, policyContent())
	w.publish(nil, nil, append(many(t, 0, 1, ""), policy)...)
	finding(t, w.judge(nil, false, removedMany(0, 1)...), "shrink", "all of the 1 assets removed within 24h, nothing remains: a0000")
}

// An acknowledgement lets guards through, not errors.
func TestAcknowledgedErrorsStayErrors(t *testing.T) {
	w := newWorld(t)
	w.publish(nil, nil, plain(t, "a", ""), entry(t, "b", job("b"), dependsOn("a")))
	if got := w.judge(nil, true, removed("a")); !got.Rejected || got.Held {
		t.Errorf("%+v", got)
	}
}

// One percent a step: held when the sum is too much (S23), and again allowed
// when the period has passed.
func TestBoilingFrog(t *testing.T) {
	w := newWorld(t)
	w.publish(nil, nil, many(t, 0, 1000, "")...)
	w.now = w.now.Add(time.Hour)
	gone := 0
	for range 100 {
		delta := removedMany(gone, gone+10)
		if got := w.judge(nil, false, delta...); got.Held {
			finding(t, got, "shrink", "210 of the 1000 assets removed")
			break
		}
		w.publish(nil, nil, delta...)
		gone += 10
		w.now = w.now.Add(time.Minute)
	}
	if gone != 200 {
		t.Errorf("%d of 1000 went within a day", gone)
	}
	w.now = w.now.Add(24 * time.Hour)
	if got := w.judge(nil, false, removedMany(gone, gone+10)...); got.Held {
		t.Errorf("held a day later: %+v", got)
	}
}

// Assets that came and went within the period count too.
func TestGrowthDoesNotHideRemovals(t *testing.T) {
	w := newWorld(t)
	w.publish(nil, nil, many(t, 0, 1, "")...)
	w.now = w.now.Add(time.Minute)
	w.publish(nil, nil, many(t, 1, 100, "")...)
	for i := range 30 {
		w.now = w.now.Add(time.Minute)
		delta := removedMany(99-i, 100-i)
		if got := w.judge(nil, false, delta...); got.Held {
			finding(t, got, "shrink", "21 of the 100 assets")
			return
		}
		w.publish(nil, nil, delta...)
	}
	t.Error("30 of 100 assets went one by one")
}

// TestGrowthAddsUp over the period, and is counted anew after it, or after somebody
// let it through.
func TestGrowthAddsUp(t *testing.T) {
	w := newWorld(t)
	w.publish(nil, nil, many(t, 0, 200, "")...)
	for size := 200; size < 1900; size += 100 {
		w.now = w.now.Add(time.Minute)
		delta := many(t, size, size+100, "")
		if got := w.judge(nil, false, delta...); got.Held {
			t.Fatalf("%d assets are held: %+v", size+100, got)
		}
		w.publish(nil, nil, delta...)
	}
	w.now = w.now.Add(time.Minute)
	delta := many(t, 1900, 2000, "")
	finding(t, w.judge(nil, false, delta...), "growth", "from 200 assets to 2000 within 24h")
	if got := w.judge(nil, false, many(t, 0, 10, "new")...); got.Held {
		t.Errorf("what adds nothing is held: %+v", got)
	}
	w.publish(nil, w.judge(nil, true, delta...).Labels, delta...)
	w.now = w.now.Add(time.Minute)
	if got := w.judge(nil, false, many(t, 2000, 3000, "")...); got.Held {
		t.Errorf("it counts from before it was let through: %+v", got)
	}
	w.now = w.now.Add(25 * time.Hour)
	if got := w.judge(nil, false, many(t, 2000, 9000, "")...); got.Held {
		t.Errorf("it counts from before the period: %+v", got)
	}
}

// After an acknowledgement counting starts again; a candidate that removes
// nothing is never held for what others removed (L3).
func TestAfterAnAcknowledgement(t *testing.T) {
	w := newWorld(t)
	w.publish(nil, nil, many(t, 0, 100, "")...)
	w.now = w.now.Add(time.Minute)
	half := removedMany(0, 50)
	w.publish(nil, w.judge(nil, true, half...).Labels, half...)
	w.now = w.now.Add(time.Minute)
	if got := w.judge(nil, false, removedMany(50, 60)...); got.Held {
		t.Errorf("10 of the 50 left: %+v", got)
	}
	if got := w.judge(nil, false, removedMany(50, 61)...); !got.Held {
		t.Errorf("11 of the 50 left: %+v", got)
	}
	w.publish(nil, nil, removedMany(50, 90)...) // by other means
	if got := w.judge(nil, false, plain(t, "new", "")); got.Held {
		t.Errorf("a candidate that only adds: %+v", got)
	}
	if got := w.judge(nil, false, many(t, 60, 90, "")...); got.Held {
		t.Errorf("a candidate that brings them back: %+v", got)
	}
}

// Removed and brought back is not removed.
func TestBroughtBack(t *testing.T) {
	w := newWorld(t)
	w.publish(nil, nil, many(t, 0, 100, "")...)
	w.now = w.now.Add(time.Minute)
	w.publish(nil, nil, removedMany(0, 20)...)
	w.publish(nil, nil, many(t, 0, 20, "")...)
	if got := w.judge(nil, false, removedMany(30, 50)...); got.Held {
		t.Errorf("%+v", got)
	}
}

// What went is found behind many quiet incarnations, and also when the one
// that removed it is not kept any more.
func TestLongHistory(t *testing.T) {
	w := newWorld(t)
	w.publish(nil, nil, many(t, 0, 100, "")...)
	w.now = w.now.Add(time.Minute)
	w.publish(nil, nil, removedMany(0, 10)...)
	w.publish(nil, nil, removedMany(10, 15)...)
	for i := range 250 {
		w.publish(nil, nil, many(t, 50, 51, fmt.Sprint(i))...)
	}
	w.collected = map[intent.Sequence]bool{2: true, 3: true}
	finding(t, w.judge(nil, false, removedMany(60, 66)...), "shrink", "21 of the 100 assets")
	if got := w.judge(nil, false, removedMany(60, 65)...); got.Held {
		t.Errorf("%+v", got)
	}
}

// Old records of assets that left long ago do not water down the guard, nor
// do assets that are not enforced.
func TestOrphansDoNotCount(t *testing.T) {
	w := newWorld(t)
	for i := range 520 {
		w.enforced[number(i)] = true
	}
	w.publish(nil, nil, many(t, 500, 600, "")...) // 20 are enforced, 80 are not
	w.now = w.now.Add(time.Minute)
	finding(t, w.judge(nil, false, removedMany(500, 505)...), "shrink", "5 of the 20 enforced assets removed")
	if got := w.judge(nil, false, removedMany(500, 504)...); got.Held {
		t.Errorf("4 of 20: %+v", got)
	}
	w.publish(nil, map[string]string{validate.AcknowledgedLabel: "x"}, removedMany(500, 518)...)
	finding(t, w.judge(nil, false, removedMany(518, 520)...), "shrink", "all of the 2 enforced assets", "nothing remains")
}

// What was turned down leaves nothing to lose, and leaves intent unhindered.
func TestTurnedDownDoesNotCount(t *testing.T) {
	w := newWorld(t)
	for i := range 10 {
		w.enforced[number(i)] = true
	}
	w.publish(nil, nil, many(t, 0, 10, "")...)
	w.now = w.now.Add(time.Minute)
	finding(t, w.judge(nil, false, removedMany(0, 5)...), "shrink", "5 of the 10 enforced assets removed")
	for i := range 5 {
		w.absent[number(i)] = true
	}
	if got := w.judge(nil, false, removedMany(0, 5)...); got.Held {
		t.Errorf("%+v", got)
	}
	finding(t, w.judge(nil, false, removedMany(0, 10)...), "shrink", "all of the 5 enforced assets", "nothing remains")
}

// What a judgement reads follows the change, not the partition or its history.
func TestGuardCostFollowsTheChange(t *testing.T) {
	w := newWorld(t)
	w.publish(nil, nil, many(t, 0, 5000, "")...)
	for i := range 150 {
		w.now = w.now.Add(time.Minute)
		w.publish(nil, nil, many(t, i, i+1, "changed")...)
	}
	w.reads = 0
	w.judge(nil, false, removed(number(7)))
	if w.reads > 20 {
		t.Errorf("%d reads for one removal after quiet changes", w.reads)
	}
}

// Whatever is removed, added back or acknowledged, in whatever steps: what
// passes without a person never adds up to more than the limit within any
// period.
func TestNoSequenceEscapes(t *testing.T) {
	const size, percent, floor = 40, 20, 3
	period := time.Hour
	policy := shrinkPolicy(percent, 100, floor, period)
	rapid.Check(t, func(rt *rapid.T) {
		w := newWorld(t)
		w.publish(policy, nil, many(t, 0, size, "")...)
		there := map[int]bool{}
		for i := range size {
			there[i] = true
			if rapid.Bool().Draw(rt, "enforced") {
				w.enforced[number(i)] = true
			}
		}
		type loss struct {
			asset int
			at    time.Time
		}
		var losses []loss
		for range rapid.IntRange(1, 25).Draw(rt, "steps") {
			w.now = w.now.Add(time.Duration(rapid.IntRange(1, 40).Draw(rt, "minutes")) * time.Minute)
			var delta []store.Entry
			var gone []int
			for _, i := range rapid.SliceOfNDistinct(rapid.IntRange(0, size-1), 1, 8, rapid.ID).Draw(rt, "assets") {
				if there[i] {
					delta, gone = append(delta, removed(number(i))), append(gone, i)
				} else if rapid.Bool().Draw(rt, "bring back") {
					delta = append(delta, many(t, i, i+1, "")...)
				}
			}
			if w.judge(policy, false, delta...).Held {
				continue
			}
			for _, e := range delta {
				var i int
				fmt.Sscanf(string(e.Asset), "a%d", &i)
				there[i] = !e.Removed
			}
			for _, i := range gone {
				losses = append(losses, loss{i, w.now})
			}
			w.publish(policy, nil, delta...)

			// The oracle: distinct assets lost within the period and still gone.
			lost := map[int]bool{}
			for _, l := range losses {
				if l.at.After(w.now.Add(-period)) && !there[l.asset] {
					lost[l.asset] = true
				}
			}
			if len(gone) > 0 && len(lost) > max(floor, percent*size/100) {
				rt.Fatalf("%d of %d assets went within %v", len(lost), size, period)
			}
			left := 0
			for _, is := range there {
				if is {
					left++
				}
			}
			if left == 0 {
				rt.Fatal("nothing remains")
			}
		}
	})
}
