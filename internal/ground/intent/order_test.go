package intent

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"lehr.dev/internal/ground/fault"
)

// TestOrdersThatMakeNoSense are refused with what stands; all others are taken.
func TestOrdersThatMakeNoSense(t *testing.T) {
	ann := Actor{Name: "ann"}
	standing := func(state RolloutState, change ...func(*RolloutStanding)) RolloutStanding {
		s := RolloutStanding{Name: "web", Governs: true, Emergency: true, Run: &Rollout{Name: "web", Run: 3, State: state}}
		for _, change := range change {
			change(&s)
		}
		return s
	}
	of := func(kind OrderKind) func(*RolloutStanding) {
		return func(s *RolloutStanding) {
			s.Pending = append(s.Pending, RolloutOrder{Kind: kind, By: ann, Reason: "asked"})
		}
	}
	byField := func(s *RolloutStanding) { s.ByField, s.Run.Value = true, json.RawMessage("1") }
	supersedes := func(s *RolloutStanding) { s.Supersedes = true }
	staged := func(skipped ...string) func(*RolloutStanding) {
		return func(s *RolloutStanding) {
			s.Run.Skipped = skipped
			s.Run.Progress.Stages = []StageProgress{{Name: "canary", Total: 1}, {Name: "rest", Total: 2}, {Name: "none"}, {Name: "done", Total: 1, Ended: time.Unix(1, 0)}}
		}
	}
	gone := func(s *RolloutStanding) { s.Governs = false }
	tests := map[string]struct {
		standing RolloutStanding
		kind     OrderKind
		value    string
		says     string // empty: it is taken
	}{
		"no such rollout":                       {RolloutStanding{Name: "wbe"}, OrderPause, "", `there is no rollout "wbe"`},
		"pause":                                 {standing(RolloutRunning), OrderPause, "", ""},
		"pause what is queued":                  {standing(RolloutQueued), OrderPause, "", "run 3 is queued, and at no stage yet"},
		"pause what is paused":                  {standing(RolloutPaused, func(s *RolloutStanding) { s.Run.Events = []RolloutEvent{{Kind: "pause", By: ann, Text: "lunch"}} }), OrderPause, "", "run 3 is paused already by ann: lunch"},
		"pause what is about to be":             {standing(RolloutRunning, of(OrderPause)), OrderPause, "", "run 3 is paused already by ann: asked"},
		"pause, resumed meanwhile":              {standing(RolloutPaused, of(OrderResume)), OrderPause, "", ""},
		"pause what goes back":                  {standing(RolloutRollingBack), OrderPause, "", "goes back already"},
		"pause what ended":                      {standing(RolloutDone), OrderPause, "", "run 3 ended: it is done"},
		"pause what never ran":                  {standing(RolloutDone, func(s *RolloutStanding) { s.Run = nil }), OrderPause, "", "has no run yet"},
		"resume":                                {standing(RolloutPaused), OrderResume, "", ""},
		"resume what runs":                      {standing(RolloutRunning), OrderResume, "", "run 3 is running, not paused"},
		"abort":                                 {standing(RolloutQueued), OrderAbort, "", ""},
		"abort what goes back":                  {standing(RolloutRollingBack), OrderAbort, "", "goes back already"},
		"abort what ended":                      {standing(RolloutStopped), OrderAbort, "", "ended: it is stopped"},
		"skip":                                  {standing(RolloutPaused), OrderSkip, "", ""},
		"skip what is queued":                   {standing(RolloutQueued), OrderSkip, "", "at no stage yet"},
		"skip what a person promoted":           {standing(RolloutRunning, func(s *RolloutStanding) { s.Run.Promoted = true }), OrderSkip, "", "run 3 waits for no stage"},
		"skip where all is skipped":             {standing(RolloutRunning, staged("canary", "rest")), OrderSkip, "", "run 3 waits for no stage"},
		"skip what is left":                     {standing(RolloutRunning, staged("canary")), OrderSkip, "", ""},
		"promote":                               {standing(RolloutRunning), OrderPromote, "", ""},
		"promote twice":                         {standing(RolloutRunning, func(s *RolloutStanding) { s.Run.Promoted = true }), OrderPromote, "", "promoted already"},
		"promote what ended":                    {standing(RolloutDone), OrderPromote, "", "ended: it is done"},
		"promote what a person just aborted":    {standing(RolloutRunning, of(OrderAbort)), OrderPromote, "", "ended: it is stopped"},
		"roll back":                             {standing(RolloutRunning), OrderRollback, "", ""},
		"roll back what is done":                {standing(RolloutDone), OrderRollback, "", ""},
		"roll back twice":                       {standing(RolloutRollingBack), OrderRollback, "", "rolling-back already"},
		"roll back what was superseded":         {standing(RolloutSuperseded), OrderRollback, "", "ended"},
		"roll back what the policy has no more": {standing(RolloutDone, gone), OrderRollback, "", "head's policy does not have it"},
		"start what goes on":                    {standing(RolloutRunning), OrderStart, "", "run 3 goes on"},
		"start what is new, by pins":            {standing(RolloutDone, func(s *RolloutStanding) { s.Run = nil }), OrderStart, "", "it begins by itself"},
		"start again what was stopped":          {standing(RolloutStopped), OrderStart, "", ""},
		"start what was just aborted":           {standing(RolloutRunning, of(OrderAbort)), OrderStart, "", ""},
		"start what was judged bad":             {standing(RolloutRolledBack, func(s *RolloutStanding) { s.BadNow = "web/a" }), OrderStart, "", "head has content of web/a that was judged bad"},
		"start what is about to be forgiven":    {standing(RolloutRolledBack, func(s *RolloutStanding) { s.BadNow = "web/a" }, of(OrderForgive)), OrderStart, "", ""},
		"emergency":                             {standing(RolloutRunning), OrderEmergency, "", ""},
		"emergency that is not defined":         {standing(RolloutRunning, func(s *RolloutStanding) { s.Emergency = false }), OrderEmergency, "", "no stages for emergencies"},
		"emergency twice":                       {standing(RolloutRunning, func(s *RolloutStanding) { s.Run.Emergency = true }), OrderEmergency, "", "by the stages for emergencies already"},
		"forgive":                               {standing(RolloutStopped, func(s *RolloutStanding) { s.Bad = 2 }), OrderForgive, "", ""},
		"forgive nothing":                       {standing(RolloutStopped), OrderForgive, "", "nothing that it brought is judged bad"},
		"release":                               {standing(RolloutDone, gone, func(s *RolloutStanding) { s.Pins = 1 }), OrderRelease, "", ""},
		"release what is governed":              {standing(RolloutDone), OrderRelease, "", "it is in head's policy"},
		"release nothing":                       {standing(RolloutDone, gone), OrderRelease, "", "it keeps no asset"},
		"start by pins":                         {standing(RolloutDone), OrderStart, "", "it begins by itself"},
		"start by pins with a value":            {standing(RolloutDone), OrderStart, "1", "sets no field"},
		"start what is held":                    {standing(RolloutDone, func(s *RolloutStanding) { s.Held = true }), OrderStart, "", ""},
		"start what is gone":                    {standing(RolloutDone, gone), OrderStart, "", "head's policy does not have it"},
		"start a field":                         {standing(RolloutDone, byField), OrderStart, `"1.4"`, ""},
		"start a field that goes on":            {standing(RolloutRunning, byField), OrderStart, `"1.4"`, "run 3, which sets 1, goes on: it is running"},
		"start a field in place of what is":     {standing(RolloutQueued, byField, supersedes), OrderStart, `"1.4"`, ""},
		"start a field that goes back":          {standing(RolloutRollingBack, byField, supersedes), OrderStart, `"1.4"`, "run 3 goes back"},
		"start a field with what is set":        {standing(RolloutRunning, byField, supersedes), OrderStart, "1", "run 3 sets 1 already"},
		"start a field after what is aborted":   {standing(RolloutRunning, byField, of(OrderAbort)), OrderStart, "1", ""},
		"start a field without a value":         {standing(RolloutDone, byField), OrderStart, "", "no value of JSON"},
		"start a field with what is no JSON":    {standing(RolloutDone, byField), OrderStart, "{", "no value of JSON"},
		"pause with a value":                    {standing(RolloutRunning), OrderPause, "1", "takes no value"},
		"what nobody can ask":                   {standing(RolloutRunning), "dance", "", `"dance" is nothing`},
	}
	asked := map[OrderKind][2]bool{}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			err := test.standing.Refuse(test.kind, json.RawMessage(test.value))
			if test.says == "" && err != nil || test.says != "" && (err == nil || !strings.Contains(err.Error(), test.says)) {
				t.Fatalf("%v, want it to say %q", err, test.says)
			}
			if known, ok := err.(*fault.Error); err != nil && (!ok || known.Hint == "") {
				t.Errorf("%v does not say what to do", err)
			}
		})
		seen := asked[test.kind]
		seen[min(len(test.says), 1)] = true
		asked[test.kind] = seen
	}
	for _, kind := range OrderKinds() {
		if asked[kind] != [2]bool{true, true} {
			t.Errorf("%s is not tried both ways: %v", kind, asked[kind])
		}
	}
}
