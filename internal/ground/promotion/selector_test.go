package promotion

import (
	"strings"
	"testing"
	"time"

	intentpb "lehr.dev/gen/lehr/intent/v1"
)

// TestNothingSelectedLetsNothingIn: a constraint that names a selector by which there is no
// environment waits, whatever else is good, unless any of several is enough.
func TestNothingSelectedLetsNothingIn(t *testing.T) {
	facts := Facts{Now: after(10), Environments: environments("test", had(stayed(2, 3, 4, -1)), "prod", had(stayed(1, 1.5, 2, -1)))}
	for _, test := range []struct {
		name       string
		constraint *intentpb.DeliveryConstraint
		passes     bool
	}{
		{"alone", dependsOn(0, "tenant"), false},
		{"beside another", dependsOn(0, "test", "tenant"), false},
		{"soak", soak(time.Hour, "test", "tenant"), false},
		{"any, alone", anyOf("tenant"), false},
		{"any, beside another", anyOf("test", "tenant"), true},
	} {
		t.Run(test.name, func(t *testing.T) {
			spec := &intentpb.Delivery{
				Name: "web", Versions: "images", Environments: []*intentpb.DeliveryEnvironment{env("test"), env("prod", test.constraint)},
				Selectors: []*intentpb.EnvironmentSelector{{Environment: "tenant", By: &intentpb.EnvironmentSelector_ByScope{ByScope: "tenant"}}},
			}
			a, err := New(spec)
			if err != nil {
				t.Fatal(err)
			}
			explained, err := a.Decide(catalogue(t, version(1), version(2), version(3)), &facts).Explain("prod", named(2))
			if err != nil {
				t.Fatal(err)
			}
			if verdict := explained.Verdicts[0]; (verdict.Status == Passes) != test.passes {
				t.Fatalf("%+v", verdict)
			}
			if test.passes {
				return
			}
			if words := explained.Words("v2", "prod"); !strings.Contains(words, "waits for the environments of tenant, and no asset selects one now") || !strings.Contains(words, "does not come by itself") {
				t.Errorf("it says %q", words)
			}
		})
	}
}

// TestAnUnknownEnvironmentIsNoSelector: its message names the selectors that there are.
func TestAnUnknownEnvironmentIsNoSelector(t *testing.T) {
	_, err := New(&intentpb.Delivery{
		Name: "web", Environments: []*intentpb.DeliveryEnvironment{env("prod", dependsOn(0, "tennant"))},
		Selectors: []*intentpb.EnvironmentSelector{{Environment: "tenant"}},
	})
	if err == nil || !strings.Contains(err.Error(), `no environment "tennant"`) {
		t.Fatal(err)
	}
}
