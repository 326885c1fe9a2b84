package cli

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	apipb "lehr.dev/gen/lehr/api/v1"
	"lehr.dev/gen/lehr/api/v1/apipbconnect"
	"lehr.dev/internal/ground/fault"
	"lehr.dev/sdk/client"
)

// promoting is a run that waits for people, an action and a signal.
func promoting() *apipb.WorkflowRun {
	return &apipb.WorkflowRun{
		Partition: "shop", Number: 3, Workflow: "promote", Digest: "sha256:1", Inputs: map[string]string{"version": "1.2", "urgent": "false"},
		By: &apipb.Actor{Name: "ann"}, Reason: "the release", Started: before(22 * time.Minute), Facts: map[string]bool{"quiet": false},
		SignalsOpen: []string{"go_on", "never"},
		Machines: []*apipb.WorkflowMachine{
			{Name: "build", State: "built", Since: before(9 * time.Minute), End: "success"},
			{
				Name: "approval", State: "asking", Since: before(9 * time.Minute),
				Action: &apipb.WorkflowAction{
					Key: "approval/asking/1", Kind: "person", Text: "asks 2 of approver: Deploy 1.2?", Due: timestamppb.New(noon.Add(23 * time.Hour)),
					Approvals: []string{"bob"}, Quorum: 2, Roles: []string{"approver"},
				},
				Transitions: []*apipb.WorkflowTransition{
					{To: "given", On: []string{"approved"}, Holds: "unknown", Answered: "unknown", Guard: "yes"},
					{To: "refused", On: []string{"refused", "expired"}, Holds: "unknown", Answered: "unknown", Guard: "yes"},
				},
			},
			{
				Name: "deploy", State: "idle", Since: before(22 * time.Minute), End: "neutral",
				Transitions: []*apipb.WorkflowTransition{
					{To: "deploying", When: "…", Holds: "unknown", Answered: "yes", Guard: "unknown", Missing: []*apipb.WorkflowCondition{
						{Text: `machines.approval == "given" (is asking)`, Reads: []string{"machines.approval"}},
						{Text: `facts.quiet (is false), or signals.go_on (has not come)`, Reads: []string{"facts.quiet", "signals.go_on"}},
					}},
					{To: "undoing", CutByCancel: true, Holds: "no"},
				},
			},
			{
				Name: "tell", State: "telling", Since: before(time.Minute),
				Action: &apipb.WorkflowAction{
					Key: "tell/telling/1", Kind: "tell", Text: "tells https://chat (POST)", Attempts: 2, Failure: "status 503", Next: timestamppb.New(noon.Add(30 * time.Second)),
					Waiting: "for the address to answer",
				},
				Transitions: []*apipb.WorkflowTransition{{To: "told", On: []string{"done"}, Holds: "unknown", Answered: "unknown", Guard: "yes"}},
			},
		},
	}
}

// TestWorkflowStatus: what each machine waits for, what would move it, and what people can do.
func TestWorkflowStatus(t *testing.T) {
	got := shown(t, "table", func(s *session) { _ = s.printRun(promoting()) })
	want := `promote#3: goes on; started 22m ago by ann: the release
Inputs:      urgent = false, version = 1.2
Facts:       quiet is false
Definition:  lehr.yaml has another definition of it now; this run keeps its own

build: built, since 9m

approval: asking, since 9m
  asks 2 of approver: Deploy 1.2?; expires in 23h00m
  1 of 2 approvals: bob
  → given: when the action is approved
  → refused: when the action is refused or expired

deploy: idle, since 22m
  → deploying: needs machines.approval == "given" (is asking) and facts.quiet (is false), or signals.go_on (has not come)
  → undoing: not any more: the run is cancelled, and this transition is not part of its retreat

tell: telling, since 1m
  tells https://chat (POST)
  waits: for the address to answer
  2 attempts failed, the last one: status 503; tries again in 30s
  → told: when the action is done

To answer approval: lehr workflow approve promote#3 approval, or reject
To give signal go_on: lehr workflow signal promote#3 go_on
To see whether it can take up the other definition: lehr workflow migrate promote#3 --dry-run
`
	if got != want {
		t.Errorf("it prints\n%s\nwant\n%s", got, want)
	}
}

