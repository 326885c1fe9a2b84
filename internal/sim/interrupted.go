package sim

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/sim/world"
)

// cutShort kills the process between the staging of an edit and its publication,
// and takes the edit back: what was staged belongs to no incarnation (S6).
func (l *Lab) cutShort(d Disturbance, r *rand.Rand) {
	if l.options.Definition != "" {
		return
	}
	l.note(d.Kind, "sources")
	served := l.good.clone()
	next := served.clone()
	stray := fmt.Sprintf("record/stray%d", d.Number)
	next.Things = append(next.Things, Thing{ID: stray, Kind: "command", Name: stray, Text: "stray"})
	kill := Disturbance{Number: d.Number, Kind: KillAtPoint, Point: "publish"}
	isKill := func(a armed) bool { return a.d == kill }
	l.armed = append(l.armed, armed{kill, 0})
	l.save(d.Number, next, stray+" is new")
	l.people.Go("cut off", func() {
		cut := l.until(15*time.Second, func() bool { return !slices.ContainsFunc(l.armed, isKill) })
		l.armed = slices.DeleteFunc(l.armed, isKill)
		if l.healing {
			return
		}
		if t := served.wanting(r, "balancer", "job"); cut && t != nil {
			l.mark("a publication was cut off, and another one came")
			l.save(d.Number, served, t.alter(r)+", and "+stray+" is not")
		}
	})
}

// undone takes back a change in an edit that is held for something else: for as
// long as the candidate is shown, it needs content that no incarnation has any
// more (S17).
func (l *Lab) undone(d Disturbance, r *rand.Rand) {
	once := l.good.clone()
	t := once.wanting(r, "balancer")
	if t == nil || l.options.Definition != "" {
		return
	}
	l.note(d.Kind, "sources")
	id := t.ID
	t.Text = fmt.Sprintf("once%d.", d.Number)
	was := *t
	says := func(text string) func() bool {
		return func() bool {
			t := l.good.find(id)
			return t != nil && t.Text == text
		}
	}
	l.save(d.Number, once, id+" is something once")
	l.people.Go("undone", func() {
		if !l.until(15*time.Second, says(was.Text)) {
			return
		}
		now := l.good.clone()
		now.find(id).Text = "now."
		l.save(d.Number, now, id+" is something else")
		if !l.until(15*time.Second, says("now.")) {
			return
		}
		undo := l.good.clone()
		*undo.find(id) = was
		undo.dropMuch()
		l.whileHeld(d, undo, id+" is what it was, and much is left out", func(intent.Digest) {
			l.mark("an undo is held")
		})
		l.goOn(d)
	})
}

// overdue has a push go on until its incarnation would be collected, were it
// not for the push (S17).
func (l *Lab) overdue(d Disturbance, r *rand.Rand) {
	next := l.good.clone()
	t := next.wanting(r, "job", "command")
	if t == nil || t.Approval || !l.brief() {
		return
	}
	l.note(d.Kind, "production")
	l.tell("%s: %s", d, t.ID)
	id := intent.AssetID(t.ID)
	lasts := l.collecting().Keep.Period + 2*time.Minute
	l.World.Trouble(world.Trouble{Kind: world.PushHang, Asset: id, For: lasts, Seed: d.Seed &^ 1}) // It asks for permits.
	l.save(d.Number, next, t.alter(r))
	l.whilePushed(id, func() {
		l.mark("a push that outlives its incarnation")
		for n := range 5 {
			next := l.good.clone()
			other := next.wanting(r, "balancer")
			if other == nil || l.healing {
				return
			}
			other.Text = fmt.Sprintf("later%d.", n)
			l.save(d.Number, next, "something else")
			if l.people.Wait(l.ctx, 10*time.Second, nil) != nil {
				return
			}
		}
	})
}
