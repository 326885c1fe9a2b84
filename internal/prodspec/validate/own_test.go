package validate_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/durationpb"
	"pgregory.net/rapid"

	intentpb "lehr.dev/gen/lehr/intent/v1"
	processpb "lehr.dev/gen/lehr/process/v1"
	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/ground/rule"
	"lehr.dev/internal/ground/schema"
	"lehr.dev/internal/prodspec/validate"
	"lehr.dev/internal/store"
)

const (
	failing = intentpb.ValidationRule_SEVERITY_ERROR
	warning = intentpb.ValidationRule_SEVERITY_WARNING
	holding = intentpb.ValidationRule_SEVERITY_HOLD
)

func ownRule(id, where, must string, severity intentpb.ValidationRule_Severity) *intentpb.ValidationRule {
	return &intentpb.ValidationRule{Id: id, Where: where, Must: must, Severity: severity, Scope: intentpb.ValidationRule_SCOPE_ASSET}
}

func policyOf(rules ...*intentpb.ValidationRule) *intentpb.Policy {
	bound := []*intentpb.PluginBinding{{Type: "lehr.process.v1.Job", Run: []string{"lehr-process"}}}
	return &intentpb.Policy{Plugins: bound, Rules: rules}
}

func jobOf(t testing.TB, id string, replicas uint32, cluster string, on ...string) store.Entry {
	payload := &processpb.Job{Name: strings.ReplaceAll(id, "/", "-"), Binary: "/bin/true", Replicas: replicas}
	var addons []proto.Message
	if cluster != "" {
		addons = append(addons, &intentpb.ImpactedScope{Scopes: map[string]string{"cluster": cluster}})
	}
	if len(on) > 0 {
		addons = append(addons, dependsOn(on...))
	}
	return entry(t, intent.AssetID(id), payload, addons...)
}

var redundant = ownRule("redundant", `type == "Job"`, "payload.replicas >= 2", failing)

func TestSeveritiesOfRules(t *testing.T) {
	for _, test := range []struct {
		severity               intentpb.ValidationRule_Severity
		acknowledged           bool
		shown                  intent.Severity
		wantRejected, wantHeld bool
	}{
		{failing, false, intent.Error, true, false},
		{failing, true, intent.Error, true, false},
		{holding, false, intent.Holding, false, true},
		{holding, true, intent.Warning, false, false},
		{warning, false, intent.Warning, false, false},
	} {
		w := newWorld(t)
		policy := policyOf(ownRule("redundant", `type == "Job"`, "payload.replicas >= 2", test.severity))
		got := w.judge(policy, test.acknowledged, jobOf(t, "a", 1, ""), jobOf(t, "b", 2, ""))
		f := finding(t, got, "rules.redundant", "asset a breaks the rule redundant")
		if f.Severity != test.shown || got.Rejected != test.wantRejected || got.Held != test.wantHeld || f.File != "web.star" || len(got.Findings) != 1 {
			t.Errorf("%v: %+v", test, got)
		}
		if got.Labels != nil {
			t.Errorf("letting a rule pass moves the guards: %v", got.Labels)
		}
	}
}

func TestMessagesOfRules(t *testing.T) {
	for message, want := range map[string]string{
		`"only " + string(payload.replicas) + " of " + id`: "asset a: only 1 of a (rule redundant)",
		"we don't run alone":  "asset a: we don't run alone (rule redundant)",
		"redundancy":          "asset a: redundancy (rule redundant)",
		`"no " + labels["x"]`: "asset a breaks the rule redundant",
	} {
		r := ownRule("redundant", `type == "Job"`, "payload.replicas >= 2", failing)
		r.Message = message
		finding(t, newWorld(t).judge(policyOf(r), false, jobOf(t, "a", 1, "")), "rules.redundant", want)
	}
	// What cannot be told is no pass.
	got := newWorld(t).judge(policyOf(ownRule("front", "", `labels["tier"] == "front"`, failing)), false, jobOf(t, "a", 1, ""))
	if finding(t, got, "rules.front", "cannot be judged of asset a", "has no value"); !got.Rejected {
		t.Errorf("%+v", got)
	}
	got = newWorld(t).judge(policyOf(ownRule("dear", `[1,2,3].all(a, "`+strings.Repeat("x", 5000)+`".split("").all(b, "`+strings.Repeat("x", 4000)+`".split("").all(c, true)))`, "true", failing)), false, jobOf(t, "a", 1, ""))
	if finding(t, got, "rules.dear", "costs more than is allowed"); !got.Rejected {
		t.Errorf("a filter that is too dear lets all pass: %+v", got)
	}
}

