package tfcommand

import (
	"os"
	"path/filepath"
	"testing"
)

// The state's version, and whether there may be checks, is read out of the plan that OpenTofu
// 1.12.6 saved. Of what is no such file the state itself is read.
func TestASavedPlanOfOpenTofuIsRead(t *testing.T) {
	found, ok := readPlanFile("testdata/opentofu.tfplan")
	if !ok || found.state.Serial != 1 || found.state.Lineage != "15373fcc-c0b1-8bae-0a1b-e2d48840d198" || found.state.Size == 0 || found.hasConditions || found.refreshed == "" {
		t.Errorf("%+v, %v", found, ok)
	}
	encrypted := filepath.Join(t.TempDir(), "encrypted.tfplan")
	if err := os.WriteFile(encrypted, []byte(`{"meta":{},"encrypted_data":"AAAA"}`), 0o600); err != nil {
		t.Fatal(err)
	}
	if found, ok := readPlanFile(encrypted); ok {
		t.Errorf("of an encrypted plan it tells %+v", found)
	}
}

// The digest of a state does not depend on how it is written, and on who wrote it last; it
// depends on its version and its content.
func TestADigestIsOfAState(t *testing.T) {
	digest := func(text string) string {
		t.Helper()
		found, err := DigestOf([]byte(text))
		if err != nil {
			t.Fatal(err)
		}
		return found
	}
	one := digest(`{"terraform_version":"1.11.4","lineage":"a","serial":3,"outputs":{},"resources":[{"name":"b"}]}`)
	if same := digest(`{"terraform_version":"1.12.0", "lineage":"a", "serial":3, "outputs":{}, "resources":[ {"name": "b"} ]}`); same != one {
		t.Error("it depends on how the state is written")
	}
	for _, other := range []string{
		`{"lineage":"b","serial":3,"outputs":{},"resources":[{"name":"b"}]}`, `{"lineage":"a","serial":4,"outputs":{},"resources":[{"name":"b"}]}`,
		`{"lineage":"a","serial":3,"outputs":{"x":1},"resources":[{"name":"b"}]}`, `{"lineage":"a","serial":3,"outputs":{},"resources":[{"name":"c"}]}`,
	} {
		if digest(other) == one {
			t.Errorf("it is that of %s, too", other)
		}
	}
}
