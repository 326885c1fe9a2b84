package modules

import (
	"strings"
	"testing"

	"lehr.dev/sdk/serve"
)

// A look at a module in sync is one plan, and a change needs no init of its own, unless it
// changes providers, modules or the backend.
func TestALookRunsNoMoreThanItNeeds(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	runs := s.countRuns()
	before := map[string]int{}
	expectRuns := func(when, want string) {
		t.Helper()
		var found []string
		for _, command := range []string{"init", "plan", "show", "apply", "state"} {
			for range runs(command) - before[command] {
				found = append(found, command)
			}
			before[command] = runs(command)
		}
		if got := strings.Join(found, " "); got != want {
			t.Errorf("%s: ran %q, want %q", when, got, want)
		}
	}
	s.mustPush() // Whether there is a state the saved plan does not tell.
	expectRuns("at first", "init plan plan show show apply state")
	held := s.expect(serve.InSync)
	expectRuns("in sync", "plan")
	if len(held.Outputs) != 1 || held.Outputs[0].Name != "url" {
		t.Errorf("it tells the outputs %v", held.Outputs)
	}
	s.write("cloud/logo.json", `{"name":"logo","region":"eu","env":"hacked","key":"hunter2-planted"}`)
	s.expect(serve.Differs, "outside of Terraform]")
	expectRuns("drift", "plan show")
	s.write("cloud/logo.json", `{"name":"logo","region":"eu","env":"dev","key":"hunter2-planted"}`)
	s.expect(serve.InSync)
	expectRuns("drift that is gone", "plan show")

	s.edit(`"dev"`, `"prod"`)
	s.mustPush()
	expectRuns("other files", "plan plan show show apply")
	s.file("check.tf", `check "region" {
  assert {
    condition     = testcloud_bucket.logo.region == "eu"
    error_message = "the bucket is elsewhere"
  }
}`)
	for range 2 { // What checks say is in the plan alone.
		if d := s.expect(serve.InSync); d.Health.State != serve.Healthy {
			t.Errorf("its health is %+v", d.Health)
		}
	}
	expectRuns("checks", "plan plan show show")

	s.file("part/main.tf", `resource "terraform_data" "part" {}`)
	s.file("more.tf", `module "part" { source = "./part" }`)
	s.expect(serve.Differs, "module.part.terraform_data.part")
	expectRuns("a module more", "init plan plan show")
	s.mustPush()
	expectRuns("a module more, pushed", "plan plan show show apply")
	s.edit(`backend "local" {}`, `backend "local" { workspace_dir = "/nowhere" }`)
	s.expect(serve.InSync)
	expectRuns("another backend", "init plan plan show")
}
