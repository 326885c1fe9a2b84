package intent_test

import (
	"slices"
	"testing"
	"time"

	"lehr.dev/internal/ground/intent"
)

func TestConsent(t *testing.T) {
	now := time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)
	by := func(name string, changes ...func(*intent.Approval)) intent.Approval {
		a := intent.Approval{By: intent.Actor{Name: name, Origin: "cli"}, Created: now.Add(-30 * time.Minute)}
		for _, change := range changes {
			change(&a)
		}
		return a
	}
	used := func(a *intent.Approval) { a.UsedBy = "p1" }
	alone := func(a *intent.Approval) { a.Alone = true }
	elsewhere := func(a *intent.Approval) { a.By.Origin = "api" }
	until := func(at time.Time) func(*intent.Approval) { return func(a *intent.Approval) { a.Until = at } }
	tests := map[string]struct {
		quorum    intent.Quorum
		authors   []string
		approvals []intent.Approval
		approved  []string
		reached   bool
		words     string
	}{
		"nobody":                     {quorum: intent.Quorum{}, words: "0 of 1: nobody approved; needs 1 more approver"},
		"one":                        {approvals: []intent.Approval{by("ann")}, approved: []string{"ann"}, reached: true, words: "1 of 1: ann approved"},
		"one of two":                 {quorum: intent.Quorum{People: 2}, authors: []string{"bob"}, approvals: []intent.Approval{by("ann")}, approved: []string{"ann"}, words: "1 of 2: ann approved; needs 1 more approver other than bob"},
		"two":                        {quorum: intent.Quorum{People: 2}, approvals: []intent.Approval{by("bob"), by("ann")}, approved: []string{"ann", "bob"}, reached: true, words: "2 of 2: ann and bob approved"},
		"more than needed":           {quorum: intent.Quorum{People: 2}, approvals: []intent.Approval{by("bob"), by("ann"), by("cay")}, approved: []string{"ann", "bob", "cay"}, reached: true, words: "2 of 2: ann, bob and cay approved"},
		"one person twice":           {quorum: intent.Quorum{People: 2}, approvals: []intent.Approval{by("ann"), by("ann", elsewhere)}, approved: []string{"ann"}, words: "1 of 2: ann approved; needs 1 more approver"},
		"an author":                  {authors: []string{"ann", "bob"}, approvals: []intent.Approval{by("ann")}, words: "0 of 1: nobody approved; needs 1 more approver other than ann and bob"},
		"an author who is alone":     {authors: []string{"ann"}, approvals: []intent.Approval{by("ann", alone)}, approved: []string{"ann"}, reached: true, words: "1 of 1: ann approved"},
		"alone, where two are asked": {quorum: intent.Quorum{People: 2}, authors: []string{"ann"}, approvals: []intent.Approval{by("ann", alone), by("bob", alone)}, approved: []string{"bob"}, words: "1 of 2: bob approved; needs 1 more approver other than ann"},
		"used":                       {approvals: []intent.Approval{by("ann", used)}, words: "0 of 1: nobody approved; needs 1 more approver"},
		"no name":                    {approvals: []intent.Approval{by("")}, words: "0 of 1: nobody approved; needs 1 more approver"},
		"at its end":                 {approvals: []intent.Approval{by("ann", until(now))}, words: "0 of 1: nobody approved; needs 1 more approver"},
		"before its end":             {approvals: []intent.Approval{by("ann", until(now.Add(1)))}, approved: []string{"ann"}, reached: true, words: "1 of 1: ann approved"},
		"policy ends it":             {quorum: intent.Quorum{Period: 30 * time.Minute}, approvals: []intent.Approval{by("ann", until(now.Add(time.Hour)))}, words: "0 of 1: nobody approved; needs 1 more approver"},
		"policy does not end it yet": {quorum: intent.Quorum{Period: 31 * time.Minute}, approvals: []intent.Approval{by("ann")}, approved: []string{"ann"}, reached: true, words: "1 of 1: ann approved"},
		"three missing":              {quorum: intent.Quorum{People: 3}, words: "0 of 3: nobody approved; needs 3 more approvers"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			c := test.quorum.Consent(test.authors, test.approvals, now)
			if !slices.Equal(c.Approved, test.approved) || c.Reached() != test.reached || c.Words() != test.words {
				t.Errorf("%+v, reached %t, %q", c, c.Reached(), c.Words())
			}
		})
	}
	first := by("ann", until(now.Add(time.Minute)))
	c := intent.Quorum{People: 2}.Consent(nil, []intent.Approval{by("bob", until(now.Add(time.Hour))), first}, now)
	if !c.Until.Equal(first.Until) {
		t.Errorf("it holds until %s", c.Until)
	}
}

func TestStricterQuorum(t *testing.T) {
	a, b := intent.Quorum{People: 2}, intent.Quorum{People: 1, Period: time.Hour}
	want := intent.Quorum{People: 2, Period: time.Hour}
	if a.Stricter(b) != want || b.Stricter(a) != want {
		t.Errorf("%+v, %+v", a.Stricter(b), b.Stricter(a))
	}
}

// Who made an incarnation is who wrote it, or let it through: not Lehr.
func TestPeopleOfAnIncarnation(t *testing.T) {
	ann, lehr := intent.Actor{Name: "ann", Origin: "cli"}, intent.Actor{Name: "lehr", Origin: intent.ServerOrigin}
	for _, test := range []struct {
		of   intent.Incarnation
		want []string
	}{
		{intent.Incarnation{Author: lehr}, nil},
		{intent.Incarnation{Author: ann, Acknowledger: ann}, []string{"ann"}},
		{intent.Incarnation{Author: lehr, Acknowledger: ann}, []string{"ann"}},
	} {
		if have := test.of.People(); !slices.Equal(have, test.want) {
			t.Errorf("%+v is by %v", test.of, have)
		}
	}
}
