package generate_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/reflect/protoreflect"

	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/ground/schema"
	"lehr.dev/internal/prodspec/generate"
)

// nested is an expression whose cost is ten to the power of its depth.
func nested(depth int) string {
	if depth == 0 {
		return "this.team != 'x'"
	}
	return fmt.Sprintf("[0,1,2,3,4,5,6,7,8,9].all(v%d, %s)", depth, nested(depth-1))
}

var contact = []schema.SourceFile{{Path: "contact.proto", Text: []byte(`syntax = "proto3";
package acme.v1;
import "buf/validate/validate.proto";
message Contact {
  option (buf.validate.message).cel = {id: "cheap", message: "the team is unknown", expression: "this.team != 'none'"};
  option (buf.validate.message).cel = {id: "slow", message: "slow", expression: "this.team != 'slow' || ` + nested(9) + `"};
  string team = 1;
}
`)}}

// body of an asset with a contact.
func body(t *testing.T, set *schema.Set, id intent.AssetID, team string) []byte {
	t.Helper()
	message, err := set.New("acme.v1.Contact")
	if err != nil {
		t.Fatal(err)
	}
	message.ProtoReflect().Set(message.ProtoReflect().Descriptor().Fields().ByTextName("team"), protoreflect.ValueOfString(team))
	payload, err := set.Pack(message)
	if err != nil {
		t.Fatal(err)
	}
	encoded, _, err := set.Encode(intent.Asset{ID: id, Payload: payload})
	if err != nil {
		t.Fatal(err)
	}
	return encoded
}

// TestRunnersAgreeOnTypes: the form for the simulator compiles and judges as
// children do.
func TestRunnersAgreeOnTypes(t *testing.T) {
	here := generate.InProcess{Limits: generate.DefaultLimits()}
	for name, files := range map[string][]schema.SourceFile{
		"good":     contact,
		"broken":   {{Path: "a.proto", Text: []byte("syntax = \"proto3\"; package a;\nmessage {}")}},
		"bad rule": {{Path: "a.proto", Text: []byte(strings.Replace(string(contact[0].Text), "this.team != 'none'", "this.taem != 'none'", 1))}},
		"reserved": {{Path: "a.proto", Text: []byte("syntax = \"proto3\"; package asset.v1;")}},
	} {
		t.Run(name, func(t *testing.T) {
			one, oneFindings, err := here.Compile(t.Context(), files)
			if err != nil {
				t.Fatal(err)
			}
			other, otherFindings, err := process("true").Compile(t.Context(), files)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(oneFindings, otherFindings); diff != "" {
				t.Errorf("findings differ: %s", diff)
			}
			if (one == nil) != (name != "good") || (one == nil) != (other == nil) || one != nil && one.Digest() != other.Digest() {
				t.Errorf("sets %v and %v, findings %+v", one != nil, other != nil, oneFindings)
			}
			if name != "good" && (oneFindings[0].File != "a.proto" || oneFindings[0].Line == 0) {
				t.Errorf("finding %+v", oneFindings[0])
			}
		})
	}
}

// TestCostlyRuleNamesItsAsset: a rule that never ends for one asset takes a
// child with it, and is told of that asset; the others are judged.
func TestCostlyRuleNamesItsAsset(t *testing.T) {
	if testing.Short() {
		t.Skip("it waits for limits")
	}
	limits := generate.DefaultLimits()
	limits.Milliseconds = 500
	runner := generate.NewProcess(generate.Options{Child: []string{"/proc/self/exe"}, Environment: []string{role + "=true"}, Limits: limits})
	set, findings, err := process("true").Compile(t.Context(), contact)
	if err != nil || len(findings) > 0 {
		t.Fatal(findings, err)
	}
	judge := func(bodies ...[]byte) []intent.Finding {
		t.Helper()
		findings, err := runner.Judge(t.Context(), set, bodies)
		if err != nil {
			t.Fatal(err)
		}
		return findings
	}
	if got := judge(body(t, set, "a", "one"), body(t, set, "b", "none")); len(got) != 1 || got[0].Asset != "b" || !strings.Contains(got[0].Message, "the team is unknown") {
		t.Errorf("findings %+v", got)
	}
	got := judge(body(t, set, "a", "one"), body(t, set, "b", "two"), body(t, set, "c", "slow"), body(t, set, "d", "three"))
	if len(got) != 1 || got[0].Asset != "c" || got[0].Severity != intent.Error || !strings.Contains(got[0].Hint, ".proto") {
		t.Errorf("findings %+v", got)
	}
}
