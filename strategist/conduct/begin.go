package conduct

import (
	"fmt"
	"slices"
	"strings"
	"time"

	intentpb "lehr.dev/gen/lehr/intent/v1"
	"lehr.dev/intent"
)

// idle: no run is open. What is there is found good in time, and a run begins when
// head has something new.
func (d *decider) idle() {
	if d.Said == nil {
		return
	}
	if d.run != nil {
		d.Verdicts = d.run.Progress.Verdicts // The last word on it.
	}
	if d.groundWork() {
		d.wakeAt(d.Now.Add(groundEvery))
	}
	behind := d.behind()
	order := d.started()
	if len(behind) == 0 || d.Head.Sequence == 0 {
		if d.run != nil {
			d.run.Progress.Waits, d.run.Progress.For = "", nil // What kept the next is over.
		}
		return
	}
	why := d.heldAsBad()
	if order == nil && why == "" {
		why = d.keptFrom()
	}
	if why != "" {
		if d.run != nil {
			d.run.Progress.Waits, d.run.Progress.For = why, behind
		}
		return
	}
	d.begin(behind, order)
	d.wakeAt(d.Now)
}

// behind are the assets of which head has other content than they follow.
func (d *decider) behind() (assets []intent.AssetID) {
	for i := range d.Assets {
		a := &d.Assets[i]
		if content, _ := a.content(); a.Selected && content != a.Head {
			assets = append(assets, a.ID)
		}
	}
	return assets
}

// started is the newest order to start a run that was not carried out.
func (d *decider) started() (found *intent.RolloutOrder) {
	for i := range d.Orders {
		// One of long ago, when there was nothing to start, is over.
		if o := &d.Orders[i]; o.Kind == intent.OrderStart && d.Now.Sub(o.At) < orderLasts {
			found = o
		}
	}
	return found
}

// orderLasts is how long an order to start waits for something to bring.
const orderLasts = time.Minute

// heldAsBad says why nobody may begin a run, until somebody forgives; empty: they may.
func (d *decider) heldAsBad() string {
	for i := range d.Assets {
		if a := &d.Assets[i]; a.Selected && a.bad(a.Head) {
			return fmt.Sprintf("%s has content of %s that was judged bad; publish other content, or say that it is not bad: lehr rollout forgive %s --reason WHY", d.Head, a.ID, d.Name)
		}
	}
	return ""
}

// keptFrom says why no run begins by itself; empty: it does.
func (d *decider) keptFrom() string {
	if why := d.heldAsBad(); why != "" {
		return why
	}
	if d.Said.Newer == intentpb.Rollout_NEWER_IS_HELD {
		return fmt.Sprintf("for a person to start it: lehr rollout start %s --reason WHY", d.Name)
	}
	if d.run != nil && d.run.State != intent.RolloutDone && d.run.State != intent.RolloutSuperseded && d.sameAsRun() {
		return fmt.Sprintf("run %d of the same content was ended; publish other content, or start it anew: lehr rollout start %s --reason WHY", d.run.Run, d.Name)
	}
	return ""
}

// sameAsRun reports whether head has of every asset what the last run brought.
func (d *decider) sameAsRun() bool {
	return !slices.ContainsFunc(d.Assets, func(a Asset) bool { return a.Selected && a.Goal != a.Head })
}

// begin a run to head.
func (d *decider) begin(behind []intent.AssetID, order *intent.RolloutOrder) {
	number, orders := uint64(1), uint64(0)
	if d.run != nil {
		number, orders = d.run.Run+1, d.run.Orders
	}
	if n := len(d.Orders); n > 0 {
		orders = max(orders, d.Orders[n-1].Number)
	}
	next := intent.Rollout{
		Partition: d.Partition, Name: d.Name, Run: number, State: intent.RolloutRunning, To: d.Head, Began: d.Now,
		By: d.holder(), Reason: "head has something new", Orders: orders,
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
	d.event(next.By, "begin", "to %s: %s", d.Head, count(len(behind), "asset differs", "assets differ"))
	if order != nil {
		return // A person said so.
	}
	var less []string
	if d.Loosened != nil {
		less = d.Loosened(behind)
	}
	if len(less) > 0 {
		// What came with its own guards loosened is not let go on by them (S23).
		d.run.State = intent.RolloutPaused
		d.event(next.By, "pause", "lehr.yaml asks less of it since this content came: %s", strings.Join(less, "; "))
	}
}
