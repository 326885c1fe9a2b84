package promotion

import (
	"slices"
	"testing"
)

// TestAMarkIsNoVerification: a person who marks a version good withdraws what a verification found. It is
// verified anew, and until then nothing that depends on that has it.
func TestAMarkIsNoVerification(t *testing.T) {
	verified := env("test")
	verified.Verify = []string{"smoke"}
	dependent := env("prod", dependsOn(0, "test"))
	result := func(good bool, at float64) Result {
		return Result{Environment: "test", Name: "smoke", VersionName: named(2), Content: "c", At: after(at), Good: good, Reason: "as it looked"}
	}
	for name, test := range map[string]struct {
		results []Result
		marked  string
		at      float64
		verify  []string
		passes  Status
	}{
		"found bad":                           {[]Result{result(false, 3)}, "other", 4, nil, Refuses},
		"found bad, and marked good there":    {[]Result{result(false, 3)}, "test", 4, []string{"smoke"}, Waits},
		"found bad, and marked good in all":   {[]Result{result(false, 3)}, "", 4, []string{"smoke"}, Waits},
		"marked good before it was found bad": {[]Result{result(false, 5)}, "test", 4, nil, Refuses},
		"found good after that":               {[]Result{result(false, 3), result(true, 5)}, "test", 4, nil, Passes},
		"found bad again":                     {[]Result{result(false, 3), result(false, 5)}, "test", 4, nil, Refuses},
	} {
		t.Run(name, func(t *testing.T) {
			stay := stayed(2, 2, 2.5, -1)
			stay.Content = "c"
			facts := &Facts{Now: after(10), Environments: environments("test", had(stay)), Results: test.results}
			if test.marked != "other" {
				facts.Acts = []Act{{Kind: MarkGood, Environment: test.marked, VersionName: named(2), By: "ann", At: after(test.at)}}
			}
			decision := application(t, verified, dependent).Decide(upTo(t, 2), facts)
			if got := decision.Outcomes[0].Verify; !slices.Equal(got, test.verify) {
				t.Errorf("it is to be verified by %v, want %v", got, test.verify)
			}
			x, err := decision.Explain("prod", named(2))
			if err != nil {
				t.Fatal(err)
			}
			if got := x.Verdicts[0].Status; got != test.passes {
				t.Errorf("what depends on it says %v, want %v", got, test.passes)
			}
		})
	}
}
