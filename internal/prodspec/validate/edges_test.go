package validate_test

import (
	"fmt"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	commandpb "lehr.dev/gen/lehr/command/v1"
	intentpb "lehr.dev/gen/lehr/intent/v1"
	processpb "lehr.dev/gen/lehr/process/v1"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/prodspec/validate"
	"lehr.dev/internal/store"
)

// edges are written "order b", "capacity b" or "version b 2".
func edges(list ...string) *intentpb.Dependencies {
	addon := &intentpb.Dependencies{}
	rules := map[string]intentpb.Dependency_Rule{
		"order": intentpb.Dependency_RULE_ORDER, "capacity": intentpb.Dependency_RULE_CAPACITY, "version": intentpb.Dependency_RULE_VERSION,
	}
	for _, text := range list {
		parts := append(strings.Fields(text), "", "")
		addon.Dependencies = append(addon.Dependencies, &intentpb.Dependency{On: parts[1], Rule: rules[parts[0]], AtLeast: parts[2]})
	}
	return addon
}

func node(t testing.TB, id string, list ...string) store.Entry {
	if len(list) == 0 {
		return entry(t, intent.AssetID(id), job("x"), one)
	}
	return entry(t, intent.AssetID(id), job("x"), one, edges(list...))
}

var one = &intentpb.Version{Expression: `"1"`}

// TestStandstills says which edges bring each other to a standstill.
func TestStandstills(t *testing.T) {
	for name, c := range map[string]struct {
		graph           map[string][]string
		severity, words string
	}{
		"order":                          {map[string][]string{"a": {"order b"}, "b": {"order a"}}, "error", "2 assets depend on each other in a circle: a → b → a"},
		"version":                        {map[string][]string{"a": {"version b 1"}, "b": {"version a 1"}}, "error", "circle: a → b → a"},
		"order and version":              {map[string][]string{"a": {"order b"}, "b": {"version c 1"}, "c": {"order a"}}, "error", "3 assets depend on each other"},
		"itself":                         {map[string][]string{"a": {"capacity a"}}, "error", "asset a depends on itself"},
		"who serves waits to be created": {map[string][]string{"a": {"capacity b", "order b"}, "b": nil}, "error", "created or grow: a → b → a"},
		"the same by another":            {map[string][]string{"a": {"capacity b", "order c"}, "b": nil, "c": {"version b 2"}}, "error", "3 assets wait for each other when they are created"},
		"each serves the other":          {map[string][]string{"a": {"capacity b"}, "b": {"capacity a"}}, "error", "created or grow"},
		"a balancer after its job":       {map[string][]string{"job": {"capacity lb"}, "lb": {"order job"}}, "warning", "shrink in one incarnation: job → lb → job"},
		"a job and its balancer":         {map[string][]string{"job": {"capacity lb"}, "lb": nil}, "", ""},
		"two jobs of a balancer":         {map[string][]string{"a": {"capacity lb"}, "b": {"capacity lb"}, "lb": nil, "c": {"order a", "order b"}}, "", ""},
		"a chain":                        {map[string][]string{"a": {"order b"}, "b": {"capacity c"}, "c": {"order d"}, "d": nil}, "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			var delta []store.Entry
			for id, list := range c.graph {
				delta = append(delta, node(t, id, list...))
			}
			// At once, and one edge at a time on a base.
			for _, apart := range []bool{false, true} {
				w := newWorld(t)
				var got validate.Judgement
				if apart {
					var bare []store.Entry
					for id := range c.graph {
						bare = append(bare, node(t, id))
					}
					w.publish(nil, nil, bare...)
					for _, e := range delta {
						if got = w.judge(nil, false, e); len(got.Findings) > 0 {
							break
						}
						w.publish(nil, nil, e)
					}
				} else {
					got = w.judge(nil, false, delta...)
				}
				said := ""
				if len(got.Findings) > 0 {
					said = string(got.Findings[0].Severity) + " " + got.Findings[0].Message
				}
				if !strings.HasPrefix(said, c.severity) || !strings.Contains(said, c.words) || c.severity == "" && said != "" {
					t.Errorf("apart %v: %q", apart, said)
				}
			}
		})
	}
}

// TestEdgeChangesItsRule: a new rule to the same asset is a new edge.
func TestEdgeChangesItsRule(t *testing.T) {
	w := newWorld(t)
	w.publish(nil, nil, node(t, "a", "capacity b"), node(t, "b"), node(t, "c", "order a"))
	finding(t, w.judge(nil, false, node(t, "a", "order b", "capacity b")), "cycle", "created or grow")
	w.publish(nil, nil, node(t, "b", "order c"))
	finding(t, w.judge(nil, false, node(t, "a", "order b")), "cycle", "3 assets depend on each other in a circle")
}