// TestARuleCostsWhatChanged: what a rule held true of before is not read again.
func TestARuleCostsWhatChanged(t *testing.T) {
	for _, r := range []*intentpb.ValidationRule{
		redundant,
		{Id: "near", Must: "to.all(n, n.id != id)", Severity: failing, Scope: intentpb.ValidationRule_SCOPE_NEIGHBOURHOOD},
		{Id: "many", Must: `count(type == "Job" && scope == key) >= 1`, Severity: failing, Scope: intentpb.ValidationRule_SCOPE_WHOLE},
	} {
		w := newWorld(t)
		var all []store.Entry
		for i := range 500 {
			all = append(all, jobOf(t, fmt.Sprintf("job/%03d", i), 2, fmt.Sprint("c", i%7)))
		}
		policy := policyOf(r)
		w.publish(policy, nil, all...)
		w.judge(policy, false, jobOf(t, "job/007", 3, "c0")) // counts the whole once
		w.reads = 0
		if got := w.judge(policy, false, jobOf(t, "job/007", 4, "c0")); got.Rejected || w.reads > 40 {
			t.Errorf("%s: %d reads, %+v", r.Id, w.reads, got)
		}
		// A new rule is judged of all.
		w.policy, w.reads = policyOf(), 0
		if w.judge(policy, false, jobOf(t, "job/007", 4, "c0")); w.reads < 400 && r.Id != "many" {
			t.Errorf("%s: a new rule took %d reads", r.Id, w.reads)
		}
	}
}

func TestANewRuleIsJudgedOfAll(t *testing.T) {
	w := newWorld(t)
	w.publish(policyOf(), nil, jobOf(t, "a", 1, ""), jobOf(t, "b", 2, ""))
	got := w.judge(policyOf(redundant), false, jobOf(t, "c", 2, ""))
	if finding(t, got, "rules.redundant", "asset a "); !got.Rejected || len(got.Findings) != 1 {
		t.Errorf("%+v", got)
	}
	w.publish(policyOf(redundant), nil)
	if got := w.judge(policyOf(redundant), false, jobOf(t, "c", 2, "")); got.Rejected {
		t.Errorf("an old rule is judged of all: %+v", got)
	}
	// So is one whose types are others than before.
	w.again = func(context.Context, func(intent.AssetID, []byte) error) error { return nil }
	finding(t, w.judge(policyOf(redundant), false, jobOf(t, "c", 2, "")), "rules.redundant", "asset a ")
}

// TestACommitDoesNotDisarmItsOwnRule: S23.
func TestACommitDoesNotDisarmItsOwnRule(t *testing.T) {
	looser := ownRule("redundant", `type == "Job"`, "payload.replicas >= 1", failing)
	elsewhere := ownRule("redundant", `type == "Job" && id != "a"`, "payload.replicas >= 2", failing)
	for name, policy := range map[string]*intentpb.Policy{
		"removed":          policyOf(),
		"looser":           policyOf(looser),
		"about others":     policyOf(elsewhere),
		"only a warning":   policyOf(ownRule("redundant", `type == "Job"`, "payload.replicas >= 2", warning)),
		"no policy at all": nil,
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.publish(policyOf(redundant), nil, jobOf(t, "a", 2, ""), jobOf(t, "b", 2, ""))
			got := w.judge(policy, false, jobOf(t, "a", 1, ""))
			if finding(t, got, "rules.redundant", "asset a ", "shop@1 has it, and this candidate loosens it"); !got.Held || got.Rejected {
				t.Errorf("%+v", got)
			}
			if got = w.judge(policy, true, jobOf(t, "a", 1, "")); got.Held || got.Rejected {
				t.Errorf("acknowledged: %+v", got)
			}
			// Without the change it may be loosened; the change may follow.
			if got = w.judge(policy, false, jobOf(t, "b", 3, "")); got.Held || got.Rejected {
				t.Errorf("loosened alone: %+v", got)
			}
			w.publish(policy, nil)
			if got = w.judge(policy, false, jobOf(t, "a", 1, "")); got.Held || got.Rejected {
				t.Errorf("afterwards: %+v", got)
			}
		})
	}
	w := newWorld(t)
	w.publish(policyOf(redundant), nil, jobOf(t, "a", 2, ""))
	stricter := policyOf(ownRule("redundant", `type == "Job"`, "payload.replicas >= 3", failing))
	if got := w.judge(stricter, false, jobOf(t, "a", 1, "")); !got.Rejected || len(got.Findings) != 1 {
		t.Errorf("what the candidate's rule says is said again: %+v", got)
	}
}

