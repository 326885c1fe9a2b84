package cli

import (
	"strings"
	"testing"

	apipb "lehr.dev/gen/lehr/api/v1"
	"lehr.dev/internal/ground/intent"
)

// TestABundleHasNoWords of plugins, and no values: they may hold a secret.
func TestABundleHasNoWords(t *testing.T) {
	const secret = "hunter2"
	report := &apipb.Report{
		Asset: "db", State: "waiting", PushNote: secret, ResourceKey: "db?password=" + secret, Health: &apipb.Health{State: "unhealthy", Reason: secret},
		Plan:      &apipb.Plan{Action: "update", Changes: []*apipb.FieldChange{{Path: "password", Current: secret, Target: secret, Reason: secret, Writer: secret}}},
		Unmanaged: []*apipb.FieldChange{{Path: "other", Current: secret}},
	}
	for _, kind := range []intent.WaitingKind{
		intent.WaitPlugin, intent.WaitUnknown, intent.WaitBackoff, intent.WaitNoEffect, intent.WaitQuarantined, intent.WaitFlapping, intent.WaitSettling,
		intent.WaitCheckBroken, intent.WaitCheckConfig, intent.WaitProtection, intent.WaitMetric, intent.WaitAlert, intent.WaitPeak, intent.WaitClaim,
	} {
		report.Waiting = append(report.Waiting, &apipb.WaitingOn{Kind: string(kind), Reason: "it said " + secret})
	}
	for _, kind := range []intent.WaitingKind{intent.WaitOrder, intent.WaitVersion, intent.WaitCapacity} {
		report.Waiting = append(report.Waiting, &apipb.WaitingOn{Kind: string(kind), Reason: "must come after web (after its push: protection smoke says no: " + secret + ")", Quotes: true, Blockers: []string{"web"}})
	}
	report.Waiting = append(report.Waiting, &apipb.WaitingOn{Kind: string(intent.WaitOrder), Reason: "schema comes first", Blockers: []string{"schema"}})
	withoutWords(report)
	push := &apipb.Push{Push: "1", Asset: "db", Ending: "failed", Reason: secret, ResourceKey: secret, Grounds: []*apipb.Ground{{Check: "protection", Fact: secret}},
		Budgets: []string{secret}, Rates: []string{secret}, PlanRecord: &apipb.PlanRecord{Changes: []*apipb.FieldChange{{Path: "x", Current: secret, Target: secret, Reason: secret, Writer: secret}}}}
	pushWithoutWords(push)
	text := report.String() + push.String()
	if strings.Contains(text, secret) {
		t.Error(text)
	}
	for _, words := range []string{`"password"`, "unhealthy", "backoff", "schema comes first", "web", "failed", "left out"} {
		if !strings.Contains(text, words) {
			t.Errorf("%s is not in %s", words, text)
		}
	}
}
