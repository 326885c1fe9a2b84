package schema_test

import (
	"fmt"
	"strings"
	"testing"

	"google.golang.org/protobuf/reflect/protoreflect"

	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/ground/schema"
)

const zone = `edition = "2023";
package acme.dns.v1;
import "buf/validate/validate.proto";
import "google/protobuf/duration.proto";
import "lehr/intent/v1/options.proto";
import "common/team.proto";

// Zone is a DNS zone.
message Zone {
  string name = 1 [(lehr.intent.v1.indexed) = true, (buf.validate.field).string.min_len = 1];
  string template = 2 [(lehr.intent.v1.reference) = {types: ["acme.dns.v1.Template"], read: true}];
  google.protobuf.Duration ttl = 3;
  acme.Team team = 4;
}
message Template { repeated string records = 1; }
`

const team = `syntax = "proto3";
package acme;
message Team { string name = 1; }
`

func files(pairs ...string) (list []schema.SourceFile) {
	for i := 0; i < len(pairs); i += 2 {
		list = append(list, schema.SourceFile{Path: pairs[i], Text: []byte(pairs[i+1])})
	}
	return list
}

func compiled(t testing.TB, list []schema.SourceFile) *schema.Compiled {
	t.Helper()
	made, findings := schema.Compile(t.Context(), list, nil)
	if len(findings) > 0 {
		t.Fatalf("findings %+v", findings)
	}
	return made
}

// TestCompiledTypes: types of .proto files are like built-in ones.
func TestCompiledTypes(t *testing.T) {
	made := compiled(t, files("dns/zone.proto", zone, "common/team.proto", team))
	set := made.Set
	if name, err := set.Resolve("Zone"); err != nil || name != "acme.dns.v1.Zone" {
		t.Errorf("Zone is %s, %v", name, err)
	}
	if place := made.Place("acme.dns.v1.Zone.template"); place != (schema.Place{File: "dns/zone.proto", Line: 11, Column: 3}) {
		t.Errorf("the field is at %+v", place)
	}
	message, err := set.New("acme.dns.v1.Zone")
	if err != nil {
		t.Fatal(err)
	}
	fields := message.ProtoReflect().Descriptor().Fields()
	for name, value := range map[string]string{"name": "example.com", "template": "template/usual"} {
		field := fields.ByTextName(name)
		message.ProtoReflect().Set(field, protoreflect.ValueOfString(value))
	}
	payload, err := set.Pack(message)
	if err != nil {
		t.Fatal(err)
	}
	asset := intent.Asset{ID: "zone/one", Payload: payload}
	references, err := set.References(asset)
	if err != nil || len(references) != 1 || references[0].To != "template/usual" || !references[0].Read || references[0].Types[0] != "acme.dns.v1.Template" {
		t.Errorf("references %+v, %v", references, err)
	}
	indexed, err := set.Fields(asset)
	if err != nil || len(indexed) != 1 || indexed[0] != (intent.Field{Path: "acme.dns.v1.Zone.name", Value: "example.com"}) {
		t.Errorf("fields %+v, %v", indexed, err)
	}
	// What is stored with an incarnation is the same set again.
	again, err := schema.FromFiles(set.Files())
	if err != nil || again.Digest() != set.Digest() {
		t.Errorf("read back: %v, another set", err)
	}
	if text, err := again.JSON(asset); err != nil || !strings.Contains(string(text), "template/usual") {
		t.Errorf("%s, %v", text, err)
	}
	// A built-in type is the generated one.
	if builtin, _ := set.New("lehr.intent.v1.Owner"); fmt.Sprintf("%T", builtin) != "*intentpb.Owner" {
		t.Errorf("Owner is a %T", builtin)
	}
}

// TestCommentsMakeNoOtherSet: what generators rest on is what is defined.
func TestCommentsMakeNoOtherSet(t *testing.T) {
	first := compiled(t, files("a.proto", team)).Set
	second := compiled(t, files("a.proto", "// A comment.\n"+team)).Set
	third := compiled(t, files("a.proto", strings.Replace(team, "string name = 1;", "string name = 1; string more = 2;", 1))).Set
	if first.Digest() != second.Digest() || first.Digest() == third.Digest() {
		t.Error("digests do not follow what is defined")
	}
}

