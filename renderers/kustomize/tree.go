package main

import (
	"bytes"
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"lehr.dev/sdk/generator/kubernetes"
)

// tree is the declared files, looked through for what is not among them before
// Kustomize asks for it, so that what is said names the line.
type tree struct {
	files    map[string][]byte
	findings []kubernetes.Finding
	seen     []string
	// checked are the files that were looked through for keys that are there twice.
	checked map[string]bool
	// traces: origins are asked for, and not by the user.
	traces bool
	// origins are the repositories that sources are, and edited the kustomizations
	// that named them, as Kustomize reads them.
	origins []kubernetes.Origin
	edited  map[string][]byte
	// variables are replaced after the build; leftOut are objects whose variables have no value.
	variables substitution
	leftOut   []kubernetes.Finding
	unset     []string
	lines     map[string]map[string]int
}

// Keys of a kustomization that name files or folders.
var (
	paths    = []string{"resources", "bases", "components", "crds", "configurations", "generators", "transformers", "validators", "patchesStrategicMerge"}
	pathsIn  = []string{"patches", "patchesJson6902", "replacements"}
	sources  = []string{"configMapGenerator", "secretGenerator"}
	inflated = []string{"helmCharts", "helmChartInflationGenerator", "helmGlobals"}
	remote   = regexp.MustCompile(`^[a-z+]+://|^git@|^git::|[?&]ref=|^(www\.)?(github|gitlab|bitbucket)\.(com|org)[/:]`)
)

// look looks through the kustomization of a folder and those that it names, and
// returns its file.
func (t *tree) look(folder string) string {
	found := kustomizationIn(t.files, folder)
	if len(found) != 1 {
		message, hint := fmt.Sprintf("the folder %s has no kustomization.yaml among the declared files", folder), "name the folder in with: {folder: PATH}, from the folder of lehr.yaml, and its files and those of its bases in the sources of from"
		if len(found) > 1 {
			message, hint = fmt.Sprintf("the folder %s has several kustomizations: %s", folder, strings.Join(found, ", ")), "keep one of them"
		}
		t.findings = append(t.findings, kubernetes.Finding{Message: message, Hint: hint})
		return ""
	}
	name := found[0]
	if slices.Contains(t.seen, name) {
		return name
	}
	t.seen = append(t.seen, name)
	if t.check(name); t.wrongIn(name) {
		return name
	}
	var document yaml.Node
	if err := yaml.Unmarshal(t.files[name], &document); err != nil || len(document.Content) != 1 {
		return name // Kustomize says what is wrong.
	}
	fields := map[string]*yaml.Node{}
	root := document.Content[0]
	for i := 0; i+1 < len(root.Content) && root.Kind == yaml.MappingNode; i += 2 {
		fields[root.Content[i].Value] = root.Content[i+1]
		if slices.Contains(inflated, root.Content[i].Value) {
			t.wrong(name, root.Content[i], "render the chart by a generator of its own: render: helm", "%s would have Kustomize run Helm, which may fetch", root.Content[i].Value)
		}
	}
	if fields["buildMetadata"] == nil {
		t.traces = true
	}
	for _, key := range paths {
		for _, element := range elements(fields[key]) {
			t.inline(name, element)
			t.path(name, element, key == "resources" || key == "bases" || key == "components" || key == "generators" || key == "transformers" || key == "validators")
		}
	}
	for _, key := range pathsIn {
		for _, element := range elements(fields[key]) {
			t.path(name, field(element, "path"), false)
			t.inline(name, field(element, "patch"))
		}
	}
	for _, key := range sources {
		for _, element := range elements(fields[key]) {
			for _, key := range []string{"files", "envs"} {
				for _, file := range elements(field(element, key)) {
					t.source(name, file)
				}
			}
			t.source(name, field(element, "env"))
		}
	}
	t.path(name, field(fields["openapi"], "path"), false)
	return name
}

// path is one that a kustomization names; a folder has one of its own.
func (t *tree) path(file string, node *yaml.Node, folder bool) {
	if node == nil || node.Kind != yaml.ScalarNode || strings.Contains(node.Value, "\n") {
		return // Inline, or none.
	}
	to := path.Join(path.Dir(file), node.Value)
	switch {
	case t.files[to] != nil:
		t.read(to)
	case folder && len(kustomizationIn(t.files, to)) > 0:
		t.look(to)
	case remote.MatchString(node.Value):
		if t.fetched(file, node) {
			return
		}
		t.wrong(file, node, "declare it as a source in lehr.yaml, git: with the commit of ref, and name it in from (docs/use/kubernetes.md shows how); a file by http: likewise, and write its path here; or copy it", "%s is elsewhere: only declared files are read", node.Value)
	default:
		t.wrong(file, node, "add it to the files of a source in from; paths of sources are relative to the folder of lehr.yaml", "%s is not among the declared files", to)
	}
}

// source is KEY=PATH or PATH, of a generator of ConfigMaps or Secrets.
func (t *tree) source(file string, node *yaml.Node) {
	if node == nil || node.Kind != yaml.ScalarNode {
		return
	}
	of := *node
	if _, value, found := strings.Cut(node.Value, "="); found {
		of.Value = value
	}
	if t.files[path.Join(path.Dir(file), of.Value)] == nil {
		t.path(file, &of, false)
	}
}

func (t *tree) wrong(file string, node *yaml.Node, hint, format string, arguments ...any) {
	t.findings = append(t.findings, kubernetes.Finding{File: file, Line: node.Line, Message: fmt.Sprintf(format, arguments...), Hint: hint})
}

func elements(node *yaml.Node) []*yaml.Node {
	if node == nil || node.Kind != yaml.SequenceNode {
		return nil
	}
	return node.Content
}

func field(node *yaml.Node, name string) *yaml.Node {
	for i := 0; node != nil && node.Kind == yaml.MappingNode && i+1 < len(node.Content); i += 2 {
		if node.Content[i].Value == name {
			return node.Content[i+1]
		}
	}
	return nil
}

// traced asks for the origins of objects, where the kustomization's text lets a
// line be added.
func traced(text []byte) []byte {
	with := slices.Concat(bytes.TrimRight(text, " \n"), []byte("\nbuildMetadata: [originAnnotations]\n"))
	var before, after yaml.Node
	if yaml.Unmarshal(text, &before) != nil || yaml.Unmarshal(with, &after) != nil || len(before.Content) != 1 || len(after.Content) != 1 {
		return text
	}
	if field(before.Content[0], "buildMetadata") != nil || len(after.Content[0].Content) != len(before.Content[0].Content)+2 {
		return text
	}
	return with
}
