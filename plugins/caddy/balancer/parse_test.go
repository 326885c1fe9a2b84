package balancer

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	caddypb "lehr.dev/gen/lehr/caddy/v1"
)

func example(t *testing.T) *caddypb.Balancer {
	t.Helper()
	b, err := resolve(&caddypb.Balancer{
		Admin: "127.0.0.1:2019", Name: "web", Listen: []string{"127.0.0.1:80", ":81"},
		Upstreams: map[string]*caddypb.Upstream{
			"a":   {Address: "127.0.0.1:1", Weight: 3},
			"b":   {Address: "10.0.0.1:2", Weight: 1},
			"off": {Address: "10.0.0.1:3"},
		},
		Health: &caddypb.HealthCheck{Path: "/healthz?full=1", Timeout: durationpb.New(1500 * time.Millisecond)},
	})
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func written(t *testing.T, b *caddypb.Balancer, shared bool) any {
	t.Helper()
	live, err := generic(render(b, mark("balancer/web", "push 1"), shared))
	if err != nil {
		t.Fatal(err)
	}
	return live
}

func TestWhatIsWrittenReadsBackTheSame(t *testing.T) {
	for name, change := range map[string]func(*caddypb.Balancer){
		"as it is":      func(*caddypb.Balancer) {},
		"no check":      func(b *caddypb.Balancer) { b.Health = nil },
		"no retries":    func(b *caddypb.Balancer) { b.TryFor = durationpb.New(0) },
		"one upstream":  func(b *caddypb.Balancer) { delete(b.Upstreams, "a") },
		"no weight":     func(b *caddypb.Balancer) { b.Upstreams["a"].Weight, b.Upstreams["b"].Weight = 0, 0 },
		"no upstreams":  func(b *caddypb.Balancer) { b.Upstreams = nil },
		"short retries": func(b *caddypb.Balancer) { b.TryFor = durationpb.New(time.Microsecond) },
	} {
		for _, shared := range []bool{true, false} {
			b := example(t)
			change(b)
			current, err := parse(written(t, b, shared), b, shared)
			if err != nil || !proto.Equal(current, b) {
				t.Errorf("%s (shared %v) reads back as\n%v (%v), was\n%v", name, shared, current, err, b)
			}
		}
	}
}

// mutations calls visit with the live value after each single change of it:
// each member and element removed, added, and given another value and type.
func mutations(root any, visit func(what string)) {
	var walk func(path string, value any, set func(any))
	walk = func(path string, value any, set func(any)) {
		for _, other := range []any{"hunter2", 12345.0, nil, true, []any{}, map[string]any{}} {
			if fmt.Sprint(other) == fmt.Sprint(value) {
				continue
			}
			set(other)
			visit(fmt.Sprintf("%s = %v", path, other))
		}
		set(value)
		switch v := value.(type) {
		case map[string]any:
			v["hunter2"] = 1.0
			visit(path + " + hunter2")
			delete(v, "hunter2")
			for _, key := range slices.Sorted(maps.Keys(v)) {
				member := v[key]
				delete(v, key)
				visit(path + " - " + key)
				v[strings.ToUpper(key)] = member
				visit(path + " in capitals: " + key)
				delete(v, strings.ToUpper(key))
				v[key] = member
				walk(path+"."+key, member, func(to any) { v[key] = to })
			}
		case []any:
			set(append(slices.Clone(v), "hunter2"))
			visit(path + "[…] + hunter2")
			for i, element := range v {
				set(slices.Delete(slices.Clone(v), i, i+1))
				visit(fmt.Sprintf("%s - [%d]", path, i))
				set(v)
				walk(fmt.Sprintf("%s[%d]", path, i), element, func(to any) { v[i] = to })
			}
		}
	}
	holder := root.(map[string]any)
	for _, key := range slices.Sorted(maps.Keys(holder)) {
		walk(key, holder[key], func(to any) { holder[key] = to })
	}
}

// TestNoChangeGoesUnseen: whatever somebody changes in the server shows, and
// tells no secret where a payload has no field for it.
func TestNoChangeGoesUnseen(t *testing.T) {
	b := example(t)
	live := written(t, b, true)
	count := 0
	mutations(live, func(what string) {
		count++
		current, err := parse(live, b, true)
		if err != nil {
			t.Errorf("%s: %v", what, err)
			return
		}
		if proto.Equal(current, b) {
			t.Errorf("%s is taken for in sync", what)
		}
		for path, how := range current.Foreign {
			if how != "added" && how != "changed" && how != "missing" {
				t.Errorf("%s shows %s as %q", what, path, how)
			}
		}
	})
	if current, err := parse(live, b, true); err != nil || !proto.Equal(current, b) || count < 300 {
		t.Errorf("after %d changes and back it reads as %v (%v)", count, current, err)
	}
}

func TestForeignThingsAreBounded(t *testing.T) {
	b := example(t)
	live := written(t, b, true).(map[string]any)
	for i := range 1000 {
		live[fmt.Sprint("added", i, strings.Repeat(`"x`, 1000))] = 1.0
	}
	current, err := parse(live, b, true)
	if err != nil || len(current.Foreign) != maxForeign+1 || proto.Size(current) > 64<<10 {
		t.Errorf("a thousand things take %d entries and %d bytes (%v)", len(current.Foreign), proto.Size(current), err)
	}
}

func FuzzParse(f *testing.F) {
	for _, seed := range []string{`null`, `1`, `"x"`, `[]`, `{}`, `{"listen":5}`, `{"routes":[null]}`,
		`{"routes":[{"handle":[{"handler":"reverse_proxy","upstreams":[{"dial":"a"},{"dial":"a"},null],"load_balancing":{"selection_policy":{"policy":"weighted_round_robin","weights":[-1,1e30]},"try_duration":{}},"health_checks":{"active":{"interval":1.5}}}]}]}`,
		`{"@id":"lehr:a:b","listen":["\ud800"]}`} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		var live any
		if json.Unmarshal([]byte(text), &live) != nil {
			t.Skip()
		}
		b := example(t)
		current, err := parse(live, b, false)
		if err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		if _, err := proto.Marshal(current); err != nil {
			t.Errorf("%s cannot be told: %v", text, err)
		}
		if again, err := parse(live, b, false); err != nil || !proto.Equal(current, again) {
			t.Errorf("%s reads as %v, then as %v", text, current, again)
		}
	})
}
