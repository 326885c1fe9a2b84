package enforcer

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	intentpb "lehr.dev/gen/lehr/intent/v1"
	"lehr.dev/internal/annealing/check"
	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/ground/rule"
	"lehr.dev/internal/ground/schema"
	"lehr.dev/internal/store"
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
}

// mostRemembered bounds what is remembered of incarnations.
const mostRemembered = 1000

func newReader(options Options, known *knownWindows) *reader {
	return &reader{
		store: options.Store, schemas: options.Schemas, policies: map[intent.IncarnationID]*policy{},
		rulings: map[intent.IncarnationID]*ruling{}, declared: map[intent.Digest][]edge{},
		depends: map[intent.IncarnationID]bool{},
		checks:  map[checkOf]*check.Configured{}, incarnations: map[intent.IncarnationID]intent.Incarnation{},
		known: known, partitions: map[intent.PartitionID]check.Other{}, lookedAt: map[intent.PartitionID]intent.Sequence{},
	}
}

// policy of a partition, decoded.
type policy struct {
	digest intent.Digest
	*intentpb.Policy
	// checks are its checks.
	checks []policyCheck
}

// requirements are what intent asks of a push of one asset: the union of
// those at the target and at the last enforced incarnation, so that a commit
// cannot disarm its own guards, and at head, so that a pin to older intent
// avoids none of them (S23).
type requirements struct {
	heeds headPolicy
	// edges that the asset declares itself.
	edges  []edge
	marked string
	// quorum of the approvals that a push consumes, and authors, who may not
	// approve it.
	quorum  intent.Quorum
	authors []string
	// overridable are the checks that policy lets a person override.
	overridable []string
	// checks of the policies, with the content and the origin of the
	// target as far as one of them looks at it.
	checks  []check.Required
	content intent.Asset
	origin  check.Origin
	// partitions are the partitions that checks ask about.
	partitions map[intent.PartitionID]check.Other
	own        map[*check.Configured]check.Own
	budgets    []store.BudgetUse
	// unhealthy is how many assets may be so, or in flight, by the budget's key.
	unhealthy map[string]unhealthyIn
	// windows that a push counts in, and the ended pushes that the store has of
	// those that the enforcer does not know, by key.
	windows     []check.Window
	endedPushes map[string][]store.EndedPush
	// standing is that of the asset itself, inward what others declare to it;
	// nil: that does not matter to this push.
	standing *neighbourFacts
	inward   *inward
	// isRollback: a push takes it back to what it was before.
	isRollback bool
	// err: they could not be read; nothing is pushed without them (S1).
	err error
	// loaded are the contents that ask, at the target and as enforced last: the
	// next look at them need not read them again.
	loaded contents
}

// headPolicy is what head says of an asset whose target is another incarnation; of
// one that follows head it is zero.
type headPolicy struct {
	// effective digest of the asset at head; zero: it is not there.
	effective intent.Digest
	policy    intent.Digest
	// isRollback: a rollback has it go back to its target, which was found good; older: a pin
	// has it go back, that one or a person's.
	isRollback, older bool
}

// policyAtHead is what head says now of an asset with that target.
func (v *view) policyAtHead(a *asset, target intent.IncarnationID, now time.Time) headPolicy {
	if target == v.head {
		return headPolicy{}
	}
	_, _, pin, _ := v.target(a, now)
	return headPolicy{a.effective, v.policy.digest, pin != nil && pin.Rank == intent.RankRollback, pin != nil && pin.Back}
}

// contents of an asset at its target and, where that matters, where it was
// enforced last and at head. Each belongs to an incarnation and so never changes.
type contents struct {
	effective    intent.Digest
	enforced     intent.IncarnationID
	heeds        headPolicy
	target       intent.Asset
	lastEnforced *intent.Asset
	// head is what the asset is there, where that is not what it is at its target.
	head *intent.Asset
	// err: what it was enforced with could not be read.
	err error
}

