package server

import (
	"testing"

	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/ground/secrecy"
)

// S13: a difference shows no secret, though a plugin told it, and the plan's digest
// stays the plugin's.
func TestDifferencesShowNoSecrets(t *testing.T) {
	for _, c := range []struct{ path, value, shown string }{
		{`environment["DB_PASSWORD"]`, "hunter2hunter", secrecy.Redacted},
		{"spec.auth.clientSecret", `"hunter2hunter"`, secrecy.Redacted},
		{"spec.args[2]", "--db-password=hunter2hunter", "--db-password=" + secrecy.Redacted},
		{"output", "cannot reach postgres://u:hunter2hunter@db/x", "cannot reach postgres://u:" + secrecy.Redacted + "@db/x"},
		{`template.annotations["checksum/secret"]`, "9f86d081884c7d659a2feaa0c55ad015", "9f86d081884c7d659a2feaa0c55ad015"},
		{"spec.replicas", "3", "3"}, {"spec.secretName", "db-credentials", "db-credentials"}, {"spec.image", "a/b:1.2", "a/b:1.2"},
	} {
		change := intent.FieldChange{Path: c.path, Current: "x", Target: c.value}
		plan := intent.Plan{Action: intent.ActionUpdate, Changes: []intent.FieldChange{change}}
		digest := plan.Digest()
		if got := toPlan(plan).Changes[0]; got.Target != c.shown || got.Current != "x" {
			t.Errorf("%s: %q", c.path, got)
		}
		if plan.Digest() != digest {
			t.Error("the plan became another")
		}
	}
}
