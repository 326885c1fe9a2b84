package server

import (
	"context"
	"strings"
	"time"

	"lehr.dev/fault"
	apipb "lehr.dev/gen/lehr/api/v1"
	"lehr.dev/intent"
	"lehr.dev/store"
)

const (
	usualApproval = time.Hour
	// A shorter piece of a digest is too easily another plan's.
	minDigestPrefix = 8
)

// ApproveAsset binds an approval to what the asset's last report shows:
// content, and the plan that a push would carry out (S9).
func (s *Server) ApproveAsset(ctx context.Context, request *apipb.ApproveAssetRequest) (*apipb.ApproveAssetResponse, error) {
	partition, asset, err := s.asset(ctx, request.Partition, request.Asset)
	if err != nil {
		return nil, err
	}
	report, err := s.store.Report(ctx, partition.ID, asset)
	if err != nil {
		return nil, err
	}
	if err := approvable(report, request.Plan); err != nil {
		return nil, err
	}
	until, err := s.until(request.Period)
	if err != nil {
		return nil, err
	}
	now := s.runtime.Now()
	if until.IsZero() {
		until = now.Add(usualApproval)
	}
	approval := store.Approval{
		Partition: partition.ID, Asset: asset, Effective: report.Effective, Plan: report.PlanDigest,
		By: by(ctx), Reason: request.Reason, Created: now, Until: until,
	}
	if err := s.store.Approve(ctx, approval); err != nil {
		return nil, err
	}
	return &apipb.ApproveAssetResponse{Approval: toApproval(approval, now), Plan: toPlan(report.Plan)}, nil
}

// approvable refuses what a person cannot have seen.
func approvable(report intent.Report, plan string) error {
	if report.PlanDigest.IsZero() {
		return fault.New(fault.Conflict, "cannot approve %s: it is %s, and no plan to change it is known", report.Asset, report.State).
			WithHint("lehr why %s says how it is", report.Asset)
	}
	if plan == "" {
		return nil
	}
	if len(plan) < minDigestPrefix {
		return fault.New(fault.Invalid, "plan %q is too short: at least %d digits of its digest are needed", plan, minDigestPrefix)
	}
	if !strings.HasPrefix(report.PlanDigest.String(), plan) {
		return fault.New(fault.Conflict, "cannot approve plan %s of %s: its plan is %s now", plan, report.Asset, report.PlanDigest.Short()).
			WithHint("lehr describe report %s shows the plan as it is now", report.Asset)
	}
	return nil
}

func (s *Server) ListApprovals(ctx context.Context, request *apipb.ListApprovalsRequest) (*apipb.ListApprovalsResponse, error) {
	partition, err := s.registered(ctx, request.Partition)
	if err != nil {
		return nil, err
	}
	approvals, err := s.store.Approvals(ctx, partition.ID)
	now := s.runtime.Now()
	return &apipb.ListApprovalsResponse{
		Approvals: each(approvals, func(a store.Approval) *apipb.Approval { return toApproval(a, now) }),
	}, err
}
