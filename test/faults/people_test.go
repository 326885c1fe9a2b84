package faults

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	apipb "lehr.dev/gen/lehr/api/v1"
	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/sdk/client"
)

// guardedProgram makes resources of which "plan" destroys, "dep" needs an
// approval for every push, and "late" and "later" come after "dep".
const guardedProgram = `
def generate(ctx):
    service = yaml("source/service.yaml")
    return [resource(service, name, value) for name, value in service["values"].items()]

def resource(service, name, value):
    arguments = [service["production"], name, str(value)]
    addons = []
    if name == "dep":
        addons = [lehr.intent.v1.Approval(reason = "precious")]
    if name in ["late", "later"]:
        addons = [lehr.intent.v1.Dependencies(dependencies = [
            lehr.intent.v1.Dependency(on = "resource/dep", rule = "RULE_ORDER"),
        ])]
    return asset(
        "resource/" + name,
        lehr.command.v1.Command(
            diff = [service["program"], "production:diff"] + arguments,
            push = [service["program"], "production:push"] + arguments,
            retryable_exit_codes = [137],
            destructive = name == "plan",
        ),
        addons = addons,
    )
`

// people are those who speak to the server, by their names.
type people struct{ *world }

// as is a client of somebody.
func (p people) as(name string) *client.Client {
	p.Helper()
	c, err := client.Discover(p.store, intent.Actor{Name: name, Origin: "api"})
	if err != nil {
		p.Fatal(err)
	}
	p.Cleanup(func() { c.Close() })
	return c
}

func (p people) approve(name, asset string) error {
	shown, err := p.read(name, asset)
	if err != nil {
		return err
	}
	_, err = p.as(name).Approvals.ApproveAsset(context.Background(), &apipb.ApproveAssetRequest{Partition: "people", Asset: asset, Plan: shown.PlanDigest, Reason: "looked"})
	return err
}

// read is what a person reads before they say anything of an asset.
func (p people) read(name, asset string) (*apipb.Report, error) {
	response, err := p.as(name).Reports.GetReport(context.Background(), &apipb.GetReportRequest{Partition: "people", Asset: asset})
	return response.GetReport(), err
}

func (p people) must(err error) {
	p.Helper()
	if err != nil {
		p.Fatal(err)
	}
}

func (p people) denied(err error, says string) {
	p.Helper()
	if !fault.Is(err, fault.Denied) || !strings.Contains(err.Error(), says) {
		p.Fatalf("it was not denied with %q: %v", says, err)
	}
}

// TestPeople: a destructive change needs two people, none of whom made it; a
// rejection beats both until it is taken back; a check is overridden only where
// policy lets it be, and only until the override ends. What counts is what
// production has.
func TestPeople(t *testing.T) {
	t.Parallel()
	w := newWorld(t, partition{name: "people", program: guardedProgram, plugins: `Command: {run: lehr-command}
checks:
  approval: {quorum: 2, expires: 2h}
  overrides: {allow: [order]}`})
	p := people{w}
	first := values{"free": 1, "v1": 1, "v2": 1, "v3": 1, "v4": 1}
	w.want(first)
	w.serve()
	w.converges(first)

	// ann lets a candidate through that removes too much: its changes are hers.
	next := values{"free": 1, "plan": 1}
	w.want(next)
	var candidate string
	w.await("a guard holds it", func() string {
		list, err := p.as("ann").Candidates.ListCandidates(t.Context(), &apipb.ListCandidatesRequest{Partition: "people", Limit: 1})
		if err != nil || len(list.Candidates) == 0 || list.Candidates[0].State != "held" {
			return fmt.Sprint("no candidate is held ", text(err))
		}
		candidate = list.Candidates[0].Digest
		return ""
	})
	_, err := p.as("ann").Candidates.AcknowledgeCandidate(t.Context(), &apipb.AcknowledgeCandidateRequest{Partition: "people", Digest: candidate, Reason: "retired"})
	p.must(err)
	w.awaitTold("resource/plan", `0 of 2: nobody approved; needs 2 more approvers other than ann`)
	p.denied(p.approve("ann", "resource/plan"), "ann made the change")
	p.must(p.approve("bob", "resource/plan"))
	p.must(p.approve("bob", "resource/plan"))
	w.awaitTold("resource/plan", `1 of 2: bob approved; needs 1 more approver other than ann`)
	told, err := w.lehr("get", "approvals")
	p.must(err)
	if missing := unmatched(told, `resource/plan .*asked, 1 of 2 +bob`, `resource/plan .*approved +bob`); missing != "" {
		t.Error(missing)
	}

	// carol rejects the plan; enough people approve it, and it is not pushed.
	shown, err := p.read("carol", "resource/plan")
	p.must(err)
	_, err = p.as("carol").Approvals.RejectAsset(t.Context(), &apipb.RejectAssetRequest{Partition: "people", Asset: "resource/plan", Plan: shown.PlanDigest, Reason: "not before noon"})
	p.must(err)
	p.must(p.approve("dave", "resource/plan"))
	w.awaitTold("resource/plan", `carol rejected plan .*not before noon`, `2 of 2: bob and dave approved`)
	if w.holds(values{"plan": 1})() == "" {
		t.Fatal("a rejected plan was pushed")
	}
	if told, err := w.lehr("reject", "resource/plan", "--withdraw"); err == nil {
		t.Fatalf("somebody took carol's rejection back as their own: %s", told)
	}
	_, err = p.as("carol").Approvals.WithdrawRejection(t.Context(), &apipb.WithdrawRejectionRequest{Partition: "people", Asset: "resource/plan"})
	p.must(err)
	w.converges(next)
	told, err = w.lehr("get", "audit")
	p.must(err)
	if missing := unmatched(told, `admit +resource/plan .*; approved by bob, dave`, `withdraw +resource/plan .*by carol`); missing != "" {
		t.Error(missing)
	}
	w.overrides(p)
}

