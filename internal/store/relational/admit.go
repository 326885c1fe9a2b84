package relational

import (
	"context"
	"fmt"
	"slices"

	"lehr.dev/internal/ground/audit"
	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/ground/planrecord"
	"lehr.dev/internal/store"
)

// Admit decides each admission on its own, all in one transaction: the one
// atomic step between deciding and acting (S1, S2, S3, S8, S9).
func (s *Store) Admit(ctx context.Context, lease store.Lease, admissions []store.Admission) ([]*store.Refusal, error) {
	attempt := fmt.Sprintf("admitting %d pushes in %q", len(admissions), lease.Partition)
	if len(admissions) == 0 {
		return nil, nil
	}
	// Encoded here, and not where other writers wait.
	records := make([][]byte, len(admissions))
	for i := range admissions {
		records[i] = planrecord.Encode(admissions[i].PlanDetail)
	}
	var refusals []*store.Refusal
	err := s.act(ctx, attempt, lease, func(t *transaction, now standing) error {
		d := desk{transaction: t, lease: lease, now: now, budgets: map[string]*budget{}, windows: map[string]*window{}}
		refusals = make([]*store.Refusal, len(admissions))
		var err error
		if d.hasRejections, err = hasRejections(t, lease.Partition); err != nil {
			return err
		}
		for i, admission := range admissions {
			d.planRecord = records[i]
			waiting, err := d.decide(admission)
			if err != nil {
				return err
			}
			if waiting != nil {
				refusals[i] = &store.Refusal{Waiting: *waiting}
			}
		}
		return d.settleBudgets()
	})
	if err != nil {
		return nil, err
	}
	return refusals, nil
}

// desk is where one call's admissions are decided.
type desk struct {
	*transaction
	lease   store.Lease
	now     standing
	budgets map[string]*budget
	windows map[string]*window
	// held, overrides and consent are what checkClaim, checkOverrides and
	// takeApprovals found for the admission at hand.
	holding   holding
	overrides []intent.Override
	consent   intent.Consent
	// hasRejections: the partition has some, of whatever.
	hasRejections bool
	// planRecord of the admission at hand.
	planRecord []byte
}

// decide admits, or says what the push must wait for. Whatever may refuse
// comes before whatever writes.
func (d *desk) decide(a store.Admission) (*intent.WaitingOn, error) {
	if a.Push == "" || a.Asset == "" || a.Target.Partition != d.lease.Partition {
		return nil, fault.New(fault.Invalid, "an admission of %q to %s in %q names no push, or another partition's target", a.Asset, a.Target, d.lease.Partition)
	}
	for _, check := range []func(store.Admission) (*intent.WaitingOn, error){
		d.checkStanding, d.checkOpen, d.checkQuiet, d.checkRejections, d.checkOverrides, d.checkBudgets, d.checkRates, d.checkClaim, d.checkRule, d.takeApprovals,
	} {
		if waiting, err := check(a); waiting != nil || err != nil {
			return waiting, err
		}
	}
	return nil, d.enter(a)
}

// checkStanding: no stop, and nothing moved that the decision rested on.
func (d *desk) checkStanding(a store.Admission) (*intent.WaitingOn, error) {
	switch {
	case d.now.stopped:
		stop := d.now.stop
		return &intent.WaitingOn{
			Kind: intent.WaitStop, Owner: stop.Owner.Name,
			Reason: fmt.Sprintf("%s stopped by %s: %s; %s ends it", scopeName(stop.Partition), stop.Owner.Name, stop.Reason, stop.Ending()),
		}, nil
	case a.Revision != d.now.revision:
		return &intent.WaitingOn{Kind: intent.WaitStale, Reason: fmt.Sprintf(
			"head, a pin, a hold, an approval, an override or a stop changed since it was decided: revision %d is now %d", a.Revision, d.now.revision)}, nil
	case intent.Expired(a.ValidUntil, a.At):
		return &intent.WaitingOn{Kind: intent.WaitStale, Reason: fmt.Sprintf(
			"what it was decided on held until %s, now it is %s", a.ValidUntil.UTC().Format(timeFormat), a.At.UTC().Format(timeFormat))}, nil
	}
	return nil, nil
}

const timeFormat = "15:04:05.000"

