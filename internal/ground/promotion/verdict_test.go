package promotion

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/types/known/timestamppb"

	intentpb "lehr.dev/gen/lehr/intent/v1"
)

// TestVerdicts: each constraint says what it waits for, with its numbers.
func TestVerdicts(t *testing.T) {
	frozen := &intentpb.Freeze{From: timestamppb.New(after(0)), Until: timestamppb.New(after(30)), Reason: "audit"}
	was := func(stays ...Stay) map[string]*Environment {
		return environments("test", had(stays...), "prod", had(stayed(1, 1.5, 2, -1)))
	}
	smoked := func(content string, good bool, hour float64) []Result {
		return []Result{{Environment: "test", Name: "smoke", VersionName: named(2), Content: content, At: after(hour), Good: good, Reason: "told"}}
	}
	wentBack := stayed(1, 3, 3, -1)
	wentBack.Back = true
	restart := act(Restart, "prod", 2, 8)
	restart.Constraint = "people"
	anew := act(Restart, "test", 2, 8)
	anew.Constraint = "smoke"
	rejection := approval(2, "prod", "user:bo", 6)
	rejection.Approve, rejection.Reason = false, "not now"
	viewer := approval(2, "prod", "user:eve", 6)
	viewer.Roles = []string{"viewer"}
	moved := approval(2, "prod", "user:bo", 6)
	moved.Digest = "sha256:other"
	for _, test := range []struct {
		name  string
		app   []*intentpb.DeliveryEnvironment
		facts Facts
		now   float64
		want  Verdict
	}{
		{"never there", []*intentpb.DeliveryEnvironment{env("test"), env("prod", dependsOn(0, "test"))}, Facts{}, 10, Verdict{Status: Waits, Cause: NotThere, Environment: "test"}},
		{"not good", []*intentpb.DeliveryEnvironment{env("test"), env("prod", dependsOn(0, "test"))}, Facts{Environments: was(stayed(2, 3, -1, -1))}, 10, Verdict{Status: Waits, Cause: NotGood, Environment: "test"}},
		{"not stable", []*intentpb.DeliveryEnvironment{env("test"), env("prod", dependsOn(2*time.Hour, "test"))}, Facts{Environments: was(stayed(2, 3, 9, -1))}, 10, Verdict{Status: Waits, Cause: NotStable, Environment: "test", HaveTime: time.Hour, NeedsTime: 2 * time.Hour, Until: after(11)}},
		{"never stable", []*intentpb.DeliveryEnvironment{env("test"), env("prod", dependsOn(2*time.Hour, "test"))}, Facts{Environments: was(stayed(2, 3, 4, 5), stayed(3, 5, 5, -1))}, 10, Verdict{Status: Waits, Cause: NotStable, Environment: "test", HaveTime: time.Hour, NeedsTime: 2 * time.Hour}},
		{"stable only when added up", []*intentpb.DeliveryEnvironment{env("test"), env("prod", dependsOn(2*time.Hour, "test"))}, Facts{Environments: was(stayed(2, 2, 2, 3), stayed(3, 3, 3, 8), stayed(2, 8, 8.5, -1))}, 10, Verdict{Status: Waits, Cause: NotStable, Environment: "test", HaveTime: 90 * time.Minute, NeedsTime: 2 * time.Hour, Until: after(10.5)}},
		{"the clock was put back", []*intentpb.DeliveryEnvironment{env("test"), env("prod", dependsOn(2*time.Hour, "test"))}, Facts{Environments: was(stayed(2, 3, 9, -1))}, 5, Verdict{Status: Waits, Cause: NotStable, Environment: "test", NeedsTime: 2 * time.Hour, Until: after(11)}},
		{"bad there", []*intentpb.DeliveryEnvironment{env("test"), env("prod", dependsOn(0, "test"))}, Facts{Environments: was(stayed(2, 3, 9, -1)), Acts: []Act{act(MarkBad, "test", 2, 9)}}, 10, Verdict{Status: Refuses, Cause: BadThere, Environment: "test"}},
		{"any of two", []*intentpb.DeliveryEnvironment{env("test"), env("other"), env("prod", anyOf("other", "test"))}, Facts{Environments: was(stayed(2, 3, 9, -1))}, 10, Verdict{Status: Passes, Cause: Met, Environment: "test", HaveTime: time.Hour}},
		{"all of two", []*intentpb.DeliveryEnvironment{env("test"), env("other"), env("prod", dependsOn(0, "test", "other"))}, Facts{Environments: was(stayed(2, 3, 9, -1))}, 10, Verdict{Status: Waits, Cause: NotThere, Environment: "other"}},
		{"not verified", []*intentpb.DeliveryEnvironment{verified(env("test")), env("prod", dependsOn(0, "test"))}, Facts{Environments: was(stayed(2, 3, 4, -1))}, 10, Verdict{Status: Waits, Cause: Unverified, Environment: "test", HaveTime: 6 * time.Hour, Reason: "smoke"}},
		{"verified with old content", []*intentpb.DeliveryEnvironment{verified(env("test")), env("prod", dependsOn(0, "test"))}, Facts{Environments: was(stayed(2, 3, 4, -1)), Results: smoked("content-1", true, 5)}, 10, Verdict{Status: Waits, Cause: Unverified, Environment: "test", HaveTime: 6 * time.Hour, Reason: "smoke"}},
		{"verified", []*intentpb.DeliveryEnvironment{verified(env("test")), env("prod", dependsOn(0, "test"))}, Facts{Environments: was(stayed(2, 3, 4, -1)), Results: smoked("content-2", true, 5)}, 10, Verdict{Status: Passes, Cause: Met, Environment: "test", HaveTime: 6 * time.Hour}},
		{"to be verified anew", []*intentpb.DeliveryEnvironment{verified(env("test")), env("prod", dependsOn(0, "test"))}, Facts{Environments: was(stayed(2, 3, 4, -1)), Results: smoked("content-2", true, 5), Acts: []Act{anew}}, 10, Verdict{Status: Waits, Cause: Unverified, Environment: "test", HaveTime: 6 * time.Hour, Reason: "smoke"}},
		{"found bad by a verification", []*intentpb.DeliveryEnvironment{verified(env("test")), env("prod", dependsOn(0, "test"))}, Facts{Environments: was(stayed(2, 3, 4, -1)), Results: smoked("content-2", false, 5)}, 10, Verdict{Status: Refuses, Cause: BadThere, Environment: "test"}},

		{"soaks", []*intentpb.DeliveryEnvironment{env("test"), env("prod", soak(4*time.Hour, "test"))}, Facts{Environments: was(stayed(2, 1, 1, 2), stayed(3, 2, 2, 7), stayed(2, 7, 8, -1))}, 10, Verdict{Status: Waits, Cause: NotStable, Environment: "test", HaveTime: 3 * time.Hour, NeedsTime: 4 * time.Hour, Until: after(11)}},
		{"soaked", []*intentpb.DeliveryEnvironment{env("test"), env("prod", soak(3*time.Hour, "test"))}, Facts{Environments: was(stayed(2, 1, 1, 2), stayed(3, 2, 2, 7), stayed(2, 7, 8, -1))}, 10, Verdict{Status: Passes, Cause: Met, Environment: "test", HaveTime: 3 * time.Hour, NeedsTime: 3 * time.Hour}},

		{"nobody has approved", []*intentpb.DeliveryEnvironment{env("prod", judged(2, 0))}, Facts{}, 10, Verdict{Status: Waits, Cause: NeedsPeople, Needs: 2}},
		{"nobody is asked yet", []*intentpb.DeliveryEnvironment{env("prod", minAge(20*time.Hour), judged(1, 0))}, Facts{}, 10, Verdict{Status: Waits, Cause: NotAsked, Needs: 1}},
		{"one person twice", []*intentpb.DeliveryEnvironment{env("prod", judged(2, 0))}, Facts{Votes: []Vote{approval(2, "prod", "user:ann", 5), approval(2, "prod", "user:ann", 6)}}, 10, Verdict{Status: Waits, Cause: NeedsPeople, Have: 1, Needs: 2, By: "user:ann"}},
		{"approved", []*intentpb.DeliveryEnvironment{env("prod", judged(2, 0))}, Facts{Votes: []Vote{approval(2, "prod", "user:ann", 5), approval(2, "prod", "user:bo", 6)}}, 10, Verdict{Status: Passes, Cause: Met, Have: 2, Needs: 2, By: "user:bo"}},
		{"an approval has expired", []*intentpb.DeliveryEnvironment{env("prod", judged(2, 5*time.Hour))}, Facts{Votes: []Vote{approval(2, "prod", "user:ann", 5), approval(2, "prod", "user:bo", 6)}}, 10, Verdict{Status: Waits, Cause: NeedsPeople, Have: 1, Needs: 2, By: "user:bo"}},
		{"of somebody without the role", []*intentpb.DeliveryEnvironment{env("prod", judged(1, 0))}, Facts{Votes: []Vote{viewer}}, 10, Verdict{Status: Waits, Cause: NeedsPeople, Needs: 1}},
		{"of another digest", []*intentpb.DeliveryEnvironment{env("prod", judged(1, 0))}, Facts{Votes: []Vote{moved}}, 10, Verdict{Status: Waits, Cause: NeedsPeople, Needs: 1}},
		{"of another version and environment", []*intentpb.DeliveryEnvironment{env("test"), env("prod", judged(1, 0))}, Facts{Votes: []Vote{approval(3, "prod", "user:ann", 5), approval(2, "test", "user:ann", 5)}}, 10, Verdict{Status: Waits, Cause: NeedsPeople, Needs: 1}},
		{"rejected", []*intentpb.DeliveryEnvironment{env("prod", judged(1, 0))}, Facts{Votes: []Vote{approval(2, "prod", "user:ann", 5), rejection}}, 10, Verdict{Status: Refuses, Cause: Rejected, Have: 1, Needs: 1, By: "user:bo", Reason: "not now"}},
		{"the word was changed", []*intentpb.DeliveryEnvironment{env("prod", judged(1, 0))}, Facts{Votes: []Vote{rejection, approval(2, "prod", "user:bo", 7)}}, 10, Verdict{Status: Passes, Cause: Met, Have: 1, Needs: 1, By: "user:bo"}},
		{"to be judged anew", []*intentpb.DeliveryEnvironment{env("prod", judged(1, 0))}, Facts{Votes: []Vote{approval(2, "prod", "user:ann", 5)}, Acts: []Act{restart}}, 10, Verdict{Status: Waits, Cause: NeedsPeople, Needs: 1}},

		{"closed", []*intentpb.DeliveryEnvironment{env("prod", hours("UTC", "Mon-Fri 09:00-17:00", 0))}, Facts{}, 10, Verdict{Status: Waits, Cause: Closed, Until: after(25), Reason: "outside its windows"}},
		{"frozen", []*intentpb.DeliveryEnvironment{env("prod", hours("UTC", "Mon-Fri 09:00-17:00", 0, frozen))}, Facts{}, 2, Verdict{Status: Waits, Cause: Closed, Until: after(30), Reason: "frozen until Tue 2026-06-02 14:00:00 UTC: audit"}},
		{"one in the window", []*intentpb.DeliveryEnvironment{env("prod", hours("UTC", "Mon-Fri 09:00-17:00", 2))}, Facts{Environments: environments("prod", had(stayed(1, 1.5, 2, -1)))}, 4, Verdict{Status: Passes, Cause: Met, Have: 1, Needs: 2}},
		{"the window is full", []*intentpb.DeliveryEnvironment{env("prod", hours("UTC", "Mon-Fri 09:00-17:00", 1))}, Facts{Environments: environments("prod", had(stayed(1, 1.5, 2, -1)))}, 4, Verdict{Status: Waits, Cause: WindowFull, Have: 1, Needs: 1, Until: after(9)}},
		{"what went back is not counted", []*intentpb.DeliveryEnvironment{env("prod", hours("UTC", "Mon-Fri 09:00-17:00", 2))}, Facts{Environments: environments("prod", had(stayed(1, 0, 0, 2), stayed(3, 2, 2, 3), wentBack))}, 4, Verdict{Status: Passes, Cause: Met, Have: 1, Needs: 2}},
		{"of another day", []*intentpb.DeliveryEnvironment{env("prod", hours("UTC", "Mon-Fri 09:00-17:00", 1))}, Facts{Environments: environments("prod", had(stayed(1, 1.5, 2, -1)))}, 26, Verdict{Status: Passes, Cause: Met, Needs: 1}},

		{"young", []*intentpb.DeliveryEnvironment{env("prod", minAge(9*time.Hour))}, Facts{}, 10, Verdict{Status: Waits, Cause: Young, HaveTime: 8 * time.Hour, NeedsTime: 9 * time.Hour, Until: after(11)}},
		{"made in the future", []*intentpb.DeliveryEnvironment{env("prod", minAge(time.Hour))}, Facts{}, 1, Verdict{Status: Waits, Cause: Young, NeedsTime: time.Hour, Until: after(3)}},
		{"denied", []*intentpb.DeliveryEnvironment{env("prod", deny("v1.2.*"))}, Facts{}, 10, Verdict{Status: Refuses, Cause: Denied, Reason: "it loses writes"}},
		{"not denied", []*intentpb.DeliveryEnvironment{env("prod", deny("1.2"))}, Facts{}, 10, Verdict{Status: Passes, Cause: Met}},
		{"of a kind that is not known", []*intentpb.DeliveryEnvironment{env("prod", &intentpb.DeliveryConstraint{Name: "newer"})}, Facts{}, 10, Verdict{Status: Refuses}},
		{"who asks has no answer yet", []*intentpb.DeliveryEnvironment{env("prod", asking(0))}, Facts{}, 10, Verdict{Status: Waits, Cause: NoResult}},
		{"asked, and no answer", []*intentpb.DeliveryEnvironment{env("prod", asking(0))}, Facts{Results: []Result{answer(2, 4, false), {Environment: "prod", Name: "quiet", VersionName: named(2), Content: answer(2, 4, true).Content, At: after(5), Unanswered: true, Reason: "refused"}}}, 10, Verdict{Status: Waits, Cause: NoResult, Reason: "refused"}},
		{"it says no", []*intentpb.DeliveryEnvironment{env("prod", asking(0))}, Facts{Results: []Result{answer(2, 4, true), answer(2, 5, false)}}, 10, Verdict{Status: Waits, Cause: SaysNo, Reason: "as asked"}},
		{"it passes", []*intentpb.DeliveryEnvironment{env("prod", asking(0))}, Facts{Results: []Result{answer(2, 4, false), answer(2, 5, true)}}, 10, Verdict{Status: Passes, Cause: Met, Reason: "as asked"}},
		{"a pass of another version", []*intentpb.DeliveryEnvironment{env("prod", asking(0))}, Facts{Results: []Result{answer(1, 4, true), answer(3, 4, true)}}, 10, Verdict{Status: Waits, Cause: NoResult}},
		{"a pass of somebody else", []*intentpb.DeliveryEnvironment{env("prod", asking(0))}, Facts{Results: []Result{{Environment: "prod", Name: "quiet", VersionName: named(2), Content: "who was asked before", At: after(5), Good: true}}}, 10, Verdict{Status: Waits, Cause: NoResult}},
		{"a pass has expired", []*intentpb.DeliveryEnvironment{env("prod", asking(5*time.Hour))}, Facts{Results: []Result{answer(2, 5, true)}}, 10, Verdict{Status: Waits, Cause: NoResult}},
		{"a pass is over by its own word", []*intentpb.DeliveryEnvironment{env("prod", asking(0))}, Facts{Results: []Result{passUntil(9)}}, 10, Verdict{Status: Waits, Cause: NoResult}},
		{"a pass counts until it is over", []*intentpb.DeliveryEnvironment{env("prod", asking(0))}, Facts{Results: []Result{passUntil(11)}}, 10, Verdict{Status: Passes, Cause: Met, Reason: "as asked"}},
		{"nobody has said", []*intentpb.DeliveryEnvironment{env("prod", canary())}, Facts{}, 10, Verdict{Status: Waits, Cause: NoResult}},
		{"found bad", []*intentpb.DeliveryEnvironment{env("prod", canary())}, Facts{Results: []Result{{Environment: "prod", Name: "canary", VersionName: named(2), At: after(3), Good: true}, {Environment: "prod", Name: "canary", VersionName: named(2), At: after(4), Reason: "slow"}}}, 10, Verdict{Status: Refuses, Cause: ResultBad, Reason: "slow"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			a := application(t, test.app...)
			test.facts.Now = after(test.now)
			x, err := a.Decide(upTo(t, 3), &test.facts).Explain("prod", named(2))
			if err != nil {
				t.Fatal(err)
			}
			got := x.Verdicts[len(x.Verdicts)-1]
			if test.want.Constraint = got.Constraint; !cmp.Equal(got, test.want) {
				t.Error(cmp.Diff(test.want, got))
			}
		})
	}
}

