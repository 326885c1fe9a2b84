package check

import (
	"fmt"

	"lehr.dev/internal/ground/intent"
)

// order is the dependency solver's static rule: what the asset depends on
// must be in sync at its own target first.
func order(f Facts) intent.Verdict {
	var answer edges
	for _, n := range f.Order {
		answer.judge(f, n, n.obstacle())
	}
	return answer.verdict("order", intent.WaitOrder, f)
}

func (n Neighbour) obstacle() obstacle {
	if n.Known {
		return obstacle{}
	}
	return obstacle{reason: fmt.Sprintf("must come after %s (%s)", n.Asset, n.State), endless: n.WaitsForThis}
}
