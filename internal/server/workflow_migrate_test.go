package server_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	apipb "lehr.dev/gen/lehr/api/v1"
	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/intent"
)

// checked is the workflow asks with a machine more, on which the third one waits.
func checked() string {
	text := strings.Replace(asks, "machines:\n", `machines:
  test:
    initial: testing
    states:
      testing: {action: {wait: {for: 2h}}}
      tested: {end: success}
    transitions:
      - {from: testing, to: tested, on: done}
`, 1)
	return strings.Replace(text, "when: signals.go_on", `when: signals.go_on && machines.test == "tested"`, 1)
}

func (f *flows) migrate(change func(*apipb.MigrateRunRequest)) (*apipb.MigrateRunResponse, error) {
	f.Helper()
	request := &apipb.MigrateRunRequest{Partition: "shop", Number: 1, Reason: "tests first"}
	if change != nil {
		change(request)
	}
	return f.client.Workflows.MigrateRun(f.Context(), request)
}

// TestWorkflowMigrates: a dry run changes nothing, and the migration does what it said: with the vote that was given before.
func TestWorkflowMigrates(t *testing.T) {
	f := newFlows(t)
	f.serve(0, asks)
	run := f.begin()
	_, err := f.client.Workflows.VoteOnRun(t.Context(), &apipb.VoteOnRunRequest{Partition: "shop", Number: 1, Machine: "second", Approve: true})
	f.must(err)
	_, err = f.migrate(nil)
	f.refused(err, fault.Conflict, "follows the definition that head has already")
	f.serve(1, checked())
	before := fmt.Sprint(f.runs.rows)
	dry, err := f.migrate(func(r *apipb.MigrateRunRequest) { r.DryRun, r.Reason = true, "" })
	f.must(err)
	if after := fmt.Sprint(f.runs.rows); after != before {
		t.Errorf("a dry run changes the run from\n%s to\n%s", before, after)
	}
	_, err = f.migrate(func(r *apipb.MigrateRunRequest) { r.Reason = "" })
	f.refused(err, fault.Invalid, "needs a reason")
	f.runs.conflicts, f.runs.meanwhile = 2, func() { f.runs.rows[0].Version++ }
	done, err := f.migrate(nil)
	f.must(err)
	for name, response := range map[string]*apipb.MigrateRunResponse{"the dry run": dry, "the migration": done} {
		var machines, kinds []string
		for _, m := range response.Machines {
			machines = append(machines, strings.Join(strings.Fields(fmt.Sprint(m.Name, " ", m.Change, " ", m.From, " ", m.To, " ", m.Kept)), " "))
		}
		for _, e := range response.Events {
			kinds = append(kinds, strings.TrimSpace(e.Kind+" "+e.Machine))
		}
		want := []string{"test new testing", "first stays asking asking first/asking/1", "second stays asking asking second/asking/1", "third stays idle idle"}
		if !slices.Equal(machines, want) || !slices.Equal(kinds, []string{"migrated", "migrated test", "began test"}) || len(response.Problems) > 0 {
			t.Errorf("%s: %q, %q, %v", name, machines, kinds, response.Problems)
		}
		if r := response.Run; r.Digest == run.Digest || !r.DefinitionIsNewest || r.Incarnation != "shop@2" || r.Migration.GetDigest() != run.Digest || r.Migration.Incarnation != "shop@1" || r.Migration.By.Name != "ann" {
			t.Errorf("%s: the run is %v", name, r)
		}
	}
	row := f.runs.rows[0]
	if verbs := f.runs.verbs; verbs[len(verbs)-1] != "workflow-migrate" || row.Text != checked() || row.Incarnation.Sequence != 2 || row.Wakes.IsZero() || len(row.Actions) != 3 || row.Migration.Reason != "tests first" {
		t.Errorf("verbs %q, row %+v", verbs, row)
	}
	if e := f.runs.events[1][4]; e.Kind != intent.WorkflowMigrated || e.By.Name != "ann" || e.Reason != "tests first" || e.From != run.Digest || e.To != row.Digest {
		t.Errorf("the history has %+v", e)
	}
	got, err := f.client.Workflows.GetRun(t.Context(), &apipb.GetRunRequest{Partition: "shop", Number: 1})
	f.must(err)
	if got.Run.Definition != checked() || got.Run.Machines[2].Action.GetApprovals()[0] != "ann" {
		t.Errorf("read again the run is %v", got.Run)
	}
	_, err = f.migrate(nil)
	f.refused(err, fault.Conflict, "nothing to do")
}

// TestWorkflowMigrationRefusals: each says what to do, a dry run lists them, and nothing is stored.
func TestWorkflowMigrationRefusals(t *testing.T) {
	f := newFlows(t)
	f.serve(0, asks)
	f.begin()
	f.serve(1, promotion(t))
	_, err := f.migrate(nil)
	f.refused(err, fault.NotFound, `no workflow "asks"`)
	f.serve(2, strings.Replace(strings.Replace(asks, "First?", "One?", 1), "quorum: 2", "quorum: 3", 1))
	_, err = f.migrate(func(r *apipb.MigrateRunRequest) { r.Inputs = map[string]string{"x": "1"} })
	f.refused(err, fault.Conflict, "no input \"x\"; machine first is in asking, whose action is under way, and is another one in the other definition; machine second")
	dry, err := f.migrate(func(r *apipb.MigrateRunRequest) { r.DryRun, r.States = true, map[string]string{"first": "asking"} })
	f.must(err)
	if len(dry.Problems) != 1 || dry.Problems[0].Machine != "second" || dry.Problems[0].State != "asking" || dry.Problems[0].Hint == "" || dry.Run.DefinitionIsNewest {
		t.Errorf("a dry run lists %v", dry.Problems)
	}
	// Nobody goes past what people are asked but an admin.
	past := func(r *apipb.MigrateRunRequest) { r.States = map[string]string{"first": "given", "second": "asking"} }
	_, err = f.migrate(past)
	f.refused(err, fault.Denied, "takes the role admin")
	dry, err = f.migrate(func(r *apipb.MigrateRunRequest) { past(r); r.DryRun = true })
	f.must(err)
	if len(dry.Problems) != 1 || dry.Problems[0].Role != "admin" || dry.Problems[0].Machine != "first" {
		t.Errorf("a dry run lists %v", dry.Problems)
	}
	if len(f.runs.verbs) != 0 {
		t.Errorf("stored are %q", f.runs.verbs)
	}
	f.runs.roles = append(f.runs.roles, intent.Admin)
	moved, err := f.migrate(past)
	f.must(err)
	if m := moved.Run.Machines; m[0].State != "given" || m[1].Action.GetKey() != "second/asking/2" || moved.Machines[1].Cut != "second/asking/1" {
		t.Errorf("an admin moves it to %v", m)
	}
	// Timers that are due fire first: the run ends before it can be moved.
	f.begin()
	f.serve(3, checked())
	f.now = f.now.Add(24 * time.Hour)
	_, err = f.client.Workflows.SignalRun(t.Context(), &apipb.SignalRunRequest{Partition: "shop", Number: 2, Signal: "go_on"})
	f.must(err)
	_, err = f.migrate(func(r *apipb.MigrateRunRequest) { r.Number = 2 })
	f.wasIgnored(err, fault.Conflict, "run-is-over", "is over")
}
