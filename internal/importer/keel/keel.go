// Package keel reads a delivery config of Spinnaker's managed delivery (Keel) into a partition:
// artifacts become sources of versions, environments become those of delivery, and resources
// become assets. What would leave an environment with fewer constraints is an error with its
// file and line; what else has no place is listed, with why. The kind "keel" of lehr import
// calls it.
package keel

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/spf13/pflag"
	"go.yaml.in/yaml/v3"

	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/files"
	"lehr.dev/internal/importer"
	"lehr.dev/internal/importer/adapters"
)

// MaxBytes of a config that is read.
const MaxBytes = 4 << 20

// Kind imports a delivery config.
func Kind() importer.Kind {
	kind := importer.Kind{
		Name: "keel", Arguments: "FILE", Short: "A delivery config of Spinnaker's managed delivery (Keel)",
		Long: `Read a delivery config, as spinnaker.yml, and write a partition: artifacts as sources of
versions, environments with their constraints and verifications, resources as assets.
The partition has the config's name, or that of --partition. Spinnaker is not asked, and nothing is changed there.

Builds tell of versions by call, in a document for each artifact, as they told Keel. It prints
which share of the config's values is carried over, and lists the others with the reason.`,
	}
	kind.Args.Least, kind.Args.Most = 1, 1
	kind.Bind = func(*pflag.FlagSet) importer.Reader {
		return func(_ context.Context, args []string) (importer.Import, error) {
			text, err := readFile(args[0])
			if err != nil {
				return importer.Import{}, err
			}
			return Read(filepath.ToSlash(args[0]), text)
		}
	}
	return kind
}

func readFile(name string) ([]byte, error) {
	text, err := files.ReadForeign(name, MaxBytes)
	if err != nil {
		return nil, fault.New(fault.KindOf(err), "%v", err).WithHint("name the file of the delivery config, as lehr import keel spinnaker.yml --to shop")
	}
	return text, nil
}

// reading is one import.
type reading struct {
	importer.Import
	file string
	// values of the config, and how many of them were carried over.
	values, carried int
	// specs are those carried over in specs of resources, which nothing obeys yet.
	specs int
	// problems are what keeps the config from being imported.
	problems                    []string
	application, serviceAccount string
	// artifacts by reference, in the order of the file.
	artifacts     []*artifact
	environments  []*environment
	notifications []notification
	targets       []target
	previews      []preview
	// programs run what Spinnaker ran.
	programs adapters.List
}

// Read reads the text of a delivery config; file is its name in messages.
func Read(file string, text []byte) (importer.Import, error) {
	var document yaml.Node
	if err := yaml.Unmarshal(text, &document); err != nil {
		return importer.Import{}, fault.New(fault.Invalid, "%s is not YAML: %v", file, err).WithHint("mend the file, and import it again")
	}
	if len(document.Content) != 1 || document.Content[0].Kind != yaml.MappingNode {
		return importer.Import{}, fault.New(fault.Invalid, "%s is no delivery config: it is no mapping", file).
			WithHint("a delivery config has the keys application, artifacts and environments")
	}
	r := &reading{file: file}
	if at := findAlias(document.Content[0]); at != nil {
		return importer.Import{}, fault.New(fault.Invalid, "%s:%d: an alias of YAML is not read", file, at.Line).WithHint("write out what it stands for, and import the file again")
	}
	r.values = countValues(document.Content[0])
	r.readConfig(document.Content[0])
	r.checkCircles()
	if len(r.problems) > 0 {
		return importer.Import{}, fault.New(fault.Invalid, "the delivery config cannot be imported: %s", strings.Join(r.problems, "; ")).
			WithHint("mend these lines, and import the file again: without them an environment would let in what it does not now")
	}
	return r.Import, r.describe()
}

// findAlias finds the first alias, whose values would be counted twice or never end.
func findAlias(node *yaml.Node) *yaml.Node {
	if node.Kind == yaml.AliasNode {
		return node
	}
	for _, child := range node.Content {
		if found := findAlias(child); found != nil {
			return found
		}
	}
	return nil
}

// countValues counts the values that are no mapping and no list; one that is empty counts as one.
func countValues(node *yaml.Node) int {
	if node.Kind == yaml.ScalarNode || len(node.Content) == 0 {
		return 1
	}
	count := 0
	for i, child := range node.Content {
		if node.Kind == yaml.SequenceNode || i%2 == 1 {
			count += countValues(child)
		}
	}
	return count
}

func (r *reading) keep(node *yaml.Node) { r.carried += countValues(node) }

// hold keeps what stands in an asset, where nothing obeys it yet.
func (r *reading) hold(node *yaml.Node) {
	r.keep(node)
	r.specs += countValues(node)
}

