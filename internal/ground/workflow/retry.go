package workflow

import "lehr.dev/internal/ground/intent"

// findRetries tells of cycles in which actions follow each other as fast as they are
// answered: no wait, no person, no signal and no count of attempts ends them.
func (s *search) findRetries() []Finding {
	var found []Finding
	component := s.components()
	seen := map[reference]bool{}
	for at := range s.nodes {
		for _, e := range s.nodes[at].edges {
			if e.kind != edgeAnswer || component[e.to] != component[at] || len(e.move.Passages) == 0 {
				continue
			}
			last := e.move.Passages[len(e.move.Passages)-1]
			if seen[reference{machine: last.machine}] {
				continue
			}
			seen[reference{machine: last.machine}] = true
			t := s.definition.Machines[last.machine].Transitions[last.transition]
			f := newFinding(s.definition, RuleCycle, intent.Warning, t.Line, "add a state that waits, or a guard such as attempts < 5",
				"%s is on a cycle that can go round without a pause for as long as actions are answered so", t.describe(last.Machine))
			f.Trace = append(s.traceTo(at), e.move)
			found = append(found, f)
		}
	}
	return found
}

// components numbers the strongly connected components of the answers' edges, by Tarjan's
// algorithm, with a stack of its own: searches are deeper than a call stack should be.
func (s *search) components() []int {
	n := len(s.nodes)
	component, low, number := make([]int, n), make([]int, n), make([]int, n)
	onStack := make([]bool, n)
	var stack []int
	counter, components := 0, 0
	type frame struct{ at, next int }
	for root := range n {
		if number[root] > 0 {
			continue
		}
		frames := []frame{{at: root}}
		for len(frames) > 0 {
			f := &frames[len(frames)-1]
			if f.next == 0 && number[f.at] == 0 {
				counter++
				number[f.at], low[f.at] = counter, counter
				stack, onStack[f.at] = append(stack, f.at), true
			}
			if f.next < len(s.nodes[f.at].edges) {
				e := s.nodes[f.at].edges[f.next]
				f.next++
				switch {
				case e.kind != edgeAnswer:
				case number[e.to] == 0:
					frames = append(frames, frame{at: e.to})
				case onStack[e.to]:
					low[f.at] = min(low[f.at], number[e.to])
				}
				continue
			}
			at := f.at
			frames = frames[:len(frames)-1]
			if len(frames) > 0 {
				low[frames[len(frames)-1].at] = min(low[frames[len(frames)-1].at], low[at])
			}
			if low[at] != number[at] {
				continue
			}
			components++
			for {
				top := stack[len(stack)-1]
				stack, onStack[top] = stack[:len(stack)-1], false
				component[top] = components
				if top == at {
					break
				}
			}
		}
	}
	return component
}
