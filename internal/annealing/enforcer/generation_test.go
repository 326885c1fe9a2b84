package enforcer

import (
	"strings"
	"testing"
	"time"

	intentpb "lehr.dev/gen/lehr/intent/v1"
	"lehr.dev/internal/ground/generation"
	"lehr.dev/internal/ground/intent"
)

// older is a job that a rule of generations has removed.
func older(id intent.AssetID, rule *intentpb.GenerationRule) thing {
	th := job(id, 1, "1")
	th.word = ""
	digest := generation.Rules(&intentpb.Policy{Generations: []*intentpb.GenerationRule{rule}})[0].Digest.String()
	th.addons = append(th.addons, &intentpb.Turndown{Reason: "older", Generation: &intentpb.GenerationRemoval{Rule: rule.GetName(), Digest: digest}})
	return th
}

func configRule() *intentpb.GenerationRule {
	return &intentpb.GenerationRule{Name: "config", Prefix: "config-", Suffix: intentpb.GenerationRule_SUFFIX_VERSION, Generator: "all", Keep: 1}
}

func (w *world) lastAdmission(id intent.AssetID) string {
	w.t.Helper()
	records, err := w.store.AuditRecords(w.ctx, shop, 0, 10_000)
	w.must(err)
	detail := ""
	for _, r := range records {
		if r.Verb == "admit" && r.Subject == string(id) {
			detail = r.Detail
		}
	}
	return detail
}

// TestARuleIsTheApproval: what a rule of generations names goes without anybody's approval,
// once nothing that runs refers to it, and the audit names the rule.
func TestARuleIsTheApproval(t *testing.T) {
	simulate(t, func(w *world) {
		rule := configRule()
		w.policy.Generations = []*intentpb.GenerationRule{rule}
		w.publish(job("config-1", 1, "1"), job("web", 1, "1", comesAfter("config-1")))
		w.inSync(job("config-1", 1, "1"), job("web", 1, "1"))
		// web runs with config-1 for as long as it is held: so config-1 stays.
		w.must(w.store.SetHold(w.ctx, shop, intent.Hold{Asset: "web", Owner: tester, Reason: "looking"}))
		w.publish(older("config-1", rule), job("config-2", 1, "1"), job("web", 1, "2", comesAfter("config-2")))
		waiting := w.waitsOn("config-1", intent.WaitTurndown)
		if len(waiting.Blockers) != 1 || waiting.Blockers[0] != "web" || !strings.Contains(waiting.Reason, "the rule config of generations has it removed") {
			t.Errorf("it waits for %v: %s", waiting.Blockers, waiting.Reason)
		}
		w.pass(time.Hour)
		if w.production.word("config-1") == "" {
			t.Fatal("removed under what runs with it")
		}
		w.must(w.store.Unhold(w.ctx, shop, "web", "a try", tester))
		w.inSync(older("config-1", rule), job("config-2", 1, "1"), job("web", 1, "2"))
		if detail := w.lastAdmission("config-1"); !strings.Contains(detail, "; approval of rule config ") || strings.Contains(detail, "approved by") {
			t.Errorf("the audit says %q", detail)
		}
	})
}

// TestARuleApprovesNothingElse: people are asked where the rule is not in force so, the asset
// is marked, or the plan takes others along; and a rejection and a stop hold as ever.
func TestARuleApprovesNothingElse(t *testing.T) {
	other := configRule()
	other.Keep = 2
	for name, c := range map[string]struct {
		policy *intentpb.GenerationRule
		marked bool
		says   func(*intent.Difference)
		want   intent.WaitingKind
	}{
		"no such rule": {nil, false, nil, intent.WaitApproval},
		"another rule": {other, false, nil, intent.WaitApproval},
		"marked":       {configRule(), true, nil, intent.WaitApproval},
		"others go along": {configRule(), false, func(d *intent.Difference) {
			d.Plan.Changes = append(d.Plan.Changes, intent.FieldChange{Path: `holds["x"]`, Destructive: true})
		}, intent.WaitApproval},
	} {
		t.Run(name, func(t *testing.T) {
			simulate(t, func(w *world) {
				if c.policy != nil {
					w.policy.Generations = []*intentpb.GenerationRule{c.policy}
				}
				w.publish(job("config-1", 1, "1"))
				w.inSync(job("config-1", 1, "1"))
				if c.says != nil {
					w.production.does("config-1", behaviour{says: c.says})
				}
				th := older("config-1", configRule())
				if c.marked {
					th.addons = append(th.addons, &intentpb.Approval{Reason: "precious"})
				}
				w.publish(th)
				w.waitsOn("config-1", c.want)
				w.pass(time.Hour)
				if w.production.word("config-1") == "" {
					t.Fatal("removed without an approval (S9)")
				}
				if c.says == nil {
					w.approve("config-1")
					w.eventually("removed", func() bool { return w.production.word("config-1") == "" })
				}
			})
		})
	}
}

// TestARejectionBeatsARule: whoever rejects the plan keeps what the rule would remove.
func TestARejectionBeatsARule(t *testing.T) {
	simulate(t, func(w *world) {
		rule := configRule()
		w.policy.Generations = []*intentpb.GenerationRule{rule}
		w.publish(job("config-1", 1, "1"))
		w.inSync(job("config-1", 1, "1"))
		w.must(w.store.SetHold(w.ctx, shop, intent.Hold{Asset: "config-1", Owner: tester, Reason: "looking"}))
		w.publish(older("config-1", rule))
		w.waitsOn("config-1", intent.WaitHold)
		report := w.report("config-1")
		w.must(w.store.Reject(w.ctx, intent.Rejection{Partition: shop, Asset: "config-1", Effective: report.Effective, Plan: report.PlanDigest, By: tester, Reason: "I look at it"}))
		w.must(w.store.Unhold(w.ctx, shop, "config-1", "a try", tester))
		w.waitsOn("config-1", intent.WaitRejected)
		w.pass(time.Hour)
		if w.production.word("config-1") == "" {
			t.Fatal("removed against a rejection")
		}
		w.must(w.store.Withdraw(w.ctx, shop, "config-1", tester.Name, "seen", tester))
		w.inSync(older("config-1", rule))
	})
}
