package schema_test

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/reflect/protoreflect"

	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/ground/schema"
)

// Of every type there is a schema that has the type's fields and no others, and
// the definitions of all that it refers to.
func TestJSONSchemaHasTheFields(t *testing.T) {
	set, types := schema.Builtin(), 0
	var ask func(messages protoreflect.MessageDescriptors)
	one := func(message protoreflect.MessageDescriptor) {
		name := message.FullName()
		made, err := set.JSONSchema(intent.TypeName(name))
		if err != nil {
			t.Fatal(err)
		}
		text, err := json.Marshal(made)
		if err != nil {
			t.Fatal(err)
		}
		defs := made["$defs"].(map[string]any)
		for _, part := range strings.Split(string(text), `"#/$defs/`)[1:] {
			if to, _, _ := strings.Cut(part, `"`); defs[to] == nil {
				t.Errorf("%s: %s is not defined", name, to)
			}
		}
		own, ok := defs[string(name)].(map[string]any)
		if !ok {
			if name.Parent() != "google.protobuf" {
				t.Errorf("%s has no definition", name)
			}
			return
		}
		types++
		want := map[string]bool{}
		for i := range message.Fields().Len() {
			field := message.Fields().Get(i)
			want[string(field.Name())], want[field.JSONName()] = true, true
		}
		if got := slices.Sorted(maps.Keys(own["properties"].(map[string]any))); !slices.Equal(got, slices.Sorted(maps.Keys(want))) {
			t.Errorf("%s has %v, want %v", name, got, slices.Sorted(maps.Keys(want)))
		}
	}
	ask = func(messages protoreflect.MessageDescriptors) {
		for i := range messages.Len() {
			if message := messages.Get(i); !message.IsMapEntry() {
				one(message)
				ask(message.Messages())
			}
		}
	}
	set.Descriptors().RangeFiles(func(file protoreflect.FileDescriptor) bool { ask(file.Messages()); return true })
	if types < 20 {
		t.Errorf("only %d types were asked for", types)
	}
	if _, err := set.JSONSchema("lehr.process.v1.Jop"); !fault.Is(err, fault.NotFound) {
		t.Errorf("a type that is not there: %v", err)
	}
}

func TestJSONSchemaOfValues(t *testing.T) {
	made, err := schema.Builtin().JSONSchema("lehr.process.v1.Job")
	if err != nil {
		t.Fatal(err)
	}
	job := made["$defs"].(map[string]any)["lehr.process.v1.Job"].(map[string]any)["properties"].(map[string]any)
	for field, want := range map[string]string{
		"name":     `{"type":"string"}`,
		"replicas": `{"minimum":0,"pattern":"^[0-9]+$","type":["integer","string"]}`,
		"args":     `{"items":{"type":"string"},"type":"array"}`,
		"env":      `{"additionalProperties":{"type":"string"},"type":"object"}`,
		"health":   `{"$ref":"#/$defs/lehr.process.v1.HealthCheck"}`,
		"basePort": "", "base_port": "",
	} {
		if got, err := json.Marshal(job[field]); err != nil || string(got) != want && want != "" || string(got) == "null" {
			t.Errorf("%s: %s, want %s (%v)", field, got, want, err)
		}
	}
}
