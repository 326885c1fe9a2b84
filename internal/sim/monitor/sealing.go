package monitor

import (
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/sim/world"
)

// sealing are the values of secrets that plans were made with (S9). Only production and
// this monitor have values: plans have digests.
type sealing map[sealedPlan]string

type sealedPlan struct {
	asset intent.AssetID
	plan  intent.Digest
}

// Sealed is called when a plugin plans with the value of a secret. A plan is of one value:
// else an approval of it would let another through (S9).
func (m *Monitor) Sealed(asset intent.AssetID, plan intent.Digest, value string) {
	at := sealedPlan{asset, plan}
	known, ok := m.sealing[at]
	m.hold(!ok || known == value, "S9", "the plan %s of %s stands for two values of its secret", plan.Short(), asset)
	m.sealing[at] = value
}

// sealed: an effect brings the value of a secret that its push was planned with (S9).
func (m *Monitor) sealed(e world.Effect, p *push) {
	if e.Secret == "" {
		return
	}
	m.hold(m.sealing[sealedPlan{p.asset, p.plan}] == e.Secret, "S9",
		"effect %d of push %s of %s brought another value of its secret than that of the plan %s", e.Number, p.id, p.asset, p.plan.Short())
}
