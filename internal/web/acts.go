package web

import (
	"cmp"
	"context"
	"fmt"
	"net/url"
	"strconv"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	apipb "lehr.dev/gen/lehr/api/v1"
	"lehr.dev/gen/lehr/api/v1/apipbconnect"
	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/intent"
)

// acts are what can be done on the pages, by the name that addresses have. They call each
// other's names, so that they are made at the start.
var acts map[string]act

func init() {
	acts = map[string]act{
		"stop": {
			call: apipbconnect.BrakeServiceSetStopProcedure, title: "Stop partition", button: "Stop it", undo: "resume",
			effect: "No push of this partition begins until somebody resumes it, and permits of pushes under way end. Looking goes on.",
			show:   showMoving, do: stop,
		},
		"resume": {
			call: apipbconnect.BrakeServiceResumeProcedure, title: "Resume partition", button: "Resume it", undo: "stop", loosens: true,
			effect: "The stop ends. Everything is compared with production anew, and pushed as checks and budgets let it.",
			show:   showStops, do: resume,
		},
		"hold": {
			call: apipbconnect.BrakeServiceSetHoldProcedure, subject: "asset", title: "Hold", button: "Hold it", undo: "unhold", lasts: "until somebody ends it",
			effect: "No push of this asset begins while it is held. What waits for it goes on waiting.",
			show:   showPlanned, do: hold,
		},
		"unhold": {
			call: apipbconnect.BrakeServiceRemoveHoldProcedure, subject: "asset", title: "End the hold of", button: "End the hold", undo: "hold", loosens: true,
			effect: "The asset is pushed again where it differs, as checks and budgets let it.",
			show:   showPlanned, do: unhold,
		},
		"pin": {
			call: apipbconnect.BrakeServiceSetPinProcedure, subject: "asset", title: "Pin", button: "Pin it", undo: "unpin", lasts: "until somebody unpins it",
			effect: "The asset follows the incarnation that you choose, and not head, while it is pinned.",
			show:   showIncarnationChoice, do: pin,
		},
		"unpin": {
			call: apipbconnect.BrakeServiceRemovePinProcedure, subject: "asset", title: "Unpin", button: "Unpin it", undo: "pin", loosens: true,
			effect: "The asset follows head again.",
			show:   showPins, do: unpin,
		},
		"retry": {
			call: apipbconnect.BrakeServiceRetryAssetProcedure, subject: "asset", title: "Retry", button: "Try it now", loosens: true,
			effect: "Lehr looks at the asset now, and pushes it if it differs from intent: the pause between tries ends. Checks, holds, pins and stops still apply.",
			show:   showPlanned, do: retry,
		},
		"acknowledge": {
			call: apipbconnect.CandidateServiceAcknowledgeCandidateProcedure, subject: "candidate", title: "Let through candidate", button: "Let it through", loosens: true,
			effect: "The candidate may be served, exactly as it is. What its pushes would do is below.",
			show:   showHeld, do: acknowledge,
		},
		"disown": {
			call: apipbconnect.OrphanServiceDisownOrphanProcedure, subject: "orphan", title: "Disown", button: "Disown it", loosens: true,
			effect: "Lehr forgets the orphan and its claim. Production stays as it is, and its resource may be claimed by another asset.",
			do:     disown,
		},
	}
	for kind, order := range rolloutActs {
		order.call, order.subject, order.do, order.show = apipbconnect.RolloutServiceOrderRolloutProcedure, "rollout", orderRollout(kind), showForecast(kind)
		acts["rollout-"+string(kind)] = order
	}
	for approve, act := range stageActs {
		act.call, act.subject, act.do, act.show = apipbconnect.RolloutServiceVoteOnStageProcedure, "rollout", voteOnStage(approve), showStage
		acts[stageActName(approve)] = act
	}
	registerDeliveryActs()
	registerReleaseActs()
	registerNewRelease()
	registerApprovalActs()
	registerWorkflowActs()
	registerTurndownActs()
	registerServerActs()
	registerPartitionActs()
	registerDocumentActs()
}

