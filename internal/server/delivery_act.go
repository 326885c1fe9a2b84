package server

import (
	"context"
	"slices"
	"strings"

	apipb "lehr.dev/gen/lehr/api/v1"
	intentpb "lehr.dev/gen/lehr/intent/v1"
	"lehr.dev/internal/annealing/delivery"
	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/ground/promotion"
	"lehr.dev/internal/store"
)

// ActOnDelivery keeps what a person asks, or shows what it would change.
func (s *Server) ActOnDelivery(ctx context.Context, request *apipb.ActOnDeliveryRequest) (*apipb.ActOnDeliveryResponse, error) {
	partition, err := s.registered(ctx, request.Partition)
	if err != nil {
		return nil, err
	}
	if !slices.Contains(intent.DeliveryActs(), request.Kind) {
		return nil, fault.New(fault.Invalid, "%q is nothing that can be asked of delivery", request.Kind).WithHint("known are %s", strings.Join(intent.DeliveryActs(), ", "))
	}
	a, err := s.application(ctx, partition, request.Application)
	if err != nil {
		return nil, err
	}
	row := intent.DeliveryRecord{
		Partition: partition.ID, Application: a.Spec.GetName(), Kind: intent.DeliveryAct, Act: request.Kind, Environment: request.Environment,
		Constraint: request.Constraint, By: actorOf(ctx),
	}
	if row.Reason, err = loosened("asking delivery to "+request.Kind, request.Reason); err != nil {
		return nil, err
	}
	if !slices.Contains([]string{intent.ActUnpin, intent.ActPause, intent.ActResume}, request.Kind) {
		version, err := a.versionNamed(request.Version, request.Digest)
		if err != nil {
			return nil, err
		}
		row.Version = version
	}
	if row.Act == intent.ActRollBack {
		a.fillRollBack(&row)
	}
	effects, err := a.Application.Effects(a.Catalogue, a.Facts, delivery.ActOf(row))
	if err != nil {
		return nil, err
	}
	response := &apipb.ActOnDeliveryResponse{Effects: a.effects(effects), Version: toVersionName(row.Version)}
	if request.DryRun {
		return response, nil
	}
	stored, err := s.store.RecordDelivery(ctx, row, store.DeliveryAuthority{Partition: a.partitionOf(row.Environment), AnyOf: []intent.Role{intent.Operator}, Said: &a.Said})
	response.Number = stored.Number
	return response, err
}

// fillRollBack with what the environment has and the newest version: the act says it of these.
func (a *deliveredApplication) fillRollBack(row *intent.DeliveryRecord) {
	for at := range a.Places {
		if a.Places[at].Spec.GetName() == row.Environment {
			row.Had = a.decision.Outcomes[at].Has
		}
	}
	if ordered := a.Catalogue.Ordered(); len(ordered) > 0 {
		row.Newest = ordered[len(ordered)-1].VersionName()
	}
}

// partitionOf an environment; of none: the application's.
func (a *deliveredApplication) partitionOf(environment string) intent.PartitionID {
	for at := range a.Places {
		if a.Places[at].Spec.GetName() == environment {
			return delivery.PartitionOf(a.Home.ID, a.Places[at].Spec)
		}
	}
	return a.Home.ID
}

func (a *deliveredApplication) effects(effects []promotion.Effect) (list []*apipb.DeliveryEffect) {
	for _, effect := range effects {
		at := slices.Index(a.Application.Names(), effect.Environment)
		list = append(list, &apipb.DeliveryEffect{Environment: effect.Environment, Before: a.environment(at, effect.Before), After: a.environment(at, effect.After)})
	}
	return list
}

