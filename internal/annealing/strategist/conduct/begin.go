package conduct

import (
	"fmt"
	"slices"
	"strings"
	"time"

	intentpb "lehr.dev/gen/lehr/intent/v1"
	"lehr.dev/internal/ground/intent"
)

// idle: no run is open. What is there is found good in time, and a run begins when
// head has something new.
func (d *decider) idle() {
	if d.Spec == nil {
		return
	}
	if d.run != nil {
		d.Verdicts = d.run.Progress.Verdicts // The last word on it.
	}
	if d.groundWork() {
		d.wakeAt(d.Now.Add(groundEvery))
	}
	outdated := d.outdatedAssets()
	order := d.started()
	if len(outdated) == 0 || d.next.Sequence == 0 {
		if d.run != nil {
			reason, blockers := d.awaits()
			d.run.Progress.Wait(intent.CauseRollouts, reason, blockers) // What kept the next is over.
		}
		return
	}
	cause, reason := intent.CauseBad, d.heldAsBad()
	if order == nil && reason == "" {
		cause, reason = d.keptFrom()
	}
	if reason != "" {
		if d.run != nil {
			d.run.Progress.Wait(cause, reason, outdated)
		}
		return
	}
	d.begin(outdated, order)
	d.wakeAt(d.Now)
}

// outdatedAssets are the assets that have other content to be brought than they follow.
func (d *decider) outdatedAssets() (assets []intent.AssetID) {
	for i := range d.Assets {
		a := &d.Assets[i]
		content, _ := a.content()
		if next := d.brings(a); a.Selected && content != next && !next.IsZero() && !d.older(a) {
			assets = append(assets, a.ID)
		}
	}
	return assets
}

// started is the newest order to start a run that was not carried out.
func (d *decider) started() (newest *intent.RolloutOrder) {
	for i := range d.Orders {
		// One of long ago, when there was nothing to start, is over.
		if o := &d.Orders[i]; o.Kind == intent.OrderStart && d.Now.Sub(o.At) < orderLasts {
			newest = o
		}
	}
	return newest
}

// orderLasts is how long an order to start waits for something to bring.
const orderLasts = time.Minute

// heldAsBad says why nobody may begin a run, until somebody forgives; empty: they may.
func (d *decider) heldAsBad() string {
	for i := range d.Assets {
		if a := &d.Assets[i]; a.Selected && a.bad(d.brings(a)) {
			return fmt.Sprintf("%s has content of %s that was judged bad; publish other content, or say that it is not bad: lehr rollout forgive %s --reason WHY", d.next, a.ID, d.Name)
		}
	}
	return ""
}

// keptFrom says why no run begins by itself; empty: it does.
func (d *decider) keptFrom() (intent.RolloutCause, string) {
	if reason := d.heldAsBad(); reason != "" {
		return intent.CauseBad, reason
	}
	if d.Spec.Newer == intentpb.Rollout_NEWER_IS_HELD {
		return intent.CausePerson, fmt.Sprintf("for a person to start it: lehr rollout start %s --reason WHY", d.Name)
	}
	if d.run != nil && d.run.State != intent.RolloutDone && d.run.State != intent.RolloutSuperseded && d.sameAsRun() {
		return intent.CauseEnded, fmt.Sprintf("run %d of the same content was ended; publish other content, or start it anew: lehr rollout start %s --reason WHY", d.run.Run, d.Name)
	}
	return "", ""
}

// sameAsRun reports whether every asset is to be what the last run brought.
func (d *decider) sameAsRun() bool {
	return !slices.ContainsFunc(d.Assets, func(a Asset) bool { return a.Selected && a.Goal != d.brings(&a) })
}

// begin a run to what is brought next.
func (d *decider) begin(outdated []intent.AssetID, order *intent.RolloutOrder) {
	number, orders := uint64(1), uint64(0)
	if d.run != nil {
		number, orders = d.run.Run+1, d.run.Orders
	}
	if n := len(d.Orders); n > 0 {
		orders = max(orders, d.Orders[n-1].Number)
	}
	next := intent.Rollout{
		Partition: d.Partition, Name: d.Name, Run: number, State: intent.RolloutRunning, To: d.next, Began: d.Now,
		By: d.holder(), Reason: "head has something new", Orders: orders,
	}
	if len(d.Before) > 0 {
		next.Reason = "what it comes after went through"
	}
	for _, b := range d.Before {
		next.Accepted = append(next.Accepted, reachedBy(b.Name))
	}
	if order != nil {
		next.By, next.Reason = order.By, order.Reason
	}
	for i := range d.Assets {
		if pin := d.Assets[i].Pin; pin.Incarnation.Sequence > next.From.Sequence {
			next.From = pin.Incarnation
		}
	}
	d.run = &next
	d.event(next.By, "begin", "to %s: %s", d.next, count(len(outdated), "asset differs", "assets differ"))
	if order != nil {
		return // A person said so.
	}
	var less []string
	if d.Loosened != nil {
		less = d.Loosened(d.next, outdated)
	}
	if len(less) > 0 {
		// What came with its own guards loosened is not let go on by them (S23).
		d.run.State = intent.RolloutPaused
		d.event(next.By, "pause", "lehr.yaml asks less of it since this content came: %s", strings.Join(less, "; "))
	}
}
