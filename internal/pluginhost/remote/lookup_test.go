package remote

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"lehr.dev/internal/pluginhost/plugin"
)

// TestPluginsAreToldWhatReadsSecrets: the program in PATH, or what the operator names; nothing
// where there is none.
func TestPluginsAreToldWhatReadsSecrets(t *testing.T) {
	folder := t.TempDir()
	t.Setenv("PATH", folder)
	t.Setenv(plugin.SecretsVariable, "")
	if variables := SecretsVariable(); len(variables) > 0 {
		t.Errorf("%q, and there is no such program", variables)
	}
	program := filepath.Join(folder, plugin.SecretsProgram)
	if err := os.WriteFile(program, []byte("#!/bin/sh\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	if variables := environment("/socket", false); !slices.Contains(variables, plugin.SecretsVariable+"="+program) {
		t.Errorf("%q", variables)
	}
	t.Setenv(plugin.SecretsVariable, "/of/the/operator")
	variables := environment("/socket", false)
	if !slices.Contains(variables, plugin.SecretsVariable+"=/of/the/operator") || slices.Contains(variables, plugin.SecretsVariable+"="+program) {
		t.Errorf("%q", variables)
	}
}
