package monitor

import (
	"encoding/json"
	"testing"

	intentpb "lehr.dev/gen/lehr/intent/v1"
	"lehr.dev/internal/ground/intent"
)

// TestFieldsOfDocuments: what a rollout may not do to a document is told.
func TestFieldsOfDocuments(t *testing.T) {
	value := func(text string) json.RawMessage { return json.RawMessage(`"` + text + `"`) }
	change := func(path, before, after string) fieldChange {
		return fieldChange{Path: path, Before: value(before), After: value(after)}
	}
	for _, c := range []struct {
		name, breaks string
		do           func(r *run, going func(state intent.RolloutState, named ...string))
	}{
		{"as its run says", "", func(r *run, going func(intent.RolloutState, ...string)) {
			going(intent.RolloutRunning, "/values/a")
			r.revised(2, true, []fieldChange{change("/values/a", "1", "2")})
			going(intent.RolloutRollingBack)
			r.revised(3, true, []fieldChange{change("/values/a", "2", "1")})
			going(intent.RolloutRolledBack)
		}},
		{"what it did not let go on", "S19", func(r *run, going func(intent.RolloutState, ...string)) {
			going(intent.RolloutRunning, "/values/a")
			r.revised(2, true, []fieldChange{change("/values/b", "1", "2")})
		}},
		{"over a person", "S10", func(r *run, going func(intent.RolloutState, ...string)) {
			going(intent.RolloutRunning, "/values/a")
			r.revised(2, false, []fieldChange{change("/values/a", "1", "7")})
			r.revised(3, true, []fieldChange{change("/values/a", "7", "2")})
		}},
		{"another value", "S10", func(r *run, going func(intent.RolloutState, ...string)) {
			going(intent.RolloutRunning, "/values/a")
			r.revised(2, true, []fieldChange{change("/values/a", "1", "3")})
		}},
		{"a person's back", "S10", func(r *run, going func(intent.RolloutState, ...string)) {
			going(intent.RolloutRunning, "/values/a")
			r.revised(2, true, []fieldChange{change("/values/a", "1", "2")})
			r.revised(3, false, []fieldChange{change("/values/a", "2", "7")})
			going(intent.RolloutRollingBack)
			r.revised(4, true, []fieldChange{change("/values/a", "7", "1")})
		}},
		{"back to something else", "S20", func(r *run, going func(intent.RolloutState, ...string)) {
			going(intent.RolloutRunning, "/values/a")
			r.revised(2, true, []fieldChange{change("/values/a", "1", "2")})
			going(intent.RolloutRollingBack)
			r.revised(3, true, []fieldChange{change("/values/a", "2", "0")})
		}},
		{"back by half", "S20", func(r *run, going func(intent.RolloutState, ...string)) {
			going(intent.RolloutRunning, "/values/a", "/values/b")
			r.revised(2, true, []fieldChange{change("/values/a", "1", "2"), change("/values/b", "1", "2")})
			going(intent.RolloutRollingBack)
			r.revised(3, true, []fieldChange{change("/values/a", "2", "1")})
			going(intent.RolloutRolledBack)
		}},
		{"done by half", "S20", func(r *run, going func(intent.RolloutState, ...string)) {
			going(intent.RolloutRunning, "/values/a")
			r.revised(2, true, []fieldChange{change("/values/a", "1", "2")})
			going(intent.RolloutDone)
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newRun(t)
			r.publish(job("a", "1"), job("b", "1"), policy(func(p *intentpb.Policy) {
				p.Rollouts = []*intentpb.Rollout{{Name: "values", Field: &intentpb.DocumentField{Document: "knobs"}, Stages: []*intentpb.RolloutStage{{Name: "all"}}}}
			}))
			r.options.Document, r.options.Has = "knobs", func(intent.AssetID) string { return "" }
			r.revised(1, false, []fieldChange{{After: json.RawMessage(`{"values":{"a":"1","b":"1"}}`)}})
			c.do(r, func(state intent.RolloutState, named ...string) {
				going := intent.Rollout{Name: "values", Run: 1, State: state, Value: value("2"), Base: "1"}
				for _, pointer := range named {
					r.rolling.fields.named[stageRun{runOf{"values", 1}, pointer}] = true
				}
				r.rolling.runs["values"] = going
				r.fieldsEnded(going)
			})
			found := ""
			for _, v := range r.Violations() {
				found = v.Property
			}
			if found != c.breaks {
				t.Errorf("told was %q of %v, want %q", found, r.Violations(), c.breaks)
			}
		})
	}
}

// TestUndoneDocuments: an undo that takes away what came since, or gives back something
// else, is told.
func TestUndoneDocuments(t *testing.T) {
	value := func(text string) json.RawMessage { return json.RawMessage(`"` + text + `"`) }
	for want, undo := range map[string]fieldChange{
		"":    {Path: "/values/b", Before: value("2"), After: value("1")},
		"S20": {Path: "/values/b", Before: value("2"), After: value("7")},
		"S10": {Path: "/values/a", Before: value("3"), After: value("1")},
	} {
		r := newRun(t)
		r.options.Document, r.options.Has = "knobs", func(intent.AssetID) string { return "" }
		r.revised(1, false, []fieldChange{{After: json.RawMessage(`{"values":{"a":"1","b":"1"}}`)}})
		r.revised(2, false, []fieldChange{{Path: undo.Path, Before: value("1"), After: value("2")}})
		r.revised(3, false, []fieldChange{{Path: "/values/a", After: value("3")}})
		r.revised(4, false, []fieldChange{undo})
		r.Undone("2", "4")
		found := ""
		for _, v := range r.Violations() {
			found = v.Property
		}
		if found != want {
			t.Errorf("told was %q of %v, want %q", found, r.Violations(), want)
		}
	}
}
