// Package installed finds programs of other people that tests start.
package installed

import (
	"os"
	"os/exec"
	"testing"
)

// Program returns the path of a program. Where it is not installed the test is skipped; in CI
// it fails.
func Program(t testing.TB, name string) string {
	t.Helper()
	path, err := exec.LookPath(name)
	switch {
	case err == nil:
		return path
	case os.Getenv("CI") != "":
		t.Fatalf("%s is not installed: scripts/install-test-tools installs it", name)
	default:
		t.Skipf("%s is not installed: scripts/install-test-tools installs it", name)
	}
	return ""
}
