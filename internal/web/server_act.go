package web

import (
	"context"
	"fmt"

	apipb "lehr.dev/gen/lehr/api/v1"
	"lehr.dev/gen/lehr/api/v1/apipbconnect"
	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/intent"
)

// registerServerActs adds those that are about no one partition, and a label, which is about an incarnation.
func registerServerActs() {
	toServer := func(address) crumb { return crumb{"server", serverKind} }
	acts["stop-all"] = act{
		call: apipbconnect.BrakeServiceSetStopProcedure, isGlobal: true, title: "Stop all partitions", button: "Stop everything", undo: "resume-all", back: toServer,
		effect: "No push of any partition begins until somebody resumes all, and permits of pushes under way end. Looking goes on.",
		do:     stopAll,
	}
	acts["resume-all"] = act{
		call: apipbconnect.BrakeServiceResumeProcedure, isGlobal: true, title: "Resume all partitions", button: "Resume everything", undo: "stop-all", loosens: true, back: toServer,
		effect: "The stop of all partitions ends. Those that have a stop of their own stay stopped. Everything else is compared with production anew.",
		show:   showGlobalStop, do: resumeAll,
	}
	acts["revoke-token"] = act{
		call: apipbconnect.AuthServiceRevokeTokenProcedure, isGlobal: true, subject: "token", title: "Revoke token", button: "Revoke it",
		effect: "The token counts for nothing any more, at once. Who uses it needs another.",
		do:     revokeToken, back: func(address) crumb { return crumb{"access", accessKind} },
	}
	acts["label"] = act{
		call: apipbconnect.IncarnationServiceLabelIncarnationProcedure, subject: "incarnation", title: "Label incarnation", button: "Label it",
		effect: "The incarnation is found by the label, and is kept while it has one. A key without a value takes the label away.",
		show: func(_ context.Context, _ *reader, _ address, form *actForm) error {
			form.Texts = []field{{Name: "key", Label: "key"}, {Name: "value", Label: "value", Optional: true}}
			return nil
		},
		do: label,
	}
}

// showGlobalStop shows the stop that would end.
func showGlobalStop(ctx context.Context, r *reader, _ address, form *actForm) error {
	server, err := r.readServer(ctx)
	if err != nil {
		return err
	}
	for _, stop := range server.Stops {
		if stop.Partition == "" {
			form.parts = append(form.parts, makePart("stop", "act-stop", stop))
			return nil
		}
	}
	form.Refused = fault.New(fault.Conflict, "no stop of all partitions is in force").WithHint("the page of a partition ends its own")
	return nil
}

func stopAll(ctx context.Context, r *reader, request actRequest) (string, error) {
	response, err := r.Brakes.SetStop(ctx, &apipb.SetStopRequest{Reason: request.reason})
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("All partitions are stopped, by %s: %s. %s", response.Stop.Owner.GetName(), response.Stop.Reason, intent.Reach(response.Stop.Reach).Words()), nil
}

func resumeAll(ctx context.Context, r *reader, request actRequest) (string, error) {
	response, err := r.Brakes.Resume(ctx, &apipb.ResumeRequest{Reason: request.reason})
	if err != nil {
		return "", err
	}
	message := "The stop of all partitions has ended."
	for _, left := range response.Remaining {
		message += fmt.Sprintf(" Still stopped by %s: %s; %s ends it.", left.Owner.GetName(), left.Reason, left.Ending)
	}
	return message, nil
}

func revokeToken(ctx context.Context, r *reader, request actRequest) (string, error) {
	_, err := r.Auth.RevokeToken(ctx, &apipb.RevokeTokenRequest{Id: request.subject, Reason: request.reason})
	return "Token " + request.subject + " is revoked.", err
}

func label(ctx context.Context, r *reader, request actRequest) (string, error) {
	id, key, value := namedIncarnation(request.partition, request.subject), request.values.Get("key"), request.values.Get("value")
	_, err := r.Incarnations.LabelIncarnation(ctx, &apipb.LabelIncarnationRequest{Id: id, Key: key, Value: value, Reason: request.reason})
	if value == "" {
		return fmt.Sprintf("%s has no label %s any more.", id, key), err
	}
	return fmt.Sprintf("%s is labelled %s=%s.", id, key, value), err
}
