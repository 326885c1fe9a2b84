package definition_test

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/testing/protocmp"
	"google.golang.org/protobuf/types/known/durationpb"

	intentpb "lehr.dev/gen/lehr/intent/v1"
	processpb "lehr.dev/gen/lehr/process/v1"
	"lehr.dev/internal/ground/course"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/ground/rule"
	"lehr.dev/internal/ground/schema"
	"lehr.dev/internal/ground/selection"
	"lehr.dev/internal/prodspec/definition"
)

const beforeRollouts = `lehr: v1
partition: shop
sources: {s: {files: a}, held: {document: knobs}, written: {git: "https://git.example.com/a.git", branch: main, document: prod/sizes.yaml}}
generate: {g: {starlark: a.star, from: s}}
`

func TestRolloutsAreRead(t *testing.T) {
	d, findings := definition.Parse("lehr.yaml", []byte(beforeRollouts+`rollouts:
  frontends:
    select: type == "Job"
    stages:
      - {name: canary, scopes: [cluster-a, cluster-b], where: payload.replicas < 3, soak: 10m}
      - {where: labels.tier == "1", by: label tier, percent: 10%}
      - rest: true
        by: scope cluster
        order: [b, c]
        parallel: 2
        count: 1
        factor: 1.5
        delay: 5m
        soak: 1d
        most: 4
        window: {zone: Europe/London, open: "Mon-Fri 09:00-17:00", holidays: GB}
    validate: [errors, latency]
    on_bad: stop
    newer: queues
    patience: 20m
    emergency:
      - {name: 1, scopes: cluster-a, soak: 1m}
      - {rest: true}
  knobs:
    select: id.startsWith("a/")
    by: {document: knobs, field: "/clusters/{scope.cluster}/version"}
    stages: [{rest: true}]
  sizes:
    select: id.startsWith("c/")
    by: {document: written, field: "/{scope.cluster}", pull_request: hub}
    stages: [{rest: true, approval: {quorum: 2, roles: [approver, operator], expires: 2d}}]
  waves:
    select: id.startsWith("b/")
    stages: [{rest: true}]
    after: frontends
validations:
  errors: {metrics: {a: {prometheus: main, query: a}}}
  latency: {metrics: {a: {prometheus: main, query: a}}}
`), schema.Builtin())
	if len(findings) > 0 {
		t.Fatalf("%+v", findings)
	}
	minutes := func(n int) *durationpb.Duration { return durationpb.New(time.Duration(n) * time.Minute) }
	rest := []*intentpb.RolloutStage{{Name: "1"}}
	want := []*intentpb.Rollout{
		{
			Name: "frontends", Select: `type == "Job"`, Validate: []string{"errors", "latency"},
			OnBad: intentpb.Rollout_ON_BAD_STOP, Newer: intentpb.Rollout_NEWER_QUEUES, Patience: minutes(20),
			Stages: []*intentpb.RolloutStage{
				{Name: "canary", Scopes: []string{"cluster-a", "cluster-b"}, Where: "payload.replicas < 3", Soak: minutes(10)},
				{Name: "2", Where: `labels.tier == "1"`, By: &intentpb.RolloutStage_ByLabel{ByLabel: "tier"}, Percent: 10},
				{
					Name: "3", By: &intentpb.RolloutStage_ByScope{ByScope: "cluster"}, Order: []string{"b", "c"}, Parallel: 2, Count: 1, Factor: 1.5,
					Delay: minutes(5), Soak: minutes(24 * 60), Most: 4,
					Window: &intentpb.Calendar{Zone: "Europe/London", Holidays: "GB", Open: []*intentpb.Window{{When: &intentpb.Window_Hours{Hours: "Mon-Fri 09:00-17:00"}}}},
				},
			},
			Emergency: []*intentpb.RolloutStage{{Name: "1", Scopes: []string{"cluster-a"}, Soak: minutes(1)}, {Name: "2"}},
		},
		{Name: "knobs", Select: `id.startsWith("a/")`, Field: &intentpb.DocumentField{Document: "knobs", Pointer: "/clusters/{scope.cluster}/version", Source: "held"}, Stages: rest},
		{
			Name: "sizes", Select: `id.startsWith("c/")`,
			Stages: []*intentpb.RolloutStage{{Name: "1", Approval: &intentpb.Judgement{Quorum: 2, Roles: []string{"approver", "operator"}, Expires: durationpb.New(48 * time.Hour)}}},
			Field:  &intentpb.DocumentField{Document: "written", Pointer: "/{scope.cluster}", Source: "written", InRepository: true, PullRequest: "hub"},
		},
		{Name: "waves", Select: `id.startsWith("b/")`, Stages: rest, After: []string{"frontends"}},
	}
	if diff := cmp.Diff(want, d.Policy.Rollouts, protocmp.Transform()); diff != "" {
		t.Error(diff)
	}
	places := d.RolloutPlaces[0]
	if places[""].Line != 6 || places["select"].Line != 7 || places["stages[0].where"].Line != 9 || places["stages[2]"].Line != 11 || places["emergency[0]"].Line != 26 || len(d.RolloutPlaces) != 4 {
		t.Errorf("%+v", places)
	}
}

