package cli

import (
	"bytes"
	"context"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/cobra"

	"lehr.dev/internal/ground/intent"
)

// simulator fails with disturbance 3, and remembers what it was asked.
type simulator struct {
	runs  SimRuns
	calls int
}

func (s *simulator) kit() SimKit {
	bad := SimRun{
		Seed:         8,
		Broken:       []SimBroken{{Property: "S18", Says: "stop stops", What: "an effect\x1b came", At: time.Unix(0, 0)}},
		Disturbances: []SimDisturbance{{1, "#1 edit"}, {3, "#3 stop"}, {4, "#4 edit"}},
		Story:        []string{"   1s  north begins"},
		Value:        map[string]int{"seed": 8}, Details: map[string]int{"seed": 8, "plan": 3},
	}
	return SimKit{
		Version: "v9",
		Kinds:   func() []string { return []string{"edit", "approve", "approve, then edit"} },
		Play: func(_ context.Context, script string, _ io.Writer) (bool, error) {
			s.calls++
			return script != "bad.txtar", nil
		},
		Build: func(context.Context, BuildOptions) (Built, error) {
			return Built{Partition: "shop", Findings: []intent.Finding{{Severity: intent.Error, Message: "it is wrong"}}}, nil
		},
		Run: func(_ context.Context, runs SimRuns, each func(SimRun, SimSum)) (SimSum, error) {
			s.runs = runs
			s.calls++
			sum := SimSum{Runs: 2, Hours: 3, Checked: map[string]int{"S1": 4}, Value: map[string]int{"runs": 2}}
			each(SimRun{Seed: 7, Value: map[string]int{"seed": 7}}, sum)
			if runs.Seed == 8 {
				sum.Failed = 1
				each(bad, sum)
			}
			return sum, nil
		},
		Shrink: func(_ context.Context, runs SimRuns, failed SimRun, _ int) (SimRun, error) {
			failed.Disturbances = failed.Disturbances[1:2]
			return failed, nil
		},
	}
}

func (s *simulator) call(args ...string) (out, problems string, code int) {
	var o, e bytes.Buffer
	local := Local{Commands: []*cobra.Command{SimCommand(s.kit())}}
	code = Run(context.Background(), local, Terminal{Out: &o, Err: &e, Getenv: func(string) string { return "" }}, append([]string{"sim"}, args...))
	return o.String(), e.String(), code
}

func TestSimTellsAFailureAndHowToSeeItAgain(t *testing.T) {
	var s simulator
	out, _, code := s.call("--seed", "8", "--hours", "2.5", "--runs", "3", "--density", "12", "--without", "approve, then edit,edit")
	if code != exitError {
		t.Errorf("exit code %d", code)
	}
	for _, want := range []string{
		"Lehr v9", "BROKEN by seed 8", "S18 (stop stops)", `an effect\u001b came`, "The 1 of 3 disturbances", "#3 stop", "north begins",
		"\n  lehr sim --seed 8 --hours 2.5 --density 12 --without \"approve, then edit,edit\" --only 3 --story\n",
	} {
		if !strings.Contains(out, want) {
			t.Errorf("%q is not in\n%s", want, out)
		}
	}
	want := SimRuns{Seed: 8, Hours: 2.5, Density: 12, Replicas: 1, Runs: 3, Without: []string{"approve, then edit", "edit"}, Workers: s.runs.Workers}
	if diff := cmp.Diff(want, s.runs); diff != "" || s.runs.Workers < 1 {
		t.Error(diff)
	}
	// What it says can be given.
	if _, problems, _ := s.call("--seed", "8", "--hours", "2.5", "--density", "12", "--without", "approve, then edit,edit", "--only", "3", "--story"); problems != "" && !strings.HasPrefix(problems, "seed 8") {
		t.Error(problems)
	}
}

func TestSimInJSON(t *testing.T) {
	var s simulator
	out, _, code := s.call("--seed", "8", "--json", "--runs", "2")
	want := `{"seed":7}
{"plan":3,"seed":8}
{"replay":"lehr sim --seed 8 --hours 1 --only 3 --story","shrunk":{"plan":3,"seed":8}}
{"command":"lehr sim --seed 8 --hours 1","seed":8,"sum":{"runs":2},"version":"v9"}
`
	if diff := cmp.Diff(want, out); diff != "" || code != exitError {
		t.Error(code, diff)
	}
	if out, _, code := s.call("--seed", "1", "-o", "json"); strings.Count(out, "\n") != 2 || code != exitOK {
		t.Errorf("%d:\n%s", code, out)
	}
}

func TestSimPlaysScripts(t *testing.T) {
	var s simulator
	if _, _, code := s.call("one.txtar", "two.txtar"); code != exitOK || s.calls != 2 {
		t.Errorf("exit code %d, %d scripts", code, s.calls)
	}
	if _, _, code := s.call("bad.txtar", "two.txtar"); code != exitError || s.calls != 4 {
		t.Errorf("exit code %d, %d scripts", code, s.calls)
	}
}

func TestSimIsNotBegunWrongly(t *testing.T) {
	definition := filepath.Join(t.TempDir(), "lehr.yaml")
	if err := os.WriteFile(definition, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for args, want := range map[string]string{
		"--hours 0":                  "--hours",
		"--hours NaN":                "--hours",
		"--runs 0":                   "--runs",
		"--density -1":               "--density",
		"--only 1,b":                 `not "b"`,
		"--only 1 --runs 2":          "one run",
		"--trace /dev/null --runs 2": "one run",
		"--without nothing":          `no disturbance "nothing"`,
		"--partition " + definition:  "it is wrong",
	} {
		var s simulator
		out, problems, code := s.call(strings.Fields(args)...)
		if code != exitError || !strings.Contains(problems, want) || s.calls > 0 || out != "" {
			t.Errorf("%s: exit code %d, %d calls: %s%s", args, code, s.calls, out, problems)
		}
	}
}
