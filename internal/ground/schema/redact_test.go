package schema_test

import (
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/protojson"

	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/ground/schema"
)

// S13: an asset is shown without its secrets, at any depth.
func TestJSONHidesSecrets(t *testing.T) {
	compiled, findings := schema.Compile(t.Context(), files("account.proto", `syntax = "proto3";
package tenant.v1;
message Account {
  string user = 1;
  string password = 2 [debug_redact = true];
  repeated string keys = 3 [debug_redact = true];
  bytes token = 4 [debug_redact = true];
  map<string, Account> more = 5;
  repeated Account all = 6;
  Account parent = 7;
  map<string, string> hidden = 8 [debug_redact = true];
}`), nil)
	if compiled == nil {
		t.Fatal(findings)
	}
	const one = `"user": "ann", "password": "hunter2", "keys": ["hunter2"], "token": "aHVudGVyMg==", "hidden": {"hunter2": "hunter2"}`
	kind, err := compiled.Set.Types().FindMessageByName("tenant.v1.Account")
	if err != nil {
		t.Fatal(err)
	}
	message := kind.New().Interface()
	if err := protojson.Unmarshal([]byte(`{`+one+`, "more": {"x": {`+one+`}}, "all": [{`+one+`}], "parent": {`+one+`}}`), message); err != nil {
		t.Fatal(err)
	}
	payload, err := compiled.Set.Pack(message)
	if err != nil {
		t.Fatal(err)
	}
	text, err := compiled.Set.JSON(intent.Asset{ID: "a", Payload: payload})
	if err != nil || strings.Contains(string(text), "hunter") || strings.Contains(string(text), "aHVudGVy") ||
		strings.Count(string(text), "ann") != 4 || strings.Count(string(text), schema.Redacted) != 4 {
		t.Errorf("%s %v", text, err)
	}
	shown, err := compiled.Set.Redact(intent.Asset{ID: "a", Payload: payload})
	if bytes := string(shown.Payload.Bytes); err != nil || strings.Contains(bytes, "hunter") || strings.Count(bytes, "ann") != 4 {
		t.Errorf("%q %v", bytes, err)
	}
}