// TestMistakesInRollouts: each is found at its line, with a hint.
func TestMistakesInRollouts(t *testing.T) {
	stages := func(text string) string { return "{select: true, stages: [" + text + "]}" }
	emergency := func(text string) string {
		return "{select: true, stages: [{rest: true}], emergency: [" + text + "]}"
	}
	by := func(text string) string { return "{select: true, stages: [{rest: true}], by: " + text + "}" }
	for text, want := range map[string]string{
		"{stages: [{rest: true}]}":             "rollouts.r.select is missing",
		"{select: true}":                       "rollouts.r.stages is missing",
		"x":                                    "rollouts.r must be a mapping",
		"{select: [], stages: [{rest: true}]}": "rollouts.r.select must be an expression",
		"{selects: true, select: true, stages: [{rest: true}]}":                              "unknown field rollouts.r.selects",
		"{select: true, stages: []}":                                                         "rollouts.r.stages must be a list that is not empty",
		"{select: true, stages: x}":                                                          "rollouts.r.stages must be a list",
		stages("x"):                                                                          "rollouts.r.stages[0] must be a mapping",
		stages("{rest: true, soaks: 1m}"):                                                    "unknown field rollouts.r.stages[0].soaks",
		stages("{}"):                                                                         "does not say which assets belong to it",
		stages("{soak: 1m}, {rest: true}"):                                                   "stages[0] does not say which assets",
		stages("{rest: false}"):                                                              "rest: \"false\" is not known",
		stages("{rest: true, scopes: [a]}"):                                                  "all that are left, and only those",
		stages("{rest: true, where: true}"):                                                  "all that are left, and only those",
		stages("{rest: true}, {scopes: [a]}"):                                                "stages[1] can have no assets, for the stage 1 before it has all that are left",
		stages("{scopes: [a, b]}, {scopes: [a]}"):                                            "stages[1] can have no assets, for the stage 1 before it has them",
		stages("{scopes: [a]}, {scopes: [a], where: x}"):                                     "stages[1] can have no assets",
		stages("{where: x}, {where: x, scopes: [b]}"):                                        "stages[1] can have no assets",
		stages("{name: a, scopes: [a]}, {name: a, rest: true}"):                              `two stages of rollouts.r are named "a"`,
		stages("{name: 2, scopes: [a]}, {rest: true}"):                                       `two stages of rollouts.r are named "2"`,
		stages("{name: A B, rest: true}"):                                                    `stages[0]: "A B" is not a name`,
		stages("{scopes: [a, a]}"):                                                           "the scope a is named twice",
		stages("{scopes: []}"):                                                               "scopes must be a list that is not empty",
		stages("{rest: true, by: cluster}"):                                                  "by must be a scope or a label",
		stages("{rest: true, by: [scope, x]}"):                                               "by must be a scope or a label",
		stages("{rest: true, order: [a]}"):                                                   "order is of groups, and there are none",
		stages("{rest: true, parallel: 2}"):                                                  "parallel is of groups, and there are none",
		stages("{rest: true, by: scope c, order: [a, a]}"):                                   "the group a is named twice",
		stages("{rest: true, by: scope c, parallel: 0}"):                                     "parallel must be a whole number from 1",
		stages("{rest: true, count: 0}"):                                                     "count must be a whole number from 1",
		stages("{rest: true, most: -1}"):                                                     "most must be a whole number from 1",
		stages("{rest: true, percent: 101%}"):                                                "is not a percentage",
		stages("{rest: true, percent: 10}"):                                                  "is not a percentage",
		stages("{rest: true, percent: 0%}"):                                                  "percent lets nothing go on",
		stages("{rest: true, percent: 10%, count: 1}"):                                       "says twice how many",
		stages("{rest: true, percent: 10%, factor: 2}"):                                      "says twice how many",
		stages("{rest: true, factor: 1}"):                                                    "factor must be more than 1",
		stages("{rest: true, factor: -3}"):                                                   "factor must be more than 1",
		stages("{rest: true, factor: 1e9}"):                                                  "factor must be more than 1 and at most 100",
		stages("{rest: true, factor: two}"):                                                  "factor must be a number",
		stages("{rest: true, soak: -1m}"):                                                    "soak: \"-1m\" is not a length of time",
		stages("{rest: true, delay: -1m}"):                                                   "delay: \"-1m\" is not a length of time",
		stages("{rest: true, soak: 31d}"):                                                    "soak is longer than 30 days",
		stages("{rest: true, delay: 721h}"):                                                  "delay is longer than 30 days",
		stages("{rest: true, window: {open: x}}"):                                            "window.zone is missing",
		stages("{rest: true, window: x}"):                                                    "window must be a mapping",
		stages("{rest: true, window: {zone: Mars}}"):                                         "no time zone",
		stages("{rest: true, window: {zone: UTC, opens: x}}"):                                "unknown field rollouts.r.stages[0].window.opens",
		stages("{rest: true, window: {zone: UTC, open: never}}"):                             "never",
		"{select: true, stages: [{rest: true}], patience: 40d}":                              "patience is longer than 30 days",
		"{select: true, stages: [{rest: true}], on_bad: cry}":                                "on_bad: \"cry\" is not known",
		"{select: true, stages: [{rest: true}], newer: x}":                                   "newer: \"x\" is not known",
		"{select: true, stages: [{rest: true}], validate: []}":                               "validate must be a list",
		"{select: true, stages: [{rest: true}], validate: [a, a]}":                           "the validation a is named twice",
		"{select: true, stages: [{rest: true}], validate: smoke}":                            `there is no validation "smoke"`,
		"{select: true, stages: [{rest: true}], after: []}":                                  "after must be a list",
		"{select: true, stages: [{rest: true}], after: [r]}":                                 `no rollout "r" that goes by pins is written above this one`,
		"{select: true, stages: [{rest: true}], after: canary}":                              `no rollout "canary" that goes by pins is written above this one`,
		"{select: true, stages: [{rest: true}], after: [a, a]}":                              "the rollout a is named twice",
		"{select: true, stages: [{rest: true}], by: {document: knobs, field: /a}, after: a}": "a rollout that sets a field of a document comes after none",
		by("pods"):                                            "by must be pins or a field of a document",
		by("{document: knobs}"):                               "by.field is missing",
		by("{field: /a}"):                                     "by.document is missing",
		by("{document: knobs, field: a}"):                     "does not begin with /",
		by("{document: knobs, field: '/{tier}'}"):             "for {tier} in the pointer",
		by("{document: knob, field: /a}"):                     `no source is the document "knob"`,
		by("{document: held, field: /a}"):                     `no source is the document "held"`,
		by("{document: knobs, field: /a, pull_request: hub}"): `the document "knobs" is no file of a repository`,
		by("{document: knobs, field: /a/-}"):                  `a place of which the next edit makes another`,
		by("{document: knobs, field: /a, at: x}"):             "unknown field rollouts.r.by.at",
		emergency("{rest: true}"):                             "emergency lets all go on at once",
		"{select: true, stages: [{rest: true}], rollback: [{rest: true, approval: {}}]}":                 "has a window, a plugin or an approval",
		"{select: true, stages: [{rest: true, approval: 2}]}":                                            "approval must be a mapping",
		"{select: true, stages: [{rest: true, approval: {people: 2}}]}":                                  "unknown field rollouts.r.stages[0].approval.people",
		"{select: true, stages: [{rest: true, approval: {quorum: 0}}]}":                                  "quorum",
		"{select: true, stages: [{rest: true, approval: {quorum: 21}}]}":                                 "21 people are more than 20",
		"{select: true, stages: [{rest: true, approval: {roles: [boss]}}]}":                              "boss",
		"{select: true, stages: [{rest: true, approval: {expires: soon}}]}":                              "expires",
		"{select: true, stages: [{rest: true}], rollback: [{rest: true, plugin: x}]}":                    "has a window, a plugin or an approval",
		"{select: true, stages: [{rest: true}], rollback: [{rest: true, window: {zone: UTC}}]}":          "has a window, a plugin or an approval",
		"{select: true, by: {document: k, field: /a}, stages: [{rest: true}], rollback: [{rest: true}]}": "no stages to go back by",
		"{select: true, stages: [{rest: true}], rollback: [{rest: true}, {scopes: [a]}]}":                "can have no assets",
		emergency("{rest: true, count: 1}"):                                                              "emergency lets all go on at once",
		emergency("{where: x}, {rest: true}"):                                                            "emergency lets all go on at once",
		emergency("{rest: true}, {scopes: [a]}"):                                                         "can have no assets",
		emergency("{scopes: [a], percent: 200%}"):                                                        "is not a percentage",
	} {
		_, findings := definition.Parse("lehr.yaml", []byte(beforeRollouts+"rollouts: {r: "+text+"}\n"), schema.Builtin())
		found := false
		for _, f := range findings {
			found = found || strings.Contains(f.Message, want)
			if f.Line != 5 || f.Column < 1 || f.Hint == "" || !strings.HasPrefix(f.Field, "rollouts.r") {
				t.Errorf("%s: %+v has no place or no hint", text, f)
			}
		}
		if !found {
			t.Errorf("%s: %+v, want %q", text, findings, want)
		}
	}
	_, findings := definition.Parse("lehr.yaml", []byte(beforeRollouts+"rollouts: {A: "+stages("{rest: true}")+"}\n"), schema.Builtin())
	if len(findings) != 1 || !strings.Contains(findings[0].Message, `"A" is not a name`) {
		t.Errorf("%+v", findings)
	}
	var many, long strings.Builder
	for i := range 101 {
		many.WriteString("  r" + time.Duration(i).String() + ": " + stages("{rest: true}") + "\n")
		long.WriteString("{scopes: [s" + time.Duration(i).String() + "]},")
	}
	for text, want := range map[string]string{many.String(): "there are 101 rollouts, at most 50", "  r: " + stages(long.String()) + "\n": "has 101 stages, at most 100"} {
		_, findings := definition.Parse("lehr.yaml", []byte(beforeRollouts+"rollouts:\n"+text), schema.Builtin())
		if len(findings) != 1 || !strings.Contains(findings[0].Message, want) {
			t.Errorf("%+v, want %q", findings, want)
		}
	}
}

