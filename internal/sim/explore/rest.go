package explore

// Rest checks L1: from every state a path without faults leads to a fixed
// point, and from a fixed point no step without a fault leads away.
func (g *Graph[S]) Rest() error {
	count := g.table.len()
	reaches := make([]bool, count)
	var queue []uint32
	for at := range uint32(count) {
		if g.model.Settled(g.table.at(at)) {
			reaches[at] = true
			queue = append(queue, at)
		}
	}
	g.settled = len(queue)
	for _, at := range queue {
		for _, to := range g.fairFrom(at) {
			if !reaches[to] {
				return &Violation{Wrong: "L1: what was at rest did not stay so", Trace: g.trace(to)}
			}
		}
	}
	starts, from := g.backwards()
	for len(queue) > 0 {
		at := queue[len(queue)-1]
		queue = queue[:len(queue)-1]
		for _, before := range from[starts[at]:starts[at+1]] {
			if !reaches[before] {
				reaches[before] = true
				queue = append(queue, before)
			}
		}
	}
	for at := range uint32(count) {
		if !reaches[at] {
			return &Violation{Wrong: "L1: from here no path without faults leads to rest", Trace: g.trace(at)}
		}
	}
	return nil
}

// fairFrom lists where the steps of a state without faults lead.
func (g *Graph[S]) fairFrom(at uint32) []uint32 {
	begin := uint32(0)
	if at > 0 {
		begin = g.fairEnd[at-1]
	}
	return g.fair[begin:g.fairEnd[at]]
}

// backwards turns the steps without faults round: those that lead to a state
// come from from[starts[state]:starts[state+1]].
func (g *Graph[S]) backwards() (starts, from []uint32) {
	count := g.table.len()
	starts = make([]uint32, count+1)
	for _, to := range g.fair {
		starts[to+1]++
	}
	for at := range count {
		starts[at+1] += starts[at]
	}
	from = make([]uint32, len(g.fair))
	next := append([]uint32(nil), starts...)
	for at := range uint32(count) {
		for _, to := range g.fairFrom(at) {
			from[next[to]] = at
			next[to]++
		}
	}
	return starts, from
}
