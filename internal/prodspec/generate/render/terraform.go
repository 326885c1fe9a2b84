package render

import (
	"cmp"
	"crypto/sha256"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"google.golang.org/protobuf/types/known/durationpb"

	terraformpb "lehr.dev/gen/lehr/terraform/v1"
	"lehr.dev/sdk/generator"
)

// inlineBytes of a module's files are in the asset, the smallest of them first;
// what is more is spilled.
const inlineBytes = 100_000

// terraform renders a folder with a Terraform module as one asset.
func terraform(input *generator.Input, output *generator.Output) error {
	options, err := input.Options("id", "module", "variables", "variable_files", "workspace", "backend", "engine", "apply_limit")
	if err != nil {
		return err
	}
	if input.File() != "" {
		return errors.New("a module is all of its files: leave for_each out")
	}
	m := &module{input: input, output: output, files: map[string][]byte{}}
	id, err := options.One("id", "terraform/"+input.Generator())
	if err != nil {
		return err
	}
	if err := m.read(); err != nil || m.failed {
		return err
	}
	root, err := options.One("module", "")
	if err != nil {
		return err
	}
	if root, err = m.root(root); err != nil {
		return err
	}
	result := &terraformpb.Module{Root: root, VariableFiles: options["variable_files"]}
	if result.Workspace, err = options.One("workspace", ""); err != nil {
		return err
	}
	if result.Engine, err = options.One("engine", ""); err != nil {
		return err
	}
	if result.ApplyLimit, err = limit(options); err != nil {
		return err
	}
	for _, name := range result.VariableFiles {
		if m.files[name] == nil {
			return fmt.Errorf("with: variable_files names %q, which no source in from lists", name)
		}
	}
	if result.Variables, err = pairs("variables", options["variables"]); err != nil {
		return err
	}
	if result.Backend, err = settings(options["backend"]); err != nil {
		return err
	}
	m.judge()
	if m.failed {
		return nil
	}
	m.give(id, result)
	return nil
}

type module struct {
	input  *generator.Input
	output *generator.Output
	files  map[string][]byte
	names  []string
	failed bool
}

func (m *module) fail(file string, line int, hint, format string, arguments ...any) {
	m.failed = true
	m.output.At(file, line).Error(hint, format, arguments...)
}

// read all files, but what must never be in intent.
func (m *module) read() error {
	names, err := m.input.Files()
	if err != nil {
		return err
	}
	for _, name := range names {
		switch {
		case slices.Contains(strings.Split(name, "/"), ".terraform"):
			m.fail(name, 1, "let the source list what people write: *.tf, *.tfvars, templates, .terraform.lock.hcl", "%s is Terraform's own working copy", name)
			continue
		case isState(name):
			m.fail(name, 1, "keep state in a backend, and out of the source: it holds secrets", "%s is a state", name)
			continue
		}
		content, err := m.input.Read(name)
		if err != nil {
			return err
		}
		m.files[name], m.names = content, append(m.names, name)
	}
	return nil
}

func isState(name string) bool {
	base := path.Base(name)
	return strings.HasSuffix(base, ".tfstate") || strings.Contains(base, ".tfstate.") || strings.Contains("/"+name, "/terraform.tfstate.d/")
}

func isModuleFile(name string) bool {
	return strings.HasSuffix(name, ".tf") || strings.HasSuffix(name, ".tf.json")
}

// root is the folder of the root module: the one that is named, or the only one
// that no other is above.
func (m *module) root(named string) (string, error) {
	if named != "" {
		// Files of a folder with an absolute path are listed without the first slash.
		named = cmp.Or(strings.TrimPrefix(path.Clean(named), "/"), ".")
		for _, name := range m.names {
			if isModuleFile(name) && path.Dir(name) == named {
				return named, nil
			}
		}
		return "", fmt.Errorf("with: {module: %s} names a folder without .tf files; there are some in: %s", named, strings.Join(m.folders(), ", "))
	}
	folders := m.folders()
	if len(folders) == 0 {
		return "", errors.New("no source in from lists a .tf file")
	}
	depth := func(folder string) int {
		if folder == "." {
			return 0
		}
		return 1 + strings.Count(folder, "/")
	}
	slices.SortStableFunc(folders, func(a, b string) int { return cmp.Compare(depth(a), depth(b)) })
	if len(folders) > 1 && depth(folders[0]) == depth(folders[1]) {
		return "", fmt.Errorf("there are several modules, in %s: write with: {module: FOLDER}", strings.Join(folders, ", "))
	}
	return folders[0], nil
}

