package tfroots

import (
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"time"
)

// Program is the Terraform or OpenTofu that is found here; without a path: none is.
type Program struct{ Path, Version string }

// FindProgram looks for a program, and asks it for its version, in a folder without modules.
func FindProgram(ctx context.Context, name string) Program {
	found, err := exec.LookPath(name)
	if err == nil {
		found, err = filepath.Abs(found)
	}
	if err != nil {
		return Program{}
	}
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	command := exec.CommandContext(ctx, found, "version", "-json")
	command.Dir, command.WaitDelay = "/", time.Second
	command.Env = append(os.Environ(), "CHECKPOINT_DISABLE=1", "TF_CLI_ARGS=", "TF_CLI_ARGS_version=")
	text, err := command.Output()
	var told struct {
		Version string `json:"terraform_version"`
	}
	if err != nil || json.Unmarshal(text, &told) != nil || told.Version == "" {
		return Program{}
	}
	return Program{found, told.Version}
}