// TestRolloutsOfThePageAreRead: what docs/use/rollouts.md shows is taken, and goes as it
// says.
func TestRolloutsOfThePageAreRead(t *testing.T) {
	page, err := os.ReadFile("../../../docs/use/rollouts.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(page), "```yaml\n")
	text, _, _ := strings.Cut(rest, "```")
	head, _, _ := strings.Cut(beforeRollouts, "validations:")
	d, findings := definition.Parse("lehr.yaml", []byte(head+"plugins: {Job: {run: lehr-process}}\n"+text), schema.Builtin())
	if len(findings) > 0 || len(d.Policy.Rollouts) != 1 || len(d.Policy.Validations) != 1 {
		t.Fatalf("%+v", findings)
	}
	all, err := course.All(rule.New(schema.Builtin()), d.Policy)
	if err != nil {
		t.Fatal(err)
	}
	var targets []selection.Target
	for _, cluster := range []string{"a", "b", "c"} {
		asset := intent.Asset{ID: intent.AssetID("web/" + cluster)}
		for i, m := range []proto.Message{
			&processpb.Job{}, &intentpb.ImpactedScope{Scopes: map[string]string{"cluster": "cluster-" + cluster}}, &intentpb.Labels{Labels: map[string]string{"tier": "web"}},
		} {
			packed, err := schema.Builtin().Pack(m)
			if err != nil {
				t.Fatal(err)
			}
			if i == 0 {
				asset.Payload = packed
			} else {
				asset.Addons = append(asset.Addons, packed)
			}
		}
		if selects, err := all[0].Selects(asset); !selects || err != nil {
			t.Errorf("%s is not governed: %v", asset.ID, err)
		}
		target, err := all[0].Target(asset)
		if err != nil {
			t.Fatal(err)
		}
		targets = append(targets, target)
	}
	noon := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	for emergency, want := range map[bool]string{false: "canary 0 [web/a], others 15 [web/c], others 30 [web/b]", true: "1 0 [web/a], 2 1 [web/b web/c]"} {
		var steps []string
		for _, s := range selection.Forecast(all[0].Policy(emergency), targets, noon, 0) {
			steps = append(steps, fmt.Sprint(s.Stage, " ", int(s.At.Sub(noon).Minutes()), " ", s.Assets))
		}
		if got := strings.Join(steps, ", "); got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
}