func TestTurndowns(t *testing.T) {
	down := func(id string, list ...string) store.Entry {
		return entry(t, intent.AssetID(id), job("x"), &intentpb.Turndown{Reason: "retired"}, edges(list...))
	}
	for name, c := range map[string]struct {
		base, delta []store.Entry
		asset       intent.AssetID
	}{
		"a new edge":              {[]store.Entry{down("old")}, []store.Entry{node(t, "a", "order old")}, "a"},
		"a new turndown":          {[]store.Entry{node(t, "old"), node(t, "a", "version old 1")}, []store.Entry{down("old")}, "a"},
		"both new":                {nil, []store.Entry{down("old"), node(t, "a", "order old")}, "a"},
		"order beside capacity":   {[]store.Entry{node(t, "old"), node(t, "a", "capacity old", "order old")}, []store.Entry{down("old")}, "a"},
		"edge of capacity":        {[]store.Entry{node(t, "old"), node(t, "a", "capacity old")}, []store.Entry{down("old")}, ""},
		"new edge of capacity":    {[]store.Entry{down("old")}, []store.Entry{node(t, "a", "capacity old")}, ""},
		"down as well":            {[]store.Entry{node(t, "old"), node(t, "a", "order old")}, []store.Entry{down("old"), down("a", "order old")}, ""},
		"removed as well":         {[]store.Entry{node(t, "old"), node(t, "a", "order old"), node(t, "b")}, []store.Entry{down("old"), removed("a")}, ""},
		"reference taken away":    {[]store.Entry{node(t, "old"), node(t, "a", "order old")}, []store.Entry{down("old"), node(t, "a")}, ""},
		"what goes may hold on":   {[]store.Entry{node(t, "old"), node(t, "a")}, []store.Entry{down("old", "order a")}, ""},
		"it is not turned down":   {[]store.Entry{node(t, "old")}, []store.Entry{node(t, "a", "order old")}, ""},
		"the turndown is revoked": {[]store.Entry{down("old")}, []store.Entry{node(t, "old"), node(t, "a", "order old")}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			if c.base != nil {
				w.publish(nil, nil, c.base...)
			}
			got := w.judge(nil, true, c.delta...)
			var found *intent.Finding
			for i := range got.Findings {
				if got.Findings[i].Rule == "turndown" {
					found = &got.Findings[i]
				}
			}
			switch {
			case c.asset == "" && found != nil:
				t.Errorf("finding %+v", found)
			case c.asset != "" && (found == nil || found.Asset != c.asset || found.Severity != intent.Error || !strings.Contains(found.Message, "refers to old")):
				t.Errorf("findings %+v", got.Findings)
			}
		})
	}
}

// TestATurndownOfAModelRemovesNothing: nobody completes it, so it counts as an
// asset that stays.
func TestATurndownOfAModelRemovesNothing(t *testing.T) {
	policy := &intentpb.Policy{Plugins: []*intentpb.PluginBinding{{Type: "lehr.process.v1.Job", Run: []string{"lehr-process"}}}}
	down := func(id string, payload proto.Message, list ...string) store.Entry {
		return entry(t, intent.AssetID(id), payload, &intentpb.Turndown{Reason: "retired"}, edges(list...))
	}
	model := down("site", &commandpb.Command{Diff: []string{"true"}, Push: []string{"true"}}, "order old")
	for _, apart := range []bool{false, true} {
		w, delta := newWorld(t), []store.Entry{down("old", job("x")), model}
		if apart {
			w.publish(policy, nil, node(t, "old"), model)
			delta = delta[:1]
		}
		got := w.judge(policy, true, delta...)
		finding(t, got, "turndown", "site refers to old")
		if warned := strings.Contains(fmt.Sprint(got.Findings), "no plugin is bound to lehr.command.v1.Command: nothing is removed"); warned == apart {
			t.Errorf("apart %v: %+v", apart, got.Findings)
		}
	}
	w := newWorld(t)
	w.publish(policy, nil, model, node(t, "old"))
	for _, found := range w.judge(policy, true, node(t, "a", "order site")).Findings {
		if found.Rule == "turndown" {
			t.Errorf("what refers to the model: %+v", found)
		}
	}
}

