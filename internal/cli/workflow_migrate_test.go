package cli

import (
	"errors"
	"strings"
	"testing"
	"time"

	apipb "lehr.dev/gen/lehr/api/v1"
)

// moved is the run of promoting under another definition.
func moved() *apipb.MigrateRunResponse {
	run := promoting()
	run.Digest, run.Incarnation, run.DefinitionIsNewest = "sha256:0123456789abcdef", "shop@7", true
	run.Migration = &apipb.WorkflowMigration{At: before(time.Minute), By: &apipb.Actor{Name: "ann"}, Reason: "tests first", Digest: "sha256:1"}
	return &apipb.MigrateRunResponse{
		Run: run,
		Machines: []*apipb.MigratedMachine{
			{Name: "test", Change: "new", To: "testing"}, {Name: "approval", Change: "stays", From: "asking", To: "asking", Kept: "approval/asking/1"},
			{Name: "deploy", Change: "moves", From: "idle", To: "waiting"}, {Name: "tell", Change: "moves", From: "telling", To: "told", Cut: "tell/telling/1", MayHaveHappened: true},
			{Name: "build", Change: "dropped", From: "built"},
		},
		Events: []*apipb.WorkflowEvent{
			{Kind: "moved", Machine: "build", From: "building", To: "built"}, // What time did before.
			{Kind: "migrated", From: "sha256:1", To: "sha256:0123456789abcdef"}, {Kind: "migrated", Machine: "test", To: "testing"},
			{Kind: "began", Machine: "test", Reason: "waits for 2h"},
		},
	}
}

// TestWorkflowMigration: what becomes of each machine and action, what follows, and that a dry run changes nothing.
func TestWorkflowMigration(t *testing.T) {
	got := shown(t, "table", func(s *session) { _ = s.printMigration(promoting(), moved(), true) })
	want := `Run promote#3 would follow definition 0123456789ab of shop@7, in place of definition 1.
  test: is new, in testing
  approval: stays in asking; its action goes on, approved by bob: asks 2 of approver: Deploy 1.2?
  deploy: idle → waiting
  tell: telling → told; its action is cut off, and may have happened: tells https://chat (POST)
  build: is dropped; it was in built
Then:
  test: waits for 2h
The run waits for: approval asks 2 of approver: Deploy 1.2?; tell tells https://chat (POST)
Nothing was changed.
`
	if got != want {
		t.Errorf("it prints\n%s\nwant\n%s", got, want)
	}
	got = shown(t, "table", func(s *session) { _ = s.printMigration(promoting(), moved(), false) })
	if !strings.HasPrefix(got, "Run promote#3 follows now definition") || strings.Contains(got, "Nothing was changed") {
		t.Errorf("of what was done it prints\n%s", got)
	}
	got = shown(t, "table", func(s *session) { _ = s.printRun(moved().Run) })
	if !strings.Contains(got, "Definition:  of shop@7, taken up 1m ago by ann: tests first\n") || strings.Contains(got, "--dry-run") {
		t.Errorf("of the run it prints\n%s", got)
	}
}

// TestWorkflowMigrationProblems: all are told, for people and for programs, and the exit code says so.
func TestWorkflowMigrationProblems(t *testing.T) {
	response := &apipb.MigrateRunResponse{Run: promoting(), Problems: []*apipb.MigrationProblem{
		{Machine: "tell", State: "telling", Message: "machine tell is in telling", Hint: "wait"}, {Input: "region", Message: "it needs region", Hint: "give it"},
	}}
	for output, words := range map[string][]string{
		"table": {"cannot be moved", "machine tell is in telling\n    wait\n", "it needs region\n    give it\n", "Nothing was changed."}, "json": {`"input":`, `"hint":`},
	} {
		var err error
		got := shown(t, output, func(s *session) { err = s.printMigration(promoting(), response, true) })
		if code := (exit{}); !errors.As(err, &code) {
			t.Errorf("%s: it ends with %v", output, err)
		}
		for _, word := range words {
			if !strings.Contains(got, word) {
				t.Errorf("%s prints\n%s\nwithout %q", output, got, word)
			}
		}
	}
	for _, texts := range [][]string{{"deploy"}, {"=idle"}, {"deploy="}, {"deploy=a", "deploy=b"}} {
		if _, err := stateValues(texts); err == nil {
			t.Errorf("--state %q is taken", texts)
		}
	}
}
