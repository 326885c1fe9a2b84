// Package explore looks at every state that a small world can reach: two
// replicas, two assets, up to three incarnations, crashes, a pause, a message
// delivered twice. The worlds call the pure functions that Lehr runs
// (intent.Target, the rules of internal/annealing/check) and mirror, step by step, what
// internal/store/sqlite and internal/annealing/enforcer do around them. Safety is judged in each
// state and step; L1 as "from every state a path without faults leads to rest".
//
// It never runs the enforcer or a store, so it proves the protocol and not its
// code; a test holds the mirror to a real store. Only its tests call it. With
// LEHR_EXPLORE=full they explore far larger worlds, in minutes and 7 GB.
package explore

import (
	"fmt"
	"strings"
)

// Model is a system of which every state can be listed.
type Model[S comparable] interface {
	// Start lists the states that it may begin in.
	Start() []S
	// Steps hands each step that the state allows to take.
	Steps(from S, take func(Step[S]))
	// Judge says what must never be so; empty: nothing.
	Judge(S) string
	// Settled: nothing is left to be done.
	Settled(S) bool
}

// Step is one move of a model.
type Step[S comparable] struct {
	Label Label
	To    S
	// Fault: it is no part of a fair path: something breaks, or somebody asks
	// for something else.
	Fault bool
	// Wrong says what the step must never do; empty: nothing.
	Wrong string
}

// Label says what a step does, to whom.
type Label struct {
	Verb string
	// Replica and Asset count from 1; Epoch is that of a push, and Number what
	// the verb is about.
	Replica, Asset, Epoch, Number int8
}

func (l Label) String() string {
	text := l.Verb
	if l.Replica > 0 {
		text = "replica " + string('A'+rune(l.Replica)-1) + " " + text
	}
	if l.Asset > 0 {
		text += " " + string('x'+rune(l.Asset)-1)
	}
	if l.Epoch > 0 {
		text += fmt.Sprintf(" under epoch %d", l.Epoch)
	}
	if l.Number > 0 {
		text += fmt.Sprintf(" %d", l.Number)
	}
	return text
}

// Violation is something that must never be so, and the shortest way there.
type Violation struct {
	Wrong string
	Trace []string
}

func (v *Violation) Error() string {
	var text strings.Builder
	fmt.Fprintf(&text, "%s, after %d steps:", v.Wrong, len(v.Trace))
	for i, step := range v.Trace {
		fmt.Fprintf(&text, "\n%3d  %s", i+1, step)
	}
	return text.String()
}

// Graph is all that was reached, in the order of the distance from the start.
type Graph[S comparable] struct {
	model  Model[S]
	table  *table[S]
	parent []uint32
	// fair lists, for one state after another, where its steps without faults
	// lead; fairEnd is where a state's part of it ends.
	fair    []uint32
	fairEnd []uint32
	steps   int
	depth   int
	settled int
}

// none is the parent of a state to start in.
const none = ^uint32(0)

// Explore lists every reachable state, breadth first, and stops at the first
// violation. More states than most are an error of whoever made the world.
func Explore[S comparable](model Model[S], most int) (*Graph[S], error) {
	g := &Graph[S]{model: model, table: newTable[S]()}
	var wrong error
	reach := func(s S, from uint32) uint32 {
		index, fresh := g.table.add(s)
		if !fresh {
			return index
		}
		g.parent = append(g.parent, from)
		if text := model.Judge(s); text != "" && wrong == nil {
			wrong = &Violation{Wrong: text, Trace: g.trace(index)}
		}
		return index
	}
	for _, s := range model.Start() {
		reach(s, none)
	}
	level := uint32(g.table.len())
	for at := uint32(0); int(at) < g.table.len() && wrong == nil; at++ {
		if at == level {
			g.depth++
			level = uint32(g.table.len())
		}
		from := g.table.at(at)
		model.Steps(from, func(step Step[S]) {
			g.steps++
			if step.Wrong != "" && wrong == nil {
				wrong = &Violation{Wrong: step.Wrong, Trace: append(g.trace(at), step.Label.String())}
			}
			to := reach(step.To, at)
			if !step.Fault && to != at {
				g.fair = append(g.fair, to)
			}
		})
		g.fairEnd = append(g.fairEnd, uint32(len(g.fair)))
		if g.table.len() > most {
			return g, fmt.Errorf("more than %d states: the world is too large", most)
		}
	}
	return g, wrong
}

// trace tells the steps from the start to a state. They are not kept: each
// parent is asked again which of its steps led on.
func (g *Graph[S]) trace(index uint32) []string {
	var backwards []string
	for g.parent[index] != none {
		to, label := g.table.at(index), ""
		g.model.Steps(g.table.at(g.parent[index]), func(step Step[S]) {
			if label == "" && step.To == to {
				label = step.Label.String()
			}
		})
		backwards = append(backwards, label)
		index = g.parent[index]
	}
	trace := make([]string, 0, len(backwards)+1)
	for i := range backwards {
		trace = append(trace, backwards[len(backwards)-1-i])
	}
	return trace
}

// States counts them.
func (g *Graph[S]) States() int { return g.table.len() }

func (g *Graph[S]) String() string {
	return fmt.Sprintf("%d states, %d transitions, depth %d, %d fixed points", g.table.len(), g.steps, g.depth, g.settled)
}
