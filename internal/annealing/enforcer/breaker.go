package enforcer

import (
	"time"
)

// breaker is how a plugin does as a whole. Once it is open nothing is asked of
// the plugin until a pause is over, and then one look at a time, until one is
// answered. Plugins have breakers of their own: no other is touched (L2).
type breaker struct {
	// failures in a row, and since when.
	failures int
	since    time.Time
	// until the next look is tried; zero: the breaker is closed.
	until  time.Time
	reason string
	// starts counts looks in a row that found the plugin starting.
	starts int
}

// patience is how many looks in a row may fail at a plugin that is up. It is more
// than it takes to halve a batch down to the one asset that breaks it.
const patience = 12

func (b *breaker) open() bool { return !b.until.IsZero() }

// answered closes the breaker.
func (b *breaker) answered() { *b = breaker{} }
