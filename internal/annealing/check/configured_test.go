package check

import (
	"errors"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	intentpb "lehr.dev/gen/lehr/intent/v1"
	processpb "lehr.dev/gen/lehr/process/v1"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/ground/rule"
	"lehr.dev/internal/ground/schema"
)

var builtin = rule.New(schema.Builtin())

// holding is a job as a check finds it.
func holding(t *testing.T, job *processpb.Job, addons ...proto.Message) intent.Asset {
	t.Helper()
	set := schema.Builtin()
	payload, err := set.Pack(job)
	if err != nil {
		t.Fatal(err)
	}
	asset := intent.Asset{ID: "web", Payload: payload}
	for _, addon := range addons {
		packed, err := set.Pack(addon)
		if err != nil {
			t.Fatal(err)
		}
		asset.Addons = append(asset.Addons, packed)
	}
	return asset
}

func TestMinimumAge(t *testing.T) {
	half := &intentpb.MinimumAge{Age: durationpb.New(30 * time.Minute)}
	ofContent := &intentpb.MinimumAge{Age: half.Age, OfContent: true}
	at := intent.IncarnationID{Partition: "shop", Sequence: 7}
	old := now.Add(-30 * time.Minute)
	for name, test := range map[string]struct {
		asked  *intentpb.MinimumAge
		origin Origin
		answer intent.Answer
		says   string
		until  time.Time
	}{
		"old enough":          {half, Origin{Incarnation: at, Published: old}, intent.Pass, "", time.Time{}},
		"a nanosecond before": {half, Origin{Incarnation: at, Published: old.Add(1)}, intent.Wait, "shop@7 was published at 2026-03-01T11:30:00Z and must be 30m0s old", now.Add(1)},
		"content is older":    {ofContent, Origin{Incarnation: at, Published: now, Since: at, Appeared: old}, intent.Pass, "", time.Time{}},
		"content is young":    {ofContent, Origin{Incarnation: at, Published: now, Since: at, Appeared: now}, intent.Wait, "its content came with shop@7", now.Add(30 * time.Minute)},
		"content of lost age": {ofContent, Origin{Incarnation: at, Published: old, Lost: errors.New("not kept")}, intent.Broken, "not kept", time.Time{}},
		"unknown":             {half, Origin{Incarnation: at}, intent.Broken, "not known", time.Time{}},
	} {
		c := Configure(&intentpb.Check{Name: "soak", Kind: &intentpb.Check_MinAge{MinAge: test.asked}}, builtin)
		v := c.judge(Facts{Now: now, Origin: test.origin})
		if v.Check != "soak" || v.Answer != test.answer || !strings.Contains(v.Waiting.Reason, test.says) || !v.Waiting.Until.Equal(test.until) {
			t.Errorf("%s: %+v", name, v)
		}
	}
}

func TestDenylist(t *testing.T) {
	version := func(patterns ...string) *intentpb.Denylist {
		list := &intentpb.Denylist{}
		for _, pattern := range patterns {
			list.Entries = append(list.Entries, &intentpb.Denied{What: &intentpb.Denied_Version{Version: pattern}, Reason: "it loses writes"})
		}
		return list
	}
	commit := func(source, commit string) *intentpb.Denylist {
		return &intentpb.Denylist{Entries: []*intentpb.Denied{{What: &intentpb.Denied_Commit{Commit: commit}, Source: source, Reason: "half of it"}}}
	}
	own := version("1.4.2")
	own.Version = "payload.version"
	addon := &intentpb.Version{Expression: "payload.version"}
	at := Origin{Since: intent.IncarnationID{Partition: "shop", Sequence: 7}, Sources: []intent.SourceRevision{{Source: "service", Revision: "3f2a9c1d"}}}
	for name, test := range map[string]struct {
		list    *intentpb.Denylist
		version string
		addons  []proto.Message
		origin  Origin
		action  intent.Action
		answer  intent.Answer
		says    string
	}{
		"another version":        {version("1.4.2"), "1.4.20", []proto.Message{addon}, at, "", intent.Pass, ""},
		"that version":           {version("9", "1.4.2"), "1.4.2", []proto.Message{addon}, at, "", intent.Wait, "version 1.4.2 is denied: it loses writes"},
		"with a v":               {version("v1.4.2"), "1.4.2", []proto.Message{addon}, at, "", intent.Wait, "denied"},
		"by prefix":              {version("1.4.*"), "v1.4.7", []proto.Message{addon}, at, "", intent.Wait, "denied"},
		"by pattern":             {version("*-rc*"), "1.4.7-rc.1", []proto.Message{addon}, at, "", intent.Wait, "denied"},
		"not by prefix":          {version("1.4.*"), "1.40.7", []proto.Message{addon}, at, "", intent.Pass, ""},
		"of no version":          {version("*"), "1", nil, at, "", intent.Pass, ""},
		"by an expression":       {own, "1.4.2", nil, at, "", intent.Wait, "denied"},
		"a removal":              {version("*"), "1", []proto.Message{addon}, at, intent.ActionDelete, intent.Pass, ""},
		"version is unreadable":  {version("1"), "1", []proto.Message{&intentpb.Version{Expression: "payload.env['X']"}}, at, "", intent.Broken, "payload.env"},
		"that commit":            {commit("", "3f2a9c1"), "1", nil, at, "", intent.Wait, "came with shop@7 from commit 3f2a9c1d of source service"},
		"that commit in full":    {commit("", "3f2a9c1d00aa"), "1", nil, at, "", intent.Wait, "from commit 3f2a9c1d"},
		"that commit of another": {commit("schema", "3f2a9c1"), "1", nil, at, "", intent.Pass, ""},
		"another commit":         {commit("service", "3f2a9c2"), "1", nil, at, "", intent.Pass, ""},
		"commit is not known":    {commit("", "3f2a9c1"), "1", nil, Origin{Lost: errors.New("not kept")}, "", intent.Broken, "not kept"},
	} {
		c := Configure(&intentpb.Check{Name: "bad", Kind: &intentpb.Check_Deny{Deny: test.list}}, builtin)
		v := c.judge(Facts{Now: now, Content: holding(t, &processpb.Job{Version: test.version}, test.addons...), Origin: test.origin, Plan: intent.Plan{Action: test.action}})
		if v.Answer != test.answer || !strings.Contains(v.Waiting.Reason, test.says) || !v.Until.IsZero() {
			t.Errorf("%s: %+v", name, v)
		}
	}
}

