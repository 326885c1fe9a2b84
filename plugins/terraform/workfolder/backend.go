package workfolder

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/hashicorp/hcl/v2/hclwrite"
	"github.com/zclconf/go-cty/cty"

	terraformpb "lehr.dev/gen/lehr/terraform/v1"
	"lehr.dev/sdk/generator/hclnesting"
)

// CheckBackend refuses a root module whose state would be lost with this folder, or that plans
// elsewhere: the error says which block, with file and line.
func (c Content) CheckBackend() error {
	entries, err := os.ReadDir(c.Root)
	if err != nil {
		return fmt.Errorf("reading the root module: %w", err)
	}
	hasBackend := false
	for _, entry := range entries {
		switch {
		case strings.HasSuffix(entry.Name(), ".tf.json"):
			hasOne, err := checkJSON(filepath.Join(c.Root, entry.Name()), entry.Name())
			if err != nil {
				return err
			}
			hasBackend = hasBackend || hasOne
		case strings.HasSuffix(entry.Name(), ".tf"):
			hasOne, err := checkHCL(filepath.Join(c.Root, entry.Name()), entry.Name())
			if err != nil {
				return err
			}
			hasBackend = hasBackend || hasOne
		}
	}
	if !hasBackend {
		return errors.New(`the root module has no backend, so its state would lie in a folder of this plugin and be lost with it: write terraform { backend "s3" {} }, or whichever keeps your states`)
	}
	return nil
}

func checkHCL(path, name string) (hasBackend bool, err error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return false, fmt.Errorf("reading the root module: %w", err)
	}
	if hclnesting.IsTooDeep(text) {
		return false, fmt.Errorf("reading the root module: %s is nested deeper than can be read", name)
	}
	file, diagnostics := hclsyntax.ParseConfig(text, name, hcl.InitialPos)
	if diagnostics.HasErrors() {
		return false, fmt.Errorf("reading the root module: %w", diagnostics)
	}
	for _, block := range file.Body.(*hclsyntax.Body).Blocks {
		if block.Type != "terraform" {
			continue
		}
		for _, inner := range block.Body.Blocks {
			switch {
			case inner.Type == "cloud", inner.Type == "backend" && len(inner.Labels) == 1 && inner.Labels[0] == "remote":
				return false, plansElsewhere(fmt.Sprintf("%s:%d", name, inner.DefRange().Start.Line), inner.Type)
			case inner.Type == "backend":
				hasBackend = true
			}
		}
	}
	return hasBackend, nil
}

func plansElsewhere(where, block string) error {
	return fmt.Errorf("%s: a block %s has plans and applies run elsewhere, which Lehr can neither admit nor stop: use a backend that only keeps the state", where, block)
}

func checkJSON(path, name string) (hasBackend bool, err error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return false, fmt.Errorf("reading the root module: %w", err)
	}
	var file struct {
		Terraform json.RawMessage `json:"terraform"`
	}
	if err := json.Unmarshal(text, &file); err != nil {
		return false, fmt.Errorf("reading the root module: %s: %w", name, err)
	}
	var blocks []map[string]json.RawMessage
	if len(file.Terraform) > 0 && file.Terraform[0] == '{' {
		blocks = make([]map[string]json.RawMessage, 1)
		err = json.Unmarshal(file.Terraform, &blocks[0])
	} else if len(file.Terraform) > 0 {
		err = json.Unmarshal(file.Terraform, &blocks)
	}
	if err != nil {
		return false, fmt.Errorf("reading the root module: %s: %w", name, err)
	}
	for _, block := range blocks {
		if _, ok := block["cloud"]; ok || strings.Contains(string(block["backend"]), `"remote"`) {
			return false, plansElsewhere(name, "cloud, or the backend remote,")
		}
		_, ok := block["backend"]
		hasBackend = hasBackend || ok
	}
	return hasBackend, nil
}

// WriteSettings writes the backend's settings into a file for -backend-config. They may hold
// secrets: it is the plugin's user's alone.
func (c Content) WriteSettings(values map[string]string) (path string, err error) {
	file := hclwrite.NewEmptyFile()
	for _, name := range slices.Sorted(maps.Keys(values)) {
		if !hclsyntax.ValidIdentifier(name) {
			return "", fmt.Errorf("backend has %q, which is no name of a setting", name)
		}
		file.Body().SetAttributeValue(name, cty.StringVal(values[name]))
	}
	path = filepath.Join(c.Path, "backend.hcl")
	return path, writeWhole(path, file.Bytes())
}

// Backend is where the state is, as Terraform has it after init.
type Backend struct {
	Type   string
	Config map[string]any
}

// ReadBackend reads it. None is the local one without settings.
func (c Content) ReadBackend() (Backend, error) {
	text, err := os.ReadFile(filepath.Join(c.DataDir(), "terraform.tfstate"))
	if err != nil {
		return Backend{}, fmt.Errorf("reading which backend init found: %w", err)
	}
	var file struct {
		Backend Backend `json:"backend"`
	}
	if err := json.Unmarshal(text, &file); err != nil {
		return Backend{}, fmt.Errorf("reading which backend init found: %w", err)
	}
	return file.Backend, nil
}

// LocalState is the file in which the backend local keeps the state; empty: it is another backend.
func (b Backend) LocalState(workspace string) string {
	path, _ := b.Config["path"].(string)
	folder, _ := b.Config["workspace_dir"].(string)
	switch {
	case b.Type != "local":
		return ""
	case workspace == "" || workspace == "default":
		return path
	}
	return filepath.Join(folder, workspace, "terraform.tfstate")
}

// places are the settings of backends by which one state is told from another.
var places = []string{
	"address", "bucket", "storage_account_name", "container_name", "resource_group_name", "endpoint", "endpoints", "region", "key", "prefix", "path", "workspace_dir",
	"schema_name", "secret_suffix", "namespace", "table_name", "hostname", "organization", "tablestore_table",
}

// Place names the state for all that may reach it, without its secrets. The error says that it
// would lie in the plugin's folder.
func (b Backend) Place(workspace string, module *terraformpb.Module) (string, error) {
	parts := []string{b.Type}
	for _, name := range places {
		value, ok := b.Config[name]
		if setting := module.Backend[name]; !ok || value == nil || setting.GetEnv() != "" || setting.GetFile() != "" {
			continue
		}
		parts = append(parts, fmt.Sprintf("%s=%v", name, value))
	}
	if b.Type == "local" {
		for _, name := range []string{"path", "workspace_dir"} {
			value, _ := b.Config[name].(string)
			isUsed := name == "path" && workspace == "" || name == "workspace_dir" && workspace != ""
			if isUsed && !filepath.IsAbs(value) {
				return "", fmt.Errorf("the backend local keeps the state at %q, in a folder of this plugin, where it would be lost: write an absolute %s, or use a backend that other machines reach", value, name)
			}
		}
	}
	if workspace != "" {
		parts = append(parts, "workspace="+workspace)
	}
	return strings.Join(parts, "/"), nil
}
