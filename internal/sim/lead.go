package sim

import "time"

// failover is how long it may take until a process that lives, and is alone,
// acts for the partition: it looks every few seconds whether it does, and is
// asked every ten; after failures of the store it waits for half a minute.
const failover = 45 * time.Second

// leads asks whether whoever took the lease last still lives, once the only
// process could have taken it (L5).
func (l *Lab) leads() {
	if l.fleet() {
		l.led()
		return
	}
	alone := l.alone()
	switch {
	case alone == nil || alone == l.leader:
		l.gone = nil
	case l.gone != l.leader:
		l.gone, l.goneSince = l.leader, l.Now()
	case l.Now().Sub(l.goneSince) > failover:
		l.wrong("L5", "%s has been alone for %s, and the lease is that of %s, which is gone", alone.Name(), l.Now().Sub(l.goneSince), l.gone.Name())
	}
}

// alone is the only process, if nothing is in its way; else nil.
func (l *Lab) alone() (alone *Replica) {
	for _, r := range l.replicas {
		if !r.Alive() {
			continue
		}
		if alone != nil || r.Paused() || r.Client == nil || r.told {
			return nil
		}
		alone = r
	}
	s := l.store
	if s.left > 0 || s.full.After(l.Now()) || l.heldUp.After(l.Now()) {
		return nil
	}
	return alone
}
