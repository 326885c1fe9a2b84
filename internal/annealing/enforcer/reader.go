package enforcer

import (
	"context"
	"sync"

	intentpb "lehr.dev/gen/lehr/intent/v1"
	"lehr.dev/internal/annealing/check"
	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/ground/rule"
	"lehr.dev/internal/ground/schema"
)

// reader reads intent for passes. Many goroutines use it.
type reader struct {
	store    Stores
	schemas  Schemas
	mu       sync.Mutex
	policies map[intent.IncarnationID]*policy
	// rulings are those of incarnations; ruling is the one made last.
	rulings map[intent.IncarnationID]*ruling
	ruling  *ruling
	// declared are the edges of contents, by their digest.
	declared map[intent.Digest][]edge
	// depends says of incarnations whether any asset has dependencies.
	depends map[intent.IncarnationID]bool
	// checks that are ready, and incarnations that they look at.
	checks       map[checkOf]*check.Configured
	incarnations map[intent.IncarnationID]intent.Incarnation
	// known are the windows of rate limits that need no reading.
	known *knownWindows
	// partitions are partitions that were asked about lately. Of what their incarnations
	// changed up to lookedAt, all was looked at since.
	partitions map[intent.PartitionID]check.Other
	lookedAt   map[intent.PartitionID]intent.Sequence
	// askTrain says which train is in an environment; nil: nobody knows. trains are the answers.
	askTrain func(context.Context, check.Environment) check.Train
	trains   map[check.Environment]knownTrain
}

// pageSize is how many entries of the store are read at once.
const pageSize = 5000

// mostRemembered bounds what is remembered of incarnations.
const mostRemembered = 1000

func newReader(options Options, known *knownWindows) *reader {
	return &reader{
		store: options.Store, schemas: options.Schemas, policies: map[intent.IncarnationID]*policy{},
		rulings: map[intent.IncarnationID]*ruling{}, declared: map[intent.Digest][]edge{},
		depends: map[intent.IncarnationID]bool{},
		checks:  map[checkOf]*check.Configured{}, incarnations: map[intent.IncarnationID]intent.Incarnation{},
		known: known, partitions: map[intent.PartitionID]check.Other{}, lookedAt: map[intent.PartitionID]intent.Sequence{},
		askTrain: options.Train, trains: map[check.Environment]knownTrain{},
	}
}

// asset returns an asset's content as of an incarnation.
func (r *reader) asset(ctx context.Context, id intent.IncarnationID, name intent.AssetID) (intent.Asset, error) {
	_, body, err := r.store.Content(ctx, id, name)
	if err != nil {
		return intent.Asset{}, err
	}
	return schema.Decode(body)
}

// preload reads at once what the looks of a batch are about to read of their targets. What
// it does not find, each look reads by itself, and so says what is wrong.
func (r *reader) preload(ctx context.Context, batch []*observation) {
	var assets []intent.AssetID
	for _, g := range batch {
		if _, ok := g.priorContents(); !ok && g.needsContent() {
			assets = append(assets, g.asset.id)
		}
	}
	if len(assets) < 2 {
		return
	}
	bodies, err := r.store.Contents(ctx, batch[0].target, assets)
	if err != nil {
		return
	}
	for _, g := range batch {
		g.body = bodies[g.asset.id]
	}
}

// policy returns the policy that an incarnation was published with. One
// without a policy asset only observes.
func (r *reader) policy(ctx context.Context, id intent.IncarnationID) (*policy, error) {
	r.mu.Lock()
	cached := r.policies[id]
	r.mu.Unlock()
	if cached != nil {
		return cached, nil
	}
	member, err := r.store.Member(ctx, id, intent.PolicyAsset)
	if fault.Is(err, fault.NotFound) {
		return noPolicy(), nil
	}
	if err != nil {
		return nil, err
	}
	content, err := r.asset(ctx, id, intent.PolicyAsset)
	if err != nil {
		return nil, err
	}
	decoded := &policy{digest: member.Digest, Policy: &intentpb.Policy{}}
	if err := schema.Payload(content, decoded.Policy); err != nil {
		return nil, err
	}
	if decoded.checks, err = asksOf(decoded.Policy); err != nil {
		return nil, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.policies) >= mostRemembered {
		clear(r.policies)
	}
	r.policies[id] = decoded
	return decoded, nil
}

// rules returns the environment of an incarnation's types.
func (r *reader) rules(ctx context.Context, id intent.IncarnationID) (*ruling, error) {
	r.mu.Lock()
	cached := r.rulings[id]
	r.mu.Unlock()
	if cached != nil {
		return cached, nil
	}
	incarnation, err := r.store.Incarnation(ctx, id)
	if err != nil {
		return nil, err
	}
	schemaSet := schema.Builtin()
	if r.schemas != nil && incarnation.Schema != (intent.Digest{}) {
		if schemaSet, err = r.schemas.Schema(ctx, id.Partition, incarnation.Schema); err != nil {
			return nil, err
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.rulings) >= mostRemembered {
		clear(r.rulings)
	}
	r.rulings[id] = r.rulingOf(schemaSet)
	return r.rulings[id], nil
}

// ruling is the types of an incarnation, and what evaluates expressions over
// them.
type ruling struct {
	*rule.Environment
	schemaSet *schema.Set
}

// rulingOf shares what was compiled among the incarnations of one set.
func (r *reader) rulingOf(schemaSet *schema.Set) *ruling {
	if r.ruling == nil || r.ruling.schemaSet.Digest() != schemaSet.Digest() {
		r.ruling = &ruling{rule.New(schemaSet), schemaSet}
	}
	return r.ruling
}

// checkOf is a check and the types that its expressions are over.
type checkOf struct{ check, filter, schema intent.Digest }

// incarnation is what an incarnation is; its labels may have changed since.
func (r *reader) incarnation(ctx context.Context, id intent.IncarnationID) (intent.Incarnation, error) {
	r.mu.Lock()
	cached, ok := r.incarnations[id]
	r.mu.Unlock()
	if ok {
		return cached, nil
	}
	incarnation, err := r.store.Incarnation(ctx, id)
	if err != nil {
		return incarnation, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.incarnations) >= mostRemembered {
		clear(r.incarnations)
	}
	r.incarnations[id] = incarnation
	return incarnation, nil
}
