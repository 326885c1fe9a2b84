package validate_test

import (
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	commandpb "lehr.dev/gen/lehr/command/v1"
	intentpb "lehr.dev/gen/lehr/intent/v1"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/ground/schema"
	"lehr.dev/internal/prodspec/validate"
)

// rolled is a policy with rollouts, which serves jobs.
func rolled(rollouts ...*intentpb.Rollout) *intentpb.Policy {
	p := policyOf()
	p.Plugins = []*intentpb.PluginBinding{{Type: "lehr.process.v1.Job", Run: []string{"lehr-process"}}}
	p.Rollouts = rollouts
	return p
}

// rollout of a name over what is selected, with stages for clusters; "": all
// that are left.
func rollout(name, selects string, clusters ...string) *intentpb.Rollout {
	r := &intentpb.Rollout{Name: name, Select: selects}
	for _, cluster := range clusters {
		stage := &intentpb.RolloutStage{Name: "of-" + cluster}
		if cluster != "" {
			stage.Scopes = []string{cluster}
		}
		r.Stages = append(r.Stages, stage)
	}
	return r
}

func TestWhatRolloutsGovern(t *testing.T) {
	field := rollout("knobs", `type == "Job"`, "a", "")
	field.Field = &intentpb.DocumentField{Document: "knobs", Pointer: "/{scope.region}"}
	hasty := rollout("hasty", `type == "Job"`, "")
	hasty.Emergency = []*intentpb.RolloutStage{{Name: "1", Scopes: []string{"b"}}}
	back := rollout("back", `type == "Job"`, "")
	back.Rollback = []*intentpb.RolloutStage{{Name: "1", Scopes: []string{"b"}}}
	for name, test := range map[string]struct {
		policy *intentpb.Policy
		// want are parts of a finding of asset web/a; of none: there is none.
		want []string
	}{
		"one":                      {rolled(rollout("r", `type == "Job"`, "a", "")), nil},
		"two apart":                {rolled(rollout("r", `id == "web/a"`, ""), rollout("s", `id == "web/b"`, "")), nil},
		"two at once":              {rolled(rollout("r", `type == "Job"`, ""), rollout("s", "true", "")), []string{"asset web/a is selected by two rollouts, r and s"}},
		"no stage":                 {rolled(rollout("r", `type == "Job"`, "b", "c")), []string{"no stage of rollouts.r.stages wants asset web/a", "the rollout r could never let it go on"}},
		"no stage in an emergency": {rolled(hasty), []string{"no stage of rollouts.hasty.emergency wants asset web/a"}},
		"no stage to go back by":   {rolled(back), []string{"no stage of rollouts.back.rollback wants asset web/a"}},
		"no value for its field":   {rolled(field), []string{"the rollout knobs cannot be judged of asset web/a", "which has no scope region"}},
		// Fields of documents and pins are different things.
		"by field too": {rolled(rollout("r", `type == "Job"`, ""), proto.CloneOf(field)), []string{"no scope region"}},
	} {
		w := newWorld(t)
		j := w.judge(test.policy, false, jobOf(t, "web/a", 1, "a"), entry(t, intent.PolicyAsset, test.policy), entry(t, "task", &commandpb.Command{}))
		if len(test.want) == 0 {
			for _, f := range j.Findings {
				if f.Rule == "rollout" && f.Severity == intent.Error {
					t.Errorf("%s: %+v", name, f)
				}
			}
			continue
		}
		f := finding(t, j, "rollout", test.want...)
		if f.Asset != "web/a" || f.Severity != intent.Error || f.Hint == "" || f.File != "web.star" || !strings.HasPrefix(f.Field, "rollouts.") || !j.Rejected {
			t.Errorf("%s: %+v", name, f)
		}
	}
}

// TestRolloutsThatGovernNothing are warned of when they are written, and again
// when what is served is another.
func TestRolloutsThatGovernNothing(t *testing.T) {
	w := newWorld(t)
	policy := rolled(rollout("r", `type == "Job"`, ""), rollout("idle", `id == "shop"`, ""))
	j := w.judge(policy, false, jobOf(t, "web/a", 1, "a"))
	f := finding(t, j, "rollout", "the rollout idle selects no asset")
	if f.Severity != intent.Warning || j.Rejected || len(j.Findings) != 1 {
		t.Errorf("%+v", j.Findings)
	}
	w.publish(policy, nil, jobOf(t, "web/a", 1, "a"))
	if j := w.judge(policy, false, jobOf(t, "web/a", 2, "a")); len(j.Findings) > 0 {
		t.Errorf("said again: %+v", j.Findings)
	}
	bare := proto.CloneOf(policy)
	bare.Plugins = nil
	finding(t, w.judge(bare, false), "rollout", "the rollout r selects no asset")
}

// TestARolloutCostsWhatChanged: all assets are read when rollouts change, and
// only then.
func TestARolloutCostsWhatChanged(t *testing.T) {
	w := newWorld(t)
	w.publish(rolled(), nil, jobOf(t, "web/a", 1, "a"), jobOf(t, "web/b", 1, "b"), jobOf(t, "web/c", 1, "c"), entry(t, "task", &commandpb.Command{}))
	two := rolled(rollout("r", `type == "Job"`, "a", "b"))
	before := w.rested
	finding(t, w.judge(two, false), "rollout", "no stage of rollouts.r.stages wants asset web/c")
	if w.rested-before != 3 {
		t.Errorf("%d assets were read", w.rested-before)
	}
	w.policy, before = two, w.rested
	finding(t, w.judge(two, false, jobOf(t, "web/d", 1, "d")), "rollout", "no stage of rollouts.r.stages wants asset web/d")
	if j := w.judge(two, false, jobOf(t, "web/b", 2, "b"), removed("web/a")); j.Rejected {
		t.Errorf("%+v", j.Findings)
	}
	if w.rested != before {
		t.Errorf("%d assets were read", w.rested-before)
	}
}

func TestCheckRollouts(t *testing.T) {
	problems := validate.CheckRollouts(schema.Builtin(), rolled(rollout("a", "true", ""), rollout("b", `type == "Job" && payload.replica > 1`, "")))
	if len(problems) != 1 || problems[0].Index != 1 || problems[0].Field != "select" || !strings.Contains(problems[0].Err.Error(), "replica") {
		t.Errorf("%+v", problems)
	}
	if problems := validate.CheckRollouts(schema.Builtin(), nil); len(problems) > 0 {
		t.Errorf("%+v", problems)
	}
}