// TestEstimates: the earliest time at which a version can be there, along all that is in its way.
func TestEstimates(t *testing.T) {
	a := application(t, env("test"), env("staging", dependsOn(time.Hour, "test")),
		env("prod", dependsOn(2*time.Hour, "staging"), judged(1, 0), hours("UTC", "Mon-Fri 09:00-17:00", 1)))
	for _, test := range []struct {
		name   string
		facts  Facts
		now    float64
		n      int
		at     float64 // -1: never.
		awaits []Awaited
	}{
		{"it was never anywhere: an hour in test, two in staging, then people", Facts{}, 1, 2, 4, []Awaited{{"prod", "people"}}},
		{"too late for today's window", Facts{}, 7, 2, 25, []Awaited{{"prod", "people"}}},
		{"it is in staging since an hour", Facts{Environments: environments("staging", had(stayed(2, 2, 3, -1)))}, 4, 2, 5, []Awaited{{"prod", "people"}}},
		{"approved already", Facts{Environments: environments("staging", had(stayed(2, 2, 3, -1))), Votes: []Vote{approval(2, "prod", "user:ann", 4)}}, 4, 2, 5, nil},
		{"today's window is full", Facts{Environments: environments("staging", had(stayed(2, 2, 3, -1)), "prod", had(stayed(1, 2, 2, -1))), Votes: []Vote{approval(2, "prod", "user:ann", 4)}}, 4, 2, 25, nil},
		{"it is there", Facts{Environments: environments("prod", had(stayed(2, 2, 3, -1)))}, 4, 2, 2, nil},
		{"something newer is there", Facts{Environments: environments("prod", had(stayed(3, 2, 3, -1)))}, 4, 2, -1, nil},
		{"staging has something newer, and had it for too short", Facts{Environments: environments("staging", had(stayed(2, 2, 2, 3), stayed(3, 3, 3, -1)))}, 4, 2, -1, nil},
		{"it is bad in staging", Facts{Environments: environments("staging", had(stayed(2, 2, 2, -1))), Acts: []Act{act(MarkBad, "staging", 2, 3)}}, 4, 2, -1, nil},
		{"test is pinned to another", Facts{Acts: []Act{act(Pin, "test", 1, 1)}}, 4, 2, -1, nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			test.facts.Now = after(test.now)
			x, err := a.Decide(upTo(t, 3), &test.facts).Explain("prod", named(test.n))
			if err != nil {
				t.Fatal(err)
			}
			want := Estimate{Awaits: test.awaits}
			if test.at >= 0 {
				want.At = after(test.at)
			}
			if !cmp.Equal(x.Estimate, want) {
				t.Error(cmp.Diff(want, x.Estimate))
			}
		})
	}
}