// leaveBut lists a mapping, of which one value alone is carried over.
func (r *reading) leaveBut(node *yaml.Node, kept, what, why string) {
	for i := 0; i+1 < len(node.Content); i += 2 {
		if node.Content[i].Value == kept {
			r.keep(node.Content[i+1])
		}
	}
	if len(node.Content) > 2 {
		r.leave(node, what, why)
	}
}

func (r *reading) leave(node *yaml.Node, what, why string) {
	r.LeftOut = append(r.LeftOut, importer.LeftOut{What: fmt.Sprintf("%s:%d: %s", r.file, node.Line, what), Why: why})
}

// wrong lists what Keel does not know either.
func (r *reading) wrong(node *yaml.Node, what, why string) {
	r.leave(node, what, why)
	r.LeftOut[len(r.LeftOut)-1].Wrong = true
}

func (r *reading) refuse(node *yaml.Node, format string, args ...any) {
	r.problems = append(r.problems, fmt.Sprintf("%s:%d: %s", r.file, node.Line, fmt.Sprintf(format, args...)))
}

// eachKey calls read for each key of a mapping that is known, and lists the others.
func (r *reading) eachKey(node *yaml.Node, what string, known map[string]func(*yaml.Node)) {
	if node.Kind != yaml.MappingNode {
		r.refuse(node, "%s is no mapping", what)
		return
	}
	seen := map[string]bool{}
	for i := 0; i+1 < len(node.Content); i += 2 {
		key, value := node.Content[i], node.Content[i+1]
		if seen[key.Value] {
			r.refuse(key, "%s has the key %q twice", what, key.Value)
			continue
		}
		seen[key.Value] = true
		if read, ok := known[key.Value]; ok {
			read(value)
			continue
		}
		r.wrong(key, what+": "+key.Value, "Keel has no such key here")
	}
}

func (r *reading) eachItem(node *yaml.Node, what string, read func(*yaml.Node)) {
	if node.Kind == yaml.ScalarNode && node.Tag == "!!null" {
		r.keep(node)
		return
	}
	if node.Kind != yaml.SequenceNode {
		r.refuse(node, "%s is no list", what)
		return
	}
	if len(node.Content) == 0 {
		r.keep(node)
	}
	for _, item := range node.Content {
		read(item)
	}
}

// text takes a value that is a text.
func (r *reading) text(to *string) func(*yaml.Node) {
	return func(node *yaml.Node) {
		if node.Kind != yaml.ScalarNode || node.Tag == "!!null" {
			r.refuse(node, "a text is expected here")
			return
		}
		*to = node.Value
		r.keep(node)
	}
}

// leaveAll has a key listed.
func (r *reading) leaveAll(what, why string) func(*yaml.Node) {
	return func(node *yaml.Node) {
		if node.Kind != yaml.ScalarNode && len(node.Content) == 0 {
			r.keep(node)
			return
		}
		r.leave(node, what, why)
	}
}

func (r *reading) readConfig(root *yaml.Node) {
	var artifacts, environments, previews *yaml.Node
	r.eachKey(root, "the config", map[string]func(*yaml.Node){
		"apiVersion":          r.readVersion,
		"application":         r.text(&r.application),
		"name":                r.readName,
		"serviceAccount":      r.text(&r.serviceAccount),
		"artifacts":           func(node *yaml.Node) { artifacts = node },
		"environments":        func(node *yaml.Node) { environments = node },
		"previewEnvironments": func(node *yaml.Node) { previews = node },
		"metadata":            r.leaveAll("metadata", "Keel does nothing with it"),
	})
	if artifacts == nil || environments == nil {
		r.refuse(root, "a delivery config has artifacts and environments")
		return
	}
	r.eachItem(artifacts, "artifacts", r.readArtifact)
	r.eachItem(environments, "environments", r.readEnvironment)
	for _, e := range r.environments {
		r.addImages(e)
		r.checkEnvironment(e)
	}
	if previews != nil {
		r.eachItem(previews, "previewEnvironments", r.readPreview)
		r.checkPreviews()
	}
}

// readVersion refuses a format that is not Keel's.
func (r *reading) readVersion(node *yaml.Node) {
	if node.Value != "delivery.config.spinnaker.netflix.com/v1" {
		r.refuse(node, "the apiVersion %q is not that of a delivery config, delivery.config.spinnaker.netflix.com/v1", node.Value)
		return
	}
	r.keep(node)
}

// readName takes the name of the config for the partition.
func (r *reading) readName(node *yaml.Node) {
	var name string
	r.text(&name)(node)
	if r.Name = segment(name); !named.MatchString(r.Name) {
		r.refuse(node, "the name %q is none that a partition can have", name)
	}
}
