package web

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	apipb "lehr.dev/gen/lehr/api/v1"
	"lehr.dev/gen/lehr/api/v1/apipbconnect"
	"lehr.dev/internal/ground/fault"
)

const (
	// approveTogether is the name of the act that approves several plans, which is of all that wait in a partition, or of those that
	// one incarnation brings.
	approveTogether = "approve-together"
	// togetherAtMost are shown and approved by one form.
	togetherAtMost = 50
	// planPrefix begins the names of a form's fields that hold the plan of an asset.
	planPrefix = "plan:"
)

func registerApproveTogether() {
	acts[approveTogether] = act{
		call: apipbconnect.ApprovalServiceApproveAssetProcedure, title: "Approve plans together in", button: "Approve these plans, once", lasts: "one hour, or less where the policy says so", loosens: true,
		effect: "Exactly the plans that are shown and ticked are let through, once each. A plan that changes before is not approved.",
		show:   showPlansToJudge, do: approvePlans,
		back: func(address) crumb { return crumb{"inbox", inboxKind} },
	}
}

// plannedView is a plan that waits for approval.
type plannedView struct {
	Partition, Asset, Reason string
	Report                   *apipb.Report
	Consent                  consentView
}

// showPlansToJudge shows each plan that waits, what destroys something first, and binds the form to all.
func showPlansToJudge(ctx context.Context, r *reader, at address, form *actForm) error {
	pending, err := r.Approvals.ListApprovals(ctx, &apipb.ListApprovalsRequest{Partition: at.partition})
	if err != nil {
		return err
	}
	wanted := at.query.Get("incarnation")
	var plans []plannedView
	others := 0
	for i, request := range pending.Requests {
		if len(plans) == togetherAtMost {
			others = len(pending.Requests) - i
			break
		}
		response, err := r.Reports.GetReport(ctx, &apipb.GetReportRequest{Partition: at.partition, Asset: request.Asset})
		if absent(err) {
			continue
		}
		if err != nil {
			return err
		}
		report := response.Report
		if report.PlanDigest == "" || wanted != "" && report.Target != wanted {
			continue
		}
		plans = append(plans, plannedView{at.partition, request.Asset, request.Reason, report, consentOf(pending, request.Asset)})
	}
	if len(plans) == 0 {
		form.Refused = fault.New(fault.Conflict, "no plan waits for approval").WithHint("the inbox lists what waits")
		return nil
	}
	slices.SortStableFunc(plans, func(a, b plannedView) int {
		switch destroys := a.Report.Plan.GetDestructive(); {
		case destroys == b.Report.Plan.GetDestructive():
			return 0
		case destroys:
			return -1
		}
		return 1
	})
	for _, plan := range plans {
		label := plan.Asset
		if plan.Report.Plan.GetDestructive() {
			label += ", destructive"
		}
		form.Checks = append(form.Checks, field{Name: planPrefix + plan.Asset, Value: plan.Report.PlanDigest, Label: label})
		form.parts = append(form.parts, makePart("plan:"+plan.Asset, "act-plan-of", plan))
	}
	if others > 0 {
		form.parts = append(form.parts, problem("others", fault.New(fault.Conflict, "up to %d more plans wait, and are not part of this form", others).WithHint("approve these first")))
	}
	return nil
}

// approvePlans approves each plan that was left ticked. One that is refused leaves the others approved, and is named.
func approvePlans(ctx context.Context, r *reader, request actRequest) (string, error) {
	var approved []string
	var refused []error
	for name := range request.values {
		asset, ok := strings.CutPrefix(name, planPrefix)
		if !ok {
			continue
		}
		_, err := r.Approvals.ApproveAsset(ctx, &apipb.ApproveAssetRequest{
			Partition: request.partition, Asset: asset, Plan: request.values.Get(name), Reason: request.reason, Period: request.period,
		})
		if err != nil {
			refused = append(refused, fmt.Errorf("%s: %w", asset, err))
			continue
		}
		approved = append(approved, asset)
	}
	slices.Sort(approved)
	slices.SortFunc(refused, func(a, b error) int { return strings.Compare(a.Error(), b.Error()) })
	switch {
	case len(approved) == 0 && len(refused) == 0:
		return "", fault.New(fault.Invalid, "no plan is ticked").WithHint("tick those that you approve")
	case len(approved) == 0:
		return "", errors.Join(refused...)
	}
	message := "Approved, once each: " + strings.Join(approved, ", ") + "."
	for _, err := range refused {
		message += " Not approved: " + err.Error() + "."
	}
	return message, nil
}
