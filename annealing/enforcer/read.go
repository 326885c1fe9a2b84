package enforcer

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"

	"lehr.dev/annealing/check"
	"lehr.dev/fault"
	intentpb "lehr.dev/gen/lehr/intent/v1"
	"lehr.dev/intent"
	"lehr.dev/rule"
	"lehr.dev/schema"
	"lehr.dev/store"
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
	// counted are the keys of the windows that the enforcer knows.
	counted map[string]bool
	// others are partitions that were asked about lately. Of what their incarnations
	// changed up to lookedAt, all was looked at since.
	others   map[intent.PartitionID]check.Other
	lookedAt map[intent.PartitionID]intent.Sequence
}

// mostRemembered bounds what is remembered of incarnations.
const mostRemembered = 1000

func newReader(options Options) *reader {
	return &reader{
		store: options.Store, schemas: options.Schemas, policies: map[intent.IncarnationID]*policy{},
		rulings: map[intent.IncarnationID]*ruling{}, declared: map[intent.Digest][]edge{},
		depends: map[intent.IncarnationID]bool{},
		checks:  map[checkOf]*check.Configured{}, incarnations: map[intent.IncarnationID]intent.Incarnation{},
		counted: map[string]bool{}, others: map[intent.PartitionID]check.Other{}, lookedAt: map[intent.PartitionID]intent.Sequence{},
	}
}

// policy of a partition, decoded.
type policy struct {
	digest intent.Digest
	*intentpb.Policy
	// asks are its checks.
	asks []asked
}

// requirements are what intent asks of a push of one asset: the union of
// those at the target and at the last enforced incarnation, so that a commit
// cannot disarm its own guards, and at head, so that a pin to older intent
// avoids none of them (S23).
type requirements struct {
	heeds heeded
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
	// others are the partitions that checks ask about.
	others  map[intent.PartitionID]check.Other
	own     map[*check.Configured]check.Own
	budgets []store.BudgetUse
	// unhealthy is how many assets may be so, or in flight, by the budget's key.
	unhealthy map[string]unhealthyIn
	// windows that a push counts in, and the ended pushes that the store has of
	// those that the enforcer does not know, by key.
	windows []check.Window
	ended   map[string][]store.EndedPush
	// standing is that of the asset itself, inward what others declare to it;
	// nil: that does not matter to this push.
	standing *standing
	inward   *inward
	// back: a push takes it back to what it was before.
	back bool
	// err: they could not be read; nothing is pushed without them (S1).
	err error
	// of are the contents that ask, at the target and as enforced last: the
	// next look at them need not read them again.
	of contents
}

// heeded is what head says of an asset whose target is another incarnation; of
// one that follows head it is zero.
type heeded struct {
	// effective digest of the asset at head; zero: it is not there.
	effective intent.Digest
	policy    intent.Digest
	// back: a rollback has it go back to its target, which was found good; older: a pin
	// has it go back, that one or a person's.
	back, older bool
}

// heeds is what head says now of an asset with that target.
func (e *Enforcer) heeds(a *asset, target intent.IncarnationID) heeded {
	if target == e.view.head {
		return heeded{}
	}
	_, _, pin, _ := e.target(a, e.now())
	return heeded{a.effective, e.view.policy.digest, pin != nil && pin.Rank == intent.RankRollback, pin != nil && pin.Back}
}

// contents of an asset at its target and, where that matters, where it was
// enforced last and at head. Each belongs to an incarnation and so never changes.
type contents struct {
	effective intent.Digest
	enforced  intent.IncarnationID
	heeds     heeded
	target    intent.Asset
	before    *intent.Asset
	// head is what the asset is there, where that is not what it is at its target.
	head *intent.Asset
	// err: what it was enforced with could not be read.
	err error
}