func TestNeighbourhoodsAreJudgedFromAnySide(t *testing.T) {
	served := &intentpb.ValidationRule{
		Id: "served", Where: `type == "Job" && id.startsWith("front/")`, Severity: failing, Scope: intentpb.ValidationRule_SCOPE_NEIGHBOURHOOD,
		Must: `to.exists(n, n.type == "Job" && n.payload.replicas >= 2) && from.all(n, n.payload.replicas <= payload.replicas)`,
	}
	policy := policyOf(served)
	w := newWorld(t)
	w.publish(policy, nil, jobOf(t, "front/a", 5, "", "back"), jobOf(t, "back", 2, ""), jobOf(t, "user", 5, "", "front/a"), jobOf(t, "other", 1, ""))
	for name, test := range map[string]struct {
		delta  []store.Entry
		breaks bool
	}{
		"nothing near":            {[]store.Entry{jobOf(t, "other", 9, "")}, false},
		"itself":                  {[]store.Entry{jobOf(t, "front/a", 4, "", "back")}, true},
		"what it refers to":       {[]store.Entry{jobOf(t, "back", 1, "")}, true},
		"the same, well":          {[]store.Entry{jobOf(t, "back", 3, "")}, false},
		"what refers to it":       {[]store.Entry{jobOf(t, "user", 6, "", "front/a")}, true},
		"what referred to it":     {[]store.Entry{jobOf(t, "user", 6, "")}, false},
		"what newly refers to it": {[]store.Entry{jobOf(t, "new", 7, "", "front/a")}, true},
		"its reference":           {[]store.Entry{jobOf(t, "front/a", 5, "", "other")}, true},
		"both at once":            {[]store.Entry{jobOf(t, "user", 6, "", "front/a"), jobOf(t, "front/a", 6, "", "back")}, false},
		"a new one":               {[]store.Entry{jobOf(t, "front/b", 1, "")}, true},
	} {
		got := w.judge(policy, false, test.delta...)
		if got.Rejected != test.breaks {
			t.Errorf("%s: %+v", name, got)
		}
		// At once with all else, as the first incarnation.
		first, all := newWorld(t), maps.Clone(w.head().assets)
		for _, e := range test.delta {
			all[e.Asset] = e
		}
		if got := first.judge(policy, false, slices.Collect(maps.Values(all))...); got.Rejected != test.breaks {
			t.Errorf("%s, at once: %+v", name, got)
		}
	}
	if got := w.judge(policy, false, removed("user")); got.Rejected {
		t.Errorf("%+v", got)
	}
}

func TestTheWholeIsJudgedByAggregates(t *testing.T) {
	perCluster := &intentpb.ValidationRule{Id: "two", Must: `count(type == "Job" && scope == key) >= 2`, Severity: failing, Scope: intentpb.ValidationRule_SCOPE_WHOLE}
	sized := &intentpb.ValidationRule{Id: "sized", Severity: failing, Scope: intentpb.ValidationRule_SCOPE_WHOLE, Message: "too large",
		Must: `sum(payload.replicas, type == "Job" && scope == key) <= 10 && (count(scope == key) == 0 || max(payload.replicas, type == "Job" && scope == key) <= 6)`}
	total := &intentpb.ValidationRule{Id: "total", Must: `count(type == "Job") <= 4`, Severity: holding, Scope: intentpb.ValidationRule_SCOPE_WHOLE}
	labelled := &intentpb.ValidationRule{Id: "all", By: "scope", Must: `count(type == "Job" && payload.replicas > 1 && scope == key) >= 1`, Severity: warning, Scope: intentpb.ValidationRule_SCOPE_WHOLE}
	policy := policyOf(perCluster, sized, total, labelled)
	w := newWorld(t)
	w.publish(policy, nil, jobOf(t, "a", 2, "east"), jobOf(t, "b", 2, "east"), jobOf(t, "c", 2, "west"), jobOf(t, "d", 2, "west"))
	if got := w.judge(policy, false, jobOf(t, "a", 3, "east")); len(got.Findings) > 0 {
		t.Errorf("%+v", got)
	}
	finding(t, w.judge(policy, false, jobOf(t, "a", 2, "west")), "rules.two", "east breaks the rule two: count 1")
	finding(t, w.judge(policy, false, jobOf(t, "a", 9, "east")), "rules.sized", "east: too large (rule sized; sum 11, count 2, max 9)")
	if got := w.judge(policy, false, jobOf(t, "e", 2, "east")); !got.Held {
		t.Errorf("%+v", got)
	} else {
		finding(t, got, "rules.total", "the partition breaks the rule total: count 5")
	}
	f := finding(t, w.judge(policy, false, jobOf(t, "a", 1, "east"), jobOf(t, "b", 1, "east")), "rules.all", "east breaks")
	if f.Severity != intent.Warning {
		t.Errorf("%+v", f)
	}
	// A candidate that was judged, and not published, leaves nothing behind.
	if got := w.judge(policy, false, jobOf(t, "a", 3, "east")); len(got.Findings) > 0 {
		t.Errorf("%+v", got)
	}
	// Loosened in the commit that it is there for.
	if got := w.judge(policyOf(sized, total, labelled), false, removed("a")); !got.Held {
		t.Errorf("%+v", got)
	}
	broken := policyOf(&intentpb.ValidationRule{Id: "x", Must: `sum(int(labels["x"]), type == "Job") < 3.0`, Severity: failing, Scope: intentpb.ValidationRule_SCOPE_WHOLE})
	if got := w.judge(broken, false, jobOf(t, "a", 3, "east")); !got.Rejected {
		t.Errorf("what is not known passes: %+v", got)
	}
}

