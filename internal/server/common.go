package server

import (
	"context"

	"google.golang.org/protobuf/proto"

	apipb "lehr.dev/gen/lehr/api/v1"
	intentpb "lehr.dev/gen/lehr/intent/v1"
	"lehr.dev/internal/ground/commonpolicy"
	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/intent"
)

// mostPolicyText bounds the text of a common policy to plan, in bytes.
const mostPolicyText = 256 << 10

// GetCommonPolicy tells what the server's common policy asks.
func (s *Server) GetCommonPolicy(ctx context.Context, request *apipb.GetCommonPolicyRequest) (*apipb.GetCommonPolicyResponse, error) {
	stored, err := s.store.CommonPolicy(ctx)
	if err != nil {
		return nil, err
	}
	policy, err := commonpolicy.Decode(stored.Body)
	if err != nil {
		return nil, err
	}
	if request.Partition != "" {
		if policy, err = s.commonOf(ctx, policy, request.Partition); err != nil {
			return nil, err
		}
	}
	body, err := proto.MarshalOptions{Deterministic: true}.Marshal(policy)
	return &apipb.GetCommonPolicyResponse{
		Policy: body, Place: stored.Place, Revision: stored.Revision, Since: toTime(stored.Since),
		Problems: convertEach(stored.Problems, toFinding), ProblemsSince: toTime(stored.ProblemsSince),
	}, err
}

// commonOf is what a common policy asks of a partition, which need not be registered yet.
func (s *Server) commonOf(ctx context.Context, policy *intentpb.CommonPolicy, name string) (*intentpb.CommonPolicy, error) {
	id, err := intent.ParsePartitionID(name)
	if err != nil {
		return nil, err
	}
	owner := ""
	partition, err := s.store.Partition(ctx, id)
	if err != nil && !fault.Is(err, fault.NotFound) {
		return nil, err
	}
	if err == nil && !partition.Head.IsZero() {
		served, err := s.policy(ctx, partition.Head)
		if err != nil {
			return nil, err
		}
		owner = served.GetOwner()
	}
	only := &intentpb.CommonPolicy{File: policy.File}
	for _, rule := range commonpolicy.Rules(policy, commonpolicy.TraitsOf(policy, id, owner)) {
		rule = proto.CloneOf(rule)
		rule.Select = nil
		only.Rules = append(only.Rules, rule)
	}
	return only, nil
}

// PlanCommonPolicy says what another common policy would hold and refuse.
func (s *Server) PlanCommonPolicy(ctx context.Context, request *apipb.PlanCommonPolicyRequest) (*apipb.PlanCommonPolicyResponse, error) {
	switch {
	case s.planPolicy == nil:
		return nil, fault.New(fault.Unavailable, "this server plans no common policies")
	case len(request.Text) > mostPolicyText:
		return nil, fault.New(fault.Invalid, "the common policy has %d bytes, at most %d are read", len(request.Text), mostPolicyText).WithHint("join rules about the same partitions")
	}
	return s.planPolicy(ctx, request.File, []byte(request.Text))
}

// ToFinding is a finding for whoever asks.
func ToFinding(f intent.Finding) *apipb.Finding { return toFinding(f) }
