package course_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	commandpb "lehr.dev/gen/lehr/command/v1"
	intentpb "lehr.dev/gen/lehr/intent/v1"
	processpb "lehr.dev/gen/lehr/process/v1"
	"lehr.dev/internal/ground/course"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/ground/rule"
	"lehr.dev/internal/ground/schema"
	"lehr.dev/internal/ground/selection"
)

var noon = time.Date(2026, 3, 2, 12, 0, 0, 0, time.UTC)

// asset is a job of a cluster, with labels "k=v".
func asset(t testing.TB, id intent.AssetID, cluster string, replicas uint32, labels ...string) intent.Asset {
	t.Helper()
	addons := []proto.Message{}
	if len(labels) > 0 {
		said := &intentpb.Labels{Labels: map[string]string{}}
		for _, l := range labels {
			key, value, _ := strings.Cut(l, "=")
			said.Labels[key] = value
		}
		addons = append(addons, said)
	}
	if cluster != "" {
		addons = append(addons, &intentpb.ImpactedScope{Scopes: map[string]string{"cluster": cluster}})
	}
	return pack(t, id, &processpb.Job{Name: string(id), Replicas: replicas, Binary: "/bin/web", Version: "v1", BasePort: 8000}, addons...)
}

func pack(t testing.TB, id intent.AssetID, payload proto.Message, addons ...proto.Message) intent.Asset {
	t.Helper()
	made := intent.Asset{ID: id}
	for i, m := range append([]proto.Message{payload}, addons...) {
		packed, err := schema.Builtin().Pack(m)
		if err != nil {
			t.Fatal(err)
		}
		if i == 0 {
			made.Payload = packed
		} else {
			made.Addons = append(made.Addons, packed)
		}
	}
	slices.SortFunc(made.Addons, func(a, b intent.Message) int { return strings.Compare(string(a.Type), string(b.Type)) })
	return made
}

// made is a rollout of a policy that serves jobs.
func made(t testing.TB, r *intentpb.Rollout) (*course.Course, error) {
	t.Helper()
	return course.New(rule.New(schema.Builtin()), &intentpb.Policy{Plugins: []*intentpb.PluginBinding{
		{Type: "lehr.process.v1.Job", Run: []string{"lehr-process"}},
	}}, r)
}

func TestWhatIsGoverned(t *testing.T) {
	c, err := made(t, &intentpb.Rollout{Name: "all", Select: "true", Stages: []*intentpb.RolloutStage{{Name: "1"}}})
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		asset intent.Asset
		want  bool
	}{
		{asset(t, "web/a", "a", 1), true},
		{pack(t, intent.PolicyAsset, &intentpb.Policy{}), false},
		// A model type: no plugin serves it.
		{pack(t, "task", &commandpb.Command{}), false},
	} {
		if got, err := c.Selects(test.asset); got != test.want || err != nil {
			t.Errorf("%s: %v %v", test.asset.ID, got, err)
		}
	}
	narrow, err := made(t, &intentpb.Rollout{Name: "some", Select: `type == "Job" && payload.replicas > 1`, Stages: []*intentpb.RolloutStage{{Name: "1"}}})
	if err != nil {
		t.Fatal(err)
	}
	if got, err := narrow.Selects(asset(t, "web/a", "a", 1)); got || err != nil {
		t.Errorf("one replica: %v %v", got, err)
	}
	if narrow.Narrow().Type != "lehr.process.v1.Job" || narrow.Wants("task", "lehr.command.v1.Command") || !narrow.ByPins() {
		t.Errorf("%+v", narrow.Narrow())
	}
}