// TestWorkflowEnds: how it ended, what it leaves, and how to go on.
func TestWorkflowEnds(t *testing.T) {
	run := promoting()
	run.Ended, run.Outcome, run.EndedBy, run.Leftovers, run.DefinitionIsNewest = before(time.Minute), "stuck", []string{"deploy"}, []string{"new-image"}, true
	got := shown(t, "table", func(s *session) { _ = s.printRun(run) })
	for _, words := range []string{
		"promote#3: stuck; started", "Run promote#3 ended: stuck, because of deploy. It leaves new-image in production. It ended 1m ago.",
		"lehr workflow retry promote#3 --reason WHY",
	} {
		if !strings.Contains(got, words) {
			t.Errorf("it prints\n%s\nwithout %q", got, words)
		}
	}
	if strings.Contains(got, "lehr workflow approve") || strings.Contains(got, "→") {
		t.Errorf("of a run that ended it prints\n%s", got)
	}
}

// workflowServer answers with a run, as it is at each look.
type workflowServer struct {
	apipbconnect.WorkflowServiceClient
	runs   []*apipb.WorkflowRun
	events []*apipb.WorkflowEvent
	looks  int
}

func (w *workflowServer) GetRun(context.Context, *apipb.GetRunRequest) (*apipb.GetRunResponse, error) {
	run := w.runs[min(w.looks, len(w.runs)-1)]
	w.looks++
	return &apipb.GetRunResponse{Run: run}, nil
}

func (w *workflowServer) ListRunEvents(_ context.Context, request *apipb.ListRunEventsRequest) (*apipb.ListRunEventsResponse, error) {
	return &apipb.ListRunEventsResponse{Events: w.events[min(int(request.After), len(w.events)):]}, nil
}

func (w *workflowServer) ListWorkflowRuns(context.Context, *apipb.ListWorkflowRunsRequest) (*apipb.ListWorkflowRunsResponse, error) {
	return &apipb.ListWorkflowRunsResponse{Runs: w.runs}, nil
}

func ended(outcome string) *apipb.WorkflowRun {
	run := promoting()
	run.Ended, run.Outcome, run.Machines = before(0), outcome, nil
	return run
}

// TestWorkflowWatch: each row of the history once, and the exit code is that of the end.
func TestWorkflowWatch(t *testing.T) {
	for outcome, code := range map[string]int{"success": exitOK, "failure": exitError, "stuck": exitError, "cancelled": exitError} {
		server := &workflowServer{runs: []*apipb.WorkflowRun{ended(outcome)}, events: []*apipb.WorkflowEvent{
			{Number: 1, Kind: "started", At: before(time.Minute), By: &apipb.Actor{Name: "ann"}, Reason: "the release"},
			{Number: 2, Kind: "voted", Machine: "approval", At: before(time.Second), By: &apipb.Actor{Name: "bob"}, Good: true},
			{Number: 3, Kind: "moved", Machine: "approval", From: "asking", To: "given", At: before(time.Second), By: &apipb.Actor{Name: "workflow/shop/promote"}},
		}}
		var b bytes.Buffer
		s := &session{Terminal: Terminal{Out: &b, Err: &b}, output: "table", now: func() time.Time { return noon }}
		err := s.watchRun(t.Context(), &client.Client{Workflows: server}, promoting(), 0)
		got, _ := errors.AsType[exit](err)
		if got.code != code {
			t.Errorf("after %s the exit code is %d, want %d", outcome, got.code, code)
		}
		want := `11:59:00  the run is started by ann: the release
11:59:59  approval: bob approves
11:59:59  approval: asking → given
12:00:00  waits for: approval asks 2 of approver: Deploy 1.2?; tell tells https://chat (POST)
Run promote#3 ended: ` + outcome + ".\n"
		if text, _, _ := strings.Cut(b.String(), "To start"); text != want {
			t.Errorf("it prints\n%s\nwant\n%s", text, want)
		}
	}
}

