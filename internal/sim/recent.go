package sim

import (
	"time"

	"lehr.dev/internal/annealing/enforcer"
)

// lookedAt asks how long ago production was looked at when a push was
// admitted: however long something waited, what was seen before counts no more
// (S1). What held a process up between the two, or set its clock, is no fault
// of Lehr's: plugins look again.
func (k look) lookedAt(requestTime time.Time) {
	const under, handed = 5 * time.Second, 10 * time.Second
	at, compared := k.Monitor.Compared(k.Asset, k.Effective, k.Plan)
	hold := enforcer.DefaultLimits().FactHold
	age := requestTime.Sub(at)
	if !compared || requestTime.Sub(k.heldUp) < under || !k.wrongUntil.Before(at.Add(-handed-hold)) {
		return
	}
	if age > hold+handed {
		k.wrong("S1", "push %s of %s was admitted by what was seen %s before, and that holds for %s", k.Push, k.Asset, age, hold)
	}
}