// TestTalliesAreWhatACountWouldBe: what is kept from incarnation to incarnation
// finds what a validator finds that counts anew.
func TestTalliesAreWhatACountWouldBe(t *testing.T) {
	policy := policyOf()
	for i, must := range []string{
		`count(type == "Job" && scope == key) >= 2`,
		`sum(payload.replicas, type == "Job" && scope == key) < 6`,
		`min(payload.replicas, type == "Job" && scope == key) >= 2 && max(payload.replicas, scope == key) < 4`,
		`count(true) < 5 || count(payload.replicas == 3 && scope == key) > 0`,
	} {
		policy.Rules = append(policy.Rules, &intentpb.ValidationRule{Id: fmt.Sprint("r", i), Must: must, Severity: warning, Scope: intentpb.ValidationRule_SCOPE_WHOLE})
	}
	keeping, counting := newWorld(t).validator, newWorld(t).validator
	rapid.Check(t, func(rt *rapid.T) {
		w := newWorld(t)
		w.validator = keeping
		keeping.Forget()
		w.publish(policy, nil)
		for range rapid.IntRange(1, 6).Draw(rt, "steps") {
			var delta []store.Entry
			for _, id := range rapid.SliceOfNDistinct(rapid.SampledFrom([]string{"a", "b", "c", "d", "e", "f"}), 1, 3, rapid.ID).Draw(rt, "ids") {
				_, ok := w.head().assets[intent.AssetID(id)]
				if ok && rapid.IntRange(0, 2).Draw(rt, "remove") == 0 {
					delta = append(delta, removed(intent.AssetID(id)))
					continue
				}
				delta = append(delta, jobOf(t, id, rapid.Uint32Range(1, 4).Draw(rt, "replicas"), rapid.SampledFrom([]string{"", "east", "west"}).Draw(rt, "cluster")))
			}
			kept := w.judge(policy, true, delta...)
			counting.Forget()
			w.validator = counting
			anew := w.judge(policy, true, delta...)
			w.validator = keeping
			if fmt.Sprint(kept.Findings) != fmt.Sprint(anew.Findings) {
				rt.Fatalf("kept:\n%v\nanew:\n%v", kept.Findings, anew.Findings)
			}
			if rapid.Bool().Draw(rt, "publish") {
				w.publish(policy, nil, delta...)
			}
		}
	})
}