// TestWorkflowRunsAreListed in a table, with what each waits for.
func TestWorkflowRunsAreListed(t *testing.T) {
	server := &workflowServer{runs: []*apipb.WorkflowRun{promoting(), ended("failure")}}
	got := shown(t, "table", func(s *session) {
		_ = s.listRuns(t.Context(), &client.Client{Workflows: server}, &apipb.ListWorkflowRunsRequest{Partition: "shop"}, 10)
	})
	want := `RUN        STATE    STARTED  BY   WAITS FOR                                                               REASON
promote#3  goes on  22m      ann  approval asks 2 of approver: Deploy 1.2?; tell tells https://chat (PO…  the release
promote#3  failure  22m      ann  -                                                                       the release
`
	if got != want {
		t.Errorf("it prints\n%s\nwant\n%s", got, want)
	}
	got = shown(t, "yaml", func(s *session) {
		_ = s.listRuns(t.Context(), &client.Client{Workflows: server}, &apipb.ListWorkflowRunsRequest{Partition: "shop"}, 10)
	})
	if !strings.HasPrefix(got, "runs:\n  - ") {
		t.Errorf("as YAML it prints\n%s", got)
	}
}

// TestWorkflowRunNames are a number, with or without the workflow, which must be the right one.
func TestWorkflowRunNames(t *testing.T) {
	for text, want := range map[string]uint64{"3": 3, "promote#3": 3, "promote": 0, "promote#": 0, "0": 0, "#4": 4, "promote#-1": 0} {
		_, number, err := runNumber(text)
		if number != want || (err != nil) != (want == 0) {
			t.Errorf("%s is run %d, %v; want %d", text, number, err, want)
		}
	}
	c := &client.Client{Workflows: &workflowServer{runs: []*apipb.WorkflowRun{promoting()}}}
	if _, err := getRun(t.Context(), c, "shop", "build#3"); !fault.Is(err, fault.Invalid) || !strings.Contains(err.Error(), "promote#3") {
		t.Errorf("a run of another workflow is refused with %v", err)
	}
	if run, err := getRun(t.Context(), c, "shop", "promote#3"); err != nil || run.Number != 3 {
		t.Errorf("promote#3 is %v, %v", run, err)
	}
}

// TestWorkflowInputs are NAME=VALUE, each once.
func TestWorkflowInputs(t *testing.T) {
	values, err := inputValues([]string{"version=1.2", "note=a=b", "empty="})
	if err != nil || values["version"] != "1.2" || values["note"] != "a=b" || len(values) != 3 {
		t.Errorf("the inputs are %v, %v", values, err)
	}
	for _, texts := range [][]string{{"version"}, {"=1"}, {"a=1", "a=2"}} {
		if _, err := inputValues(texts); !fault.Is(err, fault.Invalid) {
			t.Errorf("%q is answered by %v", texts, err)
		}
	}
}

// TestWorkflowVoteWords: counted, or decided.
func TestWorkflowVoteWords(t *testing.T) {
	for want, response := range map[string]*apipb.VoteOnRunResponse{
		"The question of machine approval in run promote#3 has 1 of 2 approvals.": {Key: "approval/asking/1", Approvals: 1, Quorum: 2},
		"The question of machine approval in run promote#3 is approved.":          {Key: "approval/asking/1", Outcome: "approved"},
		"The question of machine approval in run promote#3 is refused.":           {Key: "approval/asking/1", Outcome: "refused"},
	} {
		if got := voteWords(promoting(), response); got != want {
			t.Errorf("it says %q, want %q", got, want)
		}
	}
}