// TestAsItIsSaid tells the whole of a rollout as it would go.
func TestAsItIsSaid(t *testing.T) {
	said := &intentpb.Rollout{
		Name: "frontends", Select: `type == "Job"`,
		Stages: []*intentpb.RolloutStage{
			{Name: "canary", Scopes: []string{"a"}, Where: "payload.replicas == 1", Soak: durationpb.New(10 * time.Minute)},
			{Name: "few", Where: `"tier" in labels`, By: &intentpb.RolloutStage_ByLabel{ByLabel: "tier"}, Order: []string{"2"}},
			{
				Name: "rest", By: &intentpb.RolloutStage_ByScope{ByScope: "cluster"}, Order: []string{"c"}, Parallel: 2, Count: 1, Most: 2,
				Delay:  durationpb.New(5 * time.Minute),
				Window: &intentpb.Calendar{Zone: "UTC", Open: []*intentpb.Window{{When: &intentpb.Window_Hours{Hours: "13:00-18:00"}}}},
			},
		},
		Emergency: []*intentpb.RolloutStage{{Name: "one", Scopes: []string{"b"}, Count: 1}, {Name: "all"}},
	}
	c, err := made(t, said)
	if err != nil {
		t.Fatal(err)
	}
	var targets []selection.Target
	for _, a := range []intent.Asset{
		asset(t, "web/a1", "a", 1), asset(t, "web/a2", "a", 2, "tier=1"), asset(t, "web/b1", "b", 1), asset(t, "web/b2", "b", 1, "tier=2"),
		asset(t, "web/b3", "b", 3), asset(t, "web/c1", "c", 1), asset(t, "web/none", "", 1),
	} {
		target, err := c.Target(a)
		if err != nil {
			t.Fatal(err)
		}
		name, ok, err := c.StageOf(a, false)
		if name != target.Stage || !ok || err != nil {
			t.Errorf("%s: %s %v %v", a.ID, name, ok, err)
		}
		targets = append(targets, target)
	}
	for emergency, want := range map[bool]string{
		false: "0 canary [web/a1], 11 few [web/b2], 12 few [web/a2], 60 rest [web/c1 web/none], 66 rest [web/b1], 72 rest [web/b3]",
		true:  "0 one [web/b1], 1 one [web/b2], 2 one [web/b3], 3 all [web/a1 web/a2 web/c1 web/none]",
	} {
		var steps []string
		for _, s := range selection.Forecast(c.Policy(emergency), targets, noon, time.Minute) {
			steps = append(steps, fmt.Sprint(int(s.At.Sub(noon).Minutes()), " ", s.Stage, " ", s.Assets))
		}
		if got := strings.Join(steps, ", "); got != want {
			t.Errorf("in an emergency (%v):\n%s\n%s", emergency, got, want)
		}
	}
	// Without stages for emergencies it goes as it always does.
	said.Emergency = nil
	if c, err = made(t, said); err != nil {
		t.Fatal(err)
	}
	target, err := c.Target(asset(t, "web/a1", "a", 1))
	if stages := c.Policy(true).Stages; err != nil || len(stages) != 3 || !stages[0].Wants(target) || stages[2].Wants(target) {
		t.Errorf("%+v %v", target, err)
	}
	said.Stages = said.Stages[:1]
	if c, err = made(t, said); err != nil {
		t.Fatal(err)
	}
	if name, ok, err := c.StageOf(asset(t, "web/b1", "b", 1), true); ok || name != "" || err != nil {
		t.Errorf("no stage wants it: %q %v", name, err)
	}
}

func TestPointers(t *testing.T) {
	for text, want := range map[string]string{
		"/clusters/{scope.cluster}/version": "/clusters/a~1b/version",
		"/{id}/{scope}":                     "/web~1a/a~1b",
		"/of-{label.team}-~1/{label.a.b}":   "/of-x~0-~1/c",
		"/plain":                            "/plain",
		"/{scope.region}":                   "! the pointer /{scope.region} has no value for asset web/a, which has no scope region",
		"/{label.none}":                     "! has no label none",
		"/{cluster}":                        "! for {cluster} in the pointer",
		"/{scope.}":                         "! for {scope.} in the pointer",
		"/{id":                              "! has no other",
		"":                                  "! names the whole document",
		"no":                                "! does not begin with /",
	} {
		got := ""
		pointer, err := course.ParsePointer(text)
		if err == nil {
			got, err = pointer.Of(asset(t, "web/a", "a/b", 1, "team=x~", "a.b=c"))
		}
		if refused, ok := strings.CutPrefix(want, "! "); ok {
			if err == nil || !strings.Contains(err.Error(), refused) {
				t.Errorf("%s: %v", text, err)
			}
		} else if err != nil || got != want {
			t.Errorf("%s: %s %v", text, got, err)
		}
	}
	pointer, err := course.ParsePointer("/{scope}")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := pointer.Of(asset(t, "web/a", "", 1)); err == nil || !strings.Contains(err.Error(), "has 0 scopes") {
		t.Error(err)
	}
}

