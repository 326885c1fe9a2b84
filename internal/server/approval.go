package server

import (
	"context"
	"slices"
	"strings"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	apipb "lehr.dev/gen/lehr/api/v1"
	intentpb "lehr.dev/gen/lehr/intent/v1"
	"lehr.dev/internal/annealing/check"
	"lehr.dev/internal/ground/commonpolicy"
	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/store"
)

const (
	usualApproval = time.Hour
	usualOverride = time.Hour
	// longestOverride is how long one may be given for where policy is silent.
	longestOverride = 24 * time.Hour
	// A shorter piece of a digest is too easily another plan's.
	minDigestPrefix = 8
	// mostRequests are listed at once.
	mostRequests = 1000
)

// ApproveAsset binds an approval to what the asset's last report shows:
// content, and the plan that a push would carry out (S9).
func (s *Server) ApproveAsset(ctx context.Context, request *apipb.ApproveAssetRequest) (*apipb.ApproveAssetResponse, error) {
	partition, report, err := s.planned(ctx, "approve", request.Partition, request.Asset, request.Plan)
	if err != nil {
		return nil, err
	}
	policy, err := s.policy(ctx, partition.Head)
	if err != nil {
		return nil, err
	}
	now, person := s.runtime.Now(), actorOf(ctx)
	end, err := s.boundedDeadline(request.Period, usualApproval, policy.GetApproval().GetExpires().AsDuration(), "an approval")
	if err != nil {
		return nil, err
	}
	approval := intent.Approval{
		Partition: partition.ID, Asset: report.Asset, Effective: report.Effective, Plan: report.PlanDigest,
		By: person, Alone: s.alone(ctx), Reason: because(request.Reason), Created: now, Until: end,
	}
	quorum := intent.Quorum{People: 1}
	var authors []string
	if report.Consent != nil {
		quorum.People, authors = report.Consent.Need, report.Consent.Authors
	}
	if len(quorum.Consent(authors, []intent.Approval{approval}, now).Approved) == 0 {
		return nil, fault.New(fault.Denied, "cannot approve %s: %s made the change, and somebody else must approve it", report.Asset, person.Name).
			WithHint("lehr get approvals shows who approved, and how many are needed")
	}
	before, err := s.store.Consents(ctx, partition.ID)
	if err != nil {
		return nil, err
	}
	if err := s.store.Approve(ctx, approval); err != nil {
		return nil, err
	}
	consents, err := s.store.Consents(ctx, partition.ID)
	if err != nil {
		return nil, err
	}
	isOther := func(a intent.Approval) bool {
		return a.Asset != report.Asset || a.Effective != report.Effective || a.Plan != report.PlanDigest
	}
	again := slices.Contains(quorum.Consent(authors, slices.DeleteFunc(before.Approvals, isOther), now).Approved, person.Name)
	consent := quorum.Consent(authors, slices.DeleteFunc(consents.Approvals, isOther), now)
	rejections := slices.DeleteFunc(consents.Rejections, func(r intent.Rejection) bool {
		return r.Asset != report.Asset || r.Effective != report.Effective || r.Plan != report.PlanDigest || intent.Expired(r.Until, now)
	})
	return &apipb.ApproveAssetResponse{
		Approval: toApproval(approval, now), Plan: toPlan(report.Plan), Consent: toConsent(&consent),
		Rejections: convertEach(rejections, func(r intent.Rejection) *apipb.Rejection { return toRejection(r, now) }), Again: again,
	}, nil
}

// planned is the asset's last report, with the plan that a person names.
func (s *Server) planned(ctx context.Context, verb, partition, name, plan string) (store.Partition, intent.Report, error) {
	p, asset, err := s.asset(ctx, partition, name)
	if err != nil {
		return p, intent.Report{}, err
	}
	report, err := s.store.Report(ctx, p.ID, asset)
	if err != nil {
		return p, report, err
	}
	return p, report, judgeable(verb, report, plan)
}

// judgeable refuses what a person cannot have seen.
func judgeable(verb string, report intent.Report, plan string) error {
	if report.PlanDigest.IsZero() {
		return fault.New(fault.Conflict, "cannot %s %s: it is %s, and no plan to change it is known", verb, report.Asset, report.State).
			WithHint("lehr why %s says how it is", report.Asset)
	}
	if plan == "" {
		return fault.New(fault.Invalid, "cannot %s a plan of %s that is not named: it may be another one than was read", verb, report.Asset).
			WithHint("read it with lehr describe report %s, and name its digest, which is that of the plan and of its content", report.Asset)
	}
	if len(plan) < minDigestPrefix {
		return fault.New(fault.Invalid, "plan %q is too short: at least %d digits of its digest are needed", plan, minDigestPrefix).
			WithHint("lehr describe report %s shows it", report.Asset)
	}
	if !strings.HasPrefix(report.Reading().String(), plan) {
		return fault.New(fault.Conflict, "cannot %s plan %s of %s: its plan is %s now, or is of other content", verb, plan, report.Asset, report.Reading().Short()).
			WithHint("lehr describe report %s shows the plan as it is now", report.Asset)
	}
	return nil
}

