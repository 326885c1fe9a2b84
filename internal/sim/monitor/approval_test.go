package monitor

import (
	"testing"

	intentpb "lehr.dev/gen/lehr/intent/v1"
	"lehr.dev/internal/ground/intent"
)

// TestStagesBeginWhenPeopleApproved: votes are counted by the audit, for one run and one stage, the newest of each person.
func TestStagesBeginWhenPeopleApproved(t *testing.T) {
	type vote struct {
		by      string
		run     string
		rejects bool
	}
	for name, test := range map[string]struct {
		votes   []vote
		skipped []string
		broken  bool
	}{
		"nobody":                   {broken: true},
		"one of two":               {votes: []vote{{by: "ann", run: "run 1"}}, broken: true},
		"one person twice":         {votes: []vote{{by: "ann", run: "run 1"}, {by: "ann", run: "run 1"}}, broken: true},
		"of another run":           {votes: []vote{{by: "ann", run: "run 2"}, {by: "bob", run: "run 2"}}, broken: true},
		"one rejects":              {votes: []vote{{by: "cid", run: "run 1", rejects: true}, {by: "ann", run: "run 1"}, {by: "bob", run: "run 1"}}, broken: true},
		"two":                      {votes: []vote{{by: "ann", run: "run 1"}, {by: "bob", run: "run 1"}}},
		"one takes that back":      {votes: []vote{{by: "ann", run: "run 1", rejects: true}, {by: "bob", run: "run 1"}, {by: "ann", run: "run 1"}}},
		"rejected when it had all": {votes: []vote{{by: "ann", run: "run 1"}, {by: "bob", run: "run 1"}, {by: "bob", run: "run 1", rejects: true}}},
		"passed over":              {skipped: []string{"rest"}},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRun(t)
			r.publish(policy(func(p *intentpb.Policy) {
				p.Rollouts = []*intentpb.Rollout{{Name: "web", Stages: []*intentpb.RolloutStage{{Name: "canary"}, {Name: "rest", Approval: &intentpb.Judgement{Quorum: 2}}}}}
			}))
			run := intent.Rollout{Name: "web", Run: 1, To: r.at(r.head), Skipped: test.skipped}
			r.rolling.runs["web"] = run
			for _, w := range test.votes {
				verb := map[bool]string{false: "rollout-approve", true: "rollout-reject"}[w.rejects]
				r.countVote(record{Verb: verb, Subject: "web", By: intent.Actor{Name: w.by}, Detail: w.run + ", stage rest"})
			}
			r.peopleApproved(run, 0)
			r.peopleApproved(run, 1)
			if broken := len(r.Violations()) > 0; broken != test.broken {
				t.Errorf("it found %v, want something: %v", r.Violations(), test.broken)
			}
		})
	}
}
