// Package enginelist reads the operator's list of engines: which Terraform or OpenTofu, by path
// and version, may plan and apply which root modules of which partitions, with what credentials
// and from where its providers come. It runs nothing. The plugin lehr-terraform calls it.
package enginelist

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	intentpb "lehr.dev/gen/lehr/intent/v1"
	"lehr.dev/sdk/allowlist"
	"lehr.dev/sdk/secret"
	"lehr.dev/sdk/serve"
)

// Default is the engine of modules that name none.
const Default = "default"

// Page documents the list.
const Page = "docs/use/terraform.md"

// Kind of the operator's list.
var Kind = allowlist.Kind{Noun: "engine", Key: "terraform-engines", Entries: "engines", Flag: "engines", Page: Page}

const (
	defaultApplyLimit = time.Hour
	mostApplyLimit    = 24 * time.Hour
	mostParallelism   = 256
)

// Engine is an entry of the list.
type Engine struct {
	allowlist.Entry `yaml:",inline"`
	// Binary is Terraform's or OpenTofu's absolute path, Version what it must be.
	Binary  string `yaml:"binary"`
	Version string `yaml:"version"`
	// Roots are patterns of the folders of root modules that it may run, as path.Match reads
	// them, where /** at the end is all below; none: all.
	Roots []string `yaml:"roots"`
	// Mirror is a folder, or a URL that begins with https://, from which providers come and
	// from nowhere else. CLIConfig is a configuration file of the operator's own in place of
	// that. Neither: providers come from their registries.
	Mirror    string `yaml:"mirror"`
	CLIConfig string `yaml:"cli_config"`
	// PluginCache is a folder in which providers are kept for all modules.
	PluginCache string `yaml:"plugin_cache"`
	// Env are variables of all its runs, beside PATH, HOME and TMPDIR; Secrets those whose
	// values are secrets, by where each is.
	Env     map[string]string `yaml:"env"`
	Secrets map[string]Place  `yaml:"secrets"`
	// ApplyLimit is how long one apply may last until it is interrupted; 1 h.
	ApplyLimit Duration `yaml:"apply_limit"`
	// LockedBackends says that the backends of all its modules lock their states: without
	// that, two applies of one state are kept apart by Lehr alone.
	LockedBackends bool `yaml:"locked_backends"`
	// Parallelism is how many resources Terraform walks at a time; its own, 10.
	Parallelism int `yaml:"parallelism"`
}

// Place is where a secret is: one of the operator's list of secrets.
type Place struct {
	Env     string `yaml:"env"`
	File    string `yaml:"file"`
	Command string `yaml:"command"`
}

// Duration is a time as people write it, such as 90m.
type Duration struct{ time.Duration }

// UnmarshalText implements encoding.TextUnmarshaler.
func (d *Duration) UnmarshalText(text []byte) (err error) {
	if d.Duration, err = time.ParseDuration(string(text)); err != nil {
		return fmt.Errorf("%q is no time: write for example 90m", text)
	}
	return nil
}

var (
	variableName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)
	version      = regexp.MustCompile(`^[0-9]+\.[0-9]+\.[0-9]+(-[0-9A-Za-z.-]+)?$`)
)

// own are the variables that the plugin sets by itself.
var own = []string{
	"TF_DATA_DIR", "TF_WORKSPACE", "TF_CLI_CONFIG_FILE", "TF_PLUGIN_CACHE_DIR", "TF_INPUT", "TF_IN_AUTOMATION", "CHECKPOINT_DISABLE",
	"TF_CLI_ARGS", "TF_LOG", "TF_LOG_PATH", "TF_TEMP_LOG_PATH", "PATH", "HOME", "TMPDIR",
}

// Check says what is wrong with an entry.
func (e Engine) Check() error {
	switch {
	case !filepath.IsAbs(e.Binary):
		return fmt.Errorf("binary is %q: write the absolute path of terraform or tofu", e.Binary)
	case !version.MatchString(e.Version):
		return fmt.Errorf("version is %q: write the one that %s version shows, such as 1.11.4", e.Version, filepath.Base(e.Binary))
	case e.Mirror != "" && e.CLIConfig != "":
		return errors.New("mirror and cli_config both say where providers come from: keep one")
	case e.Mirror != "" && !filepath.IsAbs(e.Mirror) && !strings.HasPrefix(e.Mirror, "https://"):
		return fmt.Errorf("mirror is %q: write the absolute path of a folder, or https://HOST/PATH/", e.Mirror)
	case e.CLIConfig != "" && !filepath.IsAbs(e.CLIConfig):
		return fmt.Errorf("cli_config is %q: write its absolute path", e.CLIConfig)
	case e.PluginCache != "" && !filepath.IsAbs(e.PluginCache):
		return fmt.Errorf("plugin_cache is %q: write its absolute path", e.PluginCache)
	case e.ApplyLimit.Duration < 0 || e.ApplyLimit.Duration > mostApplyLimit:
		return fmt.Errorf("apply_limit is %s: write at most 24h", e.ApplyLimit)
	case e.Parallelism < 0 || e.Parallelism > mostParallelism:
		return fmt.Errorf("parallelism is %d: write at most %d", e.Parallelism, mostParallelism)
	}
	for _, pattern := range e.Roots {
		if _, err := path.Match(pattern, "x"); err != nil || pattern == "" || path.IsAbs(pattern) {
			return fmt.Errorf("roots has %q, which is no pattern of folders: write for example infra/* or infra/**", pattern)
		}
	}
	return e.checkVariables()
}

