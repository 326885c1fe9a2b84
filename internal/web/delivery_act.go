package web

import (
	"context"
	"fmt"

	apipb "lehr.dev/gen/lehr/api/v1"
	"lehr.dev/gen/lehr/api/v1/apipbconnect"
	"lehr.dev/internal/ground/intent"
)

// Names of the words on a version, beside the acts of package intent.
const (
	voteApprove = "approve"
	voteReject  = "reject"
)

// deliveryPrefix begins the names of acts on delivery in addresses.
const deliveryPrefix = "delivery-"

// deliveryActs are what people may say of delivery, by their kind.
var deliveryActs = map[string]act{
	voteApprove:        {title: "Approve", button: "Approve it", loosens: true, undo: deliveryPrefix + voteReject, effect: "Your word counts for this version with this digest, in this environment alone."},
	voteReject:         {title: "Reject", button: "Reject it", undo: deliveryPrefix + voteApprove, effect: "This version does not come to this environment until you approve it."},
	intent.ActPin:      {title: "Pin", button: "Pin it", undo: deliveryPrefix + intent.ActUnpin, effect: "The environment stays at this version until it is unpinned. A version that was good there comes back; another must be let in by its constraints still."},
	intent.ActUnpin:    {title: "Unpin", button: "Unpin it", loosens: true, effect: "The environment takes what its constraints let in again."},
	intent.ActMarkBad:  {title: "Mark bad", button: "Mark it bad", undo: deliveryPrefix + intent.ActMarkGood, effect: "The version comes to no environment. Where it is, the environment goes back to what was good there last, unless lehr.yaml says that it stays."},
	intent.ActMarkGood: {title: "Mark good", button: "Mark it good", loosens: true, undo: deliveryPrefix + intent.ActMarkBad, effect: "What was found bad of the version counts no longer: marks, verdicts and failed attempts."},
	intent.ActSkipTo:   {title: "Skip to", button: "Skip to it", loosens: true, effect: "What is older does not come to this environment any more. This version must be let in still."},
	intent.ActRollBack: {title: "Roll back to", button: "Roll back to it", undo: deliveryPrefix + intent.ActMarkGood, effect: "The environment gets this version, which was good there. All that is newer and known now stays out until it is marked good."},
	intent.ActPause:    {title: "Pause delivery", button: "Pause delivery", undo: deliveryPrefix + intent.ActResume, effect: "No more versions are set until somebody resumes. What was set goes on being pushed."},
	intent.ActResume:   {title: "Resume delivery", button: "Resume delivery", loosens: true, undo: deliveryPrefix + intent.ActPause, effect: "Versions are set again, also where somebody else set the field."},
	intent.ActForce:    {title: "Force past a constraint", button: "Force past it", loosens: true, effect: "This constraint is passed over for this version. All others have their say."},
	intent.ActRestart:  {title: "Judge anew", button: "Judge it anew", effect: "What was said of this version before counts no longer. A task runs for it once more."},
	intent.ActHotfix:   {title: "Call a hotfix", button: "Call it a hotfix", loosens: true, effect: "Constraints for which lehr.yaml says hotfixes: false do not hold the version."},
}

// deliveryButton leads to the form of an act on delivery. More are keys of its address and
// their values; empty ones are left out.
func deliveryButton(partition, kind, application string, more ...string) actButton {
	return actButton{
		Text: deliveryActs[kind].button, Loosens: deliveryActs[kind].loosens,
		Link: deliveryAddress(partition, "act", deliveryPrefix+kind, application, more...),
	}
}

// registerDeliveryActs adds the acts on delivery to those that there are.
func registerDeliveryActs() {
	for kind, action := range deliveryActs {
		action.subject, action.about, action.back = "application", aboutDelivery, backToDelivery
		action.call = apipbconnect.DeliveryServiceActOnDeliveryProcedure
		ask := askDelivery(kind)
		if kind == voteApprove || kind == voteReject {
			action.call, ask = apipbconnect.DeliveryServiceVoteOnVersionProcedure, voteOnVersion(kind == voteApprove)
		}
		action.show = func(ctx context.Context, r *reader, at address, form *actForm) error {
			effects, _, err := ask(ctx, r, at, "to see what it would change", true)
			if err != nil {
				form.Refused = err
				return nil
			}
			form.parts = append(form.parts, makePart("effects", "delivery-effects", effects))
			return nil
		}
		action.do = func(ctx context.Context, r *reader, request actRequest) (string, error) {
			at := address{kind: "act", partition: request.partition, query: request.query}
			_, version, err := ask(ctx, r, at, request.reason, false)
			if err != nil {
				return "", err
			}
			return fmt.Sprintf("%s %s. It is carried out within a second.", action.title, aboutVersion(at, version)), nil
		}
		acts[deliveryPrefix+kind] = action
	}
	registerVerdictActs()
}