// rolloutActs are what can be asked of a rollout.
var rolloutActs = map[intent.OrderKind]act{
	intent.OrderStart:     {title: "Start a run of rollout", button: "Start it", loosens: true, effect: "A run begins, with its first stage."},
	intent.OrderPause:     {title: "Pause rollout", button: "Pause it", undo: "rollout-resume", effect: "No more assets go on. Those that were let go on are pushed to the end."},
	intent.OrderResume:    {title: "Resume rollout", button: "Let it go on", undo: "rollout-pause", loosens: true, effect: "The run goes on where it was paused."},
	intent.OrderAbort:     {title: "Abort rollout", button: "End it as it stands", effect: "The run ends. Assets that it brought forward stay there, and the others where they are."},
	intent.OrderSkip:      {title: "Skip the stage of rollout", button: "Wait no longer", undo: "rollout-pause", loosens: true, effect: "The run waits no longer for the stage that it is at: neither for its soak nor its validations."},
	intent.OrderPromote:   {title: "Promote rollout", button: "Let all go on", undo: "rollout-pause", loosens: true, effect: "All assets go on at once, as checks and budgets let them."},
	intent.OrderRollback:  {title: "Roll back rollout", button: "Roll it back", effect: "The assets go back to what was good, and what the run brought is not brought again by itself."},
	intent.OrderEmergency: {title: "Hasten rollout", button: "Go by the stages for emergencies", loosens: true, effect: "The run goes by the stages for emergencies from now on."},
	intent.OrderForgive:   {title: "Forgive what was judged bad of rollout", button: "Let it be brought again", loosens: true, effect: "What was judged bad may be brought again."},
	intent.OrderRelease:   {title: "Release rollout", button: "Let its assets follow head", loosens: true, effect: "Its assets follow head, all at once, as checks and budgets let them."},
}

// stageActs are what people say of a stage that asks them.
var stageActs = map[bool]act{
	true:  {title: "Approve the stage of rollout", button: "Approve the stage", undo: "rollout-pause", loosens: true, effect: "Your approval counts for this stage of this run alone. When enough people have approved it, the stage begins."},
	false: {title: "Reject the stage of rollout", button: "Reject the stage", undo: "rollout-approve", effect: "The stage does not begin, whoever approves it, until you approve it or the run ends."},
}

func stageActName(approve bool) string {
	if approve {
		return "rollout-approve"
	}
	return "rollout-reject"
}

func stop(ctx context.Context, r *reader, request actRequest) (string, error) {
	response, err := r.Brakes.SetStop(ctx, &apipb.SetStopRequest{Partition: request.partition, Reason: request.reason})
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("Partition %s is stopped, by %s: %s. %s", request.partition, response.Stop.Owner.GetName(), response.Stop.Reason, intent.Reach(response.Stop.Reach).Words()), nil
}

func resume(ctx context.Context, r *reader, request actRequest) (string, error) {
	response, err := r.Brakes.Resume(ctx, &apipb.ResumeRequest{Partition: request.partition, Reason: request.reason})
	if err != nil {
		return "", err
	}
	message := "The stop of partition " + request.partition + " has ended."
	for _, left := range response.Remaining {
		message += fmt.Sprintf(" Still stopped by %s: %s; %s ends it.", left.Owner.GetName(), left.Reason, left.Ending)
	}
	return message, nil
}

func hold(ctx context.Context, r *reader, request actRequest) (string, error) {
	response, err := r.Brakes.SetHold(ctx, &apipb.SetHoldRequest{Partition: request.partition, Asset: request.subject, Reason: request.reason, Period: request.period})
	if err != nil {
		return "", err
	}
	return request.subject + " is held" + untilWords(response.Hold.Until) + ".", nil
}

func unhold(ctx context.Context, r *reader, request actRequest) (string, error) {
	_, err := r.Brakes.RemoveHold(ctx, &apipb.RemoveHoldRequest{Partition: request.partition, Asset: request.subject, Reason: request.reason})
	return request.subject + " is not held any more.", err
}

func pin(ctx context.Context, r *reader, request actRequest) (string, error) {
	response, err := r.Brakes.SetPin(ctx, &apipb.SetPinRequest{
		Partition: request.partition, Asset: request.subject, Incarnation: request.values.Get("incarnation"), Reason: request.reason, Period: request.period,
	})
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("%s is pinned to %s%s.", request.subject, response.Pin.Incarnation, untilWords(response.Pin.Until)), nil
}

func unpin(ctx context.Context, r *reader, request actRequest) (string, error) {
	_, err := r.Brakes.RemovePin(ctx, &apipb.RemovePinRequest{Partition: request.partition, Asset: request.subject, Reason: request.reason})
	return request.subject + " follows head again.", err
}

func retry(ctx context.Context, r *reader, request actRequest) (string, error) {
	_, err := r.Brakes.RetryAsset(ctx, &apipb.RetryAssetRequest{Partition: request.partition, Asset: request.subject, Reason: request.reason})
	return request.subject + " is tried now.", err
}

func acknowledge(ctx context.Context, r *reader, request actRequest) (string, error) {
	response, err := r.Candidates.AcknowledgeCandidate(ctx, &apipb.AcknowledgeCandidateRequest{Partition: request.partition, Digest: request.subject, Reason: request.reason})
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("Candidate %s may be served now, exactly as it is.", response.Candidate.Id), nil
}

