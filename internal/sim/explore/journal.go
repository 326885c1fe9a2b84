package explore

import "lehr.dev/internal/ground/intent"

// What follows mirrors internal/store/sqlite: each function is one transaction. A test
// holds it to a real store.

// verdict of a transaction: done, refused because of something, or without
// effect because the lease is not current.
type verdict struct {
	conflict bool
	waiting  intent.WaitingKind
}

// acquire raises the epoch and marks what is open as in doubt.
func (w *world) acquire(s *state, r int) {
	s.epoch++
	s.replicas[r] = replica{lease: s.epoch, view: s.read()}
	for i := range s.pushes {
		if s.pushes[i].row == open {
			s.pushes[i].row = doubt
		}
	}
}

// read is what a replica reads of the store.
func (s *state) read() view {
	return view{approvals: s.approvals, pins: s.pins, head: s.head, stopped: s.stopped}
}

// admit decides about one ask under a lease, and enters it into the journal.
// Two that are asked in one call see each other.
func (w *world) admit(s *state, lease uint8, by, asset int, k ask) verdict {
	if lease != s.epoch && !w.is(NoEpochAtAdmission) {
		return verdict{conflict: true}
	}
	if waiting := w.refusal(s, asset, k); waiting != "" {
		return verdict{waiting: waiting}
	}
	p := push{
		asset: uint8(asset) + 1, target: k.target, with: k.with, from: k.from,
		epoch: lease, by: uint8(by), row: open, run: fresh, marks: k.marks & (needsApproval | moved),
	}
	for i := range s.pushes {
		if s.pushes[i].asset == p.asset {
			s.pushes[i].older = min(s.pushes[i].older+1, slots)
		}
	}
	if !s.enter(p) {
		return verdict{waiting: intent.WaitTurn} // The world ends here.
	}
	if k.marks&needsApproval != 0 && !w.is(ApprovalStays) {
		s.approvals[asset] &^= w.approvedBy(s, asset, k)
	}
	return verdict{}
}

// refusal says why an ask is not admitted, in the order of the store.
func (w *world) refusal(s *state, asset int, k ask) intent.WaitingKind {
	if s.stopped != 0 && !w.is(NoStopAtAdmission) {
		return intent.WaitStop
	}
	if k.marks&stale != 0 && !w.is(NoRevision) || k.marks&expired != 0 && !w.is(NoValidUntil) {
		return intent.WaitStale
	}
	if waiting := s.openPush(asset); waiting != "" && !w.is(NoExclusion) {
		return waiting
	}
	for other := range assets {
		if waiting := s.openPush(other); k.quiet&(1<<other) != 0 && waiting != "" && !w.is(NoQuiet) {
			return waiting
		}
	}
	if w.InFlight > 0 && w.inUse(s) >= w.InFlight {
		return intent.WaitBudget
	}
	if k.marks&needsApproval != 0 && w.approvedBy(s, asset, k) == 0 {
		return intent.WaitApproval
	}
	return ""
}

// openPush says what to wait for while a push of the asset is open.
func (s *state) openPush(asset int) intent.WaitingKind {
	for _, p := range s.pushes {
		switch {
		case int(p.asset) != asset+1 || p.row == closed:
		case p.row == doubt:
			return intent.WaitSettling
		default:
			return intent.WaitTurn
		}
	}
	return ""
}

// inUse counts what the budget has given out.
func (w *world) inUse(s *state) (used uint8) {
	if w.is(NoBudget) {
		return 0
	}
	for _, p := range s.pushes {
		if p.row == open || p.row == doubt && !w.is(BudgetEndsInDoubt) {
			used++
		}
	}
	return used
}

// approvedBy is the approval that an ask would use.
func (w *world) approvedBy(s *state, asset int, k ask) plans {
	if w.is(ApprovalUnbound) {
		return s.approvals[asset]
	}
	return s.approvals[asset] & planTo(k.from, k.with)
}

// permitted: lease current, no stop, the push open under that lease and its
// content still the target's.
func (w *world) permitted(s *state, lease uint8, p push) bool {
	_, target := w.wanted(s, int(p.asset)-1)
	switch {
	case lease != s.epoch && !w.is(NoEpochAtPermit):
		return false
	case s.stopped != 0 && !w.is(NoStopAtPermit):
		return false
	case p.row == closed || p.epoch != lease || p.row == doubt && !w.is(NoDoubtAtPermit):
		return false
	}
	return target == p.with || w.is(NoTargetAtPermit)
}

// close ends a push in the journal; settled or not, one that has ended stays
// as it is.
func (s *state) close(lease uint8, slot int) verdict {
	if lease != s.epoch {
		return verdict{conflict: true}
	}
	s.pushes[slot].row = closed
	return verdict{}
}

// publish flips head to the next incarnation, and makes void the approvals of
// what it changes.
func (w *world) publish(s *state) {
	for asset := range assets {
		before, after := w.contentAt(s.head, asset), w.contentAt(s.head+1, asset)
		if before == after {
			continue
		}
		kept := plans(0)
		if after != nothing {
			for current := nothing; current <= foreign; current++ {
				kept |= planTo(current, after)
			}
		}
		s.owed[asset] &= kept
		if !w.is(ApprovalOutlives) {
			s.approvals[asset] &= kept
		}
	}
	s.head++
	s.bump()
}

func (s *state) setPin(asset, rank int, to pin) {
	s.pins[asset][rank] = to
	s.bump()
}

// setStop and resume: a stop that is there already changes nothing.
func (s *state) setStop() {
	if s.stopped == 0 {
		s.stopped = 1
		s.bump()
	}
}

func (s *state) resume() {
	s.stopped = 0
	s.bump()
}

// approve allows one push of one plan.
func (s *state) approve(asset int, plan plans) {
	s.approvals[asset] |= plan
	s.owed[asset] |= plan
	s.bump()
}