// contents reads what a look needs, unless the look before did.
func (r *reader) contents(ctx context.Context, g *observation) (contents, error) {
	if g.prior != nil {
		if loaded := g.prior.loaded; loaded.target.ID != "" && loaded.effective == g.effective && loaded.enforced == g.enforced && loaded.heeds == g.heeds {
			return loaded, nil
		}
	}
	loaded := contents{effective: g.effective, enforced: g.enforced, heeds: g.heeds}
	var err error
	if loaded.target, err = r.asset(ctx, g.target, g.asset.id); err != nil {
		return loaded, err
	}
	if g.difference.Outcome == intent.Differs && !g.enforced.IsZero() && g.enforced != g.target {
		lastEnforced, err := r.asset(ctx, g.enforced, g.asset.id)
		loaded.lastEnforced, loaded.err = &lastEnforced, err
	}
	if g.difference.Outcome == intent.Differs && !g.heeds.effective.IsZero() && g.heeds.effective != g.effective {
		head, err := r.asset(ctx, g.head, g.asset.id)
		loaded.head, loaded.err = &head, errors.Join(loaded.err, err)
	}
	return loaded, nil
}

// asset returns an asset's content as of an incarnation.
func (r *reader) asset(ctx context.Context, id intent.IncarnationID, name intent.AssetID) (intent.Asset, error) {
	_, body, err := r.store.Content(ctx, id, name)
	if err != nil {
		return intent.Asset{}, err
	}
	return schema.Decode(body)
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

// noPolicy only observes.
func noPolicy() *policy {
	return &policy{Policy: &intentpb.Policy{Mode: intentpb.EnforcementMode_ENFORCEMENT_MODE_OBSERVE}}
}

// modeIn returns the mode that the asset's addon asks for, if it has one.
func modeIn(content intent.Asset) (check.Mode, error) {
	addon := &intentpb.Mode{}
	if _, err := schema.Addon(content, addon); err != nil {
		return "", err
	}
	return modeOf(addon.Mode), nil
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

// requirements of a push of an asset to what it is at its target.
func (r *reader) requirements(ctx context.Context, g *observation, loaded contents) requirements {
	all, err := r.required(ctx, g, loaded)
	if err != nil {
		return requirements{err: fmt.Errorf("reading what a push of %s asks for: %w", g.asset.id, err)}
	}
	return all
}

func (r *reader) required(ctx context.Context, g *observation, loaded contents) (all requirements, err error) {
	if all.loaded, all.heeds = loaded, g.heeds; loaded.err != nil {
		return all, loaded.err
	}
	var present *intent.Asset
	switch {
	case g.runs && loaded.lastEnforced != nil:
		present = loaded.lastEnforced
	case g.runs:
		present = &loaded.target
	}
	if all.standing, err = r.readFacts(ctx, loaded.target, present, g.difference); err != nil {
		return all, err
	}
	if all.edges, err = edgesToHeed(loaded.target, present, all.standing); err != nil {
		return all, err
	}
	all.overridable = check.Overridable()
	if all.isRollback, err = r.goesBack(ctx, g); err != nil {
		return all, err
	}
	budgets, collected := map[string]int{}, &gathered{isRollback: g.heeds.isRollback}
	err = r.require(ctx, g.target, loaded.target, &all, budgets, collected)
	if err == nil && loaded.lastEnforced != nil {
		collected.former = true
		err = r.require(ctx, g.enforced, *loaded.lastEnforced, &all, budgets, collected)
		collected.former = false
	}
	if err == nil && g.heeds != (headPolicy{}) {
		// Also what the target is: head may not have the asset.
		err = r.require(ctx, g.head, loaded.target, &all, budgets, collected)
	}
	if err == nil && loaded.head != nil {
		err = r.require(ctx, g.head, *loaded.head, &all, budgets, collected)
	}
	if err == nil {
		err = r.ready(ctx, g, collected, &all)
	}
	if err != nil {
		return all, err
	}
	for _, key := range slices.Sorted(maps.Keys(budgets)) {
		all.budgets = append(all.budgets, store.BudgetUse{Key: key, Limit: budgets[key]})
	}
	switch prior := g.prior; {
	case !all.standing.lifts():
	case prior != nil && prior.inward != nil && prior.inward.covers(g.horizon) && prior.standing.moves == all.standing.moves && prior.standing.effective == g.effective:
		all.inward = prior.inward
	default:
		all.inward, err = r.inward(ctx, g.asset.id, g.target.Partition, g.horizon, all.standing)
	}
	if err == nil && g.difference.Outcome == intent.Differs && (all.marked != "" || g.difference.Plan.Destructive() || len(all.edges) > 0 || all.inward != nil && len(all.inward.referrers) > 0 || collected.loosened()) {
		all.authors, err = r.store.Authors(ctx, g.target, g.asset.id, g.difference.At)
	}
	if len(all.edges) == 0 && (all.inward == nil || len(all.inward.referrers) == 0) {
		all.loaded = contents{} // It will hardly wait long; there may be a million.
	}
	return all, err
}

// goesBack reports whether a push of what was found takes the asset back: a pin says so,
// or the incarnation that gave it its content, whose documents were only undone.
func (r *reader) goesBack(ctx context.Context, g *observation) (bool, error) {
	if g.heeds != (headPolicy{}) || g.difference.Outcome != intent.Differs || g.enforced.IsZero() {
		return g.heeds.older, nil
	}
	policy, err := r.policy(ctx, g.target)
	if err != nil || len(policy.checks) == 0 {
		return false, err
	}
	member, err := r.store.Member(ctx, g.target, g.asset.id)
	if err != nil || member.Since <= g.enforced.Sequence {
		return false, err // It was enforced with it: this repairs it.
	}
	first, err := r.incarnation(ctx, intent.IncarnationID{Partition: g.target.Partition, Sequence: member.Since})
	if fault.Is(err, fault.NotFound) {
		return false, nil
	}
	return first.Back, err
}

// require adds what an asset's content asks, under the policy of its
// incarnation.
func (r *reader) require(ctx context.Context, at intent.IncarnationID, content intent.Asset, all *requirements, budgets map[string]int, collected *gathered) error {
	approval, scope := &intentpb.Approval{}, &intentpb.ImpactedScope{}
	if marked, err := schema.Addon(content, approval); err != nil {
		return err
	} else if marked && all.marked == "" {
		all.marked = approval.Reason
	}
	if _, err := schema.Addon(content, scope); err != nil {
		return err
	}
	policy, err := r.policy(ctx, at)
	if err != nil {
		return err
	}
	all.quorum = all.quorum.Stricter(intent.Quorum{People: int(approval.Quorum)}).Stricter(quorumOf(policy.Policy))
	all.overridable = slices.DeleteFunc(all.overridable, func(name string) bool { return !slices.Contains(policy.GetOverrides().GetAllow(), name) })
	use := func(key string, most uint32) {
		if limit, ok := budgets[key]; !ok || int(most) < limit {
			budgets[key] = int(most)
		}
	}
	for _, budget := range policy.Budgets {
		if value, impacted := scope.Scopes[budget.Scope]; impacted {
			key := budget.Scope + "=" + value
			if collected.isRollback {
				use(key+check.Back, budget.InFlight)
				continue // What is ill is mended by going back.
			}
			use(key, budget.InFlight)
			bound := unhealthyIn{int(budget.Unhealthy), budget.Scope, value}
			if prior, exists := all.unhealthy[key]; bound.most == 0 || exists && prior.most <= bound.most {
				continue
			}
			if err := bound.check(); err != nil && collected.former {
				continue // There would be no way out.
			} else if err != nil {
				return err
			}
			if all.unhealthy == nil {
				all.unhealthy = map[string]unhealthyIn{}
			}
			all.unhealthy[key] = bound
		}
	}
	if all.standing.turndown {
		use(turndowns, max(1, policy.Turndowns))
	}
	return r.ask(ctx, at, policy, content, scope.Scopes, collected)
}

// quorumOf is what a policy asks of approvals.
func quorumOf(policy *intentpb.Policy) intent.Quorum {
	approval := policy.GetApproval()
	return intent.Quorum{People: int(approval.GetQuorum()), Period: approval.GetExpires().AsDuration()}
}

// turndowns is the key of the budget on removals in flight in the partition.
// Those of scopes have an equals sign.
const turndowns = "turndown"

// modeOf translates a mode; unspecified is none.
func modeOf(mode intentpb.EnforcementMode) check.Mode {
	switch mode {
	case intentpb.EnforcementMode_ENFORCEMENT_MODE_OFF:
		return check.Off
	case intentpb.EnforcementMode_ENFORCEMENT_MODE_OBSERVE:
		return check.Observe
	case intentpb.EnforcementMode_ENFORCEMENT_MODE_ENFORCE:
		return check.Enforce
	default:
		return ""
	}
}

// stricter returns the stricter of two modes; an empty one says nothing.
func stricter(a, b check.Mode) check.Mode {
	for _, mode := range []check.Mode{check.Off, check.Observe, check.Enforce} {
		if a == mode || b == mode {
			return mode
		}
	}
	return check.Observe
}
