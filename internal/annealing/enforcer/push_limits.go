package enforcer

import (
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/store"
)

// pushLimits says who may be pushed now: it counts the pushes in flight of each budget,
// keeps who waits for a place, which assets count as unhealthy, and what rate limits count.
// It only holds state: the enforcer passes it values and the time, and does what it
// returns. The store holds the budgets themselves; this spares asking it in vain.
type pushLimits struct {
	// queues by budget key; queuedIn is the one in which an asset waits.
	queues   map[string]*budgetQueue
	queuedIn map[*asset]*budgetQueue
	health   healthBudgets
	rates    rateWindows
	// pushes in flight at once by one plugin; the partition has twice as many.
	pushes int
	// beside are the pushes that others have in flight (Options.Beside).
	beside []store.OpenPush
	// find returns the asset of that name in the enforcer's care; nil: there is none.
	find func(intent.AssetID) *asset
}

func newPushLimits(options Options, find func(intent.AssetID) *asset) pushLimits {
	return pushLimits{
		queues: map[string]*budgetQueue{}, queuedIn: map[*asset]*budgetQueue{},
		health: newHealthBudgets(freshHealth * options.Limits.Sweep), rates: newRateWindows(),
		pushes: options.Limits.Pushes, beside: options.Beside, find: find,
	}
}

// release gives an asset's places back.
func (p *pushLimits) release(a *asset, keys []string) {
	for _, key := range keys {
		if l := p.queues[key]; l != nil && l.used > 0 {
			l.used--
			delete(l.holders, a)
		}
	}
}

// leaveQueue takes an asset out of the queue in which it waits.
func (p *pushLimits) leaveQueue(a *asset) {
	p.queuedIn[a].waiting.Remove(a)
	delete(p.queuedIn, a)
}
