package explore

// people publish, pin, stop and resume, and approve what is asked of them.
func (k *walk) people() {
	s := &k.from
	if int(s.head) < len(k.Intent) {
		to := *s
		k.publish(&to)
		k.step(Label{Verb: "incarnation is published:", Number: int8(to.head)}, to, upset, "")
	}
	if s.stopped != 0 {
		to := *s
		to.resume()
		k.step(Label{Verb: "a person resumes"}, to, fair, "")
	} else if s.left.Stops > 0 {
		to := *s
		to.left.Stops--
		to.setStop()
		k.step(Label{Verb: "a person stops everything"}, to, upset, "")
	}
	for a := range assets {
		k.pin(a)
		k.approval(a)
	}
	k.pinsEnd()
}

// pin and unpin an asset.
func (k *walk) pin(a int) {
	s := &k.from
	for rank := range ranks {
		if s.pins[a][rank] != 0 {
			to := *s
			to.setPin(a, rank, 0)
			k.step(name("somebody unpins", nobody, a), to, upset, "")
		}
		if s.left.Pins == 0 {
			continue
		}
		for at := uint8(1); at <= s.head; at++ {
			if k.contentAt(at, a) == nothing {
				continue
			}
			to := *s
			to.left.Pins--
			to.setPin(a, rank, pin(at))
			label := name("somebody pins", nobody, a)
			label.Number = int8(at)
			k.step(label, to, upset, "")
			if k.EndingPins {
				to = *s
				to.left.Pins--
				to.setPin(a, rank, pin(at)|pinEnds)
				label.Verb = "somebody pins, for a while,"
				k.step(label, to, upset, "")
			}
		}
	}
}

// pinsEnd: the time comes at which pins end. Nobody writes that anywhere.
func (k *walk) pinsEnd() {
	to := k.from
	for a := range assets {
		for rank := range ranks {
			to.pins[a][rank].end()
			for r := range to.replicas {
				to.replicas[r].view.pins[a][rank].end()
			}
		}
	}
	if to.pins == k.from.pins && to.replicas == k.from.replicas {
		return
	}
	for r := range to.replicas {
		held := &to.replicas[r]
		for a := range held.asks {
			if held.asks[a].marks&lapses != 0 {
				held.asks[a].marks |= expired
			}
		}
		k.forget(held)
	}
	k.step(Label{Verb: "pins end"}, to, upset, "")
}

func (p *pin) end() {
	if *p&pinEnds != 0 {
		*p |= pinEnded
	}
}

// approval: a person approves the plan that waits for nothing else, by the
// rules or, after another push used the approval, by the store.
func (k *walk) approval(a int) {
	r := k.from.holder()
	if r < 0 || k.from.replicas[r].behind != 0 {
		return
	}
	q, decides := k.question(&k.from, r, a)
	if !decides {
		return
	}
	said, plan := k.ask(q), planTo(q.from, q.with)
	again := said.push && said.needsApproval && k.from.approvals[a]&plan == 0 && !k.is(NeverAsksAgain)
	if !said.lacks && !again {
		return
	}
	to := k.from
	to.approve(a, plan)
	k.step(name("a person approves the plan of", nobody, a), to, fair, "")
}

// outsiders change production, or the store, without asking anybody.
func (k *walk) outsiders() {
	if k.is(HeadGoesBack) && k.from.head > 1 {
		to := k.from
		to.head--
		to.bump()
		k.step(Label{Verb: "an older store is put in its place"}, to, upset, "")
	}
	if k.from.left.Drifts == 0 {
		return
	}
	for a := range assets {
		for _, c := range []content{foreign, 1} {
			if k.from.things[a].content == c {
				continue
			}
			to := k.from
			to.left.Drifts--
			to.things[a].content = c
			k.move(&to, a, nobody)
			label := name("somebody else changes", nobody, a)
			label.Number = int8(c)
			k.step(label, to, upset, "")
		}
	}
}
