package strategist

import (
	"context"
	"slices"

	intentpb "lehr.dev/gen/lehr/intent/v1"
	"lehr.dev/internal/annealing/strategist/conduct"
	"lehr.dev/internal/ground/course"
	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/ground/schema"
)

// mostChanges of an asset are looked back through for the one that it has not
// followed first.
const mostChanges = 20

// loosened says what head's policy asks of a rollout no longer, or less of, than the
// policies that were there before what an incarnation has new for its assets came. A policy
// that was loosened before that loosened nothing for it.
func (s *Strategist) loosened(ctx context.Context, v *view, name string, incarnation intent.IncarnationID, assets []conduct.Asset) (findings []string, err error) {
	var bases []intent.IncarnationID
	for i := range assets {
		at, err := s.cameAfter(ctx, incarnation, &assets[i])
		if err != nil {
			return nil, err
		}
		if at.Sequence > 0 && !slices.Contains(bases, at) {
			bases = append(bases, at)
		}
	}
	for _, at := range bases {
		policy, err := s.policyAt(ctx, at)
		if err != nil {
			return nil, err
		}
		for _, less := range course.Loosened(policy, v.policy, name) {
			if !slices.Contains(findings, less) {
				findings = append(findings, less)
			}
		}
	}
	return findings, nil
}

// cameAfter is the incarnation after which the content of an asset in another, and what it was
// meanwhile, came: the newest that still had what it follows. Where that is not
// retained it is the one that it follows.
func (s *Strategist) cameAfter(ctx context.Context, incarnation intent.IncarnationID, a *conduct.Asset) (intent.IncarnationID, error) {
	at, follows, pin := incarnation, a.Pinned, a.Pin
	if a.Back != nil {
		follows, pin = a.BackAt, *a.Back
	}
	for range mostChanges {
		member, err := s.Store.Member(ctx, at, a.ID)
		if fault.Is(err, fault.NotFound) {
			break
		}
		if err != nil {
			return at, err
		}
		if member.Effective == follows {
			return at, nil
		}
		at.Sequence = member.Since - 1
		if at.Sequence <= pin.Incarnation.Sequence {
			break
		}
		if _, err := s.Store.Incarnation(ctx, at); fault.Is(err, fault.NotFound) {
			break
		} else if err != nil {
			return at, err
		}
	}
	if pin.Waits() {
		return at, nil // It is new, or came back.
	}
	return pin.Incarnation, nil
}

// policyAt an incarnation; an empty one: it has none.
func (s *Strategist) policyAt(ctx context.Context, at intent.IncarnationID) (*intentpb.Policy, error) {
	policy := &intentpb.Policy{}
	_, body, err := s.Store.Content(ctx, at, intent.PolicyAsset)
	if fault.Is(err, fault.NotFound) {
		return policy, nil
	}
	if err != nil {
		return nil, err
	}
	asset, err := schema.Decode(body)
	if err != nil {
		return nil, err
	}
	return policy, schema.Payload(asset, policy)
}
