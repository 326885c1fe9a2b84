package check

import (
	"slices"
	"strings"
	"testing"
	"time"

	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/intent"
)

var ann = intent.Actor{Name: "ann", Origin: "cli"}

// TestOverrides: an override lets its own check pass, where policy allows it
// and while it is in force; whatever else is in the way stays there.
func TestOverrides(t *testing.T) {
	noon := time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)
	blocked := func() Facts {
		return Facts{
			Now: noon, Asset: "web", Mode: Enforce, Plan: intent.Plan{Action: intent.ActionUpdate},
			Order:     []Neighbour{{Asset: "db", State: "waiting"}},
			Overrides: []intent.Override{{Check: "order", By: ann, Reason: "blind", Until: noon.Add(time.Hour)}},
			Allowed:   []string{"order", "version"},
		}
	}
	tests := map[string]struct {
		change func(*Facts)
		push   bool
		says   string
	}{
		"in force":         {func(*Facts) {}, true, ""},
		"ended":            {func(f *Facts) { f.Overrides[0].Until = noon }, false, "must come after db"},
		"without an end":   {func(f *Facts) { f.Overrides[0].Until = time.Time{} }, false, "must come after db"},
		"of another check": {func(f *Facts) { f.Overrides[0].Check = "version" }, false, "must come after db"},
		"forbidden":        {func(f *Facts) { f.Allowed = nil }, false, "The override by ann does not count"},
		"of the stop":      {func(f *Facts) { f.Stop = &intent.Stop{Owner: ann}; overrideAll(f) }, false, "stopped"},
		"of a hold":        {func(f *Facts) { f.Hold = &intent.Hold{Owner: ann}; overrideAll(f) }, false, "ann holds it"},
		"of the mode":      {func(f *Facts) { f.Mode = Observe; overrideAll(f) }, false, "the mode is observe"},
		"of an approval":   {func(f *Facts) { f.Plan.Action = intent.ActionReplace; overrideAll(f) }, false, "needs a person's approval"},
		"of a rejection":   {func(f *Facts) { f.Rejections = []intent.Rejection{{By: ann, Reason: "no"}}; overrideAll(f) }, false, "ann rejected"},
		"of a removal":     {func(f *Facts) { f.Plan.Action, f.Approved = intent.ActionDelete, true; overrideAll(f) }, false, "absence never deletes"},
		"of a pause": {func(f *Facts) {
			f.Retry = &intent.WaitingOn{Kind: intent.WaitBackoff, Reason: "failed", Until: noon.Add(1)}
			overrideAll(f)
		}, false, "failed"},
		"of a broken check": {func(f *Facts) {
			f.Order, f.Version = nil, []Need{{Neighbour: Neighbour{Asset: "db"}, Broken: fault.New(fault.Internal, "no version")}}
			overrideAll(f)
		}, true, ""},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			facts := blocked()
			test.change(&facts)
			decision := Decide(facts)
			var told []string
			for _, waiting := range decision.Waiting() {
				told = append(told, waiting.Reason)
			}
			if decision.Push() != test.push || !strings.Contains(strings.Join(told, "\n"), test.says) {
				t.Fatalf("push %t, %q", decision.Push(), told)
			}
			if !test.push {
				return
			}
			overridden := decision.Overridden()
			if len(overridden) != 1 || slices.Contains(decision.Passed(), overridden[0]) || !decision.ValidUntil().Equal(noon.Add(time.Hour)) {
				t.Errorf("overridden %v, passed %v, until %s", overridden, decision.Passed(), decision.ValidUntil())
			}
		})
	}
}

// overrideAll overrides every check there is, as a store that was tampered with
// might say.
func overrideAll(f *Facts) {
	f.Allowed, f.Overrides = nil, nil
	for _, rule := range Rules() {
		f.Allowed = append(f.Allowed, rule.Name)
		f.Overrides = append(f.Overrides, intent.Override{Check: rule.Name, By: ann, Until: f.Now.Add(time.Hour)})
	}
}

func TestCheckOverride(t *testing.T) {
	for name, test := range map[string]struct {
		allowed []string
		kind    fault.Kind
		says    string
	}{
		"order":    {nil, fault.Denied, "policy does not allow it"},
		"approval": {[]string{"approval"}, fault.Denied, "can never be overridden"},
		"stop":     {[]string{"stop"}, fault.Denied, "can never be overridden"},
		"lease":    {nil, fault.Denied, "can never be overridden"},
		"fencing":  {nil, fault.Denied, "can never be overridden"},
		"journal":  {nil, fault.Denied, "can never be overridden"},
		"moon":     {nil, fault.Invalid, "no check"},
	} {
		if err := CheckOverride(name, test.allowed); !fault.Is(err, test.kind) || !strings.Contains(err.Error(), test.says) {
			t.Errorf("%s: %v", name, err)
		}
	}
	for _, name := range Overridable() {
		if err := CheckOverride(name, Overridable()); err != nil {
			t.Error(err)
		}
	}
	for _, rule := range Rules() {
		if _, ok := ways[rule.Name]; !ok && !slices.Contains(Overridable(), rule.Name) {
			t.Errorf("nobody is told why the check %s cannot be overridden", rule.Name)
		}
	}
}

// TestWhoIsMissing: the reason names who approved, and who may not.
func TestWhoIsMissing(t *testing.T) {
	facts := Facts{Asset: "db", Plan: intent.Plan{Action: intent.ActionReplace}, Consent: intent.Quorum{People: 2}.Consent([]string{"bob"}, []intent.Approval{{By: ann}}, time.Time{})}
	if v := approval(facts); v.Answer != intent.Wait || !strings.Contains(v.Waiting.Reason, "1 of 2: ann approved; needs 1 more approver other than bob") {
		t.Errorf("%+v", v)
	}
	facts.Consent = intent.Quorum{}.Consent([]string{"bob"}, nil, time.Time{})
	if v := approval(facts); !strings.Contains(v.Waiting.Reason, "the approval of a person other than bob") {
		t.Errorf("%+v", v)
	}
}

// TestARejectionBeatsApprovals, also where nobody's approval is needed.
func TestARejectionBeatsApprovals(t *testing.T) {
	noon := time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)
	for _, action := range []intent.Action{intent.ActionUpdate, intent.ActionReplace} {
		facts := Facts{Now: noon, Asset: "db", Plan: intent.Plan{Action: action}, Approved: true, Rejections: []intent.Rejection{{By: ann, Reason: "not today", Until: noon.Add(1)}}}
		if v := approval(facts); v.Answer != intent.Wait || v.Waiting.Kind != intent.WaitRejected || v.Waiting.Owner != "ann" || !strings.Contains(v.Waiting.Reason, "not today") {
			t.Errorf("%s: %+v", action, v)
		}
		facts.Rejections[0].Until = noon
		if v := approval(facts); v.Answer != intent.Pass {
			t.Errorf("%s, after its end: %+v", action, v)
		}
	}
}
