package python_test

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
)

// programs is a folder that is first in PATH; buildSecretsProgram fills it.
var programs string

func TestMain(m *testing.M) {
	os.Exit(func() int {
		var err error
		programs, err = os.MkdirTemp("", "lehr-programs-")
		if err == nil {
			defer os.RemoveAll(programs)
			err = os.Setenv("PATH", programs+string(os.PathListSeparator)+os.Getenv("PATH"))
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		return m.Run()
	}())
}

var built = sync.OnceValue(func() error {
	output, err := exec.Command("go", "build", "-o", filepath.Join(programs, "lehr-secrets"), "lehr.dev/cmd/lehr-secrets").CombinedOutput()
	if err != nil {
		return errors.Join(err, errors.New(string(output)))
	}
	return nil
})

// buildSecretsProgram has the program in PATH that reads secrets for plugins in Python.
func buildSecretsProgram(t *testing.T) {
	t.Helper()
	if err := built(); err != nil {
		t.Fatal(err)
	}
}