// TestEstimatesOfAnalyses: an analysis has no result before it has lasted as long as its validation asks for.
func TestEstimatesOfAnalyses(t *testing.T) {
	staging := env("staging")
	staging.Verify = []string{"errors", "smoke"}
	staging.Runs = []*intentpb.DeliveryVerification{
		{Name: "errors", Kind: &intentpb.DeliveryVerification_Analysis{Analysis: &intentpb.DeliveryAnalysis{Validation: "error-rate"}}},
		{Name: "smoke", Kind: &intentpb.DeliveryVerification_Http{Http: "smoke"}},
	}
	a := application(t, staging, env("prod", dependsOn(0, "staging")), env("later", dependsOn(3*time.Hour, "staging")))
	both := []Awaited{{"staging", "errors"}, {"staging", "smoke"}}
	good := Result{Environment: "staging", Name: "errors", VersionName: named(2), Content: "content-2", At: after(5), Good: true}
	inStaging := environments("staging", had(stayed(2, 2, 3, -1)))
	for _, test := range []struct {
		name        string
		environment string
		facts       Facts
		at          float64
		awaits      []Awaited
	}{
		{"it was never anywhere", "prod", Facts{}, 6, both},
		{"staging is to be good with it for longer than that", "later", Facts{}, 7, both},
		{"it is in staging since an hour", "prod", Facts{Environments: inStaging}, 5, both},
		{"it is in staging since an hour, and is to be for three", "later", Facts{Environments: inStaging}, 6, both},
		{"only the program has no result", "prod", Facts{Environments: inStaging, Results: []Result{good}}, 4, both[1:]},
	} {
		t.Run(test.name, func(t *testing.T) {
			test.facts.Now, test.facts.Lengths = after(4), map[string]time.Duration{"error-rate": 2 * time.Hour}
			x, err := a.Decide(upTo(t, 3), &test.facts).Explain(test.environment, named(2))
			if err != nil {
				t.Fatal(err)
			}
			if want := (Estimate{At: after(test.at), Awaits: test.awaits}); !cmp.Equal(x.Estimate, want) {
				t.Error(cmp.Diff(want, x.Estimate))
			}
		})
	}
}
