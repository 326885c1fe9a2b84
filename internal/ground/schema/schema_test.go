package schema_test

import (
	"bytes"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	commandpb "lehr.dev/gen/lehr/command/v1"
	intentpb "lehr.dev/gen/lehr/intent/v1"
	processpb "lehr.dev/gen/lehr/process/v1"
	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/ground/schema"
)

func TestResolve(t *testing.T) {
	set := schema.Builtin()
	tests := []struct {
		short string
		want  intent.TypeName
		wrong string // part of the error
	}{
		{short: "Job", want: "lehr.process.v1.Job"},
		{short: "lehr.process.v1.Job", want: "lehr.process.v1.Job"},
		{short: "google.protobuf.Struct", want: "google.protobuf.Struct"},
		{short: "WebService.Cluster", want: "lehr.model.v1.WebService.Cluster"},
		{short: "Jop", wrong: "did you mean lehr.process.v1.Job"},
		{short: "Nonsense", wrong: "known types"},
		{short: "", wrong: "known types"},
	}
	for _, test := range tests {
		got, err := set.Resolve(test.short)
		if got != test.want {
			t.Errorf("Resolve(%q) = %q, want %q", test.short, got, test.want)
		}
		if test.wrong == "" {
			if err != nil {
				t.Errorf("Resolve(%q): %v", test.short, err)
			}
		} else if !fault.Is(err, fault.Invalid) || !strings.Contains(err.Error(), test.wrong) {
			t.Errorf("Resolve(%q): error %v, want %q", test.short, err, test.wrong)
		}
	}
}

func TestNewNamesNearMisses(t *testing.T) {
	for name, want := range map[intent.TypeName]string{
		"lehr.proces.v1.Job": "lehr.process.v1.Job",
		"Job":                "lehr.process.v1.Job",
		"commands":           "lehr.command.v1.Command",
		"":                   "full name",
	} {
		_, err := schema.Builtin().New(name)
		if !fault.Is(err, fault.NotFound) || !strings.Contains(err.Error(), want) {
			t.Errorf("New(%q): error %v, want NotFound with %q", name, err, want)
		}
	}
	message, err := schema.Builtin().New("lehr.process.v1.Job")
	if _, ok := message.(*processpb.Job); err != nil || !ok {
		t.Errorf("New(lehr.process.v1.Job) = %T, %v", message, err)
	}
}

// What Files returned decodes for ever: same digest, same types, and marks
// that are seen.
func TestFilesComeBack(t *testing.T) {
	builtin := schema.Builtin()
	stored, err := schema.FromFiles(builtin.Files())
	if err != nil {
		t.Fatal(err)
	}
	if stored.Digest() != builtin.Digest() || !bytes.Equal(stored.Files(), builtin.Files()) {
		t.Error("a stored set differs from the one it was made of")
	}
	message, err := stored.New("lehr.command.v1.Command")
	if _, ok := message.(*commandpb.Command); err != nil || !ok {
		t.Errorf("an unchanged file yields %T, %v instead of its generated type", message, err)
	}
	packed, err := stored.Pack(&intentpb.Dependencies{Dependencies: []*intentpb.Dependency{{On: "a"}}})
	if err != nil {
		t.Fatal(err)
	}
	references, err := stored.References(intent.Asset{ID: "x", Payload: packed})
	if err != nil || len(references) != 1 || references[0].To != "a" {
		t.Errorf("references = %v, %v", references, err)
	}
}

func TestEncodeReadsBack(t *testing.T) {
	set := schema.Builtin()
	job := &processpb.Job{Name: "x", Replicas: 3, Binary: "/bin/true", Env: map[string]string{"b": "1", "a": "2"}}
	payload, err := set.Pack(job)
	if err != nil {
		t.Fatal(err)
	}
	owner, err := set.Pack(&intentpb.Owner{Owner: "sre"})
	if err != nil {
		t.Fatal(err)
	}
	encoded, digest, err := set.Encode(intent.Asset{ID: "a/b", Payload: payload, Addons: []intent.Message{owner}})
	if err != nil {
		t.Fatal(err)
	}
	if digest != intent.BodyDigest(encoded) {
		t.Error("the digest is not that of the bytes")
	}
	asset, err := schema.Decode(encoded)
	if err != nil {
		t.Fatal(err)
	}
	var gotJob processpb.Job
	var gotOwner intentpb.Owner
	if err := schema.Payload(asset, &gotJob); err != nil || !proto.Equal(&gotJob, job) {
		t.Errorf("payload = %v, %v", &gotJob, err)
	}
	if found, err := schema.Addon(asset, &gotOwner); !found || err != nil || gotOwner.Owner != "sre" {
		t.Errorf("addon = %v, %v, %v", &gotOwner, found, err)
	}
	if found, err := schema.Addon(asset, &intentpb.Mode{}); found || err != nil {
		t.Errorf("an addon that is not there: %v, %v", found, err)
	}
	if err := schema.Payload(asset, &commandpb.Command{}); !fault.Is(err, fault.Invalid) {
		t.Errorf("a payload of another type: %v", err)
	}
}
