package explore

// people publish, pin, stop and resume, and approve what is asked of them.
func (k *walk) people() {
	s := &k.from
	if int(s.head) < len(k.Intent) {
		next := *s
		k.publish(&next)
		k.step(Label{Verb: "incarnation is published:", Number: int8(next.head)}, next, upset, "")
	}
	if s.stopped != 0 {
		next := *s
		next.resume()
		k.step(Label{Verb: "a person resumes"}, next, fair, "")
	} else if s.left.Stops > 0 {
		next := *s
		next.left.Stops--
		next.setStop()
		k.step(Label{Verb: "a person stops everything"}, next, upset, "")
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
			next := *s
			next.setPin(a, rank, 0)
			k.step(name("somebody unpins", nobody, a), next, upset, "")
		}
		if s.left.Pins == 0 {
			continue
		}
		for at := uint8(1); at <= s.head; at++ {
			if k.contentAt(at, a) == nothing {
				continue
			}
			next := *s
			next.left.Pins--
			next.setPin(a, rank, pin(at))
			label := name("somebody pins", nobody, a)
			label.Number = int8(at)
			k.step(label, next, upset, "")
			if k.EndingPins {
				next = *s
				next.left.Pins--
				next.setPin(a, rank, pin(at)|pinEnds)
				label.Verb = "somebody pins, for a while,"
				k.step(label, next, upset, "")
			}
		}
	}
}

// pinsEnd: the time comes at which pins end. Nobody writes that anywhere.
func (k *walk) pinsEnd() {
	next := k.from
	for a := range assets {
		for rank := range ranks {
			next.pins[a][rank].end()
			for r := range next.replicas {
				next.replicas[r].view.pins[a][rank].end()
			}
		}
	}
	if next.pins == k.from.pins && next.replicas == k.from.replicas {
		return
	}
	for r := range next.replicas {
		replica := &next.replicas[r]
		for a := range replica.asks {
			if replica.asks[a].marks&lapses != 0 {
				replica.asks[a].marks |= expired
			}
		}
		k.forget(replica)
	}
	k.step(Label{Verb: "pins end"}, next, upset, "")
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
	next := k.from
	next.approve(a, plan)
	k.step(name("a person approves the plan of", nobody, a), next, fair, "")
}

// outsiders change production, or the store, without asking anybody.
func (k *walk) outsiders() {
	if k.is(HeadGoesBack) && k.from.head > 1 {
		next := k.from
		next.head--
		next.bump()
		k.step(Label{Verb: "an older store is put in its place"}, next, upset, "")
	}
	if k.from.left.Drifts == 0 {
		return
	}
	for a := range assets {
		for _, c := range []content{foreign, 1} {
			if k.from.things[a].content == c {
				continue
			}
			next := k.from
			next.left.Drifts--
			next.things[a].content = c
			k.move(&next, a, nobody)
			label := name("somebody else changes", nobody, a)
			label.Number = int8(c)
			k.step(label, next, upset, "")
		}
	}
}
