package app_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"lehr.dev/app"
	"lehr.dev/client"
	apipb "lehr.dev/gen/lehr/api/v1"
	"lehr.dev/intent"
	"lehr.dev/plugin"
	"lehr.dev/store/preview"
)

// neighbourhood is production in which a plan finds that a differs, and nobody can tell
// a plan how b is while it is away.
type neighbourhood struct {
	*production
	ill, away atomic.Bool
}

func (n *neighbourhood) Diff(ctx context.Context, incarnation intent.IncarnationID, assets []intent.AssetID) ([]intent.Difference, error) {
	differences, err := n.production.Diff(ctx, incarnation, assets)
	planned := incarnation.Sequence >= preview.First
	for i := range differences {
		d := &differences[i]
		switch {
		case d.Asset == "a" && planned:
			d.Outcome, d.Plan = intent.Differs, intent.Plan{Action: intent.ActionUpdate, Changes: []intent.FieldChange{{Path: "input", Target: "y"}}}
		case d.Asset == "b" && planned && n.away.Load():
			d.Outcome, d.Health = intent.Unknown, intent.Health{Reason: "it does not answer"}
		case d.Asset == "b" && n.ill.Load():
			d.Health.State = intent.Unhealthy
		}
	}
	return differences, err
}

const scoped = `
def generate(ctx):
    return [asset(id, lehr.command.v1.Command(diff = ["true"], push = ["true"], input = text), addons = [
        lehr.intent.v1.ImpactedScope(scopes = {"cluster": "north"}),
    ]) for id, text in yaml("list.yaml").items()]
`

const limited = `checks:
  budget: {scope: cluster, in_flight: 1, unhealthy: 1}
validate:
  rules: [{id: y, severity: hold, where: type == "Command", must: 'payload.input != "y"', message: y asks for a person}]
`

// TestAPlanKnowsWhatIsUnhealthy: also of what it did not look at yet, or cannot; and what
// it found to be healthy is in nobody's way.
func TestAPlanKnowsWhatIsUnhealthy(t *testing.T) {
	n := &neighbourhood{production: newProduction()}
	file := partition(t, "one", "a")
	write := func(name, text string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(filepath.Dir(file), name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	write("web.star", scoped)
	write("list.yaml", "{a: x, b: x, c: x, d: x, e: x, f: x, g: x, h: x}")
	write("lehr.yaml", strings.Replace(definition, "NAME", "one", 1)+limited)
	running, opened := begin(t, n.production, map[intent.PartitionID]string{"one": file}, func(o *app.Options) {
		o.Parts.Plugins = func([]string) plugin.Plugin { return n }
	})
	health := func(of intent.HealthState) func() bool {
		return func() bool {
			report, err := opened.Report(t.Context(), "one", "b")
			return err == nil && report.State == intent.StateInSync && report.Health.State == of
		}
	}
	c := client.InProcess(running.Handler())
	plan := func() string {
		t.Helper()
		answer, err := c.Reports.PlanCandidate(t.Context(), &apipb.PlanCandidateRequest{Partition: "one"})
		if err != nil || len(answer.Reports) != 1 || answer.Reports[0].Target != "" {
			t.Fatal(answer, err)
		}
		told := ""
		for _, w := range answer.Reports[0].Waiting {
			told += w.Kind + ": " + w.Reason + "\n"
		}
		return told
	}
	eventually(t, "b is enforced, and healthy", health(intent.Healthy))
	write("list.yaml", "{a: y, b: x, c: x, d: x, e: x, f: x, g: x, h: x}")
	eventually(t, "the edit is held", func() bool {
		_, err := c.Reports.PlanCandidate(t.Context(), &apipb.PlanCandidateRequest{Partition: "one"})
		return err == nil
	})
	if told := plan(); told != "plan: nothing is in the way: it would be pushed now\n" {
		t.Errorf("beside what is well: %s", told)
	}
	n.away.Store(true)
	if told := plan(); !strings.Contains(told, "budget: unhealthy, or not known to be healthy, in scope cluster=north: 1 (b)") {
		t.Errorf("beside what was told of, and cannot be: %s", told)
	}
	n.away.Store(false)
	n.ill.Store(true)
	eventually(t, "b is ill", health(intent.Unhealthy))
	if told := plan(); !strings.Contains(told, "budget: unhealthy, or not known to be healthy, in scope cluster=north: 1 (b)") {
		t.Errorf("beside what is ill: %s", told)
	}
}
