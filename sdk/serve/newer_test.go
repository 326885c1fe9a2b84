package serve

import (
	"testing"

	processpb "lehr.dev/gen/lehr/process/v1"
)

// A producer may set a field that the plugin does not know yet: it answers for
// those that it knows, and there is no difference that it could never mend.
func TestAFieldOfANewerTypeIsNoDifference(t *testing.T) {
	production := &shelf{jobs: map[string]*processpb.Job{"a": {Name: "a", Replicas: 2}}}
	kind := For(production, Serving{})
	asset := jobIntent(t, &processpb.Job{Name: "a", Replicas: 2})
	asset.Payload.Bytes = append(asset.Payload.Bytes, 0xa2, 0x06, 1, 'x') // Field 100.
	if d := diffOne(kind, asset); d.Outcome != InSync {
		t.Errorf("outcome %v: %+v, %s", d.Outcome, d.Plan.Changes, d.Reason)
	}
}
