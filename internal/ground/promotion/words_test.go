package promotion

import (
	"strings"
	"testing"
	"time"
)

// TestWords: a version that waits for several things is told of in one sentence, and when it can
// be there.
func TestWords(t *testing.T) {
	a := application(t, env("staging"), env("prod", soak(4*time.Hour, "staging"), judged(2, 0), hours("UTC", "Mon-Fri 09:00-17:00", 0)))
	f := &Facts{Now: after(12), Environments: environments("staging", had(stayed(2, 9, 10, -1)), "prod", had(stayed(1, 1.5, 2, -1))), Votes: []Vote{approval(2, "prod", "user:ann", 11)}}
	for _, test := range []struct {
		acts        []Act
		environment string
		n           int
		want        string
	}{
		{nil, "prod", 2, "1.2.0 is not in prod: soak waits for staging, which was good with it for 2h0m0s of 4h0m0s; then people waits for 2 people, who are asked when the constraints above let it in; " +
			"then hours is closed: outside its windows. It can be there Tue 2026-06-02 09:00 UTC at the earliest, if people of prod says yes"},
		{nil, "prod", 1, "1.1.0 is in prod since Mon 2026-06-01 09:30 UTC"},
		{nil, "staging", 2, "1.2.0 is in staging since Mon 2026-06-01 17:00 UTC"},
		{nil, "staging", 1, "1.1.0 is not in staging: something newer was there, or a person began with something newer. It does not come by itself"},
		{[]Act{act(MarkBad, "", 3, 11)}, "staging", 3, "1.3.0 is not in staging: it was marked bad by user:ann. It does not come by itself"},
		{[]Act{act(Pause, "", 0, 11)}, "staging", 3, "1.3.0 is not in staging: a person paused it. It can be there Mon 2026-06-01 20:00 UTC at the earliest"},
		{[]Act{act(Pin, "staging", 2, 11)}, "staging", 3, "1.3.0 is not in staging: user:ann pinned the environment to 1.2.0. It does not come by itself"},
	} {
		f.Acts = test.acts
		x, err := a.Decide(upTo(t, 3), f).Explain(test.environment, named(test.n))
		if err != nil {
			t.Fatal(err)
		}
		if got := x.Words(named(test.n).Name, test.environment); got != test.want {
			t.Errorf("%s\nwant %s", got, test.want)
		}
	}
}

// TestEverythingHasWords: each state, cause and hold is told in words of its own.
func TestEverythingHasWords(t *testing.T) {
	said := map[string]bool{}
	tell := func(text string) {
		t.Helper()
		if text == "" || said[text] || strings.Contains(text, "not known, and lets") {
			t.Errorf("%q says nothing of its own", text)
		}
		said[text] = true
	}
	for cause := Met; cause <= ResultBad; cause++ {
		if v := (Verdict{Constraint: "c", Cause: cause, Environment: "e", By: "user:ann", Reason: "why" + string(rune('a'+int(cause)))}); cause != PassedByHotfix {
			tell(v.Words())
		}
	}
	for state := Previous; state <= Unordered; state++ {
		tell((&Explanation{State: state, Mark: Mark{Cause: MarkedBad}}).reason())
	}
	for hold := HeldByPause; hold <= HeldForNothingGood; hold++ {
		tell((&Explanation{State: Pending, Outcome: Outcome{Hold: hold}}).reason())
	}
	for cause := RolledBackFrom; cause <= VerificationBad; cause++ {
		tell((&Explanation{State: Vetoed, Mark: Mark{Cause: cause, By: "x"}}).reason())
	}
}
