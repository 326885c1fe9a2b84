package storagemark

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

var (
	configMaps = schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}
	berths     = schema.GroupVersionResource{Group: "harbour.example", Version: "v1", Resource: "berths"}
)

func open(t *testing.T, path string) *Marks {
	t.Helper()
	m, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// TestAListThatIsBehind: a list is of now, so one below what was seen before it began is of a
// restored backup; one that began before an event was seen is not.
func TestAListThatIsBehind(t *testing.T) {
	m := open(t, "")
	early := m.Begin("one", configMaps)
	m.See("one", configMaps, "100")
	if err := early("90"); err != nil {
		t.Errorf("a list that began before the event: %v", err)
	}
	if err := m.Begin("one", configMaps)("100"); err != nil {
		t.Errorf("a list of the same version: %v", err)
	}
	for _, version := range []string{"", "0", "no number"} {
		if err := m.Begin("one", configMaps)(version); err != nil {
			t.Errorf("a list of version %q: %v", version, err)
		}
	}
	if err := m.Begin("two", configMaps)("5"); err != nil {
		t.Errorf("another cluster: %v", err)
	}
	err := m.Begin("one", configMaps)("99")
	if err == nil || !strings.Contains(err.Error(), "configmaps had version 100 and now has 99") {
		t.Fatalf("a list that is behind: %v", err)
	}
	for _, resource := range []schema.GroupVersionResource{configMaps, berths} {
		if m.Halted("one", resource.GroupResource()) == nil {
			t.Errorf("%v of the cluster is believed", resource)
		}
	}
	if err := m.Begin("one", configMaps)("1000"); err == nil {
		t.Error("a higher version ended the halt")
	}
	if m.Halted("two", configMaps.GroupResource()) != nil {
		t.Error("another cluster is halted")
	}
}

// TestAnAggregatedStorage: what may be kept by an aggregated API is judged for itself.
func TestAnAggregatedStorage(t *testing.T) {
	m := open(t, "")
	m.See("one", berths, "100")
	m.See("one", configMaps, "100")
	if err := m.Begin("one", berths)("3"); err == nil {
		t.Error("it is believed")
	}
	if m.Halted("one", configMaps.GroupResource()) != nil {
		t.Error("the whole cluster is halted")
	}
	if !m.Accept("one", m.Halted("one", berths.GroupResource()).ID) || m.Halted("one", berths.GroupResource()) != nil {
		t.Error("it cannot be accepted")
	}
	if err := m.Begin("one", configMaps)("99"); err == nil {
		t.Error("the rest of the cluster is no longer judged")
	}
	for group, want := range map[string]bool{"": true, "apps": true, "networking.k8s.io": true, "metrics.k8s.io": false, "custom.metrics.k8s.io": false, "harbour.example": false} {
		if isOfCluster(group) != want {
			t.Errorf("the group %q: %v", group, !want)
		}
	}
}

func TestAFileThatIsNone(t *testing.T) {
	for _, text := range []string{"null", `{"one":null}`, "[]", `{"one":`, ""} {
		path := filepath.Join(t.TempDir(), "state.json")
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := Open(path); err == nil || !strings.Contains(err.Error(), path) || !strings.Contains(err.Error(), "remove") {
			t.Errorf("%q is read with %v", text, err)
		}
	}
}

// TestARestartRemembers: a file keeps marks, halts and what was accepted; only the ID of the
// very restore accepts it.
func TestARestartRemembers(t *testing.T) {
	path := filepath.Join(t.TempDir(), "state.json")
	m := open(t, path)
	m.See("one", configMaps, "100")
	if err := open(t, path).Begin("one", configMaps)("100"); err != nil {
		t.Fatal(err)
	}
	m = open(t, path)
	if err := m.Begin("one", configMaps)("40"); err == nil {
		t.Fatal("after a restart a restore is not noticed")
	}
	m = open(t, path)
	halt := m.Halted("one", configMaps.GroupResource())
	if halt == nil || halt.Highest != 100 || halt.Found != 40 || !strings.HasPrefix(halt.ID, "40-") {
		t.Fatalf("after a restart the halt is %+v", halt)
	}
	for _, id := range []string{"", "40", halt.ID + "x"} {
		if m.Accept("one", id) || m.Halted("one", configMaps.GroupResource()) == nil {
			t.Errorf("%q accepts it", id)
		}
	}
	if !m.Accept("one", halt.ID) {
		t.Fatal("its ID does not accept it")
	}
	m = open(t, path)
	if m.Halted("one", configMaps.GroupResource()) != nil || m.Accepted("one") != halt.ID {
		t.Errorf("after a restart it is halted, or %q was accepted", m.Accepted("one"))
	}
	if err := m.Begin("one", configMaps)("41"); err != nil {
		t.Errorf("after it was accepted: %v", err)
	}
	if m.Accept("one", halt.ID) {
		t.Error("it is accepted twice")
	}
}
