package check

import (
	"fmt"

	"lehr.dev/internal/ground/intent"
)

// Grounds are what a decision to push rests on, in words: each check that passes, and
// the facts that it looked at. Of those that found nothing to look at the name is enough.
func (d Decision) Grounds(f Facts) []intent.Ground {
	var grounds []intent.Ground
	for _, v := range d.Verdicts {
		if v.Answer != intent.Pass || v.Check == "stop" || v.Check == "hold" || v.Check == "verification" || v.Check == "mode" || v.Check == "retry" {
			continue // There was none: else it would wait.
		}
		ground := intent.Ground{Check: v.Check, Fact: v.Fact, Until: v.Until}
		switch {
		case v.Override != nil:
			ground.Fact = fmt.Sprintf("overridden by %s: %s", v.Override.By.Name, v.Override.Reason)
		case ground.Fact == "":
			ground.Fact = f.fact(v.Check)
		}
		if ground.Fact != "" {
			grounds = append(grounds, ground)
		}
	}
	return grounds
}

// fact is what a built-in check looked at; empty: nothing concerned it.
func (f Facts) fact(check string) string {
	var facts []string
	switch check {
	case "order":
		for _, n := range f.Order {
			facts = append(facts, n.fact("in sync"))
		}
	case "capacity":
		for _, s := range f.Capacity {
			if s.Endangers() {
				facts = append(facts, s.fact(f.Asset))
			}
		}
	case "version":
		for _, n := range f.Version {
			observation := fmt.Sprintf("declares %s, at least %s is needed", n.Declares, n.AtLeast)
			if n.Needed {
				observation = fmt.Sprintf("needs at least %s, it will find %s", n.AtLeast, n.Declares)
			}
			facts = append(facts, n.fact(observation))
		}
	case "turndown":
		if f.Turndown != nil {
			for _, n := range f.Turndown.Dependants {
				facts = append(facts, n.fact("gone too"))
			}
			facts = append(facts, "a Turndown asks for the removal")
		}
	}
	return listed(facts)
}

// fact is what was seen of a neighbour.
func (n Neighbour) fact(observation string) string {
	switch {
	case n.Known:
		return string(n.Asset) + " " + observation
	case n.Loosened:
		return string(n.Asset) + " let go by an approval"
	default:
		return string(n.Asset) + " not touched by this push"
	}
}

func (s Supply) fact(asset intent.AssetID) string {
	if s.Serving {
		return s.Neighbour.fact(fmt.Sprintf("expects %s of %s, %s would serve %s", number(s.Other.Current), s.Serves, asset, number(s.Own.Target)))
	}
	return s.Neighbour.fact(fmt.Sprintf("serves %s of %s, %s would expect %s", number(s.Other.Current), s.Serves, asset, number(s.Own.Target)))
}
