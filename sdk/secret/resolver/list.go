package resolver

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	intentpb "lehr.dev/gen/lehr/intent/v1"
	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/files"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/ground/operator"
)

// everyPlugin stands for all.
const everyPlugin = "*"

// list is the operator's file of which secrets may be named, by whom, and how they are
// read.
type list struct {
	Version string `yaml:"lehr-secrets"`
	// Key is the file with the key of all digests.
	Key        string      `yaml:"key"`
	Kubernetes kubernetes  `yaml:"kubernetes"`
	Secrets    []listEntry `yaml:"secrets"`

	// path of the file, and the content of Key.
	path string
	key  []byte
}

// kubernetes says which cluster Secrets are read from: by default the one in which the
// plugin runs, as its service account.
type kubernetes struct {
	Kubeconfig string `yaml:"kubeconfig"`
	Context    string `yaml:"context"`
}

// listEntry is what may be named. Exactly one of its places is set.
type listEntry struct {
	Env        string            `yaml:"env"`
	File       string            `yaml:"file"`
	Command    string            `yaml:"command"`
	Kubernetes *kubernetesSecret `yaml:"kubernetes"`
	// SOPS is the file with the identities of age that decrypt documents.
	SOPS string `yaml:"sops"`

	// Run is the command's program with all its arguments, Variables its environment
	// beside PATH and HOME.
	Run       []string          `yaml:"run"`
	Variables map[string]string `yaml:"variables"`

	Partitions operator.Partitions `yaml:"partitions"`
	// Plugins by their names, such as lehr-process, or "*".
	Plugins []string `yaml:"plugins"`

	line int
}

type kubernetesSecret struct {
	Namespace string `yaml:"namespace"`
	Name      string `yaml:"name"`
}

// UnmarshalYAML notes the line, for messages.
func (e *listEntry) UnmarshalYAML(node *yaml.Node) error {
	type plain listEntry
	e.line = node.Line
	return node.Decode((*plain)(e))
}

var listKind = operator.Kind{Name: "list of secrets", Key: "lehr-secrets", Flag: "secret-list", Page: "docs/operate/secrets.md"}

// readList reads the file and its key. One that is wrong in any place permits nothing.
func readList(path string) (*list, error) {
	info, err := os.Stat(path)
	if err == nil && info.Mode().Perm()&0o002 != 0 {
		return nil, fault.New(fault.Denied, "the list of secrets %s can be written by others, so it is not the operator's alone", path).WithHint("chmod o-w %s", path)
	}
	l := &list{path: path}
	if err := operator.Read(path, listKind, l); err != nil {
		return nil, err
	}
	for i := range l.Secrets {
		if err := l.Secrets[i].check(l); err != nil {
			return nil, fault.New(fault.Invalid, "%s:%d: %w", path, l.Secrets[i].line, err).WithHint("write it as %s shows", listKind.Page)
		}
	}
	if l.Kubernetes.Kubeconfig != "" && !isWhole(l.Kubernetes.Kubeconfig) {
		return nil, fault.New(fault.Invalid, "%s: kubernetes.kubeconfig: %q is no absolute path", path, l.Kubernetes.Kubeconfig).WithHint("write the whole path")
	}
	if l.Kubernetes.Context != "" && l.Kubernetes.Kubeconfig == "" {
		return nil, fault.New(fault.Invalid, "%s: kubernetes.context needs kubernetes.kubeconfig", path).WithHint("name the file that has the context")
	}
	l.key, err = readKey(l.Key, path)
	return l, err
}