// boundedDeadline is the end of a period that is no longer than the longest one, if
// there is one. An unset period is the usual one.
func (s *Server) boundedDeadline(period *durationpb.Duration, usual, longest time.Duration, subject string) (time.Time, error) {
	if longest > 0 {
		usual = min(usual, longest)
	}
	if period == nil {
		return s.runtime.Now().Add(usual), nil
	}
	if longest > 0 && period.AsDuration() > longest {
		return time.Time{}, fault.New(fault.Denied, "%s of this partition holds for at most %s, not %s", subject, longest, period.AsDuration()).
			WithHint("lehr.yaml says so, under checks")
	}
	return s.deadlineAfter(period)
}

// RejectAsset blocks the plan that the asset's last report shows.
func (s *Server) RejectAsset(ctx context.Context, request *apipb.RejectAssetRequest) (*apipb.RejectAssetResponse, error) {
	partition, report, err := s.planned(ctx, "reject", request.Partition, request.Asset, request.Plan)
	if err != nil {
		return nil, err
	}
	if err := reasoned("a rejection", request.Reason); err != nil {
		return nil, err
	}
	end, err := s.deadlineAfter(request.Period)
	if err != nil {
		return nil, err
	}
	now := s.runtime.Now()
	rejection := intent.Rejection{
		Partition: partition.ID, Asset: report.Asset, Effective: report.Effective, Plan: report.PlanDigest,
		By: actorOf(ctx), Reason: request.Reason, Created: now, Until: end,
	}
	if err := s.store.Reject(ctx, rejection); err != nil {
		return nil, err
	}
	return &apipb.RejectAssetResponse{Rejection: toRejection(rejection, now), Plan: toPlan(report.Plan)}, nil
}

// reasoned refuses what nobody could judge later.
func reasoned(subject, reason string) error {
	if strings.TrimSpace(reason) == "" {
		return fault.New(fault.Invalid, "%s needs a reason, for whoever finds it", subject)
	}
	return nil
}

func (s *Server) WithdrawRejection(ctx context.Context, request *apipb.WithdrawRejectionRequest) (*apipb.WithdrawRejectionResponse, error) {
	partition, asset, err := s.asset(ctx, request.Partition, request.Asset)
	if err != nil {
		return nil, err
	}
	person := actorOf(ctx)
	return &apipb.WithdrawRejectionResponse{}, s.store.Withdraw(ctx, partition.ID, asset, person.Name, because(request.Reason), person)
}

func (s *Server) OverruleRejection(ctx context.Context, request *apipb.OverruleRejectionRequest) (*apipb.OverruleRejectionResponse, error) {
	partition, asset, err := s.asset(ctx, request.Partition, request.Asset)
	if err != nil {
		return nil, err
	}
	if request.Of == "" {
		return nil, fault.New(fault.Invalid, "nobody was named whose rejection to take back").WithHint("lehr get approvals lists rejections, with who gave them")
	}
	if err := reasoned("taking somebody's rejection back", request.Reason); err != nil {
		return nil, err
	}
	return &apipb.OverruleRejectionResponse{}, s.store.Withdraw(ctx, partition.ID, asset, request.Of, request.Reason, actorOf(ctx))
}

// OverrideCheck binds an override to the content that the asset's last report
// is about. Whether it counts is decided by the policies that hold at the push
// (S23).
func (s *Server) OverrideCheck(ctx context.Context, request *apipb.OverrideCheckRequest) (*apipb.OverrideCheckResponse, error) {
	partition, asset, err := s.asset(ctx, request.Partition, request.Asset)
	if err != nil {
		return nil, err
	}
	policy, err := s.policy(ctx, partition.Head)
	if err != nil {
		return nil, err
	}
	if err := s.mayOverride(ctx, partition.ID, policy, request.Check); err != nil {
		return nil, err
	}
	if err := reasoned("an override", request.Reason); err != nil {
		return nil, err
	}
	report, err := s.store.Report(ctx, partition.ID, asset)
	if err != nil {
		return nil, err
	}
	if report.Effective.IsZero() || report.State == intent.StateGone {
		return nil, fault.New(fault.Conflict, "cannot override a check of %s: it is %s, and nothing of it is to be pushed", asset, report.State).
			WithHint("lehr why %s says how it is", asset)
	}
	if err := sameContent(report, request.Content); err != nil {
		return nil, err
	}
	longest := policy.GetOverrides().GetLongest().AsDuration()
	if longest == 0 {
		longest = longestOverride
	}
	end, err := s.boundedDeadline(request.Period, usualOverride, longest, "an override")
	if err != nil {
		return nil, err
	}
	now := s.runtime.Now()
	override := intent.Override{
		Partition: partition.ID, Asset: asset, Effective: report.Effective, Check: request.Check,
		By: actorOf(ctx), Reason: request.Reason, Created: now, Until: end,
	}
	if err := s.store.Override(ctx, override); err != nil {
		return nil, err
	}
	return &apipb.OverrideCheckResponse{Override: toOverride(override, now)}, nil
}

