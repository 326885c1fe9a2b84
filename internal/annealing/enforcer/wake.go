package enforcer

import (
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/ground/loop"
)

// wakeWaiters looks again at what waited for an asset: for its sync, or only
// for its facts.
func (e *Enforcer) wakeWaiters(id intent.AssetID, onlyForFacts bool) {
	for _, a := range e.waiters.take(id, onlyForFacts) {
		if e.assets[a.id] == a {
			e.soon(a, loop.Fresh)
		}
	}
}

// leaveWaiters takes an asset out of those that wait for others, or for answers.
func (e *Enforcer) leaveWaiters(a *asset) {
	if a.trouble == nil {
		return
	}
	e.waiters.remove(a)
	a.leaveQuestions()
}
