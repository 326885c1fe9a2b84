// Package faults breaks the real programs on purpose: it builds lehr and its
// plugins, runs them as child processes, kills them, starves them and lies to
// them, and judges by production itself, which is a folder of files and a few
// real processes. What single packages promise is tested beside them; here it
// is what a person would see. Nothing imports it.
package faults

import (
	"errors"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"lehr.dev/test/building"
)

// The test binary is also the commands that the command plugin runs, and the
// plugins that misbehave.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 {
		if program, ok := programs[os.Args[1]]; ok {
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
	"production:reap":  reapProgram,
	"plugin:protocol9": wrongProtocolPlugin,
	"plugin:hung":      hungPlugin,
	"plugin:crashing":  crashingPlugin,
	"plugin:lying":     lyingPlugin,
	"plugin:hostile":   hostilePlugin,
}

var built struct {
	once   sync.Once
	folder string
	err    error

	example    sync.Once
	exampleErr error
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
		if built.err = startReaper(built.folder); built.err != nil {
			return
		}
		for program, source := range map[string]string{"lehr": "cmd/lehr", "lehr-command": "plugins/command", "lehr-process": "plugins/process", "production": "test/faults/production/program"} {
			if built.err = compile(program, "../..", "./"+source, ""); built.err != nil {
				return
			}
		}
	})
	if built.err != nil {
		t.Fatal(built.err)
	}
	return built.folder
}

// example builds, once, what the example's partition needs beside these.
func example(t *testing.T) {
	t.Helper()
	binaries(t)
	built.example.Do(func() {
		built.exampleErr = errors.Join(
			compile("lehr-caddy", "../../plugins/caddy", ".", "-s -w"),
			compile("lehr-sqlschema", "../../plugins/sqlschema", ".", "-s -w"),
			compile("releases/v1/frontend", "../..", "./examples/shakespeare/frontend", "-X main.version=v1"),
			compile("releases/v2/frontend", "../..", "./examples/shakespeare/frontend", "-X main.version=v2"),
			compile("releases/v3/frontend", "../..", "./examples/shakespeare/frontend", "-X main.version=v3 -X main.recordsCluster=yes"),
		)
	})
	if built.exampleErr != nil {
		t.Fatal(built.exampleErr)
	}
}

// compile builds a program of the module that a folder is in.
func compile(program, folder, source, flags string) error {
	p := building.Program{Of: filepath.Join(folder, source)}
	if flags != "" {
		p.Flags = []string{"-ldflags", flags}
	}
	return p.At(filepath.Join(built.folder, program))
}
