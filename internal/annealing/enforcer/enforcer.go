// Package enforcer keeps production as intent says, one asset at a time. An asset that is
// due goes through: target (view.target), look (observer), requirements (reader), facts,
// decide, admit (Enforcer.pass), push (Enforcer.startPush) and the next look;
// docs/design/the-enforcer.md tells the ten steps and what each part owns. A pass ends with
// a report and never waits for a push. Passes are level-triggered: they read facts and
// remember no events. The enforcer never touches production (plugins do) and never decides
// what intent is. App runs one per partition, under that partition's lease.
package enforcer

import (
	"time"

	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/ground/loop"
	"lehr.dev/internal/store"
)

// Enforcer enforces one partition.
type Enforcer struct {
	Options
	lease store.Lease
	// inbox holds steps that other goroutines hand to the owner of the state.
	inbox *loop.Inbox[func()]
	read  *reader
	// tracing writes the traces of pushes.
	tracing tracing
	// memos are what plugins have Lehr remember.
	memos *memoBook

	// What follows is owned by the goroutine in Run.
	view   view
	assets map[intent.AssetID]*asset
	queue  loop.Queue[*asset]
	// observer asks the plugins how assets are.
	observer observer
	// troubled are the assets that are not quietly in sync.
	troubled map[*asset]bool
	// retries says how long to wait after failures.
	retries retries
	// waiters are the assets that wait for others.
	waiters waiters
	// reporter completes the reports of passes.
	reporter reporter
	// neighbours answers what checks ask of an asset's neighbours.
	neighbours neighbours
	// incarnations counts where contents are to be looked for, and orphans are the assets out
	// of intent with an enforced record.
	incarnations incarnationUse
	orphans      orphans
	// latest is the latest time that the clock told the owner.
	latest    time.Time
	inquiries inquiries
	// outputs writes what assets tell that others need.
	outputs outputWriter
	// afterPushes has protections asked after pushes.
	afterPushes afterPushes
	// pushLimits says who may be pushed now; dispatchPending: those that wait for a place
	// are looked at again after a pause.
	pushLimits      pushLimits
	dispatchPending bool
	pushes          uint64
	failed          error
	// viewErr says why the view could not be read anew; catchingUp: it is
	// tried again soon.
	viewErr    error
	catchingUp bool

	admissions loop.Batch[admission]
	closings   loop.Batch[closing]
	enforced   loop.Batch[sighting]
}

// find returns the asset of that name; nil: it is not in the enforcer's care.
func (e *Enforcer) find(id intent.AssetID) *asset { return e.assets[id] }