func TestWhatCannotBeReadIsNamed(t *testing.T) {
	stage := func(where string) []*intentpb.RolloutStage {
		return []*intentpb.RolloutStage{{Name: "1"}, {Name: "2", Where: where}}
	}
	for field, r := range map[string]*intentpb.Rollout{
		"select":             {Select: "1"},
		"stages[1].where":    {Select: `type == "Job"`, Stages: stage("payload.replica > 1")},
		"emergency[1].where": {Select: "true", Stages: stage("true"), Emergency: stage("1")},
		"by.field":           {Select: "true", Field: &intentpb.DocumentField{Document: "d", Pointer: "/{x}"}},
		"stages[0].window":   {Select: "true", Stages: []*intentpb.RolloutStage{{Window: &intentpb.Calendar{Zone: "Mars"}}}},
	} {
		_, err := made(t, r)
		if problem, ok := errors.AsType[*course.Problem](err); !ok || problem.Field != field {
			t.Errorf("%s: %v", field, err)
		}
	}
	environment := rule.New(schema.Builtin())
	if _, err := course.All(environment, &intentpb.Policy{Rollouts: []*intentpb.Rollout{{Name: "a", Select: "1"}}}); err == nil || !strings.Contains(err.Error(), "the rollout a of the policy") {
		t.Error(err)
	}
	if all, err := course.All(environment, &intentpb.Policy{}); len(all) > 0 || err != nil {
		t.Error(all, err)
	}
}

func TestSame(t *testing.T) {
	policy := func(selects string, plugins ...string) *intentpb.Policy {
		p := &intentpb.Policy{Rollouts: []*intentpb.Rollout{{Name: "a", Select: selects}}}
		for _, of := range plugins {
			p.Plugins = append(p.Plugins, &intentpb.PluginBinding{Type: of})
		}
		return p
	}
	for _, test := range []struct {
		a, b *intentpb.Policy
		want bool
	}{
		{nil, &intentpb.Policy{Plugins: []*intentpb.PluginBinding{{Type: "a"}}}, true},
		{policy("true", "a"), policy("true", "a"), true},
		{policy("true", "a"), policy("true", "a", "b"), false},
		{policy("true", "a"), policy("false", "a"), false},
		{policy("true"), nil, false},
	} {
		if course.Same(test.a, test.b) != test.want {
			t.Errorf("%v %v", test.a, test.b)
		}
	}
}

// TestStagesToGoBackBy are those of the policy, or none.
func TestStagesToGoBackBy(t *testing.T) {
	r := &intentpb.Rollout{
		Name: "web", Select: "true", Stages: []*intentpb.RolloutStage{{Name: "canary", Scopes: []string{"a"}}, {Name: "rest"}},
		Rollback: []*intentpb.RolloutStage{{Name: "most", Where: `scopes.cluster != "a"`, Soak: durationpb.New(time.Minute)}},
	}
	c, err := made(t, r)
	if err != nil {
		t.Fatal(err)
	}
	if back := c.Back(); len(back.Stages) != 1 || back.Stages[0].Soak != time.Minute || back.Stages[0].Reverse {
		t.Errorf("it goes back by %+v", back)
	}
	for cluster, want := range map[string]string{"a": "", "b": "most"} {
		one := asset(t, "web/x", cluster, 1)
		target, err := c.Target(one)
		if err != nil {
			t.Fatal(err)
		}
		name, ok, err := c.GoesBack(one)
		if err != nil || name != want || ok != (want != "") || target.Rollback != want || c.Back().Stages[0].Wants(target) != ok {
			t.Errorf("of %s it is %q, %v, %q (%v), want %q", cluster, name, ok, target.Rollback, err, want)
		}
	}
	r.Rollback = nil
	if c, err = made(t, r); err != nil || len(c.Back().Stages) > 0 {
		t.Errorf("%v: it goes back by %+v", err, c.Back())
	}
}