// folders that have .tf files.
func (m *module) folders() (folders []string) {
	for _, name := range m.names {
		if folder := path.Dir(name); isModuleFile(name) && !slices.Contains(folders, folder) {
			folders = append(folders, folder)
		}
	}
	slices.Sort(folders)
	return folders
}

// judge that modules which lie beside are among the files.
func (m *module) judge() {
	folders := m.folders()
	for _, name := range m.names {
		if !isModuleFile(name) {
			continue
		}
		calls, err := moduleCalls(name, m.files[name])
		if err != nil {
			m.fail(name, err.line, "mend the file: terraform validate says more", "%s cannot be read: %s", name, err.message)
			continue
		}
		for _, call := range calls {
			if !strings.HasPrefix(call.source, "./") && !strings.HasPrefix(call.source, "../") {
				continue
			}
			if at := path.Join(path.Dir(name), call.source); !slices.Contains(folders, at) {
				m.fail(name, call.line, "let a source in from list its files, too", "the module %q lies in %s, of which no source in from lists a .tf file", call.name, at)
			}
		}
	}
}

// give the asset, with what is too large spilled.
func (m *module) give(id string, result *terraformpb.Module) {
	bySize := slices.Clone(m.names)
	slices.SortStableFunc(bySize, func(a, b string) int { return cmp.Compare(len(m.files[a]), len(m.files[b])) })
	inline, total := map[string]bool{}, 0
	for _, name := range bySize {
		if total += len(m.files[name]); total > inlineBytes {
			break
		}
		inline[name] = true
	}
	for _, name := range m.names {
		content := m.files[name]
		sum := sha256.Sum256(content)
		file := &terraformpb.File{Path: name, Sha256: sum[:]}
		switch {
		case !inline[name]:
			file.Content = &terraformpb.File_External{External: m.output.Blob(content)}
		case utf8.Valid(content):
			file.Content = &terraformpb.File_Text{Text: string(content)}
		default:
			file.Content = &terraformpb.File_Inline{Inline: content}
		}
		result.Files = append(result.Files, file)
	}
	first := m.names[0]
	for _, name := range m.names {
		if isModuleFile(name) && path.Dir(name) == result.Root {
			first = name
			break
		}
	}
	m.output.At(first, 1).Asset(id, result)
}

// mostApplyLimit is the longest that a module may say.
const mostApplyLimit = 24 * time.Hour

// limit of an apply, as the module says it; nil: it does not.
func limit(options generator.Options) (*durationpb.Duration, error) {
	text, err := options.One("apply_limit", "")
	if err != nil || text == "" {
		return nil, err
	}
	duration, err := time.ParseDuration(text)
	if err != nil || duration <= 0 || duration > mostApplyLimit {
		return nil, fmt.Errorf("with: {apply_limit: %s}: write a duration of at most 24h, such as 3h", text)
	}
	return durationpb.New(duration), nil
}

// pairs of the form NAME=VALUE.
func pairs(key string, texts []string) (map[string]string, error) {
	values := map[string]string{}
	for _, text := range texts {
		name, value, ok := strings.Cut(text, "=")
		if _, duplicate := values[name]; !ok || name == "" || duplicate {
			return nil, fmt.Errorf("with: %s has %q: write each as NAME=VALUE, once", key, text)
		}
		values[name] = value
	}
	return values, nil
}

// settings of the backend: KEY=VALUE, or KEY=env:VARIABLE or KEY=file:/path where
// it is a secret.
func settings(texts []string) (map[string]*terraformpb.Setting, error) {
	values, err := pairs("backend", texts)
	if err != nil {
		return nil, err
	}
	result := map[string]*terraformpb.Setting{}
	for name, value := range values {
		kind, location, _ := strings.Cut(value, ":")
		switch {
		case kind == "env" && location != "":
			result[name] = &terraformpb.Setting{Source: &terraformpb.Setting_Env{Env: location}}
		case kind == "file" && location != "":
			result[name] = &terraformpb.Setting{Source: &terraformpb.Setting_File{File: location}}
		case isSecret(name):
			// What was written is not said again.
			return nil, fmt.Errorf("with: backend has a value for %s, which is a secret: write %s=env:VARIABLE or %s=file:/path", name, name, name)
		default:
			result[name] = &terraformpb.Setting{Source: &terraformpb.Setting_Value{Value: value}}
		}
	}
	return result, nil
}

// isSecret reports whether a backend's setting of this name holds one.
func isSecret(name string) bool {
	for _, word := range []string{"secret", "password", "token", "access_key", "sas", "credentials", "conn_str", "private"} {
		if strings.Contains(strings.ToLower(name), word) {
			return true
		}
	}
	return false
}