// constraintOf an environment, by its name, or of a kind the only one.
func (a *deliveredApplication) constraintOf(environment, name, kind string, isKind func(*intentpb.DeliveryConstraint) bool) (*intentpb.DeliveryConstraint, error) {
	at := slices.Index(a.Application.Names(), environment)
	if at < 0 {
		return nil, fault.New(fault.NotFound, "%s has no environment %q", a.Spec.GetName(), environment).WithHint("it has %s", strings.Join(a.Application.Names(), ", "))
	}
	var found []*intentpb.DeliveryConstraint
	var names []string
	for _, c := range a.Places[at].Spec.GetConstraints() {
		if !isKind(c) {
			continue
		}
		if names = append(names, c.GetName()); name == "" || c.GetName() == name {
			found = append(found, c)
		}
	}
	switch {
	case len(found) == 1:
		return found[0], nil
	case len(names) == 0:
		return nil, fault.New(fault.Invalid, "%s has no %s", environment, kind).WithHint("lehr why %s shows what it has", environment)
	case len(found) > 1:
		return nil, fault.New(fault.Invalid, "%s has several of the kind %s", environment, kind).WithHint("name one: %s", strings.Join(names, ", "))
	}
	return nil, fault.New(fault.NotFound, "%s has no %s %q", environment, kind, name).WithHint("it has %s", strings.Join(names, ", "))
}

// VoteOnVersion keeps a person's word on a version, or shows what it would change.
func (s *Server) VoteOnVersion(ctx context.Context, request *apipb.VoteOnVersionRequest) (*apipb.VoteOnVersionResponse, error) {
	partition, err := s.registered(ctx, request.Partition)
	if err != nil {
		return nil, err
	}
	a, err := s.application(ctx, partition, request.Application)
	if err != nil {
		return nil, err
	}
	isJudgement := func(c *intentpb.DeliveryConstraint) bool { return c.GetJudgement() != nil }
	constraint, err := a.constraintOf(request.Environment, request.Constraint, "judgement", isJudgement)
	if err != nil {
		return nil, err
	}
	version, err := a.versionNamed(request.Version, request.Digest)
	if err != nil {
		return nil, err
	}
	row := intent.DeliveryRecord{
		Partition: partition.ID, Application: a.Spec.GetName(), Kind: intent.DeliveryVote, Environment: request.Environment, Constraint: constraint.GetName(),
		Version: version, Good: request.Approve, By: actorOf(ctx),
	}
	if row.Reason, err = loosened("a word on version "+version.Name, request.Reason); err != nil {
		return nil, err
	}
	if err := a.isAsked(row); err != nil {
		return nil, err
	}
	roles := []intent.Role{intent.Approver}
	if named := constraint.GetJudgement().GetRoles(); len(named) > 0 {
		roles = nil
		for _, role := range named {
			roles = append(roles, intent.Role(role))
		}
	}
	response := &apipb.VoteOnVersionResponse{Version: toVersionName(version)}
	row.Roles = roles
	if !request.DryRun {
		stored, err := s.store.RecordDelivery(ctx, row, store.DeliveryAuthority{Partition: a.partitionOf(row.Environment), AnyOf: roles})
		if err != nil {
			return nil, err
		}
		row, response.Number = stored, stored.Number
	}
	response.Effects, response.Verdict, err = a.voted(row)
	return response, err
}

// isAsked refuses an approval that nobody is asked for: the constraints above the judgement do
// not let the version in, and what they find may be why it should not be approved.
func (a *deliveredApplication) isAsked(row intent.DeliveryRecord) error {
	if !row.Good {
		return nil
	}
	explained, err := a.decision.Explain(row.Environment, row.Version)
	if err != nil {
		return err
	}
	for _, v := range explained.Verdicts {
		if v.Constraint == row.Constraint {
			return nil
		}
		if v.Status == promotion.Refuses {
			return fault.New(fault.Conflict, "nobody is asked about %s in %s yet: %s", row.Version.Name, row.Environment, v.Words()).WithHint("lehr why %s says what it waits for", row.Version.Name)
		}
	}
	return nil
}

