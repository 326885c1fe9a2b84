package delivery

import (
	"fmt"
	"testing"

	intentpb "lehr.dev/gen/lehr/intent/v1"
	"lehr.dev/internal/ground/intent"
)

// What environments have, wherever they are, what is pinned, approved or let in, and what they
// would go back to are kept; what was passed by is not.
func TestVersionsThatNoLimitHides(t *testing.T) {
	spec := chain()
	spec.Environments[1].Partition, spec.Environments[1].Source = string(eu), ""
	w := newWorld(t, spec)
	w.open(eu, &intentpb.Policy{PromotionGrants: []*intentpb.PromotionGrant{{Partition: string(shop), Application: "web", Document: "knobs", Source: "knobs", Pointers: []string{"/production"}}}})
	kept := func() string {
		t.Helper()
		names, err := (&Reader{Store: w.store, Schemas: schemas{}}).Kept(t.Context(), shop, "images")
		if err != nil {
			t.Fatal(err)
		}
		return fmt.Sprint(names)
	}
	w.list("1.0.0")
	w.goOn()
	w.list("1.0.0", "1.1.0")
	w.goOn()
	w.list("1.0.0", "1.1.0", "1.2.0")
	w.goOn()
	if got := kept(); got != "[1.0.0 1.1.0 1.2.0]" {
		t.Errorf("production has 1.0.0, test 1.2.0 and 1.1.0 before it: %s", got)
	}
	w.list("1.0.0", "1.1.0", "1.2.0", "1.3.0", "1.4.0")
	w.goOn()
	if got := kept(); got != "[1.0.0 1.2.0 1.4.0]" {
		t.Errorf("1.1.0 and 1.3.0 were passed by: %s", got)
	}
	w.act(intent.ActPin, "test", "1.3.0")
	w.goOn()
	if got := kept(); got != "[1.0.0 1.3.0 1.4.0]" {
		t.Errorf("test is pinned to 1.3.0: %s", got)
	}
	if names, err := (&Reader{Store: w.store, Schemas: schemas{}}).Kept(t.Context(), shop, "others"); err != nil || len(names) > 0 {
		t.Errorf("of another source: %v, %v", names, err)
	}
}