func TestChecksOutside(t *testing.T) {
	r := ownRule("owned", `type == "Job"`, "answer.status == 200 && answer.body.owner == payload.name", failing)
	r.External = &intentpb.ExternalCheck{
		Ask: &intentpb.ExternalCheck_Http{Http: "https://names.example.com/owner"}, Parameters: map[string]string{"name": `"job " + payload.name`},
		Timeout: durationpb.New(time.Second), Keep: durationpb.New(time.Minute),
	}
	policy := policyOf(r)
	reply := func(of validate.Question) validate.Reply {
		return validate.Reply{Answer: rule.Answer{Status: 200, Text: fmt.Sprintf(`{"owner": %q}`, of.Asset)}}
	}
	w := newWorld(t)
	if got := w.judge(policy, false, jobOf(t, "a", 1, "")); !got.Held || got.Rejected {
		t.Errorf("nobody asks: %+v", got)
	}
	var asked []validate.Question
	w.outside = func(_ context.Context, questions []validate.Question) (replies []validate.Reply) {
		for _, q := range questions {
			asked = append(asked, q)
			replies = append(replies, reply(q))
		}
		return replies
	}
	got := w.judge(policy, false, jobOf(t, "a", 1, ""), jobOf(t, "b", 1, ""))
	if got.Held || got.Rejected || len(asked) != 2 || asked[0].Parameters["name"] != "job a" || asked[0].Key == asked[1].Key {
		t.Errorf("%+v %+v", got, asked)
	}
	reply = func(validate.Question) validate.Reply { return validate.Reply{Answer: rule.Answer{Status: 404}} }
	if got = w.judge(policy, false, jobOf(t, "a", 1, "")); !got.Rejected {
		t.Errorf("a no: %+v", got)
	}
	reply = func(validate.Question) validate.Reply {
		return validate.Reply{Err: fault.New(fault.Denied, "it may not be asked").WithHint("allow it")}
	}
	if f := finding(t, w.judge(policy, false, jobOf(t, "a", 1, "")), "rules.owned", "it may not be asked"); !strings.HasPrefix(f.Hint, "allow it; ") {
		t.Errorf("what to do: %+v", f)
	}
	reply = func(validate.Question) validate.Reply { return validate.Reply{Err: errors.New("it is on holiday")} }
	got = w.judge(policy, false, jobOf(t, "a", 1, ""), jobOf(t, "b", 1, ""))
	if f := finding(t, got, "rules.owned", "no answer for 2 assets: it is on holiday"); !got.Held || got.Rejected || f.Severity != intent.Holding {
		t.Errorf("no answer: %+v", got)
	}
	if got = w.judge(policy, true, jobOf(t, "a", 1, "")); got.Held || got.Rejected {
		t.Errorf("acknowledged: %+v", got)
	}
	r.Severity = warning
	if got = w.judge(policy, false, jobOf(t, "a", 1, "")); got.Held || got.Rejected || len(got.Findings) != 1 {
		t.Errorf("a warning: %+v", got)
	}
}

// TestRulesTellNoSecrets: S13. A rule may look at what its message does not show.
func TestRulesTellNoSecrets(t *testing.T) {
	compiled, findings := schema.Compile(t.Context(), []schema.SourceFile{{Path: "account.proto", Text: []byte(`syntax = "proto3";
package tenant.v1;
message Account { string user = 1; string password = 2 [debug_redact = true]; }`)}}, nil)
	if compiled == nil {
		t.Fatal(findings)
	}
	kind, err := compiled.Set.Types().FindMessageByName("tenant.v1.Account")
	if err != nil {
		t.Fatal(err)
	}
	account := kind.New()
	for name, value := range map[protoreflect.Name]string{"user": "ann", "password": "hunter2"} {
		account.Set(account.Descriptor().Fields().ByName(name), protoreflect.ValueOfString(value))
	}
	asset := intent.Asset{ID: "a"}
	if asset.Payload, err = compiled.Set.Pack(account.Interface()); err != nil {
		t.Fatal(err)
	}
	body, digest, err := compiled.Set.Encode(asset)
	if err != nil {
		t.Fatal(err)
	}
	w := newWorld(t)
	if w.validator, err = validate.New(compiled.Set); err != nil {
		t.Fatal(err)
	}
	r := ownRule("long", `type == "Account"`, "size(payload.password) > 10", failing)
	r.Message = `payload.user + " has " + payload.password`
	got := w.judge(&intentpb.Policy{Rules: []*intentpb.ValidationRule{r}}, false, store.Entry{
		Asset: "a", Member: intent.Member{Asset: "a", Type: asset.Payload.Type, Digest: digest, Effective: digest}, Body: body,
	})
	finding(t, got, "rules.long", "ann has "+schema.Redacted)
	if strings.Contains(fmt.Sprint(got.Findings), "hunter") {
		t.Errorf("%+v", got.Findings)
	}
	r.Must = "int(payload.password) > 1"
	got = w.judge(&intentpb.Policy{Rules: []*intentpb.ValidationRule{r}}, false, store.Entry{
		Asset: "a", Member: intent.Member{Asset: "a", Type: asset.Payload.Type, Digest: digest, Effective: digest}, Body: body,
	})
	if finding(t, got, "rules.long", "cannot be judged"); strings.Contains(fmt.Sprint(got.Findings), "hunter") {
		t.Errorf("%+v", got.Findings)
	}
}
