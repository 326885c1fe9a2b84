package remote

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/pluginhost/plugin"
)

// SecretsVariable returns the variable by which a plugin that is no program of Go finds the
// program that reads its secrets, where it is installed. A variable of Lehr's own stands.
func SecretsVariable() []string {
	if os.Getenv(plugin.SecretsVariable) != "" {
		return nil
	}
	path, err := LookUp(plugin.SecretsProgram)
	if err != nil {
		return nil // Few plugins need it, and these say so.
	}
	return []string{plugin.SecretsVariable + "=" + path}
}

// LookUp finds a plugin's program. A name without a slash is looked up beside
// the lehr binary, then in PATH.
func LookUp(name string) (string, error) {
	if strings.Contains(name, "/") {
		path, err := exec.LookPath(name)
		if err != nil {
			return "", fault.New(fault.Unavailable, "looking for the plugin program %s: %w", name, err).
				WithHint("build or install it there, and see that it may be executed")
		}
		return path, nil
	}
	sibling := "?"
	if lehr, err := os.Executable(); err == nil {
		sibling = filepath.Join(filepath.Dir(lehr), name)
		if path, err := exec.LookPath(sibling); err == nil {
			return path, nil
		}
	}
	path, err := exec.LookPath(name)
	if err != nil {
		return "", fault.New(fault.Unavailable, "looking for the plugin program %q: not at %s (beside lehr), nor in PATH=%s", name, sibling, os.Getenv("PATH")).
			WithHint("install it in one of these, or write its path with a slash")
	}
	return path, nil
}
