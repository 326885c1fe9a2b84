package app_test

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	apipb "lehr.dev/gen/lehr/api/v1"
	"lehr.dev/internal/app"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/pluginhost/plugin"
	"lehr.dev/internal/store/preview"
	"lehr.dev/sdk/client"
)

// neighbourhood is production in which a plan finds that a differs, and nobody can tell
// a plan how b is while it is away.
type neighbourhood struct {
	*production
	ill, away atomic.Bool
}

func (n *neighbourhood) Diff(ctx context.Context, request plugin.DiffRequest) ([]intent.Difference, error) {
	incarnation, assets := request.Incarnation, request.Assets
	differences, err := n.production.Diff(ctx, plugin.DiffRequest{Incarnation: incarnation, Assets: assets})
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

// TestARejectedCandidateIsPlanned, by its digest: it tells what it would have changed, says
// that it is rejected, and changes nothing.
func TestARejectedCandidateIsPlanned(t *testing.T) {
	n := &neighbourhood{production: newProduction()}
	file := partition(t, "one", "a")
	write := func(name, text string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(filepath.Dir(file), name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	write("web.star", scoped)
	write("list.yaml", "{a: x}")
	write("lehr.yaml", strings.Replace(definition, "NAME", "one", 1)+`validate:
  rules: [{id: y, severity: error, where: type == "Command", must: 'payload.input != "y"', message: y may not be}]
`)
	running, opened := begin(t, n.production, map[intent.PartitionID]string{"one": file}, func(o *app.Options) {
		o.Parts.Plugins = func([]string) plugin.Plugin { return n }
	})
	c := client.InProcess(running.Handler())
	eventually(t, "a is enforced", func() bool {
		report, err := opened.Report(t.Context(), "one", "a")
		return err == nil && report.State == intent.StateInSync
	})
	rejected := func() (digests []string) {
		list, err := c.Candidates.ListCandidates(t.Context(), &apipb.ListCandidatesRequest{Partition: "one"})
		if err != nil {
			t.Fatal(err)
		}
		for _, candidate := range list.Candidates {
			if candidate.State == string(intent.CandidateRejected) {
				digests = append(digests, candidate.Digest)
			}
		}
		return digests
	}
	write("list.yaml", "{a: y}")
	eventually(t, "the edit is rejected", func() bool { return len(rejected()) > 0 })
	answer, err := c.Reports.PlanCandidate(t.Context(), &apipb.PlanCandidateRequest{Partition: "one", Candidate: rejected()[0]})
	if err != nil {
		t.Fatal(err)
	}
	if answer.State != string(intent.CandidateRejected) || len(answer.Reports) != 1 || answer.Reports[0].Plan == nil {
		t.Errorf("%v", answer)
	}
	if report, err := opened.Report(t.Context(), "one", "a"); err != nil || report.State != intent.StateInSync {
		t.Errorf("a is %s, %v", report.State, err)
	}
}

// hanging is production whose push of b does not end before it is let.
type hanging struct {
	*neighbourhood
	let chan struct{}
}

func (h *hanging) Push(ctx context.Context, push plugin.Push) plugin.PushResult {
	if push.Asset == "b" {
		select {
		case <-h.let:
		case <-ctx.Done():
		}
	}
	return h.neighbourhood.Push(ctx, push)
}

// TestAPlanKnowsWhatOthersPush: it tells which budgets and rate limits their pushes
// fill, beside whatever else is in the way.
func TestAPlanKnowsWhatOthersPush(t *testing.T) {
	h := &hanging{&neighbourhood{production: newProduction()}, make(chan struct{})}
	defer close(h.let)
	file := partition(t, "one", "a")
	write := func(name, text string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(filepath.Dir(file), name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	const budgets = `checks:
  budget: {scope: cluster, in_flight: 1}
  hourly: {at_most: 2, per: 1h, scope: cluster}
validate:
  rules: [{id: y, severity: hold, where: type == "Command", must: 'payload.input != "y"', message: y asks for a person}]
`
	write("web.star", scoped)
	write("list.yaml", "{a: x}")
	write("lehr.yaml", strings.Replace(definition, "NAME", "one", 1)+budgets)
	running, opened := begin(t, h.production, map[intent.PartitionID]string{"one": file}, func(o *app.Options) {
		o.Parts.Plugins = func([]string) plugin.Plugin { return h }
	})
	c := client.InProcess(running.Handler())
	eventually(t, "a is enforced", func() bool {
		report, err := opened.Report(t.Context(), "one", "a")
		return err == nil && report.State == intent.StateInSync
	})
	write("list.yaml", "{a: x, b: x}")
	eventually(t, "b is being pushed", func() bool {
		open, err := opened.OpenPushes(t.Context(), "one")
		return err == nil && len(open) == 1 && open[0].Asset == "b"
	})
	write("list.yaml", "{a: y, b: x}")
	plan := func() (kinds []string, reasons string, err error) {
		answer, err := c.Reports.PlanCandidate(t.Context(), &apipb.PlanCandidateRequest{Partition: "one"})
		if err != nil {
			return nil, "", err
		}
		if len(answer.Reports) != 1 {
			t.Fatal(answer)
		}
		for _, w := range answer.Reports[0].Waiting {
			kinds, reasons = append(kinds, w.Kind), reasons+w.Reason+"\n"
		}
		return kinds, reasons, nil
	}
	told := func() (kinds []string, reasons string) {
		kinds, reasons, err := plan()
		if err != nil {
			t.Fatal(err)
		}
		return kinds, reasons
	}
	eventually(t, "the edit is held", func() bool {
		_, _, err := plan()
		return err == nil
	})
	const busy = "1 of 1 pushes in flight in scope cluster=north: b\n"
	kinds, reasons := told()
	if !slices.Equal(kinds, []string{"rate", "budget"}) || !strings.Contains(reasons, busy) || !strings.Contains(reasons, "hourly") {
		t.Errorf("with one of two an hour pushed, and one under way: %s: %s", kinds, reasons)
	}
	by := intent.Actor{Name: "ann", Origin: "api"}
	if err := opened.SetHold(t.Context(), "one", intent.Hold{Asset: "a", Owner: by, Reason: "it is looked into"}); err != nil {
		t.Fatal(err)
	}
	if kinds, reasons = told(); !slices.Equal(kinds, []string{"hold", "rate", "budget"}) || !strings.Contains(reasons, busy) {
		t.Errorf("beside a hold: %s: %s", kinds, reasons)
	}
	write("lehr.yaml", strings.Replace(strings.Replace(definition, "NAME", "one", 1)+budgets, "in_flight: 1", "in_flight: 2, unhealthy: 1", 1))
	eventually(t, "what is unhealthy counts, too", func() bool {
		// The candidate is superseded by one with the other budget.
		_, reasons, err := plan()
		return err == nil && strings.Contains(reasons, "in scope cluster=north: 0; pushes in flight there: 1; at most 1 together")
	})
}