var (
	variableForm = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)
	commandForm  = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]*$`)
)

// check says what is wrong with an entry.
func (e *listEntry) check(l *list) error {
	places := 0
	for _, isSet := range []bool{e.Env != "", e.File != "", e.Command != "", e.Kubernetes != nil, e.SOPS != ""} {
		if isSet {
			places++
		}
	}
	switch {
	case places != 1:
		return fmt.Errorf("a secret is in one place, and this names %d: env, file, command, kubernetes or sops", places)
	case e.Env != "" && !variableForm.MatchString(e.Env):
		return fmt.Errorf("env: %q is no name of a variable; patterns are not read", e.Env)
	case e.File != "" && !isWhole(e.File):
		return fmt.Errorf("file: %q is no absolute path without detours", e.File)
	case e.SOPS != "" && !isWhole(e.SOPS):
		return fmt.Errorf("sops: %q is no absolute path without detours; it is the file with the identities of age", e.SOPS)
	case e.Command != "" && !commandForm.MatchString(e.Command):
		return fmt.Errorf("command: %q is no name; it has letters, digits, dots, - and _, and run has the program", e.Command)
	case e.Command != "" && (len(e.Run) == 0 || !isWhole(e.Run[0])):
		return fmt.Errorf("command %q: run names the program by its absolute path, and all its arguments", e.Command)
	case e.Command == "" && (len(e.Run) > 0 || len(e.Variables) > 0):
		return fmt.Errorf("run and variables belong to a command: write command: NAME")
	case e.Kubernetes != nil && (e.Kubernetes.Namespace == "" || e.Kubernetes.Name == ""):
		return fmt.Errorf("kubernetes: a Secret has a namespace and a name")
	case e.File != "" && (e.File == l.Key || e.File == l.path):
		return fmt.Errorf("file: %q is the key or the list itself, which is nobody's secret to use", e.File)
	case len(e.Plugins) == 0 || slices.Contains(e.Plugins, ""):
		return fmt.Errorf(`no plugin may use it: write plugins: [NAME], such as lehr-process, or ["*"] for all`)
	}
	return e.Partitions.Check()
}

// isWhole reports whether a path is absolute and has no other form.
func isWhole(path string) bool { return filepath.IsAbs(path) && filepath.Clean(path) == path }

const (
	// shortestKey and fewestBytes, of which no two are equal, have what is random.
	shortestKey = 32
	fewestBytes = 12
)

// makeKey is what a person types to make one.
const makeKey = "(umask 077; head -c 32 /dev/urandom >FILE)"

// readKey reads the key of digests. No key, no references.
func readKey(path, listPath string) ([]byte, error) {
	if path == "" {
		return nil, fault.New(fault.Denied, "%s names no key, so no reference to a secret is read: digests without a key could be guessed", listPath).
			WithHint("make one, %s, and write key: FILE", makeKey)
	}
	if !isWhole(path) {
		return nil, fault.New(fault.Invalid, "%s: key: %q is no absolute path", listPath, path).WithHint("write the whole path")
	}
	key, err := readPrivate(path, files.OpenGiven)
	if err != nil {
		return nil, fault.New(kindOr(err, fault.Unavailable), "reading the key of %s: %w", listPath, err).WithHint("the plugin's user must be able to read it, and no other; make one: %s", makeKey)
	}
	different := map[byte]bool{}
	for _, b := range key {
		different[b] = true
	}
	if len(key) < shortestKey || len(different) < fewestBytes {
		return nil, fault.New(fault.Invalid, "the key %s is not random, or has fewer than %d bytes", path, shortestKey).WithHint("make one: %s", makeKey)
	}
	return key, nil
}

// permits reports whether the entry lets a partition and a plugin use it.
func (e *listEntry) permits(partition intent.PartitionID, plugin string) bool {
	return e.Partitions.Has(partition) && (slices.Contains(e.Plugins, everyPlugin) || slices.Contains(e.Plugins, plugin))
}

// names reports whether the entry is of what a reference names. Of a SOPS document it
// is any that has identities.
func (e *listEntry) names(ref *intentpb.SecretRef) bool {
	switch source := ref.GetSource().(type) {
	case *intentpb.SecretRef_Env:
		return e.Env != "" && e.Env == source.Env
	case *intentpb.SecretRef_File:
		// As it is written: a detour is another name, and not listed.
		return e.File != "" && e.File == source.File
	case *intentpb.SecretRef_Command:
		return e.Command != "" && e.Command == source.Command
	case *intentpb.SecretRef_Kubernetes:
		k := source.Kubernetes
		return e.Kubernetes != nil && e.Kubernetes.Namespace == k.GetNamespace() && e.Kubernetes.Name == k.GetName()
	case *intentpb.SecretRef_Sops:
		return e.SOPS != ""
	}
	return false
}

// entries returns those that let a partition and a plugin use what a reference names.
func (l *list) entries(partition intent.PartitionID, plugin string, ref *intentpb.SecretRef) (found []listEntry) {
	for _, e := range l.Secrets {
		if e.names(ref) && e.permits(partition, plugin) {
			found = append(found, e)
		}
	}
	return found
}

// stamp tells one state of the list's files from another.
func (l *list) stamp() string {
	var parts []string
	for _, path := range []string{l.path, l.Key} {
		parts = append(parts, stampOf(path))
	}
	return strings.Join(parts, "\n")
}

func stampOf(path string) string {
	info, err := os.Stat(path)
	if err != nil {
		return path + ": not there"
	}
	return fmt.Sprintf("%s: %d %d %v %s", path, info.Size(), info.ModTime().UnixNano(), info.Mode(), inode(info))
}