// TestAnUnknownKindIsBroken: a newer Lehr may have published the policy (S11).
func TestAnUnknownKindIsBroken(t *testing.T) {
	f := Facts{Now: now, Mode: Enforce, Checks: []Required{{Configured: Configure(&intentpb.Check{Name: "moon"}, builtin)}}}
	if d := Decide(f); d.Push() || d.Waiting()[0].Kind != intent.WaitCheckBroken {
		t.Errorf("%+v", d)
	}
}

// TestALoosenedCheckIsLetGo by an approval of the plan, as a loosened edge is;
// what cannot answer any more by any approval.
func TestALoosenedCheckIsLetGo(t *testing.T) {
	closed := Configure(&intentpb.Check{Name: "soak", Kind: &intentpb.Check_MinAge{MinAge: &intentpb.MinimumAge{Age: durationpb.New(time.Hour)}}}, builtin)
	broken := Configure(&intentpb.Check{Name: "soak"}, builtin)
	after := Configure(&intentpb.Check{Name: "soak", Kind: &intentpb.Check_MinAge{MinAge: &intentpb.MinimumAge{}}}, builtin)
	after.Protection = &Protection{After: &After{}}
	for name, test := range map[string]struct {
		check            *Configured
		loosened, marked bool
		approved, push   bool
	}{
		"in force":                      {closed, false, false, true, false},
		"loosened":                      {closed, true, false, false, false},
		"loosened and approved":         {closed, true, false, true, true},
		"approved for another reason":   {closed, true, true, true, false},
		"broken, loosened, and marked":  {broken, true, true, true, true},
		"broken and marked":             {broken, false, true, true, false},
		"asked after, and loosened":     {after, true, false, false, false},
		"asked after, and approved":     {after, true, false, true, true},
		"asked after, and marked":       {after, true, true, false, false},
		"asked after, marked, approved": {after, true, true, true, true},
	} {
		f := Facts{Now: now, Mode: Enforce, Asset: "web", Plan: intent.Plan{Action: intent.ActionUpdate}, Origin: Origin{Published: now}, Approved: test.approved,
			Checks: []Required{{Configured: test.check, Loosened: test.loosened}}}
		if test.marked {
			f.Marked = "precious"
		}
		d := Decide(f)
		if d.Push() != test.push {
			t.Errorf("%s: push %t, waiting on %+v", name, d.Push(), d.Waiting())
		}
		if test.push != (f.GoesPast() || test.marked && test.push) {
			t.Errorf("%s: it goes past %t", name, f.GoesPast())
		}
		if name == "loosened" && (!AsksApproval(f) || !strings.Contains(d.Waiting()[0].Reason, "lehr approve web")) {
			t.Errorf("%s: nobody is asked to approve: %+v", name, d.Waiting())
		}
	}
}

// TestPolicyAllowsOverridesByNameOrKind, and only those that it has.
func TestPolicyAllowsOverridesByNameOrKind(t *testing.T) {
	policy := &intentpb.Policy{
		Checks: []*intentpb.Check{
			{Name: "soak", Kind: &intentpb.Check_MinAge{}}, {Name: "bad", Kind: &intentpb.Check_Deny{}}, {Name: "worse", Kind: &intentpb.Check_Deny{}},
		},
		Overrides: &intentpb.OverridePolicy{Allow: []string{"min_age", "bad", "order"}},
	}
	allowed := AllowedBy(policy)
	if got := strings.Join(allowed, " "); got != "order soak bad" {
		t.Errorf("allowed are %s", got)
	}
	closed := Configure(&intentpb.Check{Name: "soak", Kind: &intentpb.Check_MinAge{MinAge: &intentpb.MinimumAge{Age: durationpb.New(time.Hour)}}}, builtin)
	f := Facts{Now: now, Mode: Enforce, Origin: Origin{Published: now}, Checks: []Required{{Configured: closed}}, Allowed: allowed,
		Overrides: []intent.Override{{Check: "soak", Until: now.Add(time.Minute)}}}
	d := Decide(f)
	if !d.Push() || strings.Join(d.Overridden(), " ") != "soak" || !d.ValidUntil().Equal(now.Add(time.Minute)) {
		t.Errorf("%+v", d)
	}
}
