package rule_test

import (
	"testing"

	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/ground/rule"
	"lehr.dev/internal/ground/schema"
)

// TestAssignmentsKeepSecrets: what a secret field was is not shown (S13), and
// numbers must fit their fields.
func TestAssignmentsKeepSecrets(t *testing.T) {
	compiled, findings := schema.Compile(t.Context(), []schema.SourceFile{{Path: "a.proto", Text: []byte(`edition = "2023"; package acme.v1;
message Account { string user = 1; string password = 2 [debug_redact = true]; int32 small = 3; Within within = 4; message Within { Text text = 1; } message Text { string value = 1; } }`)}}, nil)
	if len(findings) > 0 {
		t.Fatal(findings)
	}
	const account = intent.TypeName("acme.v1.Account")
	environment := rule.New(compiled.Set)
	message, err := compiled.Set.New(account)
	if err != nil {
		t.Fatal(err)
	}
	payload, err := compiled.Set.Pack(message)
	if err != nil {
		t.Fatal(err)
	}
	asset := intent.Asset{ID: "a", Payload: payload}
	assign := func(field, text string, fill bool) (rule.Field, error) {
		t.Helper()
		found, err := environment.FindField(field, account)
		if err != nil {
			t.Fatal(err)
		}
		assignment, err := environment.Assign(found, text, account)
		if err != nil {
			t.Fatal(err)
		}
		asset, err = assignment.Apply(asset, fill)
		return found, err
	}
	field, err := assign("payload.password", `"hunter2"`, false)
	if err != nil {
		t.Fatal(err)
	}
	if shown, err := field.Shown(asset); err != nil || shown != schema.Redacted {
		t.Errorf("shown %q, %v", shown, err)
	}
	if _, err := assign("payload.small", "2147483647 + 1", false); err == nil {
		t.Error("a number that does not fit was taken")
	}
	// An empty fill makes nothing on the way to its field either.
	before := string(asset.Payload.Bytes)
	if _, err := assign("payload.within.text.value", `""`, true); err != nil || string(asset.Payload.Bytes) != before {
		t.Errorf("an empty fill changed the asset: %v", err)
	}
	field, err = assign("payload.within.text.value", "payload.user + id", true)
	if shown, wrong := field.Shown(asset); err != nil || wrong != nil || shown != `"a"` {
		t.Errorf("filled with %s: %v, %v", shown, err, wrong)
	}
}
