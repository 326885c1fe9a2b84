package sim

import (
	"math/rand/v2"
	"time"
)

// In runs with circles, two records come after each other, one at one incarnation and the
// other at a later one, so that what was enforced last of both is a circle that no intent ever
// had. Intent then drops both edges.

// Circle is the disturbance of runs with circles.
const Circle Kind = "of two records each was enforced after the other, and neither is to be any more"

var circleKinds = []weighed{{Circle, 60}, {Loosen, 10}}

// Circles reports whether such circles arise in runs of a seed.
func Circles(seed uint64) bool { return seed%108 == 37 }

// circles reports whether they do in this run.
func (l *Lab) circles() bool { return l.options.Definition == "" && Circles(l.options.Seed) }

// leftRecord and rightRecord are the two.
const leftRecord, rightRecord = "record/left", "record/right"

// pair puts the two records into the first intent.
func (l *Lab) pair() {
	if !l.circles() {
		return
	}
	l.first.Things = append(l.first.Things,
		Thing{ID: leftRecord, Kind: "command", Name: "left", Text: "l", Approval: true},
		Thing{ID: rightRecord, Kind: "command", Name: "right", Text: "r", Approval: true})
}

// circle enforces the left record after the right one; then, while the left one is held, the
// right one after the left one, which is found in sync so; and then has both change, without
// these edges. Somebody approves of all of it.
func (l *Lab) circle(d Disturbance, r *rand.Rand) {
	marked := r.IntN(3) > 0 // So that both plans need an approval in any case.
	if !l.savePair(d, "the left record comes after the right one", func(left, right *Thing) {
		for _, t := range []*Thing{left, right} {
			t.After, t.Mode, t.Turndown, t.Approval, t.Quorum = nil, "", false, marked, 0
		}
		left.After = []string{rightRecord}
		left.alter(r)
	}) {
		return
	}
	l.note(d.Kind, "sources")
	l.soonApproved(d)
	l.after(2*settling, func() {
		l.holdFor(leftRecord, 2*settling)
		l.after(time.Second, func() {
			l.savePair(d, "the right record comes after the left one, which is held", func(left, right *Thing) {
				left.After, right.After = nil, []string{leftRecord}
				left.alter(r)
			})
		})
	})
	l.after(4*settling, func() {
		l.savePair(d, "neither record comes after the other", func(left, right *Thing) {
			left.After, right.After = nil, nil
			left.alter(r)
			right.alter(r)
		})
		for n := range time.Duration(3) {
			l.after(n*settling, func() { l.soonApproved(d) })
		}
	})
}

// savePair edits the two records; false: one of them is not there.
func (l *Lab) savePair(d Disturbance, what string, edit func(left, right *Thing)) bool {
	next := l.good.clone()
	left, right := next.find(leftRecord), next.find(rightRecord)
	if left == nil || right == nil {
		return false
	}
	edit(left, right)
	l.save(d.Number, next, what)
	return true
}