// checkOpen: no open push of the asset, or of its resource (S3). The unique
// indexes hold the same.
func (d *desk) checkOpen(a store.Admission) (*intent.WaitingOn, error) {
	var partition intent.PartitionID
	var asset intent.AssetID
	var push intent.PushID
	var doubt bool
	ok, err := d.one(`SELECT partition, asset, id, doubt FROM push WHERE partition = $1 AND asset = $2 AND open = 1`,
		[]any{string(d.lease.Partition), string(a.Asset)}, &partition, &asset, &push, &doubt)
	if err == nil && !ok && a.ResourceKey != "" {
		ok, err = d.one(`SELECT partition, asset, id, doubt FROM push WHERE resource_key = $1 AND open = 1 AND resource_key <> ''`,
			[]any{string(a.ResourceKey)}, &partition, &asset, &push, &doubt)
	}
	if err != nil || !ok {
		return nil, err
	}
	return d.openPush(partition, asset, push, doubt), nil
}

// openPush says what to wait for while a push is open. The assets of another
// partition are not named (S12).
func (d *desk) openPush(partition intent.PartitionID, asset intent.AssetID, push intent.PushID, doubt bool) *intent.WaitingOn {
	waiting := &intent.WaitingOn{Kind: intent.WaitTurn}
	subject := "the same resource by another partition"
	if partition == d.lease.Partition {
		subject = fmt.Sprintf("%q", asset)
		waiting.Blockers = []intent.AssetID{asset}
	}
	waiting.Reason = fmt.Sprintf("push %s of %s is under way", push, subject)
	if doubt {
		waiting.Kind = intent.WaitSettling
		waiting.Reason = fmt.Sprintf("push %s of %s lost its reply and may still be running", push, subject)
	}
	return waiting
}

// checkQuiet: the neighbours that were in sync are not being pushed.
func (d *desk) checkQuiet(a store.Admission) (*intent.WaitingOn, error) {
	for _, asset := range a.Quiet {
		var push intent.PushID
		var doubt bool
		ok, err := d.one("SELECT id, doubt FROM push WHERE partition = $1 AND asset = $2 AND open = 1",
			[]any{string(d.lease.Partition), string(asset)}, &push, &doubt)
		if err != nil {
			return nil, err
		}
		if ok {
			return d.openPush(d.lease.Partition, asset, push, doubt), nil
		}
	}
	return nil, nil
}

// checkClaim: the resource is free, ours, or passes to us.
func (d *desk) checkClaim(a store.Admission) (*intent.WaitingOn, error) {
	if a.ResourceKey == "" {
		return nil, nil
	}
	holding, err := holdingOf(d.transaction, d.claimant(a))
	d.holding = holding
	if err != nil || holding.free() {
		return nil, err
	}
	holder := holding.holder
	waiting := &intent.WaitingOn{Kind: intent.WaitClaim}
	if holder.Partition != d.lease.Partition {
		waiting.Owner = string(holder.Partition)
		waiting.Reason = fmt.Sprintf("the resource %q belongs to an asset of partition %q, and passes when that partition has taken it out of its sources and disowned it", a.ResourceKey, holder.Partition)
		return waiting, nil
	}
	waiting.Blockers = []intent.AssetID{holder.Asset}
	waiting.Reason = fmt.Sprintf("the resource %q belongs to %q", a.ResourceKey, holder.Asset)
	switch {
	case a.Removes:
		waiting.Reason += ", and a removal takes nothing from another asset; remove this one from the sources"
	case holding.obstacle != "":
		waiting.Reason += ": " + holding.obstacle
	default:
		waiting.Reason += "; remove one of the two assets, or let them name different resources"
	}
	return waiting, nil
}

// checkRejections: nobody rejected this plan of this content, whoever
// approved it.
func (d *desk) checkRejections(a store.Admission) (*intent.WaitingOn, error) {
	if !d.hasRejections {
		return nil, nil
	}
	rejections, err := scanRejections(d.transaction, d.lease.Partition, ofPlan, string(a.Asset), a.Effective[:], a.Plan[:])
	if err != nil {
		return nil, err
	}
	return intent.Rejected(a.Asset, rejections, a.At), nil
}

