package explore

import (
	"slices"
	"strings"
)

// walk lists the steps of one state.
type walk struct {
	*world
	from state
	take func(Step[state])
}

// kind of a step.
type kind bool

const (
	fair  kind = false
	upset kind = true
)

// Steps lists what may happen next: what replicas, plugins and targets do by
// themselves, what people do, and what breaks.
func (w *world) Steps(from state, take func(Step[state])) {
	k := &walk{world: w, from: from, take: take}
	for r := range replicas {
		if from.power[r] == up {
			k.enforce(r)
		}
		k.breakReplica(r)
	}
	for slot := range slots {
		if from.pushes[slot].asset != 0 {
			k.carryOut(slot)
		}
	}
	k.people()
	k.outsiders()
}

// step hands one step on, unless it changes nothing.
func (k *walk) step(label Label, next state, kind kind, wrong string) {
	next.tidy(k.is(NoEpochAtAdmission))
	if wrong == "" && (next.head < k.from.head || next.epoch < k.from.epoch) {
		wrong = "S16: head or epoch went back"
	}
	wrong = k.judged(wrong)
	if next != k.from || wrong != "" {
		k.take(Step[state]{Label: label, To: next, Fault: bool(kind), Wrong: wrong})
	}
}

// judged drops what the world does not ask for.
func (w *world) judged(wrong string) string {
	number, _, _ := strings.Cut(wrong, ":")
	if len(w.Only) > 0 && !slices.Contains(w.Only, number) {
		return ""
	}
	return wrong
}

func name(verb string, replica, asset int) Label {
	return Label{Verb: verb, Replica: int8(replica) + 1, Asset: int8(asset) + 1}
}

const nobody = -1

// Settled: production is as intent says, and the holder of the lease knows.
func (w *world) Settled(s state) bool {
	holder := s.holder()
	if s.stopped != 0 || holder < 0 || s.replicas[holder].behind != 0 {
		return false
	}
	for _, p := range s.pushes {
		if p.asset != 0 {
			return false
		}
	}
	for a := range assets {
		_, target := w.wanted(&s, a)
		if s.replicas[holder].asks[a].stage != notAsked {
			return false
		}
		if target != nothing && s.replicas[holder].facts[a].kind != inSync {
			return false
		}
		if target != nothing && s.things[a].content != w.effectOf(target) {
			return false
		}
	}
	return true
}

// holder is the replica that holds the lease and is up; negative: none.
func (s *state) holder() int {
	for r := range replicas {
		if s.power[r] == up && s.replicas[r].lease == s.epoch && s.epoch > 0 {
			return r
		}
	}
	return -1
}