// Names of the acts that hand in the result of a verification.
const (
	verdictGood = deliveryPrefix + "verdict-good"
	verdictBad  = deliveryPrefix + "verdict-bad"
)

// registerVerdictActs adds those that say what a verification found of the version that an environment has.
func registerVerdictActs() {
	for name, action := range map[string]act{
		verdictGood: {title: "Verify as good", button: "It is good", loosens: true, undo: verdictBad, effect: "It counts as good for this version in this environment. What waits for it goes on."},
		verdictBad:  {title: "Verify as bad", button: "It is bad", undo: verdictGood, effect: "It counts as bad for this version in this environment. If the environment has it, it goes back to what was good there, unless lehr.yaml says that it stays."},
	} {
		action.call, action.subject, action.about, action.back = apipbconnect.DeliveryServiceRecordVerdictProcedure, "application", aboutDelivery, backToDelivery
		action.do = func(ctx context.Context, r *reader, request actRequest) (string, error) {
			response, err := r.Deliveries.RecordVerdict(ctx, &apipb.RecordVerdictRequest{
				Partition: request.partition, Application: request.subject, Environment: request.query.Get("environment"), Version: request.query.Get("version"),
				Digest: request.query.Get("digest"), Name: request.query.Get("constraint"), Good: name == verdictGood, Reason: request.reason,
			})
			if err != nil {
				return "", err
			}
			at := address{kind: "act", partition: request.partition, query: request.query}
			return fmt.Sprintf("%s %s. It counts within a second.", action.title, aboutVersion(at, response.Version)), nil
		}
		acts[name] = action
	}
}

// noResult is the cause of a constraint that waits for a result that somebody hands in.
const noResult = "no-result"

// verdictButton leads to the form that hands in a result of a verification, or of a constraint that is decided outside.
func verdictButton(partition, name, application, environment string, version *apipb.VersionName, verification string) actButton {
	text := verification + ": it is bad"
	if name == verdictGood {
		text = verification + ": it is good"
	}
	return actButton{
		Text: text, Loosens: acts[name].loosens,
		Link: deliveryAddress(partition, "act", name, application, "environment", environment, "version", version.GetName(), "digest", version.GetDigest(), "constraint", verification),
	}
}

// deliveryAsk asks for an act, or with dry for what it would change.
type deliveryAsk func(ctx context.Context, r *reader, at address, reason string, dry bool) ([]*apipb.DeliveryEffect, *apipb.VersionName, error)

func askDelivery(kind string) deliveryAsk {
	return func(ctx context.Context, r *reader, at address, reason string, dry bool) ([]*apipb.DeliveryEffect, *apipb.VersionName, error) {
		response, err := r.Deliveries.ActOnDelivery(ctx, &apipb.ActOnDeliveryRequest{
			Partition: at.partition, Application: at.query.Get("application"), Kind: kind, Environment: at.query.Get("environment"),
			Version: at.query.Get("version"), Digest: at.query.Get("digest"), Constraint: at.query.Get("constraint"), Reason: reason, DryRun: dry,
		})
		return response.GetEffects(), response.GetVersion(), err
	}
}

func voteOnVersion(approve bool) deliveryAsk {
	return func(ctx context.Context, r *reader, at address, reason string, dry bool) ([]*apipb.DeliveryEffect, *apipb.VersionName, error) {
		response, err := r.Deliveries.VoteOnVersion(ctx, &apipb.VoteOnVersionRequest{
			Partition: at.partition, Application: at.query.Get("application"), Environment: at.query.Get("environment"),
			Version: at.query.Get("version"), Digest: at.query.Get("digest"), Constraint: at.query.Get("constraint"), Approve: approve, Reason: reason, DryRun: dry,
		})
		return response.GetEffects(), response.GetVersion(), err
	}
}

// aboutDelivery is what an act on delivery is about, as a title has it.
func aboutDelivery(at address) string {
	return aboutVersion(at, &apipb.VersionName{Name: at.query.Get("version"), Digest: at.query.Get("digest")})
}

func aboutVersion(at address, version *apipb.VersionName) string {
	text := "of " + at.query.Get("application")
	if name := version.GetName(); name != "" {
		text = name + " " + text
	}
	if environment := at.query.Get("environment"); environment != "" {
		text += " in " + environment
	}
	if constraint := at.query.Get("constraint"); constraint != "" {
		text += " (" + constraint + ")"
	}
	return text
}

// backToDelivery leads to the environment that an act is on, else to the board.
func backToDelivery(at address) crumb {
	application := at.query.Get("application")
	if environment := at.query.Get("environment"); environment != "" {
		return crumb{"environment " + environment, deliveryAddress(at.partition, "environment", environment, application)}
	}
	return crumb{"delivery of " + application, deliveryAddress(at.partition, "delivery", "", application)}
}
