package serve

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/bufbuild/protocompile"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/dynamicpb"
	"google.golang.org/protobuf/types/known/durationpb"

	commandpb "lehr.dev/gen/lehr/command/v1"
	intentpb "lehr.dev/gen/lehr/intent/v1"
	processpb "lehr.dev/gen/lehr/process/v1"
)

func TestCompare(t *testing.T) {
	for name, c := range map[string]struct {
		current, target proto.Message
		want            []FieldChange
	}{
		"equal":          {&processpb.Job{Name: "a"}, &processpb.Job{Name: "a"}, nil},
		"scalar":         {&processpb.Job{Replicas: 3}, &processpb.Job{Replicas: 5}, []FieldChange{{Path: "replicas", Current: "3", Target: "5"}}},
		"to the default": {&processpb.Job{Replicas: 3, Name: "a"}, &processpb.Job{}, []FieldChange{{Path: "name", Current: `"a"`, Target: `""`}, {Path: "replicas", Current: "3", Target: "0"}}},
		"list": {&processpb.Job{Args: []string{"a", "b", "c"}}, &processpb.Job{Args: []string{"a", "x"}},
			[]FieldChange{{Path: "args[1]", Current: `"b"`, Target: `"x"`}, {Path: "args[2]", Current: `"c"`}}},
		"map": {&processpb.Job{Env: map[string]string{"A": "1", "B": "2", "C": ""}}, &processpb.Job{Env: map[string]string{"A": "9", "D": ""}},
			[]FieldChange{{Path: `env["A"]`, Current: `"1"`, Target: `"9"`}, {Path: `env["B"]`, Current: `"2"`}, {Path: `env["C"]`, Current: `""`}, {Path: `env["D"]`, Target: `""`}}},
		"nested appears":  {&processpb.Job{}, &processpb.Job{Health: &processpb.HealthCheck{Path: "/h"}}, []FieldChange{{Path: "health.path", Target: `"/h"`}}},
		"nested vanishes": {&processpb.Job{Health: &processpb.HealthCheck{}}, &processpb.Job{}, []FieldChange{{Path: "health", Current: "{}"}}},
		"duration": {&processpb.Job{Update: &processpb.Update{StopGrace: durationpb.New(time.Second)}}, &processpb.Job{Update: &processpb.Update{StopGrace: durationpb.New(90 * time.Second)}},
			[]FieldChange{{Path: "update.stop_grace", Current: "1s", Target: "1m30s"}}},
		"enum": {&intentpb.Mode{Mode: intentpb.EnforcementMode_ENFORCEMENT_MODE_OFF}, &intentpb.Mode{Mode: intentpb.EnforcementMode_ENFORCEMENT_MODE_ENFORCE},
			[]FieldChange{{Path: "mode", Current: "ENFORCEMENT_MODE_OFF", Target: "ENFORCEMENT_MODE_ENFORCE"}}},
		"list of messages": {&intentpb.Policy{Budgets: []*intentpb.Budget{{Scope: "cluster", InFlight: 1}}}, &intentpb.Policy{Budgets: []*intentpb.Budget{{Scope: "cluster", InFlight: 2}, {Scope: "zone"}}},
			[]FieldChange{{Path: "budgets[0].in_flight", Current: "1", Target: "2"}, {Path: "budgets[1].scope", Target: `"zone"`}}},
		"from nothing": {(*commandpb.Command)(nil), &commandpb.Command{Diff: []string{"d"}, Destructive: true},
			[]FieldChange{{Path: "destructive", Target: "true"}, {Path: "diff[0]", Target: `"d"`}}},
		"control characters": {&processpb.Job{Name: "a"}, &processpb.Job{Name: "a\x1b[2J\n"}, []FieldChange{{Path: "name", Current: `"a"`, Target: `"a\x1b[2J\n"`}}},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(c.want, compare(c.current.ProtoReflect(), c.target.ProtoReflect())); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

func TestLongValuesAreShortenedAndStillDiffer(t *testing.T) {
	changes := compare((&processpb.Job{Name: strings.Repeat("é", 5000)}).ProtoReflect(), (&processpb.Job{Name: strings.Repeat("é", 5000) + "!"}).ProtoReflect())
	if len(changes) != 1 || changes[0].Current == changes[0].Target || len(changes[0].Target) > maxValue+100 {
		t.Errorf("%.2000v", changes)
	}
}

func TestManyChangesAreFolded(t *testing.T) {
	plan := func(last string) Plan {
		p := Plan{Action: ActionUpdate}
		for i := range 5000 {
			p.Changes = append(p.Changes, FieldChange{Path: fmt.Sprintf("args[%d]", i), Target: "x", Destructive: i == 4999})
		}
		p.Changes[4999].Target = last
		return bound(p)
	}
	one, other := plan("a"), plan("b")
	if len(one.Changes) != maxChanges || !one.Destructive() || one.Digest() == other.Digest() {
		t.Errorf("%d changes, destructive %v, digests %s and %s", len(one.Changes), one.Destructive(), one.Digest().Short(), other.Digest().Short())
	}
}

// secretType has a field that must not be shown.
func secretType(t *testing.T) protoreflect.MessageType {
	t.Helper()
	compiler := protocompile.Compiler{Resolver: &protocompile.SourceResolver{Accessor: protocompile.SourceAccessorFromMap(map[string]string{"s.proto": `
		edition = "2023";
		message Account { string user = 1; string password = 2 [debug_redact = true]; Account parent = 3; repeated Account all = 4; map<string, Account> by = 5; }`})}}
	files, err := compiler.Compile(t.Context(), "s.proto")
	if err != nil {
		t.Fatal(err)
	}
	return dynamicpb.NewMessageType(files[0].Messages().Get(0))
}

// S13: no secret in a difference.
func TestSecretsAreNotShown(t *testing.T) {
	account := secretType(t)
	fields := account.Descriptor().Fields()
	make := func(password string) protoreflect.Message {
		m := account.New()
		m.Set(fields.ByName("user"), protoreflect.ValueOfString("ann"))
		m.Set(fields.ByName("password"), protoreflect.ValueOfString(password))
		return m
	}
	nest := func(password string) protoreflect.Message {
		m := make(password)
		m.Set(fields.ByName("parent"), protoreflect.ValueOfMessage(make(password)))
		m.Mutable(fields.ByName("all")).List().Append(protoreflect.ValueOfMessage(make(password)))
		m.Mutable(fields.ByName("by")).Map().Set(protoreflect.ValueOfString("k").MapKey(), protoreflect.ValueOfMessage(make(password)))
		return m
	}
	got := compare(nest("hunter1"), nest("hunter2"))
	var want []FieldChange
	for _, path := range []string{"all[0].password", `by["k"].password`, "parent.password", "password"} {
		want = append(want, FieldChange{Path: path, Current: "(redacted)", Target: "(redacted)"})
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	if !hasRedacted(account.Descriptor(), map[protoreflect.FullName]bool{}) {
		t.Error("the type is said to have no secrets")
	}
	shown := nest("hunter1")
	clearRedacted(shown)
	if text := fmt.Sprint(shown.Interface()); strings.Contains(text, "hunter") || !strings.Contains(text, "ann") {
		t.Errorf("what is shown: %s", text)
	}
}

func TestCovers(t *testing.T) {
	for _, c := range []struct {
		pattern, path string
		want          bool
	}{
		{"replicas", "replicas", true},
		{"replicas", "replicas_max", false},
		{"health", "health.path", true},
		{"health.path", "health", false},
		{"args", "args[3]", true},
		{"args[*]", "args[3]", true},
		{"args[3]", "args[33]", false},
		{"clusters[*].weight", "clusters[12].weight", true},
		{"clusters[*].weight", "clusters[12].name", false},
		{`env["A"]`, `env["A"]`, true},
		{`env[*]`, `env["a]\"b"]`, true},
		{`by[*].weight`, `by["a]b"].weight`, true},
		{"", "anything", false},
	} {
		if got := covers(c.pattern, c.path); got != c.want {
			t.Errorf("covers(%q, %q) = %v", c.pattern, c.path, got)
		}
	}
}

func TestLeave(t *testing.T) {
	current := &processpb.Job{Name: "n", Replicas: 9, Args: []string{"a", "b"}, Env: map[string]string{"A": "now", "X": "theirs"}, Health: &processpb.HealthCheck{Path: "/now"}}
	target := &processpb.Job{Name: "n", Replicas: 3, Args: []string{"1", "2", "3"}, Env: map[string]string{"A": "want", "B": "want"}, Health: &processpb.HealthCheck{Path: "/want"}}
	for path, want := range map[string]*processpb.Job{
		"replicas":    {Replicas: 9, Args: target.Args, Env: target.Env, Health: target.Health},
		"args":        {Replicas: 3, Args: current.Args, Env: target.Env, Health: target.Health},
		"args[1]":     {Replicas: 3, Args: []string{"1", "b", "3"}, Env: target.Env, Health: target.Health},
		`env["A"]`:    {Replicas: 3, Args: target.Args, Env: map[string]string{"A": "now", "B": "want"}, Health: target.Health},
		`env["B"]`:    {Replicas: 3, Args: target.Args, Env: map[string]string{"A": "want"}, Health: target.Health},
		"env[*]":      {Replicas: 3, Args: target.Args, Env: current.Env, Health: target.Health},
		"health.path": {Replicas: 3, Args: target.Args, Env: target.Env, Health: current.Health},
		"version":     {Replicas: 3, Args: target.Args, Env: target.Env, Health: target.Health},
	} {
		got := proto.CloneOf(target)
		if err := leave(got.ProtoReflect(), current.ProtoReflect(), path); err != nil {
			t.Errorf("%s: %v", path, err)
		}
		want.Name = "n"
		if !proto.Equal(want, got) {
			t.Errorf("%s:\nwant %v\ngot  %v", path, want, got)
		}
	}
	for _, path := range []string{"replica", "health.pth", "args.x", "name.x", "args[0"} {
		if err := leave(proto.CloneOf(target).ProtoReflect(), current.ProtoReflect(), path); err == nil {
			t.Errorf("the path %q is accepted", path)
		}
	}
}
