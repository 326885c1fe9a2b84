package promotion

import (
	"testing"
	"time"

	intentpb "lehr.dev/gen/lehr/intent/v1"
)

// TestQuestions: a constraint asks about the versions that come next, once those above it let them
// in, and about nothing that it passed.
func TestQuestions(t *testing.T) {
	queue := env("prod", asking(0))
	queue.Newer = intentpb.DeliveryEnvironment_NEWER_QUEUES
	afterAge := env("prod", minAge(time.Hour), asking(0), judged(1, 0))
	pinned := Act{Kind: Pin, Environment: "prod", VersionName: named(1), By: "ann", At: after(1)}
	for name, test := range map[string]struct {
		environment *intentpb.DeliveryEnvironment
		facts       Facts
		now         float64
		want        []int
	}{
		"the newest are asked about first":         {env("prod", asking(0)), Facts{}, 20, []int{12, 11, 10, 9, 8, 7, 6, 5}},
		"of a queue the oldest":                    {queue, Facts{}, 20, []int{1, 2, 3, 4, 5, 6, 7, 8}},
		"nothing older than what passed":           {env("prod", asking(0)), Facts{Results: []Result{answer(10, 1, true)}}, 20, []int{12, 11}},
		"not what is too young":                    {afterAge, Facts{}, 4.5, []int{3, 2, 1}},
		"people are asked after it":                {afterAge, Facts{Results: []Result{answer(3, 1, true), answer(2, 1, false)}}, 4.5, []int{2, 1}},
		"what is pinned alone":                     {env("prod", asking(0)), Facts{Acts: []Act{pinned}}, 20, []int{1}},
		"nothing that a person passed over it for": {env("prod", asking(0)), Facts{Acts: []Act{{Kind: Force, Environment: "prod", Constraint: "quiet", VersionName: named(12), By: "ann", At: after(1)}}}, 20, nil},
	} {
		t.Run(name, func(t *testing.T) {
			test.facts.Now = after(test.now)
			decision := application(t, test.environment).Decide(upTo(t, 12), &test.facts)
			questions := decision.Outcomes[0].Questions
			if len(questions) != len(test.want) {
				t.Fatalf("%d questions, want %d: %v", len(questions), len(test.want), questions)
			}
			for i, q := range questions {
				if q.Version != named(test.want[i]) || q.Constraint.GetName() != "quiet" {
					t.Errorf("question %d is about %s for %s, want %s", i, q.Version.Name, q.Constraint.GetName(), named(test.want[i]).Name)
				}
			}
		})
	}
}

// TestOneNameForAVerificationAndAConstraint: what is said of one would be taken for the other.
func TestOneNameForAVerificationAndAConstraint(t *testing.T) {
	for _, constraint := range []*intentpb.DeliveryConstraint{asking(0), canary()} {
		e := env("prod", constraint)
		e.Verify = []string{constraint.Name}
		if _, err := New(&intentpb.Delivery{Name: "web", Versions: "images", Environments: []*intentpb.DeliveryEnvironment{e}}); err == nil {
			t.Errorf("%s: it is taken", constraint.Name)
		}
	}
}