// voted says what a vote changes, and what its judgement says with it.
func (a *deliveredApplication) voted(row intent.DeliveryRecord) ([]*apipb.DeliveryEffect, *apipb.VersionVerdict, error) {
	version := row.Version
	vote := promotion.Vote{Environment: row.Environment, Constraint: row.Constraint, VersionName: version, By: row.By.Name, At: a.Facts.Now, Approve: row.Good, Reason: row.Reason}
	for _, role := range row.Roles {
		vote.Roles = append(vote.Roles, string(role))
	}
	changed := *a.Facts
	changed.Votes = append(slices.Clone(a.Facts.Votes), vote)
	decided := a.Application.Decide(a.Catalogue, &changed)
	var effects []promotion.Effect
	for at, name := range a.Application.Names() {
		previous, next := a.decision.Outcomes[at], decided.Outcomes[at]
		if previous.Wants != next.Wants || previous.Hold != next.Hold || previous.Why != next.Why {
			effects = append(effects, promotion.Effect{Environment: name, Before: previous, After: next})
		}
	}
	explained, err := decided.Explain(row.Environment, version)
	if err != nil {
		return nil, nil, err
	}
	var verdict *apipb.VersionVerdict
	for _, v := range explained.Verdicts {
		if v.Constraint == row.Constraint {
			verdict = toVersionVerdict(v)
		}
	}
	return a.effects(effects), verdict, nil
}

// RecordVerdict keeps what a verification, or a constraint that is decided outside, came to. A
// verification is of what the environment has, as it is now.
func (s *Server) RecordVerdict(ctx context.Context, request *apipb.RecordVerdictRequest) (*apipb.RecordVerdictResponse, error) {
	partition, err := s.registered(ctx, request.Partition)
	if err != nil {
		return nil, err
	}
	a, err := s.application(ctx, partition, request.Application)
	if err != nil {
		return nil, err
	}
	at := slices.Index(a.Application.Names(), request.Environment)
	isOutside := func(c *intentpb.DeliveryConstraint) bool { return c.GetOutside() != nil }
	row := intent.DeliveryRecord{
		Partition: partition.ID, Application: a.Spec.GetName(), Kind: intent.DeliveryResult, Environment: request.Environment, Constraint: request.Name,
		Good: request.Good, By: actorOf(ctx),
	}
	if row.Reason, err = loosened("a verdict of "+request.Name, request.Reason); err != nil {
		return nil, err
	}
	var version intent.VersionName
	if at >= 0 && slices.Contains(a.Places[at].Spec.GetVerify(), request.Name) {
		version, row.Content, err = a.verified(at, request)
	} else if _, err = a.constraintOf(request.Environment, request.Name, "verification or constraint that is decided outside", isOutside); err == nil {
		version, err = a.versionNamed(request.Version, request.Digest)
	}
	if err != nil {
		return nil, err
	}
	row.Version = version
	stored, err := s.store.RecordDelivery(ctx, row, store.DeliveryAuthority{Partition: a.partitionOf(row.Environment), AnyOf: []intent.Role{intent.Operator}})
	return &apipb.RecordVerdictResponse{Number: stored.Number, Version: toVersionName(version)}, err
}

// verified is what an environment has, which must be the version named and good.
func (a *deliveredApplication) verified(at int, request *apipb.RecordVerdictRequest) (version intent.VersionName, content intent.Digest, err error) {
	current := a.decision.Outcomes[at].Has
	facts := a.Facts.Environments[request.Environment]
	if request.Version != "" && current.Name != request.Version || !strings.HasPrefix(current.Digest, request.Digest) {
		return current, content, fault.New(fault.Conflict, "%s has %s, and not %s", request.Environment, current.Name, request.Version).WithHint("verify what it has now")
	}
	if n := len(facts.Stays); n == 0 || facts.Stays[n-1].GoodSince.IsZero() || facts.Stays[n-1].Content != a.Places[at].Assets.Content.String() {
		return current, content, fault.New(fault.Conflict, "%s has not converged, and what is verified of it counts for nothing", request.Environment).WithHint("wait until lehr get environments says that it is good")
	}
	return current, a.Places[at].Assets.Content, nil
}
