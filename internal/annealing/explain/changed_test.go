package explain_test

import (
	"strings"
	"testing"

	"lehr.dev/internal/annealing/explain"
	"lehr.dev/internal/ground/intent"
)

// TestChanged: what a push was to change is one line, however much it was.
func TestChanged(t *testing.T) {
	change := func(path, current, target string, destructive bool) intent.RecordedChange {
		return intent.RecordedChange{FieldChange: intent.FieldChange{Path: path, Current: current, Target: target, Destructive: destructive}}
	}
	replicas := change("replicas", "3", "5", false)
	for want, plan := range map[string]*intent.PlanRecord{
		"what it changed was not kept":           nil,
		"replicas 3 → 5":                         {Action: intent.ActionUpdate, Changes: []intent.RecordedChange{replicas}},
		"replicas 3 → 5, +2 more":                {Action: intent.ActionUpdate, Changes: []intent.RecordedChange{replicas, replicas}, More: 1},
		"create: name (none) → web":              {Action: intent.ActionCreate, Changes: []intent.RecordedChange{change("name", "", "web", false)}},
		"delete":                                 {Action: intent.ActionDelete},
		"size 9 → 1, +7 more, 3 destructive":     {Action: intent.ActionUpdate, Changes: []intent.RecordedChange{change("size", "9", "1", true), replicas}, More: 6, MoreDestructive: 2},
		`text a\nb → \x1b[2J`:                    {Action: intent.ActionUpdate, Changes: []intent.RecordedChange{change("text", "a\nb", "\x1b[2J", false)}},
		"replace: 4 fields, 1 destructive":       {Action: intent.ActionReplace, More: 4, MoreDestructive: 1},
		"p " + strings.Repeat("x", 57) + "… → y": {Action: intent.ActionUpdate, Changes: []intent.RecordedChange{change("p", strings.Repeat("x", 400), "y", false)}},
	} {
		if got := explain.Changed(plan); got != want {
			t.Errorf("%+v is %q, want %q", plan, got, want)
		}
	}
}
