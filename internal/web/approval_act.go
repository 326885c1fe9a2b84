package web

import (
	"context"
	"fmt"
	"slices"

	apipb "lehr.dev/gen/lehr/api/v1"
	"lehr.dev/gen/lehr/api/v1/apipbconnect"
	"lehr.dev/internal/ground/fault"
)

// registerApprovalActs adds what people say of the plans of assets.
func registerApprovalActs() {
	registerApproveTogether()
	acts["approve"] = act{
		call: apipbconnect.ApprovalServiceApproveAssetProcedure, subject: "asset", title: "Approve the plan of", button: "Approve this plan, once", undo: "reject", lasts: "one hour, or less where the policy says so", loosens: true,
		effect: "Exactly this plan is let through, once. If the plan or its content changes before, the approval counts for nothing.",
		show:   showPlanToJudge, do: approve,
	}
	acts["reject"] = act{
		call: apipbconnect.ApprovalServiceRejectAssetProcedure, subject: "asset", title: "Reject the plan of", button: "Reject this plan", undo: "withdraw", lasts: "until it is taken back",
		effect: "This plan is not pushed, whoever approves it, until the rejection is taken back.",
		show:   showPlanToJudge, do: reject,
	}
	acts["withdraw"] = act{
		call: apipbconnect.ApprovalServiceWithdrawRejectionProcedure, subject: "asset", title: "Take your rejection back of", button: "Take it back", loosens: true,
		effect: "Your rejections of this asset's plans end.",
		show:   showPlanned, do: withdraw,
	}
	acts["override"] = act{
		call: apipbconnect.ApprovalServiceOverrideCheckProcedure, subject: "asset", title: "Override a check of", button: "Let it pass", lasts: "one hour", loosens: true,
		effect: "The check that you choose passes for this content of the asset, where the partition's policy allows that. All other checks have their say.",
		show:   showOverridable, do: override,
	}
	acts["overrule"] = act{
		call: apipbconnect.ApprovalServiceOverruleRejectionProcedure, subject: "asset", title: "Take another's rejection back of", button: "Take another's back", loosens: true,
		effect: "The rejections of the person whom you choose end. The audit has it under your name.",
		show:   showRejections, do: overrule,
	}
}

func approve(ctx context.Context, r *reader, request actRequest) (string, error) {
	response, err := r.Approvals.ApproveAsset(ctx, &apipb.ApproveAssetRequest{
		Partition: request.partition, Asset: request.subject, Plan: request.values.Get("plan"), Reason: request.reason, Period: request.period,
	})
	if err != nil {
		return "", err
	}
	message := fmt.Sprintf("Plan %s of %s is approved, once%s.", short(response.Approval.Plan), request.subject, untilWords(response.Approval.Until))
	if approved, need := len(response.Consent.GetApproved()), int(response.Consent.GetNeed()); approved < need {
		message += fmt.Sprintf(" It has %d of the %d approvals that it needs.", approved, need)
	}
	for _, rejection := range response.Rejections {
		message += fmt.Sprintf(" But it is not pushed: %s rejected this plan: %s.", rejection.By.GetName(), rejection.Reason)
	}
	return message, nil
}

func reject(ctx context.Context, r *reader, request actRequest) (string, error) {
	response, err := r.Approvals.RejectAsset(ctx, &apipb.RejectAssetRequest{
		Partition: request.partition, Asset: request.subject, Plan: request.values.Get("plan"), Reason: request.reason, Period: request.period,
	})
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("Plan %s of %s is rejected%s.", short(response.Rejection.Plan), request.subject, untilWords(response.Rejection.Until)), nil
}

func withdraw(ctx context.Context, r *reader, request actRequest) (string, error) {
	_, err := r.Approvals.WithdrawRejection(ctx, &apipb.WithdrawRejectionRequest{Partition: request.partition, Asset: request.subject, Reason: request.reason})
	return "Your rejections of " + request.subject + " are taken back.", err
}

func override(ctx context.Context, r *reader, request actRequest) (string, error) {
	response, err := r.Approvals.OverrideCheck(ctx, &apipb.OverrideCheckRequest{
		Partition: request.partition, Asset: request.subject, Check: request.values.Get("check"), Content: request.values.Get("content"),
		Reason: request.reason, Period: request.period,
	})
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("Check %s of %s passes%s.", response.Override.Check, request.subject, untilWords(response.Override.Until)), nil
}