// contents reads what a look needs, unless the look before did.
func (r *reader) contents(ctx context.Context, g *glance) (contents, error) {
	if g.prior != nil {
		if of := g.prior.of; of.target.ID != "" && of.effective == g.effective && of.enforced == g.enforced && of.heeds == g.heeds {
			return of, nil
		}
	}
	of := contents{effective: g.effective, enforced: g.enforced, heeds: g.heeds}
	var err error
	if of.target, err = r.asset(ctx, g.target, g.asset.id); err != nil {
		return of, err
	}
	if g.difference.Outcome == intent.Differs && !g.enforced.IsZero() && g.enforced != g.target {
		before, err := r.asset(ctx, g.enforced, g.asset.id)
		of.before, of.err = &before, err
	}
	if g.difference.Outcome == intent.Differs && !g.heeds.effective.IsZero() && g.heeds.effective != g.effective {
		head, err := r.asset(ctx, g.head, g.asset.id)
		of.head, of.err = &head, errors.Join(of.err, err)
	}
	return of, nil
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
	known := r.policies[id]
	r.mu.Unlock()
	if known != nil {
		return known, nil
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
	if decoded.asks, err = asksOf(decoded.Policy); err != nil {
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
	known := r.rulings[id]
	r.mu.Unlock()
	if known != nil {
		return known, nil
	}
	incarnation, err := r.store.Incarnation(ctx, id)
	if err != nil {
		return nil, err
	}
	set := schema.Builtin()
	if r.schemas != nil && incarnation.Schema != (intent.Digest{}) {
		if set, err = r.schemas.Schema(ctx, id.Partition, incarnation.Schema); err != nil {
			return nil, err
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.rulings) >= mostRemembered {
		clear(r.rulings)
	}
	r.rulings[id] = r.rulingOf(set)
	return r.rulings[id], nil
}

// ruling is the types of an incarnation, and what evaluates expressions over
// them.
type ruling struct {
	*rule.Environment
	set *schema.Set
}

// rulingOf shares what was compiled among the incarnations of one set.
func (r *reader) rulingOf(set *schema.Set) *ruling {
	if r.ruling == nil || r.ruling.set.Digest() != set.Digest() {
		r.ruling = &ruling{rule.New(set), set}
	}
	return r.ruling
}

// requirements of a push of an asset to what it is at its target.
func (r *reader) requirements(ctx context.Context, g *glance, of contents) requirements {
	all, err := r.required(ctx, g, of)
	if err != nil {
		return requirements{err: fmt.Errorf("reading what a push of %s asks for: %w", g.asset.id, err)}
	}
	return all
}

func (r *reader) required(ctx context.Context, g *glance, of contents) (all requirements, err error) {
	if all.of, all.heeds = of, g.heeds; of.err != nil {
		return all, of.err
	}
	var there *intent.Asset
	switch {
	case g.runs && of.before != nil:
		there = of.before
	case g.runs:
		there = &of.target
	}
	if all.standing, err = r.stand(ctx, of.target, there, g.difference); err != nil {
		return all, err
	}
	if all.edges, err = edgesToHeed(of.target, there, all.standing); err != nil {
		return all, err
	}
	all.overridable = check.Overridable()
	if all.back, err = r.goesBack(ctx, g); err != nil {
		return all, err
	}
	budgets, own := map[string]int{}, &gathered{back: g.heeds.back}
	err = r.require(ctx, g.target, of.target, &all, budgets, own)
	if err == nil && of.before != nil {
		own.former = true
		err = r.require(ctx, g.enforced, *of.before, &all, budgets, own)
		own.former = false
	}
	if err == nil && g.heeds != (heeded{}) {
		// Also what the target is: head may not have the asset.
		err = r.require(ctx, g.head, of.target, &all, budgets, own)
	}
	if err == nil && of.head != nil {
		err = r.require(ctx, g.head, *of.head, &all, budgets, own)
	}
	if err == nil {
		err = r.ready(ctx, g, own, &all)
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
	if err == nil && g.difference.Outcome == intent.Differs && (all.marked != "" || g.difference.Plan.Destructive() || len(all.edges) > 0 || all.inward != nil && len(all.inward.from) > 0 || own.loosened()) {
		all.authors, err = r.store.Authors(ctx, g.target, g.asset.id, g.difference.At)
	}
	if len(all.edges) == 0 && (all.inward == nil || len(all.inward.from) == 0) {
		all.of = contents{} // It will hardly wait long; there may be a million.
	}
	return all, err
}

// goesBack reports whether a push of what was found takes the asset back: a pin says so,
// or the incarnation that gave it its content, whose documents were only undone.
func (r *reader) goesBack(ctx context.Context, g *glance) (bool, error) {
	if g.heeds != (heeded{}) || g.difference.Outcome != intent.Differs || g.enforced.IsZero() {
		return g.heeds.older, nil
	}
	policy, err := r.policy(ctx, g.target)
	if err != nil || len(policy.asks) == 0 {
		return false, err
	}
	member, err := r.store.Member(ctx, g.target, g.asset.id)
	if err != nil || member.Since <= g.enforced.Sequence {
		return false, err // It was enforced with it: this repairs it.
	}
	since, err := r.incarnation(ctx, intent.IncarnationID{Partition: g.target.Partition, Sequence: member.Since})
	if fault.Is(err, fault.NotFound) {
		return false, nil
	}
	return since.Back, err
}

// require adds what an asset's content asks, under the policy of its
// incarnation.
func (r *reader) require(ctx context.Context, at intent.IncarnationID, content intent.Asset, all *requirements, budgets map[string]int, own *gathered) error {
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
		if limit, taken := budgets[key]; !taken || int(most) < limit {
			budgets[key] = int(most)
		}
	}
	for _, budget := range policy.Budgets {
		if value, impacted := scope.Scopes[budget.Scope]; impacted {
			key := budget.Scope + "=" + value
			if own.back {
				use(key+check.Back, budget.InFlight)
				continue // What is ill is mended by going back.
			}
			use(key, budget.InFlight)
			in := unhealthyIn{int(budget.Unhealthy), budget.Scope, value}
			if known, asked := all.unhealthy[key]; in.most == 0 || asked && known.most <= in.most {
				continue
			}
			if err := in.check(); err != nil && own.former {
				continue // There would be no way out.
			} else if err != nil {
				return err
			}
			if all.unhealthy == nil {
				all.unhealthy = map[string]unhealthyIn{}
			}
			all.unhealthy[key] = in
		}
	}
	if all.standing.turndown {
		use(turndowns, max(1, policy.Turndowns))
	}
	return r.ask(ctx, at, policy, content, scope.Scopes, own)
}

// quorumOf is what a policy asks of approvals.
func quorumOf(policy *intentpb.Policy) intent.Quorum {
	asked := policy.GetApproval()
	return intent.Quorum{People: int(asked.GetQuorum()), Period: asked.GetExpires().AsDuration()}
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