func TestAddonsAreJudged(t *testing.T) {
	web := func() *processpb.Job { return job("web") }
	unmanaged := func(paths ...string) proto.Message {
		addon := &intentpb.Unmanaged{}
		for _, path := range paths {
			addon.Fields = append(addon.Fields, &intentpb.UnmanagedField{Path: path, Reason: "autoscaled"})
		}
		return addon
	}
	var every []string
	for i := range web().ProtoReflect().Descriptor().Fields().Len() {
		every = append(every, string(web().ProtoReflect().Descriptor().Fields().Get(i).Name()))
	}
	capacity := func(text string) proto.Message {
		return &intentpb.Capacity{Dimensions: map[string]string{"tasks": text}}
	}
	for name, c := range map[string]struct {
		addon                     proto.Message
		rule, field, words, hints string
	}{
		"at_least":              {edges("version b latest"), "version", "Dependencies.dependencies[0].at_least", `"latest", which is no version`, "semantic version"},
		"another partition":     {edges("order other:b"), "reference", "Dependencies.dependencies[0].on", "other:b", "never cross partitions"},
		"another incarnation":   {edges("order other@3/b"), "reference", "Dependencies.dependencies[0].on", "other@3/b", "never cross partitions"},
		"everything":            {unmanaged("*"), "unmanaged", "Unmanaged.fields[0].path", "everything", "OBSERVE"},
		"a dot":                 {unmanaged("."), "unmanaged", "", "everything", "mode"},
		"each field":            {unmanaged(every...), "unmanaged", "Unmanaged.fields[0].path", "every field", "OBSERVE"},
		"misspelt":              {unmanaged("replicas", "replicaz"), "unmanaged", "Unmanaged.fields[1].path", `no field "replicaz"`, "did you mean replicas?"},
		"below a number":        {unmanaged("replicas.more"), "unmanaged", "", "no fields", ""},
		"below a message":       {unmanaged("health.pth"), "unmanaged", "", `no field "pth"`, "did you mean path?"},
		"no element":            {unmanaged("args.x"), "unmanaged", "", "elements", `["key"]`},
		"capacity":              {capacity("payload.replicaz"), "capacity", `Capacity.dimensions["tasks"]`, "replicaz", "replicas"},
		"capacity is no number": {capacity("payload.name"), "capacity", "", "tasks", ""},
		"capacity of an addon":  {capacity(`double(labels["size"])`), "capacity", "", "tasks", ""},
		"version expression":    {&intentpb.Version{Expression: "payload.versio"}, "version", "Version.expression", "versio", "version"},
		"health":                {&intentpb.Health{Expression: "payload.replicaz > 0"}, "health", "Health.expression", "replicaz", "replicas"},
		"health is a number":    {&intentpb.Health{Expression: "payload.replicas"}, "health", "Health.expression", "neither a truth value nor a text", "true where the asset is well"},
		"version is none":       {&intentpb.Version{Expression: "payload.name"}, "version", "Version.expression", `"web", which is none`, ""},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			got := finding(t, w.judge(nil, false, entry(t, "a", web(), c.addon), node(t, "b")), c.rule, c.words)
			if !strings.Contains(got.Field, c.field) || !strings.Contains(got.Hint, c.hints) || got.Asset != "a" {
				t.Errorf("finding %+v", got)
			}
		})
	}
	for name, addon := range map[string]proto.Message{
		"at_least":   edges("version b 1", "version b v1.2"),
		"unmanaged":  unmanaged("replicas", "args[0]", `env["X.Y[0]"]`, "health.path", "tasks[*].version"),
		"dimensions": capacity("payload.replicas * 2u"),
		"version":    &intentpb.Version{Expression: `"1." + string(payload.replicas)`},
		"health":     &intentpb.Health{Expression: `payload.env["STATUS"] == "ready"`}, // Only what is there has it.
	} {
		w := newWorld(t)
		if got := w.judge(nil, false, entry(t, "a", web(), addon), node(t, "b")); got.Rejected || len(got.Findings) > 1 {
			t.Errorf("%s: %+v", name, got.Findings)
		}
	}
}

// TestNoVersionIsDeclared: who needs a version waits for one that declares any.
func TestNoVersionIsDeclared(t *testing.T) {
	w := newWorld(t)
	w.publish(nil, nil, entry(t, "none", job("x")), node(t, "some"))
	got := finding(t, w.judge(nil, false, node(t, "a", "version some 1", "version none 1")), "version", "needs none at least at 1", "declares no version")
	if got.Severity != intent.Warning || got.Field != "lehr.intent.v1.Dependencies.dependencies[1]" {
		t.Errorf("finding %+v", got)
	}
}

// TestManyOfOneBalancer: an edge to something with many others costs little.
func TestManyOfOneBalancer(t *testing.T) {
	w := newWorld(t)
	all := []store.Entry{node(t, "lb"), node(t, "schema")}
	for i := range 500 {
		all = append(all, node(t, fmt.Sprintf("job/%d", i), "capacity lb", "version schema 1"))
	}
	w.publish(nil, nil, all...)
	w.reads = 0
	if got := w.judge(nil, false, node(t, "job/new", "capacity lb", "version schema 1")); got.Rejected {
		t.Errorf("%+v", got.Findings)
	}
	if w.reads > 30 {
		t.Errorf("one new asset, %d reads", w.reads)
	}
}
