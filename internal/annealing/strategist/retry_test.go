package strategist

import (
	"slices"
	"strings"
	"testing"
	"time"

	intentpb "lehr.dev/gen/lehr/intent/v1"
	"lehr.dev/internal/annealing/strategist/conduct"
	"lehr.dev/internal/ground/intent"
)

// TestAValidationBeginsAnew: what is bad begins anew as often as policy allows in a run, over all its stages, and over
// restarts; after that it is bad. Another run has all its retries.
func TestAValidationBeginsAnew(t *testing.T) {
	noon := time.Date(2026, 3, 2, 12, 0, 0, 0, time.UTC)
	policy := &intentpb.Validation{Name: "web", Retries: 2}
	run := intent.Rollout{Name: "web", Run: 7}
	st := &state{verdicts: map[verdictKey]*verdict{}, retries: rememberedRetries(run)}
	now := noon
	answer := func(stage, result string) *verdict {
		now = now.Add(time.Minute)
		key := verdictKey{run.Run, "web", stage, noon.UnixNano()}
		if st.verdicts[key] == nil {
			st.verdicts[key] = &verdict{}
		}
		entry := st.verdicts[key]
		request := Assessing{Run: run, Validation: policy, Question: conduct.Question{Validation: "web", Stage: stage, Changed: noon}, Restarted: entry.Restarted, Now: now}
		found := Assessed{ValidationVerdict: intent.ValidationVerdict{Validation: "web", Stage: stage, Changed: noon, Result: result, Reason: "so it is", At: now}}
		if result == "waiting" {
			found.Next = now.Add(time.Minute)
		}
		if result == "bad" {
			found.ValidationVerdict.Record = "record of " + stage
		}
		st.answer(entry, request, found)
		run.Progress.Verdicts, run.Progress.Retries = st.verdictsOf(run), st.retriesOf(run.Run)
		return entry
	}
	// takeOver is what another process remembers.
	takeOver := func() { st = &state{verdicts: remembered(run), retries: rememberedRetries(run)} }

	first := answer("canary", "bad")
	if first.Result != "waiting" || !first.Restarted.Equal(now) || first.Found != "so it is" || !first.next.Equal(now) || !strings.Contains(first.Reason, "1 of 2 times in this run") {
		t.Errorf("the first time: %+v", first)
	}
	restarted := now
	takeOver()
	if again := answer("canary", "waiting"); !again.Restarted.Equal(restarted) || again.ValidationVerdict.Record != "record of canary" || !strings.Contains(again.Reason, "it had found: so it is") {
		t.Errorf("after a restart: %+v", again)
	}
	if good := answer("canary", "good"); good.Result != "good" || !good.next.IsZero() {
		t.Errorf("what is good then: %+v", good)
	}
	takeOver()
	if second := answer("rest", "bad"); second.Result != "waiting" || !strings.Contains(second.Reason, "2 of 2 times") {
		t.Errorf("in another stage: %+v", second)
	}
	takeOver()
	if third := answer("rest", "bad"); third.Result != "bad" || third.Reason != "so it is" || !third.next.IsZero() {
		t.Errorf("the third time: %+v", third)
	}
	run = intent.Rollout{Name: "web", Run: 8}
	if next := answer("canary", "bad"); next.Result != "waiting" || st.retriesOf(8)["web"] != 1 {
		t.Errorf("in the next run: %+v", next)
	}
	policy.Retries = 0
	if last := answer("rest", "bad"); last.Result != "bad" {
		t.Errorf("without retries: %+v", last)
	}
}

// TestErrorsInARowAreBad: a source that fails more often in a row than policy allows is bad; what answers in between begins the
// count anew, what this process could not ask does not count, and without a limit it is asked for ever.
func TestErrorsInARowAreBad(t *testing.T) {
	noon := time.Date(2026, 3, 2, 12, 0, 0, 0, time.UTC)
	run := intent.Rollout{Name: "web", Run: 7}
	play := func(policy *intentpb.Validation, results ...string) (told []string) {
		st := &state{verdicts: map[verdictKey]*verdict{}, retries: rememberedRetries(run)}
		entry := &verdict{}
		for i, result := range results {
			now := noon.Add(time.Duration(i) * time.Minute)
			request := Assessing{Run: run, Validation: policy, Question: conduct.Question{Validation: "web", Stage: "canary", Changed: noon}, Restarted: entry.Restarted, Now: now}
			found := Assessed{Next: now.Add(time.Minute), Unasked: result == "unasked", Unkept: result == "unkept"}
			if found.Unasked || found.Unkept {
				result = "broken"
			}
			found.ValidationVerdict = intent.ValidationVerdict{Validation: "web", Stage: "canary", Changed: noon, Result: result, Reason: "no answer", At: now}
			st.answer(entry, request, found)
			told = append(told, entry.Result)
			if (entry.Result == "bad") != entry.next.IsZero() {
				t.Errorf("%v: after %d answers it is %s, and asked again at %v", results, i+1, entry.Result, entry.next)
			}
			if entry.Result == "bad" && !strings.Contains(entry.Reason, "in a row, and errors: ") {
				t.Errorf("it says %q", entry.Reason)
			}
		}
		return told
	}
	limited := func(errors, retries uint32) *intentpb.Validation {
		return &intentpb.Validation{Name: "web", Errors: &errors, Retries: retries}
	}
	for _, c := range []struct {
		name          string
		policy        *intentpb.Validation
		results, want []string
	}{
		{"no limit", &intentpb.Validation{Name: "web"}, []string{"broken", "broken", "broken", "broken"}, []string{"broken", "broken", "broken", "broken"}},
		{"two in a row", limited(2, 0), []string{"broken", "broken", "broken"}, []string{"broken", "broken", "bad"}},
		{"none", limited(0, 0), []string{"waiting", "broken"}, []string{"waiting", "bad"}},
		{"an answer between", limited(1, 0), []string{"broken", "waiting", "broken", "broken"}, []string{"broken", "waiting", "broken", "bad"}},
		{"what was not asked", limited(1, 0), []string{"broken", "unasked", "unasked", "broken"}, []string{"broken", "broken", "broken", "bad"}},
		{"an answer that was not kept", limited(1, 0), []string{"broken", "unkept", "broken", "broken"}, []string{"broken", "broken", "broken", "bad"}},
		{"with a retry", limited(1, 1), []string{"broken", "broken", "broken", "broken"}, []string{"broken", "waiting", "broken", "bad"}},
	} {
		if told := play(c.policy, c.results...); !slices.Equal(told, c.want) {
			t.Errorf("%s: %v, want %v", c.name, told, c.want)
		}
	}
}