func disown(ctx context.Context, r *reader, request actRequest) (string, error) {
	_, err := r.Orphans.DisownOrphan(ctx, &apipb.DisownOrphanRequest{Partition: request.partition, Asset: request.subject, Reason: request.reason})
	return request.subject + " is disowned. Production is left as it is.", err
}

func orderRollout(kind intent.OrderKind) func(context.Context, *reader, actRequest) (string, error) {
	return func(ctx context.Context, r *reader, request actRequest) (string, error) {
		_, err := r.Rollouts.OrderRollout(ctx, &apipb.OrderRolloutRequest{
			Partition: request.partition, Rollout: request.subject, Kind: string(kind), Value: request.values.Get("value"), Reason: request.reason,
		})
		return fmt.Sprintf("Rollout %s is asked to %s. Its page shows what comes of it.", request.subject, kind), err
	}
}

// stageButton leads to a vote on a stage of a run.
func stageButton(partition, rollout string, run *apipb.RolloutRun, stage string, approve bool) actButton {
	name := stageActName(approve)
	return actButton{Text: acts[name].button, Link: stageAddress(partition, approve, rollout, run.Run, stage).String(), Loosens: acts[name].loosens}
}

// stageAddress is that of the confirmation of a vote on a stage of a run.
func stageAddress(partition string, approve bool, rollout string, run uint64, stage string) address {
	at := address{kind: "act", partition: partition, name: stageActName(approve), query: url.Values{}}
	at.query.Set("rollout", rollout)
	at.query.Set("run", strconv.FormatUint(run, 10))
	at.query.Set("stage", stage)
	return at
}

// askedStage is the stage of the newest run that asks people now, or was rejected; nil: none does.
func askedStage(rollout *apipb.Rollout) *apipb.RolloutStage {
	switch intent.RolloutState(rollout.GetRun().GetState()) {
	case intent.RolloutRunning, intent.RolloutPaused:
	default:
		return nil // It goes back, or has ended.
	}
	for _, stage := range rollout.Run.Stages {
		switch intent.ApprovalState(stage.Approval.GetState()) {
		case intent.ApprovalAsked, intent.ApprovalRejected:
			return stage
		}
	}
	return nil
}

// voteOnStage votes on the stage of the run that the form showed.
func voteOnStage(approve bool) func(context.Context, *reader, actRequest) (string, error) {
	return func(ctx context.Context, r *reader, request actRequest) (string, error) {
		run, err := runNumber(address{query: request.query}, "run")
		if err != nil {
			return "", err
		}
		response, err := r.Rollouts.VoteOnStage(ctx, &apipb.VoteOnStageRequest{
			Partition: request.partition, Rollout: request.subject, Run: run, Stage: request.query.Get("stage"), Approve: approve, Reason: request.reason,
		})
		if err != nil {
			return "", err
		}
		return fmt.Sprintf("Your vote on stage %s of rollout %s, run %d, counts within a second.", response.Order.Stage, request.subject, response.Order.Run), nil
	}
}

// showStage shows the run of which a stage is judged, if it is still the newest.
func showStage(ctx context.Context, r *reader, at address, form *actForm) error {
	name := at.query.Get("rollout")
	run, err := runNumber(at, "run")
	if err != nil {
		return err
	}
	response, err := r.Rollouts.GetRollout(ctx, &apipb.GetRolloutRequest{Partition: at.partition, Rollout: name})
	if err != nil {
		return err
	}
	if newest := response.Rollout.GetRun().GetRun(); run != 0 && run != newest {
		form.Refused = fault.New(fault.Conflict, "run %d of rollout %s is not the newest any more", run, name).WithHint("its page shows what run %d brings", newest)
		return nil
	}
	view := rolloutView{Rollout: response.Rollout}
	form.parts = append(form.parts, makePart("rollout", "rollout-state", view), makePart("stages", "stages", view), makePart("verdicts", "verdicts", view))
	return nil
}

// untilWords says when something ends by itself, if it does.
func untilWords(end *timestamppb.Timestamp) string {
	if end == nil {
		return ""
	}
	return " until " + end.AsTime().UTC().Format(time.RFC3339)
}

// showPlanned shows what a push of the asset would do now.
func showPlanned(ctx context.Context, r *reader, at address, form *actForm) error {
	response, err := r.Reports.GetReport(ctx, &apipb.GetReportRequest{Partition: at.partition, Asset: at.query.Get("asset")})
	if absent(err) {
		return nil // It was not looked at yet.
	}
	if err != nil {
		return err
	}
	form.parts = append(form.parts, makePart("plan", "act-plan", response.Report))
	return nil
}

