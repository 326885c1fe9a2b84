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

// retry does what a person asks for: it tries an asset now, and its plugin.
func (e *Enforcer) retry(id intent.AssetID) {
	a := e.assets[id]
	if a == nil {
		return
	}
	a.forgive()
	a.calm, a.reported = 0, 0
	if s := a.kind.served; s != nil && s.open() {
		s.until = e.now()
	}
	e.soon(a, loop.Fresh)
}
