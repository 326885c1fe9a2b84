package objects

import (
	"fmt"
	"testing"

	"lehr.dev/test/apiserver"
)

// TestOutputs: what the API has at the places that intent names is told while the thing is
// in sync, with all digits; what is not there is not told.
func TestOutputs(t *testing.T) {
	api := apiserver.NewCRUD("")
	defer api.Close()
	b := open(t, api.URL, "crud")
	payload := object("object", "collection=shelves,id=a", `{"name":"first"}`)
	payload.Outputs = map[string]string{"id": "/id", "serial": "/serial", "host": "/at/host"}
	if d := b.look(asset(payload)); d.Outputs != nil {
		t.Errorf("what is not there tells %s", d.Outputs)
	}
	b.pushed(asset(payload))
	api.Put("shelves", "a", `{"name":"first","serial":9007199254740993}`)
	if got := fmt.Sprintf("%s", b.look(asset(payload)).Outputs); got != `[{id "a"} {serial 9007199254740993}]` {
		t.Errorf("it tells %s", got)
	}
	api.Put("shelves", "a", `{"name":"by hand","serial":1}`)
	if d := b.look(asset(payload)); d.Outputs != nil {
		t.Errorf("what differs tells %s", d.Outputs)
	}
}