func (e Engine) checkVariables() error {
	for _, name := range slices.Sorted(maps.Keys(e.Env)) {
		if err := checkVariable("env", name); err != nil {
			return err
		}
		if _, isSecret := e.Secrets[name]; isSecret {
			return fmt.Errorf("%s is in env and in secrets: keep one", name)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(e.Secrets)) {
		if err := checkVariable("secrets", name); err != nil {
			return err
		}
		if _, err := e.Secrets[name].Ref(); err != nil {
			return fmt.Errorf("secrets: %s: %w", name, err)
		}
	}
	return nil
}

func checkVariable(where, name string) error {
	switch {
	case !variableName.MatchString(name):
		return fmt.Errorf("%s has %q, which is no name of a variable", where, name)
	case slices.Contains(own, name), strings.HasPrefix(name, "TF_CLI_ARGS"), strings.HasPrefix(name, "TF_REATTACH"):
		return fmt.Errorf("%s has %s, which is not for a list to set", where, name)
	}
	return nil
}

// Ref is the reference to a secret.
func (p Place) Ref() (*intentpb.SecretRef, error) {
	var refs []*intentpb.SecretRef
	if p.Env != "" {
		refs = append(refs, &intentpb.SecretRef{Source: &intentpb.SecretRef_Env{Env: p.Env}})
	}
	if p.File != "" {
		refs = append(refs, &intentpb.SecretRef{Source: &intentpb.SecretRef_File{File: p.File}})
	}
	if p.Command != "" {
		refs = append(refs, &intentpb.SecretRef{Source: &intentpb.SecretRef_Command{Command: p.Command}})
	}
	if len(refs) != 1 {
		return nil, errors.New("write one of env: VARIABLE, file: PATH and command: NAME")
	}
	if p.File != "" && !filepath.IsAbs(p.File) {
		return nil, fmt.Errorf("file is %q: write its absolute path", p.File)
	}
	return refs[0], nil
}

// CheckApplyLimit refuses what a module may not say of one apply.
func CheckApplyLimit(limit time.Duration) error {
	if limit <= 0 || limit > mostApplyLimit {
		return fmt.Errorf("apply_limit is %s: write more than 0, and at most 24h", limit)
	}
	return nil
}

// Limit of one apply of a module that says none itself.
func (e Engine) Limit() time.Duration {
	if e.ApplyLimit.Duration == 0 {
		return defaultApplyLimit
	}
	return e.ApplyLimit.Duration
}

// Runs reports whether it may run a root module.
func (e Engine) Runs(root string) bool {
	root = path.Clean(root)
	for _, pattern := range e.Roots {
		if folder, isAll := strings.CutSuffix(pattern, "/**"); isAll {
			if root == folder || strings.HasPrefix(root, folder+"/") {
				return true
			}
			continue
		}
		if ok, err := path.Match(pattern, root); ok && err == nil {
			return true
		}
	}
	return len(e.Roots) == 0
}

// Find returns the engine that a partition may run a root module with.
func Find(list *allowlist.List[Engine], partition serve.PartitionID, name, root string) (Engine, error) {
	if name == "" {
		name = Default
	}
	engine, err := list.Permits(partition, name)
	if err != nil {
		return Engine{}, err
	}
	if !engine.Runs(root) {
		return Engine{}, serve.Errorf(serve.Denied, "not listed: the engine %s may not run the root module %q", name, root).
			WithHint("whoever operates the plugin adds its folder to roots of that engine, in the file that --%s names; see %s", Kind.Flag, Page)
	}
	return engine, nil
}

// Secrets reads what references name: a resolver.Resolver in the plugin.
type Secrets interface {
	Resolve(ctx context.Context, request secret.Request, ref *intentpb.SecretRef) (secret.Value, error)
}

// Variables are those of its runs, secrets among them, which are nobody else's to see.
func (e Engine) Variables(ctx context.Context, secrets Secrets, request secret.Request) (map[string]string, error) {
	all := maps.Clone(e.Env)
	if all == nil {
		all = map[string]string{}
	}
	for _, name := range slices.Sorted(maps.Keys(e.Secrets)) {
		ref, err := e.Secrets[name].Ref()
		if err != nil {
			return nil, err
		}
		value, err := secrets.Resolve(ctx, request, ref)
		if err != nil {
			return nil, fmt.Errorf("the variable %s of the engine %s: %w", name, e.Name, err)
		}
		all[name] = strings.TrimRight(string(value.Reveal()), " \t\r\n")
		value.Wipe()
	}
	return all, nil
}