// checkOverrides: those that checks passed by are in force, for this content.
func (d *desk) checkOverrides(a store.Admission) (*intent.WaitingOn, error) {
	if d.overrides = nil; len(a.Overrides) == 0 {
		return nil, nil
	}
	overrides, err := scanOverrides(d.transaction, d.lease.Partition, ofContent, string(a.Asset), a.Effective[:])
	if err != nil {
		return nil, err
	}
	for _, check := range a.Overrides {
		at := slices.IndexFunc(overrides, func(o intent.Override) bool { return o.Check == check && o.InForce(a.At) })
		if at < 0 {
			return &intent.WaitingOn{Kind: intent.WaitStale, Reason: fmt.Sprintf(
				"the override of the check %s of content %s has ended", check, a.Effective.Short())}, nil
		}
		d.overrides = append(d.overrides, overrides[at])
	}
	return nil, nil
}

// takeApprovals: consume those that count for exactly this plan of this
// content, if they are enough (S9).
func (d *desk) takeApprovals(a store.Admission) (*intent.WaitingOn, error) {
	if d.consent = (intent.Consent{}); !a.NeedsApproval {
		return nil, nil
	}
	consent, err := useApprovals(d.transaction, d.lease.Partition, a)
	if err != nil {
		return nil, err
	}
	if !consent.Reached() {
		return &intent.WaitingOn{Kind: intent.WaitApproval, Approve: true, Reason: fmt.Sprintf(
			"plan %s of content %s needs approvals that are unused and not expired: %s; lehr approve gives one",
			a.Plan.Short(), a.Effective.Short(), consent.Words())}, nil
	}
	d.consent = consent
	return nil, nil
}

func (d *desk) claimant(a store.Admission) claimant {
	return claimant{
		Claim: store.Claim{Key: a.ResourceKey, Partition: d.lease.Partition, Asset: a.Asset},
		head:  d.now.head, at: a.At, removes: a.Removes, creates: !a.Removes && a.PlanDetail.Action == intent.ActionCreate,
	}
}

// enter writes the push into the journal and the audit.
func (d *desk) enter(a store.Admission) error {
	if a.ResourceKey != "" {
		if err := takeClaim(d.transaction, d.claimant(a), d.holding, serverActor(d.lease)); err != nil {
			return err
		}
		// What was gone is there again, until it is seen to be gone: then its
		// claim is given back once more. Of no policy, the record is no news of
		// what the asset asks for.
		if _, err := d.exec("UPDATE enforced SET absent = 0, policy = $3 WHERE partition = $1 AND asset = $2 AND absent = 1",
			string(d.lease.Partition), string(a.Asset), []byte{}); err != nil {
			return err
		}
	}
	budgets, rates := d.takeBudgets(a), rateKeys(a)
	grounds, err := d.grounds(a)
	if err != nil {
		return err
	}
	entered, err := d.exec(`INSERT INTO push (id, partition, asset, target, effective, plan, resource_key, epoch, admitted, budgets, rates,
		grounds, plan_record, admitted_by, doubt, open, ending, reason, ended)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, 0, 1, '', '', 0)
		ON CONFLICT (id) DO NOTHING`,
		string(a.Push), string(d.lease.Partition), string(a.Asset), int64(a.Target.Sequence), a.Effective[:], a.Plan[:],
		string(a.ResourceKey), d.lease.Epoch, stamp(a.At), budgets, joinKeys(rates), grounds, d.planRecord, d.lease.Holder)
	if err != nil {
		return err
	}
	if entered == 0 {
		return fault.New(fault.Invalid, "admitting a push of %q: the push id %s was used before", a.Asset, a.Push)
	}
	if err := d.countRates(a.Push, rates); err != nil {
		return err
	}
	detail := audit.Admitted{
		Push: a.Push, Target: a.Target, Content: a.Effective.Short(), Plan: a.Plan.Short(), Size: audit.SizeOf(a.PlanDetail),
		Approved: a.NeedsApproval, Approvers: d.consent.Approved, Alone: d.consent.Alone, Overrides: d.overrides, Rule: audit.RuleOf(a.Rule),
		Epoch: d.lease.Epoch, Revision: d.now.revision, Global: d.now.global, Checks: a.Checks,
	}.String()
	d.audit(d.lease.Partition, a.At, serverActor(d.lease), "admit", string(a.Asset), detail)
	return nil
}

// grounds are what the push was decided on, with who approved it as far as that
// was looked at here.
func (d *desk) grounds(a store.Admission) (string, error) {
	grounds := a.Grounds
	if a.NeedsApproval {
		grounds = append(slices.Clip(grounds), intent.Ground{Check: "approval", Fact: d.consent.Words(), Until: d.consent.Until})
	}
	if len(grounds) == 0 {
		return "", nil
	}
	return encode(intent.Bounded(grounds))
}
