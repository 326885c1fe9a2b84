package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"time"

	"lehr.dev/internal/ground/intent"
)

// measureTerraform creates resources that cost nothing with Terraform (or
// OpenTofu), and does the same with Lehr: ratios of one run. Terraform's are
// instances of one resource block, the form that is the easiest for it.
func measureTerraform(ctx context.Context, plugin string, sizes []int) error {
	t, err := newTerraform(ctx)
	if t == nil {
		return err
	}
	defer os.RemoveAll(t.folder)
	for _, size := range sizes {
		name := func(what string) string { return fmt.Sprintf("%s_%d", what, size) }
		duration, spent, err := measureCreation(ctx, plugin, size)
		if err != nil {
			return err
		}
		machine.figure(name("lehr_create"), duration.Seconds(), "s", size, pushing...)
		if err := errors.Join(t.want(size), t.forget()); err != nil {
			return err
		}
		before := computed()
		theirs, err := t.run(ctx, "apply", "-auto-approve")
		if err != nil {
			return err
		}
		theirsSpent := computed() - before
		machine.figure(name("terraform_create"), theirs.Seconds(), "s", size, byComputing)
		print(name("terraform_create_ratio"), theirs.Seconds()/duration.Seconds(), "x")
		print(name("terraform_create_computing_ratio"), float64(theirsSpent)/float64(spent), "x")
	}
	return nil
}

// measurePlan plans what is there already, with both. That much of it is created
// by Terraform, the rest is written into its state in the same form.
func measurePlan(ctx context.Context, plugin string, there, size int) error {
	t, err := newTerraform(ctx)
	if t == nil {
		return err
	}
	defer os.RemoveAll(t.folder)
	if err := t.want(there); err != nil {
		return err
	}
	if _, err := t.run(ctx, "apply", "-auto-approve"); err != nil {
		return err
	}
	if err := errors.Join(t.want(size), t.multiply(there, size)); err != nil {
		return err
	}
	rate, each, err := measureNoops(ctx, plugin, size)
	if err != nil {
		return err
	}
	took := float64(size) / rate
	machine.figure(fmt.Sprintf("lehr_noop_%d", size), took, "s", size, byRoundTrips, byComputing)
	before := computed()
	theirs, err := t.run(ctx, "plan", "-detailed-exitcode") // It fails when anything differs.
	if err != nil {
		return err
	}
	spent := computed() - before
	machine.figure(fmt.Sprintf("terraform_noop_%d", size), theirs.Seconds(), "s", size, byComputing)
	print(fmt.Sprintf("terraform_noop_%d_ratio", size), theirs.Seconds()/took, "x")
	print(fmt.Sprintf("terraform_noop_%d_computing_ratio", size), float64(spent.Microseconds())/(each*float64(size)), "x")
	return nil
}

// measureNoops returns how many assets a second are found to be as they should be,
// and what was computed for each, in microseconds.
func measureNoops(ctx context.Context, plugin string, size int) (rate, each float64, err error) {
	b, err := newBed(ctx, plugin+" -adopt", size, `"off"`)
	if err != nil {
		return 0, 0, err
	}
	defer b.close()
	if err := b.until(ctx, seldom, func() bool { return b.reported(ctx, intent.StateOff) >= size }); err != nil {
		return 0, 0, err
	}
	return b.noops(ctx)
}

// newTerraform has an empty module; nil: there is no such program, or an error.
func newTerraform(ctx context.Context) (*terraform, error) {
	program, err := exec.LookPath("terraform")
	if err != nil {
		program, err = exec.LookPath("tofu")
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench: neither terraform nor tofu is on the PATH: not compared with them")
		return nil, nil
	}
	folder, err := os.MkdirTemp("", "lehr-bench-")
	if err != nil {
		return nil, err
	}
	t := &terraform{program, folder}
	if err = t.want(1); err == nil {
		_, err = t.run(ctx, "init")
	}
	if err != nil {
		os.RemoveAll(folder)
		return nil, err
	}
	return t, nil
}

// terraform is a module in a folder.
type terraform struct{ program, folder string }

func (t terraform) run(ctx context.Context, arguments ...string) (time.Duration, error) {
	// What is no flag comes last.
	command := exec.CommandContext(ctx, t.program, append([]string{arguments[0], "-no-color"}, arguments[1:]...)...)
	command.Dir, command.Env = t.folder, append(os.Environ(), "CHECKPOINT_DISABLE=1", "TF_IN_AUTOMATION=1")
	start := time.Now()
	said, err := command.CombinedOutput()
	if err != nil {
		return 0, fmt.Errorf("%s %v: %w\n%s", t.program, arguments, err, said[max(0, len(said)-2000):])
	}
	return time.Since(start), nil
}

// want says in the module how many there are to be.
func (t terraform) want(size int) error {
	module := fmt.Sprintf(`resource "terraform_data" "job" {
  count = %d
  input = {
    name    = "job-${count.index}", replicas = 3, binary = "/opt/job", version = "v1"
    args    = ["--port={port}", "--flag=value", "--cluster=job"]
    env     = { MODE = "production", REGION = "europe-west" }
  }
}
`, size)
	return os.WriteFile(filepath.Join(t.folder, "main.tf"), []byte(module), 0o644)
}

// forget makes the module one of which nothing exists.
func (t terraform) forget() error {
	err := os.Remove(t.state())
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	return err
}

func (t terraform) state() string { return filepath.Join(t.folder, "terraform.tfstate") }

// multiply copies what the state has until there are so many.
func (t terraform) multiply(there, size int) error {
	content, err := os.ReadFile(t.state())
	if err != nil {
		return err
	}
	var state map[string]any
	if err := json.Unmarshal(content, &state); err != nil {
		return err
	}
	resource := state["resources"].([]any)[0].(map[string]any)
	made := resource["instances"].([]any)
	for i := there; i < size; i++ {
		var instance map[string]any
		text, err := json.Marshal(made[i%there])
		if err == nil {
			err = json.Unmarshal(text, &instance)
		}
		if err != nil {
			return err
		}
		instance["index_key"] = i
		attributes := instance["attributes"].(map[string]any)
		attributes["id"] = fmt.Sprintf("00000000-0000-4000-8000-%012d", i)
		for _, of := range []string{"input", "output"} {
			attributes[of].(map[string]any)["value"].(map[string]any)["name"] = fmt.Sprintf("job-%d", i)
		}
		made = append(made, instance)
	}
	resource["instances"] = slices.Clip(made)
	if content, err = json.Marshal(state); err != nil {
		return err
	}
	return os.WriteFile(t.state(), content, 0o644)
}
