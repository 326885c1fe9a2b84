package outputs_test

import (
	"testing"

	intentpb "lehr.dev/gen/lehr/intent/v1"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/ground/outputs"
)

// TestGrants: by who reads, by asset and by name; all three must match, and one grant is
// enough.
func TestGrants(t *testing.T) {
	policy := &intentpb.Policy{OutputGrants: []*intentpb.OutputGrant{
		{To: []string{"shop-*"}, Assets: []string{"net/*"}, Names: []string{"id"}},
		{To: []string{"shop-eu", "lab"}, Assets: []string{"db"}},
		{To: []string{"lab"}, Names: []string{"port"}},
	}}
	content := []byte(`{"net/a": {"id": 1, "port": 2}, "net/a/b": {"id": 3}, "db": {"port": 4, "host": "h"}, "other": {"port": 5}}`)
	for reader, want := range map[string]string{
		"shop-us": `{"net/a":{"id":1}}`,
		"shop-eu": `{"db":{"host":"h","port":4},"net/a":{"id":1}}`,
		"lab":     `{"db":{"host":"h","port":4},"net/a":{"port":2},"other":{"port":5}}`,
		"shop":    `{}`,
		"my-lab":  `{}`,
	} {
		got, findings := outputs.Granted(content, outputs.GrantsTo(intent.PartitionID(reader), policy))
		if len(findings) > 0 || string(got) != want {
			t.Errorf("%s may read %s %v, want %s", reader, got, findings, want)
		}
	}
	if _, findings := outputs.Granted([]byte(`[]`), outputs.Grants{{}}); len(findings) == 0 {
		t.Error("a document that is none is granted")
	}
}
