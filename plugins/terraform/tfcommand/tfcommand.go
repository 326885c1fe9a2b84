// Package tfcommand runs Terraform and OpenTofu in a module's folder: version, init, plan, show
// and state pull. None of these changes anything but that folder, takes the state's lock or
// outlives the plugin. What applies is package applykeeper. Package modules calls it.
package tfcommand

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/mod/semver"

	terraformpb "lehr.dev/gen/lehr/terraform/v1"
	"lehr.dev/plugins/terraform/enginelist"
	"lehr.dev/plugins/terraform/tfplan"
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

// initMutex is held while a folder is initialised.
func (c *Commands) initMutex(path string) *sync.Mutex {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	if c.inits[path] == nil {
		c.inits[path] = &sync.Mutex{}
	}
	return c.inits[path]
}

// Init fetches providers and modules and connects the backend, unless that was done with the
// same settings. At most one runs at a time for each plugin cache, which is not made for more.
func (c *Commands) Init(ctx context.Context, r Run) error {
	mutex := c.initMutex(r.Content.Path)
	mutex.Lock()
	defer mutex.Unlock()
	marker, stamp := filepath.Join(r.Content.Path, "initialised"), r.stamp()
	if done, err := os.ReadFile(marker); err == nil && string(done) == stamp {
		return nil
	} else if err != nil {
		r.forgetInit()
	}
	// What is half done is no longer taken for done, also after a power loss.
	if err := os.Remove(marker); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("preparing the module: %w", err)
	}
	if err := r.writeConfig(); err != nil {
		return fmt.Errorf("preparing the module: %w", err)
	}
	settings, err := r.Content.WriteSettings(r.Backend)
	if err != nil {
		return fmt.Errorf("preparing the module: %w", err)
	}
	if r.Engine.PluginCache != "" {
		if err := os.MkdirAll(r.Engine.PluginCache, 0o700); err != nil {
			return fmt.Errorf("preparing the plugin cache: %w", err)
		}
		lock, err := keeper.Lock(ctx, filepath.Join(r.Engine.PluginCache, ".lehr-lock"))
		if err != nil {
			return fmt.Errorf("waiting for the plugin cache: %w", err)
		}
		defer lock.Close()
	}
	arguments := []string{"init", "-no-color", "-input=false", "-reconfigure", "-backend-config=" + settings}
	if r.Content.HasLockFile {
		arguments = append(arguments, "-lockfile=readonly")
	}
	result, err := c.run(ctx, r.inDefaultWorkspace(), subprocess.Kept{}, arguments...)
	if err != nil {
		return err
	}
	if result.Exit != 0 {
		return serve.Errorf(serve.Unavailable, "%s init failed: %s", filepath.Base(r.Engine.Binary), plain(result.Stderr.Text()))
	}
	if err := r.Content.Sync(); err != nil {
		return fmt.Errorf("preparing the module: %w", err)
	}
	return os.WriteFile(marker, []byte(stamp), 0o600)
}

// forgetInit removes what an init that was cut short left: parts of it Terraform could not read.
func (r Run) forgetInit() {
	_ = os.RemoveAll(r.Content.DataDir())
	if !r.Content.HasLockFile {
		_ = os.Remove(filepath.Join(r.Content.Root, ".terraform.lock.hcl"))
	}
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

// stamp tells settings apart with which a folder was initialised.
func (r Run) stamp() string {
	text := r.Engine.Binary + " " + r.Engine.Version + " " + r.Engine.Mirror + " " + r.Engine.CLIConfig
	for _, name := range slices.Sorted(maps.Keys(r.Backend)) {
		text += fmt.Sprintf(" %s=%x", name, digestOf(r.Backend[name]))
	}
	return text
}

// State names the state's version: the lineage is of one state for ever, the serial grows with
// each change. ok is false where there is none yet.
type State struct {
	Lineage string `json:"lineage"`
	Serial  uint64 `json:"serial"`
	// Size is in bytes.
	Size int `json:"-"`
	// Digest is of all of it, as SHA-256 in hex; empty: there is none yet.
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
	state.Digest, state.Size = DigestOf(text), len(text)
	return state, state.Lineage != "", nil
}

// CheckWriter refuses a state in a file of the backend local that a newer version wrote than the
// engine's: that may lose what it does not know. Of a state in another backend Terraform tells
// no version, and refuses itself what it cannot read. A file that is not there is no error.
func CheckWriter(path string, engine enginelist.Engine) error {
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	defer clear(text) // It holds secrets.
	var state struct {
		Writer string `json:"terraform_version"`
	}
	if err != nil || json.Unmarshal(text, &state) != nil || semver.Compare("v"+state.Writer, "v"+engine.Version) <= 0 {
		return nil // What cannot be read Terraform tells better.
	}
	return serve.Errorf(serve.Invalid, "the state was written by version %s, and the engine %s is of version %s, which is older", state.Writer, engine.Name, engine.Version).
		WithHint("name an engine of version %s or newer by with: {engine: NAME}; whoever operates the plugin lists it", state.Writer)
}

// DigestOf a state, as "state pull" prints it.
func DigestOf(text []byte) string {
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:])
}

// Plan plans without the state's lock, and returns the plan with the file that holds it, which
// the caller removes.
func (c *Commands) Plan(ctx context.Context, r Run, isDestroy bool) (plan *tfplan.Plan, file string, err error) {
	folder := filepath.Join(r.Content.Path, plansName)
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return nil, "", fmt.Errorf("making a folder for plans: %w", err)
	}
	sweep(folder)
	file = filepath.Join(folder, fmt.Sprintf("%d-%d.tfplan", os.Getpid(), c.plans.Add(1)))
	defer func() {
		if err != nil {
			_ = os.Remove(file)
			file = ""
		}
	}()
	arguments := []string{"plan", "-json", "-input=false", "-lock=false", "-refresh=true", "-out=" + file}
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
	result, err := c.run(ctx, r, subprocess.Kept{Head: 4 << 20, Tail: 4 << 20}, arguments...)
	if err != nil {
		return nil, file, err
	}
	if result.Exit != 0 {
		return nil, file, planFailed(r, result)
	}
	if err := os.Chmod(file, 0o600); err != nil {
		return nil, file, fmt.Errorf("keeping the plan: %w", err)
	}
	plan, err = c.show(ctx, r, file)
	return plan, file, err
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

func (c *Commands) show(ctx context.Context, r Run, file string) (*tfplan.Plan, error) {
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