func TestRefusedTypes(t *testing.T) {
	usual := `syntax = "proto3"; package acme;` + "\n"
	for name, c := range map[string]struct {
		files         []schema.SourceFile
		line, column  int
		message, hint string
	}{
		"syntax":             {files("a.proto", usual+"message A {\n  strin name = ;\n}"), 3, 16, "syntax error", "mend"},
		"unknown type":       {files("a.proto", usual+"message A {\n  Zone z = 1;\n}"), 3, 3, "unknown type Zone", "define the message or enum"},
		"misspelt scalar":    {files("a.proto", usual+"message A {\n  strin z = 1;\n}"), 3, 3, "unknown type strin", "did you mean string?"},
		"misspelt message":   {files("a.proto", usual+"message Zone {}\nmessage A {\n  Zome z = 1;\n}"), 4, 3, "unknown type Zome", "did you mean Zone?"},
		"unknown import":     {files("a.proto", usual+`import "missing.proto";`), 2, 8, "missing.proto", "path from the folder"},
		"missing import":     {files("a.proto", usual+"message A {\n  string b = 1 [(lehr.intent.v1.indexed) = true];\n}"), 3, 17, "unknown extension", "lehr/intent/v1/options.proto"},
		"import outside":     {files("a.proto", usual+`import "../../etc/passwd";`), 2, 8, "../../etc/passwd", ""},
		"import of itself":   {files("a.proto", usual+`import "a.proto";`), 2, 8, "cycle", ""},
		"no package":         {files("a.proto", `syntax = "proto3"; message google {}`), 1, 1, "no package", "package acme"},
		"package of Lehr":    {files("a.proto", `syntax = "proto3"; package lehr.intent.v1;`), 1, 28, "is Lehr's", "of your own"},
		"package of google":  {files("a.proto", `syntax = "proto3"; package google.protobuf;`), 1, 28, "is Lehr's", ""},
		"path of a built-in": {files("lehr/intent/v1/addons.proto", usual), 1, 1, "built-in file", "move"},
		"path like theirs":   {files("google/mine.proto", usual), 1, 1, "built-in file", "move"},
		"twice":              {files("a.proto", usual+"message A {}", "b.proto", usual+"message A {}"), 2, 9, "already defined", "once"},
		"reference to bytes": {files("a.proto", usual+"import \"lehr/intent/v1/options.proto\";\nmessage A {\n  bytes b = 1 [(lehr.intent.v1.reference) = {}];\n}"), 4, 3, "holds no text", ""},
		"reference to none":  {files("a.proto", usual+"import \"lehr/intent/v1/options.proto\";\nmessage A {\n  string b = 1 [(lehr.intent.v1.reference) = {types: [\"A\"]}];\n}"), 4, 3, `"A", which does not exist`, "did you mean acme.A?"},
		"index of message":   {files("a.proto", usual+"import \"lehr/intent/v1/options.proto\";\nmessage A {\n  A b = 1 [(lehr.intent.v1.indexed) = true];\n}"), 4, 3, "marked as indexed", ""},
		"taken number":       {files("a.proto", usual+"import \"google/protobuf/descriptor.proto\";\nextend google.protobuf.FieldOptions { bool mine = 52802; }"), 3, 39, "taken by lehr.intent.v1.indexed", "another number"},
		"deep":               {files("a.proto", usual+strings.Repeat("message A { ", 33)+strings.Repeat("}", 33)), 2, 373, "nesting depth", ""},
		"huge enum":          {files("a.proto", usual+"enum E {\n"+values(30_000)+"}"), 2, 1, "more than 20000", ""},
		"many fields":        {files("a.proto", usual+"message M {\n"+fields(30_000)+"}"), 20002, 1, "more than 20000", ""},
		"long name":          {files("a.proto", usual+"message "+strings.Repeat("A", 300)+"{}"), 2, 1, "at most 200", "shorter"},
		"the same path":      {files("a.proto", usual, "a.proto", usual), 1, 1, "there twice", ""},
	} {
		t.Run(name, func(t *testing.T) {
			made, findings := schema.Compile(t.Context(), c.files, nil)
			if made != nil || len(findings) == 0 {
				t.Fatal("it was accepted")
			}
			f := findings[0]
			if f.Line != c.line || f.Column != c.column || !strings.Contains(f.Message, c.message) || !strings.Contains(f.Hint, c.hint) || f.File == "" {
				t.Errorf("%s:%d:%d: %s (%s)", f.File, f.Line, f.Column, f.Message, f.Hint)
			}
		})
	}
}

func values(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "E%d = %d;\n", i, i)
	}
	return b.String()
}

func fields(n int) string {
	var b strings.Builder
	for i := range n {
		number := i + 1
		if number >= 19000 {
			number += 1000
		}
		fmt.Fprintf(&b, "int32 f%d = %d;\n", i, number)
	}
	return b.String()
}

// FuzzCompile: nothing in a .proto file is a panic, and what is accepted can
// be read back.
func FuzzCompile(f *testing.F) {
	f.Add(zone)
	f.Add(team)
	f.Fuzz(func(t *testing.T, text string) {
		made, _ := schema.Compile(t.Context(), files("a.proto", text, "common/team.proto", team), nil)
		if made == nil {
			return
		}
		if again, err := schema.FromFiles(made.Set.Files()); err != nil || again.Digest() != made.Set.Digest() {
			t.Errorf("read back: %v", err)
		}
	})
}
