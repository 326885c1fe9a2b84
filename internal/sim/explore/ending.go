package explore

// close takes up the reply of a push.
func (k *walk) close(slot int) {
	p := k.from.pushes[slot]
	r, ok := k.owner(p)
	if !ok || p.run != ended || p.row == closed {
		return
	}
	next := k.from
	label := k.about("closes the push of", slot)
	label.Replica = int8(r) + 1
	if next.close(p.epoch, slot).conflict {
		next.lose(r)
		label.Verb = "is told that its lease is lost, closing the push of"
	} else {
		next.pushes[slot].run = over
	}
	k.step(label, next, fair, "")
}

// settle lets go of a push of which no reply will come, once it can no longer
// be running.
func (k *walk) settle(slot int) {
	p := k.from.pushes[slot]
	r := k.from.holder()
	if r < 0 || k.is(NeverSettles) || p.row == closed || p.epoch == k.from.epoch && p.run != over || !k.cannotRun(p) {
		return
	}
	next := k.from
	next.close(next.epoch, slot)
	next.replicas[r].facts[p.asset-1] = fact{}
	label := k.about("settles the push of", slot)
	label.Replica = int8(r) + 1
	k.step(label, next, fair, "")
}

// cannotRun: the plugin is gone, or permit and lock delay have passed. Time is
// no part of the model, but its order is: before a lock delay has passed,
// permits given before it end and effects under them land.
func (k *walk) cannotRun(p push) bool {
	switch {
	case k.is(NoLockDelay):
		return true
	case p.late&afterLoss != 0:
		return true // Its permit is younger than the lock delay.
	case k.is(NoEffectDelay) && p.run == effect:
		return true
	}
	for _, other := range k.from.pushes {
		if other.copied != 0 && other.copyOf(p) && other.mayRun() {
			return false
		}
	}
	return !p.mayRun()
}

func (p push) copyOf(q push) bool {
	return p.asset == q.asset && p.epoch == q.epoch && p.older == q.older
}

// deliverAgain puts a message on the wire a second time.
func (k *walk) deliverAgain(slot int) {
	p := k.from.pushes[slot]
	if k.from.left.Duplicates == 0 || !p.running() {
		return
	}
	next := k.from
	next.left.Duplicates--
	p.copied, p.run, p.row = 1, begun, closed
	if next.enter(p) {
		k.step(k.about("its start is delivered again: the push of", slot), next, upset, "")
	}
}

// arriveAgain: a plugin takes no push that it is carrying out, and the wire
// delivers none after its answer.
func (k *walk) arriveAgain(slot int) {
	p := k.from.pushes[slot]
	running := false
	for _, other := range k.from.pushes {
		running = running || other.asset != 0 && other.copied == 0 && other.copyOf(p) && other.running()
	}
	label := k.about("the plugin is asked for the push of", slot)
	if running && k.is(RunsTwice) || !running && k.is(DeliversLate) {
		k.step(label, k.becomes(slot, sent), fair, "")
	}
	k.step(label, k.becomes(slot, over), fair, "")
}

// breakReplica: a process or its plugins end, or it is held up.
func (k *walk) breakReplica(r int) {
	s := &k.from
	if s.power[r] == down {
		next := *s
		next.power[r] = up
		k.step(name("starts", r, nobody), next, fair, "")
		next = *s
		next.endPlugins(r)
		k.step(name("was followed by its plugins", r, nobody), next, fair, "")
		return
	}
	if s.left.Crashes > 0 {
		next := *s
		next.left.Crashes--
		next.lose(r)
		next.power[r] = down
		k.step(name("crashes", r, nobody), next, upset, "")
		next = *s
		next.left.Crashes--
		if next.endPlugins(r) {
			k.step(name("loses its plugins", r, nobody), next, upset, "")
		}
	}
	if s.power[r] == paused {
		next := *s
		next.power[r] = up
		k.step(name("goes on", r, nobody), next, fair, "")
	} else if s.left.Pauses > 0 {
		next := *s
		next.left.Pauses--
		next.power[r] = paused
		k.step(name("is held up", r, nobody), next, upset, "")
	}
}

// endPlugins ends what a replica's plugins carry out.
func (s *state) endPlugins(r int) (any bool) {
	for i := range s.pushes {
		if p := &s.pushes[i]; p.asset != 0 && int(p.by) == r && (p.running() || p.copied != 0) {
			p.run, any = over, true
		}
	}
	return any
}
