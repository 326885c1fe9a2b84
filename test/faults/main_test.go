// Package faults breaks the real programs on purpose: it builds lehr and its
// plugins, runs them as child processes, kills them, starves them and lies to
// them, and judges by production itself, which is a folder of files and a few
// real processes. What single packages promise is tested beside them; here it
// is what a person would see. Nothing imports it.
package faults

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
)

// The test binary is also the commands that the command plugin runs, and the
// plugins that misbehave.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 {
		if program, is := programs[os.Args[1]]; is {
			os.Exit(program(os.Args[2:]))
		}
	}
	code := m.Run()
	if built.folder != "" {
		os.RemoveAll(built.folder)
	}
	os.Exit(code)
}

// programs by the first argument.
var programs = map[string]func(arguments []string) int{
	"production:diff":  diffProgram,
	"production:push":  pushProgram,
	"production:task":  taskProgram,
	"plugin:protocol9": wrongProtocolPlugin,
	"plugin:hung":      hungPlugin,
	"plugin:crashing":  crashingPlugin,
}

var built struct {
	once   sync.Once
	folder string
	err    error
}

// binaries builds the programs once and returns their folder.
func binaries(t *testing.T) string {
	t.Helper()
	if testing.Short() {
		t.Skip("builds and runs the real programs")
	}
	built.once.Do(func() {
		if built.folder, built.err = os.MkdirTemp("", "lehr-faults-"); built.err != nil {
			return
		}
		for program, source := range map[string]string{"lehr": "cmd/lehr", "lehr-command": "plugins/command", "lehr-process": "plugins/process"} {
			build := exec.Command("go", "build", "-o", filepath.Join(built.folder, program), "lehr.dev/"+source)
			if output, err := build.CombinedOutput(); err != nil {
				built.err = fmt.Errorf("building %s: %w\n%s", program, err, output)
				return
			}
		}
	})
	if built.err != nil {
		t.Fatal(built.err)
	}
	return built.folder
}
