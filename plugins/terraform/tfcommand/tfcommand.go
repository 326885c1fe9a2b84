// Package tfcommand runs Terraform and OpenTofu in a module's folder: version, init, plan, show
// and state pull. None of these changes anything but that folder, takes the state's lock or
// outlives the plugin. What applies is package applykeeper. Package modules calls it.
package tfcommand

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	terraformpb "lehr.dev/gen/lehr/terraform/v1"
	"lehr.dev/plugins/terraform/enginelist"
	"lehr.dev/plugins/terraform/workfolder"
	"lehr.dev/sdk/keeper"
	"lehr.dev/sdk/secret"
	"lehr.dev/sdk/serve"
	"lehr.dev/sdk/subprocess"
)

const (
	versionLimit = time.Minute
	// mostShown of a plan or a state is read.
	mostShown = 60 << 20
	// grace is from SIGTERM, at which Terraform ends by itself, to SIGKILL.
	grace = 5 * time.Second
)

// Commands runs engines. Its methods may be called from many goroutines.
type Commands struct {
	runner *subprocess.Runner

	mutex sync.Mutex
	// versions of binaries, by path and time of change.
	versions map[string]string
	// inits are held while a folder is initialised.
	inits map[string]*sync.Mutex
	plans atomic.Uint64
}

// New returns one whose programs hold the plugin's lock; nil: there is none.
func New(lock *os.File) *Commands {
	return &Commands{
		runner:   subprocess.New(subprocess.Options{Lock: lock, Redact: secret.Redact}),
		versions: map[string]string{}, inits: map[string]*sync.Mutex{},
	}
}

// Run is with what an engine runs in a folder.
type Run struct {
	Engine  enginelist.Engine
	Content workfolder.Content
	Module  *terraformpb.Module
	// Variables are the engine's, secrets among them.
	Variables map[string]string
	// Backend are the settings of the backend, secrets among them.
	Backend map[string]string
	// Limit of each program.
	Limit time.Duration
}

// keptVariables are those of the plugin that each program has.
var keptVariables = []string{"PATH", "HOME", "TMPDIR"}

// Environment of its programs.
func (r Run) Environment() map[string]string {
	set := maps.Clone(r.Variables)
	if set == nil {
		set = map[string]string{}
	}
	set["TF_DATA_DIR"], set["TF_INPUT"], set["TF_IN_AUTOMATION"], set["CHECKPOINT_DISABLE"] = r.Content.DataDir(), "0", "1", "1"
	set["TF_CLI_CONFIG_FILE"] = cmp.Or(r.Engine.CLIConfig, r.configPath())
	if r.Module.Workspace != "" {
		set["TF_WORKSPACE"] = r.Module.Workspace
	}
	return set
}

func (r Run) configPath() string { return filepath.Join(r.Content.Path, "cli.tfrc") }

// writeConfig writes Terraform's own configuration, unless the operator has one.
func (r Run) writeConfig() error {
	if r.Engine.CLIConfig != "" {
		return nil
	}
	text := "disable_checkpoint = true\n"
	if r.Engine.PluginCache != "" {
		text += "plugin_cache_dir = " + strconv.Quote(r.Engine.PluginCache) + "\n"
	}
	switch mirror := r.Engine.Mirror; {
	case strings.HasPrefix(mirror, "https://"):
		text += "provider_installation {\n  network_mirror {\n    url = " + strconv.Quote(mirror) + "\n  }\n}\n"
	case mirror != "":
		text += "provider_installation {\n  filesystem_mirror {\n    path = " + strconv.Quote(mirror) + "\n  }\n}\n"
	}
	return os.WriteFile(r.configPath(), []byte(text), 0o600)
}

func (c *Commands) run(ctx context.Context, r Run, kept subprocess.Kept, arguments ...string) (subprocess.Result, error) {
	result, err := c.runner.Run(ctx, subprocess.Command{
		Argv: append([]string{r.Engine.Binary}, arguments...), Directory: r.Content.Root, Keep: keptVariables, Set: r.Environment(),
		Limits: subprocess.Limits{Time: r.Limit, Grace: grace, Stdout: kept},
	})
	if err != nil {
		return result, fmt.Errorf("%s %s: %w", filepath.Base(r.Engine.Binary), arguments[0], err)
	}
	return result, nil
}

