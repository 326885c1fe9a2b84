// Package interpreter finds the Python that tests of plugins in Python run: one that has gRPC
// and protobuf. Only tests call it.
package interpreter

import (
	"os"
	"os/exec"
	"sync"
	"testing"
)

// packages are Debian's, which scripts/install-test-tools installs.
const packages = "python3-grpcio and python3-protobuf"

var found = sync.OnceValue(func() string {
	for _, name := range []string{os.Getenv("LEHR_PYTHON"), "python3", "/usr/bin/python3"} {
		if name == "" {
			continue
		}
		path, err := exec.LookPath(name)
		if err == nil && exec.Command(path, "-c", "import grpc, google.protobuf").Run() == nil {
			return path
		}
	}
	return ""
})

// Python returns the path of the interpreter. Where there is none the test is skipped; in CI
// it fails.
func Python(t testing.TB) string {
	t.Helper()
	path := found()
	switch {
	case path != "":
		return path
	case os.Getenv("CI") != "":
		t.Fatalf("no Python here has gRPC and protobuf: install %s, as scripts/install-test-tools does", packages)
	default:
		t.Skipf("no Python here has gRPC and protobuf: install %s, or name an interpreter in LEHR_PYTHON", packages)
	}
	return ""
}

// Folder returns a folder whose python3 is the interpreter, to be put first in PATH for
// programs that begin with a line that names python3.
func Folder(t testing.TB) string {
	t.Helper()
	folder := t.TempDir()
	// Not a link: Python would look for its packages beside it.
	script := "#!/bin/sh\nexec " + Python(t) + " \"$@\"\n"
	if err := os.WriteFile(folder+"/python3", []byte(script), 0o700); err != nil {
		t.Fatal(err)
	}
	return folder
}
