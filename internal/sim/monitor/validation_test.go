package monitor

import (
	"strings"
	"testing"
	"time"

	"lehr.dev/internal/ground/intent"
)

// TestErrorsOfValidations: the monitor counts broken answers in a row as the process does that asks, and finds a verdict that no
// answer explains, and a question that goes on after too many errors.
func TestErrorsOfValidations(t *testing.T) {
	run := intent.Rollout{Name: "web", Run: 7}
	verdict := intent.ValidationVerdict{Validation: "errors", Stage: "canary", Changed: time.Unix(1, 0)}
	for _, c := range []struct {
		name, results string
		bad           bool
		want          string
	}{
		{"too many in a row", "broken broken broken", true, ""},
		{"two in a row", "broken broken", false, "no answer made it so"},
		{"an answer between", "broken broken waiting broken", false, "no answer made it so"},
		{"what was not asked", "broken absent absent broken", false, "no answer made it so"},
		{"another process", "broken broken other broken", false, "no answer made it so"},
		{"found bad", "bad", true, ""},
		{"asked on", "broken broken broken broken", true, "asks the validation errors of stage canary again"},
	} {
		limit, asker := uint32(2), "first"
		m := New(Options{Now: func() time.Time { return time.Unix(60, 0) }})
		isBad := false
		for result := range strings.FieldsSeq(c.results) {
			if result == "other" {
				asker = "second"
				continue
			}
			answer := ValidationAnswer{Asker: asker, Run: run, Verdict: verdict, Errors: &limit}
			answer.Verdict.Result = result
			isBad = m.ValidationAnswered(answer)
		}
		found := run
		found.Progress.Verdicts = []intent.ValidationVerdict{verdict}
		found.Progress.Verdicts[0].Result = "bad"
		m.rolling.runs["web"] = found
		m.badVerdicts()
		told := ""
		for _, violation := range m.found {
			told += violation.Property + ": " + violation.What + "\n"
		}
		if isBad != c.bad || (c.want == "") != (told == "") || !strings.Contains(told, c.want) {
			t.Errorf("%s: bad: %v, told: %q", c.name, isBad, told)
		}
	}
}