// CheckVersion refuses a binary that is of another version than the operator's list says.
func (c *Commands) CheckVersion(ctx context.Context, engine enginelist.Engine) error {
	info, err := os.Stat(engine.Binary)
	if err != nil {
		return serve.Errorf(serve.NotFound, "the engine %s: %w", engine.Name, err).WithHint("install it there, or correct binary in the list of engines")
	}
	key := fmt.Sprintf("%s %d %d", engine.Binary, info.ModTime().UnixNano(), info.Size())
	c.mutex.Lock()
	found := c.versions[key]
	c.mutex.Unlock()
	if found == "" {
		result, err := c.runner.Run(ctx, subprocess.Command{
			Argv: []string{engine.Binary, "version", "-json"}, Keep: keptVariables, Set: map[string]string{"CHECKPOINT_DISABLE": "1", "TF_CLI_CONFIG_FILE": os.DevNull},
			Limits: subprocess.Limits{Time: versionLimit},
		})
		if err != nil {
			return err
		}
		var told struct {
			Version string `json:"terraform_version"`
		}
		if text, _ := result.Stdout.Bytes(); result.Exit != 0 || json.Unmarshal(text, &told) != nil || told.Version == "" {
			return serve.Errorf(serve.Invalid, "the engine %s: %s version -json tells no version: %s", engine.Name, engine.Binary, result)
		}
		found = told.Version
		c.mutex.Lock()
		c.versions[key] = found
		c.mutex.Unlock()
	}
	if found != engine.Version {
		return serve.Errorf(serve.Invalid, "the engine %s: %s is of version %s, and the list of engines says %s", engine.Name, engine.Binary, found, engine.Version).
			WithHint("correct version once modules may be run by that one, or name another binary")
	}
	return nil
}

// inDefaultWorkspace is the same run there: a workspace that does not exist is made by most
// commands that are run in it.
func (r Run) inDefaultWorkspace() Run {
	r.Module = &terraformpb.Module{}
	return r
}

// CheckWorkspace refuses a workspace that does not exist: a look makes none.
func (c *Commands) CheckWorkspace(ctx context.Context, r Run) error {
	name := r.Module.Workspace
	if name == "" || name == "default" {
		return nil
	}
	result, err := c.run(ctx, r.inDefaultWorkspace(), subprocess.Kept{}, "workspace", "list")
	if err != nil {
		return err
	}
	if result.Exit != 0 {
		return serve.Errorf(serve.Unavailable, "the workspaces cannot be listed: %s", plain(result.Stderr.Text()))
	}
	text, _ := result.Stdout.Bytes()
	for line := range strings.Lines(string(text)) {
		if strings.TrimSpace(strings.TrimPrefix(strings.TrimSpace(line), "*")) == name {
			return nil
		}
	}
	return serve.Errorf(serve.NotFound, "there is no workspace %q", name).WithHint("make it in the module's folder: %s workspace new %s", filepath.Base(r.Engine.Binary), name)
}

// State names the state's version: the lineage is of one state for ever, the serial grows with
// each change. ok is false where there is none yet.
type State struct {
	Lineage string `json:"lineage"`
	Serial  uint64 `json:"serial"`
	// Size is in bytes.
	Size int `json:"-"`
	// Digest is of its version and content, as DigestOf has it; empty: there is none yet.
	Digest string `json:"-"`
}

// PullState reads which version the state has.
func (c *Commands) PullState(ctx context.Context, r Run) (state State, ok bool, err error) {
	result, err := c.run(ctx, r, subprocess.Kept{Head: mostShown}, "state", "pull")
	if err != nil {
		return state, false, err
	}
	text, isWhole := result.Stdout.Bytes()
	defer clear(text) // It holds secrets.
	switch {
	case result.Exit != 0:
		return state, false, serve.Errorf(serve.Unavailable, "the state cannot be read: %s", plain(result.Stderr.Text()))
	case !isWhole:
		return state, false, serve.Errorf(serve.Invalid, "the state has more than %d MiB", mostShown>>20)
	case strings.TrimSpace(string(text)) == "":
		return state, false, nil
	}
	if err := json.Unmarshal(text, &state); err != nil {
		return state, false, fmt.Errorf("reading the state: %w", err)
	}
	state.Size = len(text)
	state.Digest, err = digestOfState(state, text)
	return state, state.Lineage != "", err
}

// SweepPlans removes the plans of all modules below the plugin's folder that processes left
// which are no more: they hold secrets. A keeper at work has one of a process that is gone.
func SweepPlans(root string) {
	folders, _ := filepath.Glob(filepath.Join(workfolder.Modules(root), "*", "*", "*", plansName))
	for _, folder := range folders {
		asset := workfolder.Asset{Path: filepath.Dir(filepath.Dir(folder))}
		if isLive, err := keeper.IsLocked(asset.LockPath()); err == nil && !isLive {
			sweep(folder)
		}
	}
}

// plansName is the folder of saved plans in that of a content.
const plansName = "plans"

// sweep removes plans of processes that are no more: they hold secrets.
func sweep(folder string) {
	entries, err := os.ReadDir(folder)
	if err != nil {
		return
	}
	for _, entry := range entries {
		digits, _, _ := strings.Cut(entry.Name(), "-")
		pid, err := strconv.Atoi(digits)
		if err != nil {
			continue
		}
		if _, err := os.Stat(fmt.Sprintf("/proc/%d", pid)); err != nil {
			_ = os.Remove(filepath.Join(folder, entry.Name()))
		}
	}
}
