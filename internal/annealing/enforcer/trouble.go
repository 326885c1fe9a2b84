package enforcer

import (
	"time"

	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/ground/loop"
)

// trouble returns the asset's trouble, made when it had none.
func (e *Enforcer) trouble(a *asset) *trouble {
	if a.trouble == nil {
		a.trouble = &trouble{}
		e.troubled[a] = true
	}
	return a.trouble
}

// clearTrouble forgets the asset's trouble, unless something of it still matters.
func (e *Enforcer) clearTrouble(a *asset, now time.Time) {
	const memory = 10 * time.Minute
	if a.trouble == nil || a.push != nil || a.admitting {
		return
	}
	e.leaveWaiters(a)
	a.forgive()
	a.retry, a.share, a.difference, a.requirements = nil, 0, intent.Difference{}, requirements{}
	a.stopped = nil
	a.tried, a.ends, a.lined = intent.Digest{}, time.Time{}, time.Time{}
	if a.flips == 0 || now.Sub(a.flipped) > memory {
		a.trouble = nil
		if delete(e.troubled, a); len(e.troubled) == 0 {
			e.troubled = map[*asset]bool{} // The room that all of them took once is given back.
		}
	}
}

// forgive forgets what failed, so that the next look and the next push are as if
// they were the first. That its target is another store's stands.
func (a *asset) forgive() {
	if t := a.trouble; t != nil {
		t.failures, t.cut, t.vain, t.broken, t.version, t.apart, t.busy = 0, 0, 0, 0, "", time.Time{}, nil
		if t.retry != nil && t.retry.Kind != intent.WaitStop {
			t.retry = nil
		}
	}
}

// reconsider forgets what pushes by another version of the plugin taught.
func (a *asset) reconsider() {
	if t, version := a.trouble, a.kind.served.version(); t.version != "" && version != "" && t.version != version {
		a.forgive()
	}
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
