package enforcer

import (
	"context"
	"fmt"
	"time"

	"lehr.dev/internal/annealing/check"
	"lehr.dev/internal/ground/intent"
)

// knownTrain is which train was in an environment at a time, asked for an asset of a target.
type knownTrain struct {
	at     time.Time
	target intent.IncarnationID
	train  check.Train
}

// train says which train is in an environment, as of the difference. Assets of one target share an answer for some
// seconds. Another target may have what a train brought, so the answer for it is asked anew.
func (r *reader) train(ctx context.Context, e check.Environment, g *observation) check.Train {
	const shared = 5 * time.Second
	if r.askTrain == nil {
		return check.Train{Err: fmt.Errorf("only a server knows which train is in %s of %s; lehr why ASSET asks it", e.Name, e.Application)}
	}
	now := g.difference.At
	r.mu.Lock()
	known, ok := r.trains[e]
	r.mu.Unlock()
	if age := now.Sub(known.at); ok && known.target == g.target && age >= 0 && age < shared {
		return known.train
	}
	train := r.askTrain(ctx, e)
	train.At = now
	r.mu.Lock()
	defer r.mu.Unlock()
	r.trains[e] = knownTrain{now, g.target, train}
	return train
}
