package plugintest

import (
	"path/filepath"
	"strings"
	"testing"

	processpb "lehr.dev/gen/lehr/process/v1"
	"lehr.dev/test/building"
)

func exampleJob(version string) *processpb.Job {
	return &processpb.Job{Name: "example", Replicas: 2, Binary: "/bin/example", Version: version}
}

func build(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "nullplugin")
	if err := (building.Program{Of: "nullplugin"}).At(path); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestNullPluginConforms(t *testing.T) {
	Run(t, Target{Run: []string{build(t)}, First: exampleJob("1"), Second: exampleJob("2")})
}

func TestFaultsAreFound(t *testing.T) {
	if testing.Short() {
		t.Skip("runs the suite once for each fault")
	}
	path := build(t)
	for name, c := range map[string]struct {
		target Target
		check  string
		detail string
	}{
		"no plugin":    {Target{Run: []string{"/bin/false"}, Patience: 1e9}, "describe", "ended while starting"},
		"other type":   {Target{Run: []string{path}, First: &processpb.Update{}, Second: &processpb.Update{}}, "describe", "does not serve"},
		"exists":       {Target{Run: []string{path, "-adopt"}, First: exampleJob("1"), Second: exampleJob("2")}, "looking changes nothing", "exists already"},
		"same example": {Target{Run: []string{path}, First: exampleJob("1"), Second: exampleJob("1")}, "update in place", "must differ"},
	} {
		t.Run(name, func(t *testing.T) {
			for _, result := range Check(t.Context(), c.target) {
				if result.Name == c.check && (result.Outcome != Failed || !strings.Contains(result.Detail, c.detail)) {
					t.Errorf("%+v, want failed because %q", result, c.detail)
				}
			}
		})
	}
}
