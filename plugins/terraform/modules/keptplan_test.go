package modules

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	"lehr.dev/plugins/terraform/applykeeper"
	"lehr.dev/sdk/keeper"
	"lehr.dev/sdk/serve"
)

// countRuns has the site's engine note each command that it runs. It returns how often one ran.
func (s *site) countRuns() (runs func(command string) int) {
	s.t.Helper()
	binary, version := terraform(s.t)
	providers, err := mirror()
	if err != nil {
		s.t.Fatal(err)
	}
	list := filepath.Join(s.folder, "runs")
	script := s.write("counting", fmt.Sprintf("#!/bin/sh\necho \"$1\" >>%s\nexec %s \"$@\"\n", list, binary))
	if err := os.Chmod(script, 0o700); err != nil {
		s.t.Fatal(err)
	}
	s.modules = newModules(s.options(script, version, providers, ""))
	return func(command string) (n int) {
		text, _ := os.ReadFile(list)
		for line := range strings.Lines(string(text)) {
			if strings.TrimSpace(line) == command {
				n++
			}
		}
		return n
	}
}

func (s *site) savedPlans() int {
	found, err := filepath.Glob(filepath.Join(s.modules.Folder, "modules", "*", "*", "*", "plans", "*"))
	if err != nil {
		s.t.Fatal(err)
	}
	return len(found)
}

// A push that soon follows the look applies the look's plan; what destroys, or undoes what was
// changed outside, is planned again; and no plan is kept for long.
func TestAPushSoonAfterTheLookAppliesItsPlan(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	runs := s.countRuns()
	if outcome := s.pushOf(t.Context(), s.diff()); outcome.Ending != serve.Pushed || runs("plan") != 1 || runs("apply") != 1 {
		t.Errorf("%+v; %d plans, %d applies", outcome, runs("plan"), runs("apply"))
	}
	s.expect(serve.InSync)
	d := func() serve.Difference {
		s.write("cloud/logo.json", `{"name":"logo","region":"eu","env":"hacked","key":"hunter2-planted"}`)
		return s.expect(serve.Differs, "outside of Terraform]")
	}()
	if outcome := s.pushOf(t.Context(), d); outcome.Ending != serve.Pushed || runs("plan") != 4 || s.savedPlans() != 0 {
		t.Errorf("drift: %+v; %d plans, %d kept", outcome, runs("plan"), s.savedPlans())
	}
	s.module.Variables["region"] = "us"
	if outcome := s.pushOf(t.Context(), s.diff()); outcome.Ending != serve.Pushed || runs("plan") != 6 || s.savedPlans() != 0 {
		t.Errorf("what destroys: %+v; %d plans, %d kept", outcome, runs("plan"), s.savedPlans())
	}
	s.module.Variables["env"] = "prod"
	s.diff()
	if s.savedPlans() != 1 {
		t.Errorf("%d plans are kept after a look", s.savedPlans())
	}
	s.modules.kept.dropAll()
	if s.savedPlans() != 0 {
		t.Errorf("%d plans are kept after the plugin's end", s.savedPlans())
	}
	s.modules.kept.duration = time.Millisecond
	s.diff()
	s.until("the plan to be removed", func() bool { return s.savedPlans() == 0 })
	if outcome := s.pushOf(t.Context(), s.diff()); outcome.Ending != serve.Pushed || s.savedPlans() != 0 {
		t.Errorf("after that: %+v", outcome)
	}
	s.nothingLeft()
}

// A plugin that starts removes what one before it left of saved plans.
func TestSavedPlansOfDeadProcessesAreRemoved(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.diff()
	found, err := filepath.Glob(filepath.Join(s.modules.Folder, "modules", "*", "*", "*", "plans"))
	if err != nil || len(found) != 1 {
		t.Fatalf("%q, %v", found, err)
	}
	dead := filepath.Join(found[0], "4194305-1.tfplan") // No process has such a number.
	if err := os.WriteFile(dead, []byte("secret"), 0o600); err != nil {
		t.Fatal(err)
	}
	lock, err := keeper.Lock(t.Context(), s.subject().folder.LockPath())
	if err != nil {
		t.Fatal(err)
	}
	New(s.modules.Options)
	if s.savedPlans() != 2 {
		t.Errorf("beside an apply that is under way %d plans are left", s.savedPlans())
	}
	if err := lock.Close(); err != nil {
		t.Fatal(err)
	}
	New(s.modules.Options)
	if _, err := os.Stat(dead); !os.IsNotExist(err) || s.savedPlans() != 1 {
		t.Errorf("%v; %d plans are left", err, s.savedPlans())
	}
}

// A module says itself how long its applies may last: one that does is interrupted then, and what
// another machine began is awaited for as long, of that module alone.
func TestALongApplyIsDeclaredByItsModule(t *testing.T) {
	t.Parallel()
	s, other := newSite(t), newSite(t)
	other.mustPush()
	s.module.ApplyLimit = durationpb.New(48 * time.Hour)
	s.expect(serve.Unknown, "apply_limit is 48h0m0s: write more than 0, and at most 24h")
	s.module.ApplyLimit = durationpb.New(5 * time.Hour)
	outcomes, cancel := s.begin()
	defer cancel()
	kept, err := memoOf(s.subject().asset.Memos)
	if err != nil || kept == nil || kept.Until.Sub(kept.Began) != 5*time.Hour {
		t.Errorf("Lehr keeps %+v, %v", kept, err)
	}
	s.expect(serve.Pending)
	other.expect(serve.InSync) // It is delayed by nothing.
	s.mend()
	if outcome := <-outcomes; outcome.Ending != serve.Pushed {
		t.Errorf("%+v", outcome)
	}
	s.module.ApplyLimit = durationpb.New(time.Second)
	s.module.Variables["env"] = "prod"
	s.fault("update", "logo", "wait")
	d := s.diff()
	late := make(chan serve.Outcome, 1)
	go func() { late <- s.pushOf(t.Context(), d) }()
	s.until("the interruption", func() bool {
		for _, event := range applykeeper.Events(s.subject().folder) {
			if strings.Contains(event.Message, "Interrupt received") {
				return true
			}
		}
		return false
	})
	s.mend()
	if outcome := <-late; outcome.Ending != serve.Pushed && (outcome.Ending != serve.Failed || !strings.Contains(outcome.Reason, "longer than its limit")) {
		t.Errorf("an apply that lasts longer: %+v", outcome)
	}
	s.expect(serve.InSync)
}