// sameContent refuses an override of another content than the one that was looked at.
func sameContent(report intent.Report, content string) error {
	now := report.Effective.String()
	switch {
	case content == "":
		return fault.New(fault.Invalid, "the content of %s is not named for which the check is to pass: it may be another one than was looked at", report.Asset).
			WithHint("lehr describe report %s shows its digest", report.Asset)
	case len(content) < minDigestPrefix:
		return fault.New(fault.Invalid, "content %q is too short: at least %d digits of its digest are needed", content, minDigestPrefix)
	case !strings.HasPrefix(now, content):
		return fault.New(fault.Conflict, "cannot override a check of content %s of %s: its content is %s now", content, report.Asset, report.Effective.Short()).
			WithHint("lehr why %s says how it is", report.Asset)
	}
	return nil
}

func (s *Server) ListApprovals(ctx context.Context, request *apipb.ListApprovalsRequest) (*apipb.ListApprovalsResponse, error) {
	partition, err := s.registered(ctx, request.Partition)
	if err != nil {
		return nil, err
	}
	consents, err := s.store.Consents(ctx, partition.ID)
	if err != nil {
		return nil, err
	}
	now := s.runtime.Now()
	response := &apipb.ListApprovalsResponse{
		Approvals:  convertEach(consents.Approvals, func(a intent.Approval) *apipb.Approval { return toApproval(a, now) }),
		Rejections: convertEach(consents.Rejections, func(r intent.Rejection) *apipb.Rejection { return toRejection(r, now) }),
	}
	return response, s.requests(ctx, partition.ID, response)
}

// requests finds the assets that wait for people, by their reports.
func (s *Server) requests(ctx context.Context, partition intent.PartitionID, response *apipb.ListApprovalsResponse) error {
	filter := store.ReportFilter{Asks: true, Limit: mostPage}
	for {
		reports, err := s.store.ListReports(ctx, partition, filter)
		if err != nil {
			return err
		}
		for _, report := range reports {
			filter.After = report.Asset
			if request := toRequest(report); request != nil {
				response.Requests = append(response.Requests, request)
			}
		}
		if len(reports) < mostPage {
			return nil
		}
		if len(response.Requests) >= mostRequests {
			response.More = true
			return nil
		}
	}
}

// toRequest is nil for an asset that waits for nobody.
func toRequest(r intent.Report) *apipb.ApprovalRequest {
	at := r.Asked()
	if at < 0 || r.PlanDigest.IsZero() {
		return nil
	}
	return &apipb.ApprovalRequest{
		Partition: string(r.Partition), Asset: string(r.Asset), Effective: toDigest(r.Effective), Plan: toDigest(r.Reading()),
		Since: toTime(r.At), Consent: toConsent(r.Consent), Reason: r.Waiting[at].Reason,
	}
}

func (s *Server) ListOverrides(ctx context.Context, request *apipb.ListOverridesRequest) (*apipb.ListOverridesResponse, error) {
	partition, err := s.registered(ctx, request.Partition)
	if err != nil {
		return nil, err
	}
	consents, err := s.store.Consents(ctx, partition.ID)
	now := s.runtime.Now()
	return &apipb.ListOverridesResponse{
		Overrides: convertEach(consents.Overrides, func(o intent.Override) *apipb.Override { return toOverride(o, now) }),
	}, err
}

// mayOverride refuses a check that neither the partition's policy nor the common rule that asks
// for it lets people override.
func (s *Server) mayOverride(ctx context.Context, partition intent.PartitionID, policy *intentpb.Policy, name string) error {
	names, allowed := convertEach(policy.GetChecks(), (*intentpb.Check).GetName), check.AllowedBy(policy)
	asking, isCommon := commonpolicy.RuleOf(name)
	if !isCommon {
		return check.CheckOverride(name, allowed, names...)
	}
	stored, err := s.store.CommonPolicy(ctx)
	if err != nil {
		return err
	}
	common, err := commonpolicy.Decode(stored.Body)
	if err != nil {
		return err
	}
	for _, rule := range commonpolicy.Rules(common, commonpolicy.TraitsOf(common, partition, policy.GetOwner())) {
		if slices.Contains(rule.Overridable, name) {
			return nil
		}
		if rule.Name == asking {
			return fault.New(fault.Denied, "the check %s cannot be overridden: the %s does not allow it", name, commonpolicy.Place(common, rule, "")).
				WithHint("ask %s: no partition's policy can allow it", rule.Owner)
		}
	}
	return fault.New(fault.Invalid, "no common rule asks for a check %q in %q", name, partition).WithHint("lehr policy show -p %s lists those that do", partition)
}