// overrides lets assets go before what they come after.
func (w *world) overrides(p people) {
	all := values{"free": 1, "plan": 1, "dep": 1, "late": 1}
	w.want(all)
	w.awaitTold("resource/late", `must come after resource/dep`)
	for _, check := range []string{"approval", "stop", "lease", "journal", "hold", "budget"} {
		_, err := w.lehr("override", "resource/late", "--check", check, "--reason", "hurry")
		if err == nil || !strings.Contains(err.Error(), "can never be overridden") {
			w.Errorf("overriding %s: %v", check, err)
		}
	}
	if _, err := w.lehr("override", "resource/late", "--check", "version", "--reason", "hurry"); err == nil || !strings.Contains(err.Error(), "policy does not allow it") {
		w.Errorf("overriding a check that policy forbids: %v", err)
	}
	if _, err := w.lehr("override", "resource/late", "--check", "order", "--reason", "hurry", "--for", "25h"); err == nil || !strings.Contains(err.Error(), "at most 24h") {
		w.Errorf("overriding for too long: %v", err)
	}
	if _, err := w.lehr("override", "resource/late", "--check", "order"); err == nil || !strings.Contains(err.Error(), "needs a reason") {
		w.Errorf("overriding without a reason: %v", err)
	}
	// Under a hold it is seen, and still not pushed: a hold is not overridden.
	_, err := w.lehr("hold", "resource/late", "--reason", "to be read")
	p.must(err)
	told, err := w.lehr("override", "resource/late", "--check", "order", "--reason", "dep is blind", "--for", "1h")
	p.must(err)
	if missing := unmatched(told, `Overridden, ending`); missing != "" {
		w.Error(missing)
	}
	w.awaitTold("resource/late", `hold: `, `override: the check order is overridden by .*dep is blind`)
	told, err = w.lehr("get", "overrides")
	p.must(err)
	described, err := w.lehr("describe", "report", "resource/late")
	p.must(err)
	if missing := unmatched(told+described, `resource/late +order +in force`, `overridden \(order\)`); missing != "" {
		w.Error(missing)
	}
	_, err = w.lehr("unhold", "resource/late", "--reason", "over")
	p.must(err)
	w.await("late is made before dep", w.holds(values{"late": 1}))
	if w.holds(values{"dep": 1})() == "" {
		w.Error("what nobody approved was pushed")
	}
	if told, err = w.lehr("get", "audit"); err != nil || unmatched(told, `admit +resource/late .*order overridden by .*dep is blind`) != "" {
		w.Errorf("the admission does not name the override: %s %v", told, err)
	}

	// An override that has ended lets nothing pass, and is shown as ended.
	all["later"] = 1
	w.want(all)
	w.awaitTold("resource/later", `must come after resource/dep`)
	_, err = w.lehr("hold", "resource/later", "--reason", "until the override has ended")
	p.must(err)
	shown, err := p.read("olga", "resource/later")
	p.must(err)
	_, err = p.as("olga").Approvals.OverrideCheck(context.Background(), &apipb.OverrideCheckRequest{
		Partition: "people", Asset: "resource/later", Check: "order", Reason: "a moment", Period: durationpb.New(time.Second), Content: shown.Effective,
	})
	p.must(err)
	w.await("the override has ended", func() string {
		told, err := w.lehr("get", "overrides")
		return unmatched(told, `resource/later +order +expired`) + text(err)
	})
	_, err = w.lehr("unhold", "resource/later", "--reason", "over")
	p.must(err)
	before := len(readEffects(w.T, w.production))
	w.await("later waits for dep again", func() string {
		told := w.why("resource/later")
		if strings.Contains(told, "hold: ") {
			return "it is on hold: " + told
		}
		return unmatched(told, `must come after resource/dep`)
	})
	if effects := readEffects(w.T, w.production)[before:]; len(effects) > 0 {
		w.Errorf("an override that has ended let these pass: %+v", effects)
	}
	p.must(p.approve("bob", "resource/dep"))
	p.must(p.approve("dave", "resource/dep"))
	w.converges(all)
}
