package tfcommand

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"lehr.dev/plugins/terraform/tfplan"
	"lehr.dev/sdk/secret"
	"lehr.dev/sdk/serve"
	"lehr.dev/sdk/subprocess"
)

// Planned is a plan that was made.
type Planned struct {
	// File holds it for its apply, with secrets: the caller removes it.
	File string
	// IsEmpty: it changes nothing.
	IsEmpty bool
	// State is which version of the state it was made of; HasState is false where there is none yet.
	State    State
	HasState bool
	// Refreshed is the digest of the state as the plan found production; empty: it is not known.
	Refreshed string
	// HasConditions: the configuration may have checks, of which only the plan itself tells.
	HasConditions bool
}

// Codes with which "plan -detailed-exitcode" ends.
const (
	planIsEmpty    = 0
	planHasChanges = 2
)

// Plan plans without the state's lock, and reads the state's version: from the saved plan where
// that tells it, else from the state, when somebody may have written it since. Then Terraform
// refuses the plan when it is applied.
func (c *Commands) Plan(ctx context.Context, r Run, isDestroy bool) (planned Planned, err error) {
	folder := filepath.Join(r.Content.Path, plansName)
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return planned, fmt.Errorf("making a folder for plans: %w", err)
	}
	sweep(folder)
	file := filepath.Join(folder, fmt.Sprintf("%d-%d.tfplan", os.Getpid(), c.plans.Add(1)))
	defer func() {
		if err != nil {
			_ = os.Remove(file)
		}
	}()
	result, err := c.run(ctx, r, subprocess.Kept{Head: 4 << 20, Tail: 4 << 20}, planArguments(r, file, isDestroy)...)
	if err != nil {
		return planned, err
	}
	if result.Exit != planIsEmpty && result.Exit != planHasChanges {
		return planned, planFailed(r, result)
	}
	if err := os.Chmod(file, 0o600); err != nil {
		return planned, fmt.Errorf("keeping the plan: %w", err)
	}
	planned = Planned{File: file, IsEmpty: result.Exit == planIsEmpty, HasConditions: true}
	if found, ok := readPlanFile(file); ok {
		planned.State, planned.HasState = found.state, true
		planned.Refreshed, planned.HasConditions = found.refreshed, found.hasConditions
		return planned, nil
	}
	planned.State, planned.HasState, err = c.PullState(ctx, r)
	return planned, err
}

func planArguments(r Run, file string, isDestroy bool) []string {
	arguments := []string{"plan", "-json", "-input=false", "-lock=false", "-refresh=true", "-detailed-exitcode", "-out=" + file}
	if r.Engine.Parallelism > 0 {
		arguments = append(arguments, fmt.Sprintf("-parallelism=%d", r.Engine.Parallelism))
	}
	if isDestroy {
		arguments = append(arguments, "-destroy")
	}
	for _, name := range r.Module.VariableFiles {
		arguments = append(arguments, "-var-file="+filepath.Join(r.Content.Path, "files", filepath.FromSlash(name)))
	}
	for _, name := range slices.Sorted(maps.Keys(r.Module.Variables)) {
		arguments = append(arguments, "-var", name+"="+r.Module.Variables[name])
	}
	return arguments
}

func planFailed(r Run, result subprocess.Result) error {
	found := tfplan.Errors(tfplan.Events(slices.Concat(result.Stdout.Head, result.Stdout.Tail)))
	if len(found) == 0 {
		return serve.Errorf(serve.Unavailable, "%s plan failed: %s", filepath.Base(r.Engine.Binary), result)
	}
	if lock, isLocked := tfplan.LockOf(found); isLocked {
		return serve.Errorf(serve.Conflict, "%s", lock)
	}
	return serve.Errorf(serve.Unavailable, "%s plan failed: %s", filepath.Base(r.Engine.Binary), secret.Redact(tfplan.Words(found)))
}

// Show reads a saved plan.
func (c *Commands) Show(ctx context.Context, r Run, file string) (*tfplan.Plan, error) {
	result, err := c.run(ctx, r, subprocess.Kept{Head: mostShown}, "show", "-json", file)
	if err != nil {
		return nil, err
	}
	text, isWhole := result.Stdout.Bytes()
	defer clear(text) // It holds secrets.
	if result.Exit != 0 || !isWhole {
		return nil, serve.Errorf(serve.Unavailable, "the plan of %d bytes cannot be shown: %s", result.Stdout.Written, plain(result.Stderr.Text()))
	}
	plan, err := tfplan.Parse(text)
	if err == nil && plan.Errored {
		err = errors.New("the plan is of a run that failed")
	}
	return plan, err
}