// incarnationsOffered is how many incarnations can be chosen from.
const incarnationsOffered = 20

// showIncarnationChoice offers the newest incarnations.
func showIncarnationChoice(ctx context.Context, r *reader, at address, form *actForm) error {
	asset := at.query.Get("asset")
	response, err := r.Incarnations.ListIncarnations(ctx, &apipb.ListIncarnationsRequest{Partition: at.partition, Limit: incarnationsOffered})
	if err != nil {
		return err
	}
	report, err := r.Reports.GetReport(ctx, &apipb.GetReportRequest{Partition: at.partition, Asset: asset})
	if err != nil && !absent(err) {
		return err
	}
	chosen := cmp.Or(at.query.Get("incarnation"), report.GetReport().GetTarget())
	incarnations := choice{Name: "incarnation", Label: "incarnation"}
	for _, incarnation := range response.Incarnations {
		label := fmt.Sprintf("%s, %s, by %s", incarnation.Id, incarnation.Created.AsTime().UTC().Format("2006-01-02 15:04 MST"), incarnation.Author.GetName())
		incarnations.Options = append(incarnations.Options, option{Value: incarnation.Id, Text: label, Selected: incarnation.Id == chosen})
	}
	if len(incarnations.Options) == 0 {
		form.Refused = fault.New(fault.Conflict, "partition %s has no incarnation yet", at.partition)
		return nil
	}
	form.Choices = []choice{incarnations}
	return showPlanned(ctx, r, at, form)
}

// showPins shows the pin that would end.
func showPins(ctx context.Context, r *reader, at address, form *actForm) error {
	response, err := r.Brakes.ListPins(ctx, &apipb.ListPinsRequest{Partition: at.partition})
	if err != nil {
		return err
	}
	for _, pin := range response.Pins {
		if pin.Asset == at.query.Get("asset") {
			form.parts = append(form.parts, makePart("pins", "act-pin", pin))
			return nil
		}
	}
	form.Refused = fault.New(fault.Conflict, "%s is not pinned", at.query.Get("asset"))
	return nil
}

// showMoving shows how many assets of the partition are in which state.
func showMoving(ctx context.Context, r *reader, at address, form *actForm) error {
	partition, err := r.readPartition(ctx, at.partition)
	if err != nil {
		return err
	}
	form.parts = append(form.parts, makePart("counts", "counts", r.view(partition)))
	return nil
}

// showStops shows the stop that would end.
func showStops(ctx context.Context, r *reader, at address, form *actForm) error {
	partition, err := r.readPartition(ctx, at.partition)
	if err != nil {
		return err
	}
	if partition.Stop.GetPartition() == "" {
		form.Refused = fault.New(fault.Conflict, "partition %s is not stopped by a stop of its own", at.partition)
		return nil
	}
	form.parts = append(form.parts, makePart("notices", "notices", r.view(partition)), makePart("counts", "counts", r.view(partition)))
	return nil
}

// showHeld shows what a held candidate would change, field by field.
func showHeld(ctx context.Context, r *reader, at address, form *actForm) error {
	candidate := at
	candidate.kind, candidate.name = "candidate", at.query.Get("candidate")
	shown, err := showCandidate(ctx, r, candidate)
	if err != nil {
		return err
	}
	for _, part := range shown.Parts {
		if part.ID != "acts" { // They lead to this very form.
			form.parts = append(form.parts, part)
		}
	}
	bounded, cancel := context.WithTimeout(ctx, formPlanTime)
	defer cancel()
	form.parts = append(form.parts, r.planCandidate(bounded, at.partition, candidate.name))
	return nil
}

// showForecast shows how the rest of a run would go.
func showForecast(kind intent.OrderKind) func(context.Context, *reader, address, *actForm) error {
	return func(ctx context.Context, r *reader, at address, form *actForm) error {
		name := at.query.Get("rollout")
		response, err := r.Rollouts.GetRollout(ctx, &apipb.GetRolloutRequest{Partition: at.partition, Rollout: name})
		if err != nil {
			return err
		}
		view := rolloutView{Rollout: response.Rollout}
		form.parts = append(form.parts, makePart("rollout", "rollout-state", view), makePart("stages", "stages", view))
		if kind == intent.OrderStart && response.Rollout.Document != "" {
			form.Texts = []field{{Name: "value", Label: "value of " + response.Rollout.Pointer + ", in JSON"}}
		}
		plan, err := r.Rollouts.PlanRollout(ctx, &apipb.PlanRolloutRequest{Partition: at.partition, Rollout: name, Emergency: kind == intent.OrderEmergency})
		if err == nil { // Else it has nothing to go on with.
			form.parts = append(form.parts, makePart("forecast", "act-forecast", plan))
		}
		return nil
	}
}