// showPlanToJudge binds an act to the plan that is shown.
func showPlanToJudge(ctx context.Context, r *reader, at address, form *actForm) error {
	asset := at.query.Get("asset")
	response, err := r.Reports.GetReport(ctx, &apipb.GetReportRequest{Partition: at.partition, Asset: asset})
	if err != nil {
		return err
	}
	report := response.Report
	if linked := at.query.Get("plan"); linked != "" && report.PlanDigest != "" && linked != report.PlanDigest {
		form.Refused = fault.New(fault.Conflict, "%s would be changed by another plan now than the link is about", asset).WithHint("its page shows the plan that there is now")
		return nil
	}
	if report.PlanDigest == "" {
		form.Refused = fault.New(fault.Conflict, "%s is %s, and no plan to change it is known", asset, report.State).WithHint("its page says how it is")
		return nil
	}
	form.parts = append(form.parts, makePart("plan", "plan", report))
	form.Bound = []field{{Name: "plan", Value: report.PlanDigest}}
	pending, err := r.Approvals.ListApprovals(ctx, &apipb.ListApprovalsRequest{Partition: at.partition})
	if err != nil {
		return err
	}
	form.parts = append(form.parts, makePart("consent", "act-consent", consentOf(pending, asset)))
	return nil
}

// consentView is how far the approval of an asset's plan has come.
type consentView struct {
	Request    *apipb.ApprovalRequest
	Rejections []*apipb.Rejection
}

func consentOf(pending *apipb.ListApprovalsResponse, asset string) (view consentView) {
	for _, request := range pending.Requests {
		if request.Asset == asset {
			view.Request = request
		}
	}
	for _, rejection := range pending.Rejections {
		if rejection.Asset == asset && !rejection.Expired {
			view.Rejections = append(view.Rejections, rejection)
		}
	}
	return view
}

// overridable are the checks that an override may be of.
var overridable = map[string]bool{"order": true, "capacity": true, "version": true}

// showOverridable offers the checks that the asset waits for, bound to its content.
func showOverridable(ctx context.Context, r *reader, at address, form *actForm) error {
	asset := at.query.Get("asset")
	response, err := r.Reports.GetReport(ctx, &apipb.GetReportRequest{Partition: at.partition, Asset: asset})
	if err != nil {
		return err
	}
	checks := choice{Name: "check", Label: "check"}
	for _, waiting := range response.Report.Waiting {
		if overridable[waiting.Kind] {
			checks.Options = append(checks.Options, option{Value: waiting.Kind, Text: waiting.Kind + ": " + waiting.Reason})
		}
	}
	if len(checks.Options) == 0 {
		form.Refused = fault.New(fault.Conflict, "%s waits for no check that can be overridden", asset).WithHint("order, capacity and version can be")
		return nil
	}
	form.Choices = []choice{checks}
	form.Bound = []field{{Name: "content", Value: response.Report.Effective}}
	form.parts = append(form.parts, makePart("checks", "checks", response.Report))
	return nil
}

// showRejections offers the people whose rejections of the asset are in force.
func showRejections(ctx context.Context, r *reader, at address, form *actForm) error {
	asset := at.query.Get("asset")
	pending, err := r.Approvals.ListApprovals(ctx, &apipb.ListApprovalsRequest{Partition: at.partition})
	if err != nil {
		return err
	}
	view := consentOf(pending, asset)
	people := choice{Name: "of", Label: "rejections of"}
	for _, rejection := range view.Rejections {
		name := rejection.By.GetName()
		if !slices.ContainsFunc(people.Options, func(o option) bool { return o.Value == name }) {
			people.Options = append(people.Options, option{Value: name, Text: name})
		}
	}
	if len(people.Options) == 0 {
		form.Refused = fault.New(fault.Conflict, "nobody's rejection of %s is in force", asset)
		return nil
	}
	form.Choices = []choice{people}
	form.parts = append(form.parts, makePart("consent", "act-consent", view))
	return nil
}

func overrule(ctx context.Context, r *reader, request actRequest) (string, error) {
	person := request.values.Get("of")
	_, err := r.Approvals.OverruleRejection(ctx, &apipb.OverruleRejectionRequest{Partition: request.partition, Asset: request.subject, Of: person, Reason: request.reason})
	return fmt.Sprintf("The rejections of %s by %s are taken back.", request.subject, person), err
}
