package storetest

import (
	"strings"

	intentpb "lehr.dev/gen/lehr/intent/v1"
	"lehr.dev/internal/ground/audit"
	"lehr.dev/internal/ground/generation"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/ground/schema"
	"lehr.dev/internal/store"
)

// policyEntry is the asset that carries a policy.
func (w *world) policyEntry(policy *intentpb.Policy) store.Entry {
	w.t.Helper()
	schemas := schema.Builtin()
	payload, err := schemas.Pack(policy)
	w.must(err)
	body, digest, err := schemas.Encode(intent.Asset{ID: intent.PolicyAsset, Payload: payload})
	w.must(err)
	return store.Entry{
		Asset:  intent.PolicyAsset,
		Member: intent.Member{Asset: intent.PolicyAsset, Type: payload.Type, Digest: digest, Effective: digest}, Body: body,
	}
}

// admitRule: a rule of generations is the approval of the removal of what it names, as head's
// policy has it in the transaction that admits, and of nothing else (S9). No approval is used.
func admitRule(w *world) {
	ctx := w.t.Context()
	policy := &intentpb.Policy{Mode: intentpb.EnforcementMode_ENFORCEMENT_MODE_ENFORCE, Generations: []*intentpb.GenerationRule{
		{Name: "web config", Prefix: "web-", Suffix: intentpb.GenerationRule_SUFFIX_VERSION, Generator: "all", Keep: 1},
	}}
	digest := generation.Rules(policy)[0].Digest
	w.publish(entry("web-1", "x"), entry("web-old", "x"), w.policyEntry(policy))
	plan := intent.Plan{Action: intent.ActionDelete, Changes: []intent.FieldChange{{Path: "name", Destructive: true}}}
	admission := func(push, asset string) store.Admission {
		a := w.admission(push, asset, w.partition(shop).Head)
		a.PlanDetail, a.Plan, a.Removes = plan, plan.Digest(), true
		a.Rule = &intent.RuleApproval{Rule: "web config", Digest: digest}
		return a
	}
	for what, change := range map[string]func(*store.Admission){
		"no Turndown":    func(a *store.Admission) { a.Removes = false },
		"another digest": func(a *store.Admission) { a.Rule.Digest = digestOf("another") },
		"another name":   func(a *store.Admission) { a.Rule.Rule = "web" },
		"another plan":   func(a *store.Admission) { a.Plan = digestOf("another") },
		"an update": func(a *store.Admission) {
			a.PlanDetail.Action = intent.ActionUpdate
			a.Plan = a.PlanDetail.Digest()
		},
		"others go along": func(a *store.Admission) {
			a.PlanDetail.Changes = []intent.FieldChange{{Path: `holds["x"]`, Destructive: true}}
			a.Plan = a.PlanDetail.Digest()
		},
	} {
		a := admission("p-"+strings.ReplaceAll(what, " ", "-"), "web-1")
		change(&a)
		if waiting := w.waits(a, intent.WaitApproval); !strings.Contains(waiting.Reason, "is no approval of plan") {
			w.t.Errorf("%s: %s", what, waiting.Reason)
		}
	}
	w.waits(admission("p-named-by-people", "web-old"), intent.WaitApproval)
	rejected := admission("p-rejected", "web-1")
	w.must(w.Reject(ctx, no(rejected, bob)))
	rejected.Revision = w.revision()
	w.waits(rejected, intent.WaitRejected)
	w.must(w.Withdraw(ctx, shop, "web-1", bob.Name, "seen", bob))

	w.must(w.Approve(ctx, yes(rejected, bob)))
	w.admitted(admission("p1", "web-1"))
	said, well := audit.ParseAdmitted(w.lastDetail("admit"))
	if !well || said.Rule != audit.RuleOf(&intent.RuleApproval{Rule: "web config", Digest: digest}) || said.Approved {
		w.t.Errorf("the audit says %q", w.lastDetail("admit"))
	}
	consents, err := w.Consents(ctx, shop)
	w.must(err)
	if len(consents.Approvals) != 1 || consents.Approvals[0].UsedBy != "" {
		w.t.Errorf("a rule used up %+v", consents.Approvals)
	}
	w.must(w.ClosePushes(ctx, w.lease, []store.Closing{{Push: "p1", Ending: "failed", At: noon}}))
	policy.Generations[0].Keep = 2
	w.publish(w.policyEntry(policy))
	w.waits(admission("p2", "web-1"), intent.WaitApproval)
}
