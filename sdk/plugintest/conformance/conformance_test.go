package conformance

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	processpb "lehr.dev/gen/lehr/process/v1"
	"lehr.dev/internal/pluginhost/plugin"
)

// checkSubject runs the suite over this binary, as a plugin of the class, up
// to the last rule that is of interest.
func checkSubject(t *testing.T, class plugin.Guarantee, lie, last string) Report {
	return checkRules(t, class, lie, last)
}

// checkRules is checkSubject with only the first rule and those, if any are given.
func checkRules(t *testing.T, class plugin.Guarantee, lie, last string, only ...string) Report {
	// Most of the time is waiting, so more run at once than there are cores.
	running <- struct{}{}
	defer func() { <-running }()
	program, err := os.Executable()
	if err != nil {
		t.Error(err)
		return Report{}
	}
	job := func(version string) *processpb.Job {
		return &processpb.Job{Name: "example", Replicas: 2, Binary: "/bin/example", Version: version}
	}
	folder := t.TempDir()
	first, second, secret := exampleWithSecret(t, folder, lie, job("1"), job("2"))
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	return Check(ctx, Target{
		Run: []string{program, "plugin", folder, string(class), lie}, First: first, Second: second, Secret: secret, Patience: 30 * time.Second, Only: only,
		Tell: func(result Result) {
			if err := os.WriteFile(filepath.Join(folder, "tried"), []byte(result.Name), 0o600); err != nil {
				t.Error(err)
			}
			if result.Name == last {
				cancel()
			}
		},
	})
}

func notShort(t *testing.T) {
	t.Helper()
	if testing.Short() {
		t.Skip("starts real processes, and waits for permits to run out")
	}
}

var running = make(chan struct{}, 12)

func (r Report) result(t *testing.T, name string) Result {
	t.Helper()
	for _, result := range r.Results {
		if result.Name == name {
			return result
		}
	}
	t.Fatalf("there is no rule %q", name)
	return Result{}
}

func TestHonestPluginsConform(t *testing.T) {
	notShort(t)
	for _, class := range []plugin.Guarantee{plugin.Unguarded, plugin.CompareAndSet, plugin.Fenced} {
		t.Run(string(class), func(t *testing.T) {
			t.Parallel()
			report := checkSubject(t, class, "", "")
			for _, result := range report.Results {
				if result.Outcome == Failed {
					t.Errorf("%s: %s", result.Name, result.Detail)
				}
			}
			if report.Left {
				t.Error("the example is left, and could be removed")
			}
			hints := report.result(t, "hints name what was asked about")
			if wanted := map[bool]Outcome{true: Passed, false: Skipped}[class == plugin.CompareAndSet]; hints.Outcome != wanted {
				t.Errorf("hints: %+v, want %s", hints, wanted)
			}
			if report.Declared != class || report.Measured != class {
				t.Errorf("declared %s, measured %s, want both %s", report.Declared, report.Measured, class)
			}
		})
	}
}

// Each lie is caught by the rule that it breaks: a suite that cannot fail is
// worth nothing.
func TestLiarsAreCaught(t *testing.T) {
	notShort(t)
	cases := []struct {
		class           plugin.Guarantee
		lie, rule, says string
	}{
		{"C", "writes while looking", "looking changes nothing", "two diffs in a row"},
		{"N", "answers for others", "answers are about what was asked", "was not asked about"},
		{"N", "answers twice", "answers are about what was asked", "twice in one batch"},
		{"N", "leaves assets out", "answers are about what was asked", "no answer about"},
		{"N", "takes one call after the other", "a call that waits holds up no other", "not answered within"},
		{"N", "tells a capacity that is no number", "looking changes nothing", "finite numbers"},
		{"N", "tells a capacity below nothing", "looking changes nothing", "at least 0"},
		{"N", "tells an endless key", "looking changes nothing", "resource key"},
		{"N", "tells a state of another type", "create from nothing", "its current state is no lehr.process.v1.Job"},
		{"N", "pushes any plan", "stale plan is refused", "changed production"},
		{"C", "forgets the base", "moved base asks for a permit", "changed production"},
		{"N", "ignores permits", "no effect without a permit", "changed production"},
		{"N", "asks for no permit", "stale plan is refused", "asked for no permit"},
		{"N", "deletes on absence", "absence deletes nothing", "changed production"},
		{"C", "acts on every delivery", "push is idempotent", "changed production"},
		{"C", "acts on every delivery", "a push delivered twice has one effect", "changed production"},
		{"C", "goes on without a permit", "a push ends with its permit", "it went on for"},
		{"N", "leaves a lock behind", "killed in the middle, the next push completes", "the push ended as failed"},
		{"N", "declares C", "guarantee class", "class C is declared, class N was measured: after production had gone from A to B and back"},
		{"C", "checks before it acts", "guarantee class", "class C is declared, class N was measured: of two pushes that had read the same base"},
		{"F", "remembers the token itself", "guarantee class", "through another process, a push with a lower fencing token"},
		{"C", "declares F", "guarantee class", "class F is declared, class C was measured"},
		{"N", "removes nothing", "turndown", "still differs"},
		{"N", "says it is gone", "turndown", "want delete"},
		{"N", "is busy until before", "too busy says until when", "which is no time to come"},
		{"N", "watches in silence", "the stream of hints beats", "was silent for 7s"},
		{"N", "hints what nobody asked about", "hints name what was asked about", `hints the asset "somebody/else"`},
		{"N", "outlives its parent", "ends with its parent", "still runs"},
	}
	reports := make([]Report, len(cases))
	var checks sync.WaitGroup
	for i, c := range cases {
		checks.Go(func() { reports[i] = checkSubject(t, c.class, c.lie, c.rule) })
	}
	checks.Wait()
	for i, c := range cases {
		t.Run(strings.ReplaceAll(c.lie, " ", "-"), func(t *testing.T) {
			report := reports[i]
			if result := report.result(t, c.rule); result.Outcome != Failed || !strings.Contains(result.Detail, c.says) {
				t.Errorf("%+v, want failed because %q", result, c.says)
			}
			if !report.Failed() {
				t.Error("the report as a whole has not failed")
			}
		})
	}
}

// What cannot be turned down and says so is no fault.
func TestPluginThatCannotTurnDownConforms(t *testing.T) {
	notShort(t)
	t.Parallel()
	report := checkSubject(t, plugin.Unguarded, "cannot turn down", "turndown")
	if result := report.result(t, "turndown"); result.Outcome != Passed || !strings.Contains(result.Detail, "cannot turn down") {
		t.Errorf("%+v", result)
	}
	if !report.Left {
		t.Error("it is said that the example has gone, and it cannot be removed")
	}
}
