package addon_test

import (
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	intentpb "lehr.dev/gen/lehr/intent/v1"
	"lehr.dev/sdk/generator/addon"
)

// TestAllMessagesOfTheContractAreKinds: what is no part of another message is an addon, and
// has the mark, so that nobody forgets it on a new one.
func TestAllMessagesOfTheContractAreKinds(t *testing.T) {
	messages := intentpb.File_lehr_intent_v1_addons_proto.Messages()
	parts := map[string]bool{}
	for i := range messages.Len() {
		fields := messages.Get(i).Fields()
		for j := range fields.Len() {
			if inner := fields.Get(j).Message(); inner != nil && !inner.IsMapEntry() {
				parts[string(inner.Name())] = true
			}
		}
	}
	for i := range messages.Len() {
		name := string(messages.Get(i).Name())
		_, _, ok := addon.ByName(name)
		if ok == parts[name] {
			t.Errorf("%s is an addon: %t, and a part of one: %t", name, ok, parts[name])
		}
	}
	if kind, _, ok := addon.ByName("lehr.intent.v1.ImpactedScope"); !ok || kind.Key != "impacted-scope" {
		t.Errorf("ImpactedScope has the key %q", kind.Key)
	}
	if _, hint, ok := addon.ByKey("unmanged"); ok || !strings.Contains(hint, "did you mean unmanaged?") {
		t.Errorf("unmanged: %t, %s", ok, hint)
	}
}

// TestTexts: what a text of an annotation says, and what is said of one that says nothing.
func TestTexts(t *testing.T) {
	for _, c := range []struct{ key, text, want, wrong string }{
		{key: "turndown", text: "moved: see 12", want: `{"reason": "moved: see 12"}`},
		{key: "turndown", text: "reason: moved", want: `{"reason": "moved"}`},
		{key: "turndown", text: `{"reason": "moved"}`, want: `{"reason": "moved"}`},
		{key: "turndown", text: "https://example.com/12", want: `{"reason": "https://example.com/12"}`},
		{key: "turndown", text: "{}", wrong: "reason is missing"},
		{key: "turndown", text: "{reason: a, reason: b}", wrong: "neither YAML nor JSON|twice"},
		{key: "turndown", text: "{reason: [a]}", wrong: "reason must be one value"},
		{key: "turndown", text: "{reson: a}", wrong: `no field "reson"`},
		{key: "turndown", text: "{reason: a", wrong: "neither YAML nor JSON"},
		{key: "turndown", text: " ", wrong: "it is empty"},
		{key: "turndown", text: strings.Repeat("a", 10_001), wrong: "10001 bytes"},
		{key: "approval", text: "reason: money\nquorum: 2", want: `{"reason": "money", "quorum": 2}`},
		{key: "approval", text: "{reason: money, quorum: -1}", wrong: "no whole number"},
		{key: "mode", text: "off", want: `{"mode": "ENFORCEMENT_MODE_OFF"}`},
		{key: "mode", text: "ENFORCEMENT_MODE_ENFORCE", want: `{"mode": "ENFORCEMENT_MODE_ENFORCE"}`},
		{key: "mode", text: "unspecified", wrong: "not one of enforce, observe, off"},
		{key: "unmanaged", text: "spec.replicas, spec.paused", want: `{"fields": [{"path": "spec.replicas", "reason": "as the test says"}, {"path": "spec.paused", "reason": "as the test says"}]}`},
		{key: "unmanaged", text: "a,,b", wrong: "empty"},
		{key: "unmanaged", text: "{fields: [{path: a, reason: b}]}", want: `{"fields": [{"path": "a", "reason": "b"}]}`},
		{key: "unmanaged", text: "{fields: [{path: a}]}", wrong: "fields[0].reason is missing"},
		{key: "unmanaged", text: "{fields: {path: a}}", wrong: "fields is a list"},
		{key: "labels", text: "{labels: {a: b, c: 1}}", want: `{"labels": {"a": "b", "c": "1"}}`},
		{key: "labels", text: "{labels: {a: {b: c}}}", wrong: "labels.a must be one value"},
		{key: "labels", text: "a=b", wrong: "a plain text says nothing of it"},
		{key: "labels", text: "{labels: &x {a: b}, labels2: *x}", wrong: "no field"},
		{key: "dependencies", text: "{dependencies: [{on: a, rule: version, at_least: \"2\"}]}", want: `{"dependencies": [{"on": "a", "rule": "RULE_VERSION", "atLeast": "2"}]}`},
	} {
		kind, _, _ := addon.ByKey(c.key)
		got, err := kind.FromText(c.text, "the test")
		if c.wrong != "" {
			matches := false
			for part := range strings.SplitSeq(c.wrong, "|") {
				matches = matches || err != nil && strings.Contains(err.Error(), part)
			}
			if e, ok := err.(*addon.Error); !matches || !ok || e.Hint == "" {
				t.Errorf("%s %.50q: %v, want one that says %q", c.key, c.text, err, c.wrong)
			}
			continue
		}
		want := kind.New()
		if err := protojson.Unmarshal([]byte(c.want), want); err != nil {
			t.Fatal(err)
		}
		if err != nil || !proto.Equal(got, want) {
			t.Errorf("%s %q gives %v, %v; want %v", c.key, c.text, got, err, want)
		}
	}
}

// TestAddedTogether: of kinds that are merged, what is given wins entry by entry; of others,
// as a whole.
func TestAddedTogether(t *testing.T) {
	list := []proto.Message{
		&intentpb.Owner{Owner: "a"}, &intentpb.Labels{Labels: map[string]string{"a": "1", "b": "1"}},
		&intentpb.Unmanaged{Fields: []*intentpb.UnmanagedField{{Path: "x", Reason: "1"}, {Path: "y", Reason: "1"}}},
	}
	for _, given := range []proto.Message{
		&intentpb.Owner{Owner: "b"}, &intentpb.Labels{Labels: map[string]string{"b": "2", "c": "2"}},
		&intentpb.Unmanaged{Fields: []*intentpb.UnmanagedField{{Path: "y", Reason: "2"}, {Path: "z", Reason: "2"}}},
	} {
		kind, _, _ := addon.ByName(string(given.ProtoReflect().Descriptor().FullName()))
		list = kind.Add(list, given)
	}
	want := []proto.Message{
		&intentpb.Owner{Owner: "b"}, &intentpb.Labels{Labels: map[string]string{"a": "1", "b": "2", "c": "2"}},
		&intentpb.Unmanaged{Fields: []*intentpb.UnmanagedField{{Path: "x", Reason: "1"}, {Path: "y", Reason: "2"}, {Path: "z", Reason: "2"}}},
	}
	if len(list) != len(want) {
		t.Fatalf("%d addons: %v", len(list), list)
	}
	for i := range want {
		if !proto.Equal(list[i], want[i]) {
			t.Errorf("got %v, want %v", list[i], want[i])
		}
	}
}
