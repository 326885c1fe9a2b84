package check

import (
	"strings"
	"testing"
	"time"

	intentpb "lehr.dev/gen/lehr/intent/v1"
	processpb "lehr.dev/gen/lehr/process/v1"
	"lehr.dev/internal/ground/intent"
)

func TestCondition(t *testing.T) {
	f := Facts{
		Now: now, Asset: "web", Mode: Enforce, Content: holding(t, &processpb.Job{Replicas: 3}),
		Plan: intent.Plan{Action: intent.ActionUpdate, Changes: []intent.FieldChange{
			{Path: "replicas", Current: "2", Target: "3"}, {Path: "env[A]", Target: "b", Reason: "it is new", Destructive: true},
		}},
		Origin: Origin{Incarnation: intent.IncarnationID{Partition: "shop", Sequence: 7}, Published: now.Add(-time.Hour)},
		Health: intent.Health{State: intent.Healthy, Reason: "it answers"},
	}
	unpublished := f
	unpublished.Origin.Published = time.Time{}
	for must, test := range map[string]struct {
		facts  Facts
		answer intent.Answer
		says   string
		// ends: the answer holds for a time only.
		ends bool
	}{
		`payload.replicas == 3 && id == "web" && type == "Job"`:                  {f, intent.Pass, "", false},
		`diff.action == "update" && size(diff.changes) == 2 && diff.destructive`: {f, intent.Pass, "", false},
		`diff.changes.exists(c, c.path == "replicas" && int(c.target) > int(c.current))`: {
			f, intent.Pass, "", false},
		`diff.changes.all(c, c.path != "replicas")`:                  {f, intent.Wait, "check calm: it moves (must: diff.changes.all", false},
		`diff.changes.all(c, !c.destructive || c.reason != "")`:      {f, intent.Pass, "", false},
		`facts.mode == "enforce" && facts.health == "healthy"`:       {f, intent.Pass, "", false},
		`facts.health_reason == "it answers" && facts.sequence == 7`: {f, intent.Pass, "", false},
		`facts.incarnation == "shop@7"`:                              {f, intent.Pass, "", false},
		`facts.age >= duration("1h") && facts.published < facts.now`: {f, intent.Pass, "", true},
		`facts.now.getHours("Europe/London") == 12`:                  {f, intent.Pass, "", true},
		`facts.now.getDayOfWeek() != 0`:                              {f, intent.Wait, "it moves", false},
		`facts.age > duration("1h")`:                                 {unpublished, intent.Broken, "has no value", false},
		`payload.env["X"] == "y"`:                                    {f, intent.Broken, "has no value", false},
		`[1,2,3,4,5,6,7,8,9].all(a, [1,2,3,4,5,6,7,8,9].all(b, [1,2,3,4,5,6,7,8,9].all(c, [1,2,3,4,5,6,7,8,9].all(d, a + b + c + d > 0))))`: {
			f, intent.Broken, "costs more than is allowed", false},
		`payload.replica == 3`: {f, intent.Broken, "replica", false},
		`payload.replicas`:     {f, intent.Broken, "truth value", false},
		`diff.change == 3`:     {f, intent.Broken, "change", false},
	} {
		c := Configure(&intentpb.Check{Name: "calm", Kind: &intentpb.Check_Condition{Condition: &intentpb.Condition{Must: must, Message: "it moves"}}}, builtin)
		v := c.judge(test.facts)
		if v.Answer != test.answer || !strings.Contains(v.Waiting.Reason, test.says) || v.Until.After(now) != test.ends {
			t.Errorf("%s: %+v", must, v)
		}
	}
}
