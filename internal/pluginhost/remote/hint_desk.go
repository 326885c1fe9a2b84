package remote

import (
	"time"

	pluginpb "lehr.dev/gen/lehr/plugin/v1"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/pluginhost/plugin"
)

// HintDesk does with the hints of a plugin what its caller does with those of a stream: it
// drops what is foreign or too much, and says how far hints are relied on. It is for callers
// whose plugins have no stream and a time of their own, as the simulator's. Its goroutines
// are the caller's.
type HintDesk struct {
	hub   hintHub
	asked askedAssets
	now   func() time.Time
}

// NewHintDesk returns one to which no plugin is connected.
func NewHintDesk(now func() time.Time) *HintDesk {
	return &HintDesk{asked: newAskedAssets(), now: now}
}

// Watch hands the hints about a partition to take until stop is called, first at once with
// how hints stand. take must return at once.
func (d *HintDesk) Watch(partition intent.PartitionID, take func(plugin.Hints)) (stop func()) {
	subscriber := &hintSubscriber{partition: partition, take: take}
	d.hub.add(subscriber)
	return func() { d.hub.remove(subscriber) }
}

// Connect begins anew with a process that was asked about nothing yet.
func (d *HintDesk) Connect() { d.asked = newAskedAssets() }

// Ask notes that the process is asked about assets.
func (d *HintDesk) Ask(partition intent.PartitionID, assets []intent.AssetID) {
	d.asked.add(partition, assets)
}

// Take hands on a message of the process; one without hints says that it watches.
func (d *HintDesk) Take(hints []*pluginpb.Hint) {
	byPartition, foreign := d.asked.sort(hints)
	d.hub.take(byPartition, foreign, d.now())
}

// Lose notes that what is hinted from now on is lost, until the next message.
func (d *HintDesk) Lose() { d.hub.lose() }

// Counts returns what became of all hints.
func (d *HintDesk) Counts() plugin.HintCounts { return d.hub.counts }

// Reliable reports whether hints are relied on now.
func (d *HintDesk) Reliable() bool { return d.hub.reliable }
