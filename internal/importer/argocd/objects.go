package argocd

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/files"
)

const (
	mostBytes = 64 << 20
	mostDepth = 100
)

// object is a document that was read, and where it was.
type object struct {
	kind, name, place string
	fields            map[string]any
}

// knownCluster is what a cluster Secret of Argo CD says, without its credentials.
type knownCluster struct {
	name, server, project string
	labels, annotations   map[string]string
}

// reading gathers what files hold of Argo CD.
type reading struct {
	objects   []object
	remaining int64
	leave     func(subject, reason string, isWrong bool)
	// charts are folders with a Chart.yaml, whose templates are no manifests.
	charts []string
}

// readAll reads files, folders and, as -, standard input.
func (r *reading) readAll(names []string) error {
	r.remaining = mostBytes
	for _, name := range names {
		info, err := os.Stat(name)
		switch {
		case name == "-":
			err = r.readFrom("stdin", os.Stdin)
		case err == nil && info.IsDir():
			err = r.readFolder(name)
		default:
			err = r.readFile(name)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (r *reading) readFolder(folder string) error {
	return filepath.WalkDir(folder, func(name string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return fault.New(fault.Invalid, "reading %s: %w", folder, err).WithHint("name a folder that can be read")
		case entry.IsDir() && name != folder && strings.HasPrefix(entry.Name(), "."):
			return fs.SkipDir
		case entry.IsDir():
			if _, err := os.Stat(filepath.Join(name, "Chart.yaml")); err == nil {
				r.charts = append(r.charts, name)
				return fs.SkipDir
			}
			return nil
		case !entry.Type().IsRegular() || !isManifest(name):
			return nil
		}
		return r.readFile(name)
	})
}

func isManifest(name string) bool {
	return slices.Contains([]string{".yaml", ".yml", ".json"}, strings.ToLower(filepath.Ext(name)))
}

func (r *reading) readFile(name string) error {
	file, err := files.Open(name)
	if _, ok := errors.AsType[*fault.Error](err); ok {
		return err
	}
	if err != nil {
		return fault.New(fault.NotFound, "cannot read %s: %w", name, err).WithHint("name files or folders with the resources of Argo CD, or - for standard input")
	}
	defer file.Close()
	return r.readFrom(name, file)
}

func (r *reading) readFrom(name string, source io.Reader) error {
	text, err := io.ReadAll(io.LimitReader(source, r.remaining+1))
	if r.remaining -= int64(len(text)); r.remaining < 0 {
		return fault.New(fault.Invalid, "what is to be read has more than %d MiB", mostBytes>>20).WithHint("name the folder with the resources of Argo CD, or import them in parts")
	}
	if err != nil {
		return fault.New(fault.Invalid, "reading %s: %w", name, err)
	}
	r.parse(name, text)
	return nil
}

// parse reads the documents of a text. One that cannot be read is told only where it may hold
// something of Argo CD.
func (r *reading) parse(name string, text []byte) {
	if !bytes.Contains(text, []byte("argoproj.io")) && !bytes.Contains(text, []byte("argocd")) {
		return
	}
	decoder := yaml.NewDecoder(bytes.NewReader(text))
	for {
		var node yaml.Node
		err := decoder.Decode(&node)
		if errors.Is(err, io.EOF) {
			return
		}
		if err != nil {
			r.leave(name, "it is no YAML: "+err.Error(), true)
			return
		}
		var value any
		if err := node.Decode(&value); err != nil {
			r.leave(fmt.Sprintf("%s:%d", name, node.Line), "it cannot be read: "+err.Error(), true)
			continue
		}
		if len(node.Content) > 0 {
			r.add(name, node.Content[0], plainValue(value, 0), 0)
		}
	}
}

// add adds a document, or the items of a list.
func (r *reading) add(name string, node *yaml.Node, value any, depth int) {
	fields, ok := value.(map[string]any)
	if !ok || depth > 3 {
		return
	}
	kind, _ := fields["kind"].(string)
	if items, ok := fields["items"].([]any); ok && strings.HasSuffix(kind, "List") {
		nodes := childNode(node, "items")
		for i, item := range items {
			at := node
			if nodes != nil && i < len(nodes.Content) {
				at = nodes.Content[i]
			}
			r.add(name, at, item, depth+1)
		}
		return
	}
	var head struct {
		Metadata metadata `json:"metadata"`
	}
	_ = convert(fields, &head) // An object without usable metadata has no name.
	r.objects = append(r.objects, object{kind: fullKind(fields), name: head.Metadata.Name, place: fmt.Sprintf("%s:%d", name, node.Line), fields: fields})
}

// fullKind is KIND.GROUP.
func fullKind(fields map[string]any) string {
	kind, _ := fields["kind"].(string)
	version, _ := fields["apiVersion"].(string)
	if group, _, ok := strings.Cut(version, "/"); ok {
		return kind + "." + group
	}
	return kind
}

func childNode(node *yaml.Node, key string) *yaml.Node {
	for i := 0; i+1 < len(node.Content); i += 2 {
		if node.Content[i].Value == key {
			return node.Content[i+1]
		}
	}
	return nil
}

// plainValue makes a value of YAML one of JSON: keys are texts, and depth is bounded.
func plainValue(value any, depth int) any {
	if depth > mostDepth {
		return nil
	}
	switch value := value.(type) {
	case map[string]any:
		for key := range value {
			value[key] = plainValue(value[key], depth+1)
		}
		return value
	case map[any]any:
		made := make(map[string]any, len(value))
		for key, element := range value {
			made[fmt.Sprint(key)] = plainValue(element, depth+1)
		}
		return made
	case []any:
		for i := range value {
			value[i] = plainValue(value[i], depth+1)
		}
		return value
	case fmt.Stringer: // A date.
		return value.String()
	}
	return value
}

// parseYAML reads one document.
func parseYAML(text []byte) (any, error) {
	var value any
	if err := yaml.Unmarshal(text, &value); err != nil {
		return nil, err
	}
	return plainValue(value, 0), nil
}

// convert reads a value into a structure.
func convert(value, to any) error {
	text, err := json.Marshal(value)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(text, to); err != nil {
		return err
	}
	switch to := to.(type) {
	case *application:
		for i := range to.Spec.Sources {
			to.Spec.Sources[i].wholeNumbers()
		}
		to.Spec.Source.wholeNumbers()
	case *applicationSet:
		WholeNumbers(to.Spec.Template)
		for i := range to.Spec.Generators {
			if list := to.Spec.Generators[i].List; list != nil {
				for _, element := range list.Elements {
					WholeNumbers(element)
				}
			}
		}
	case *map[string]any:
		WholeNumbers(*to)
	}
	return nil
}

// wholeNumbers has the integers of values and patches stay integers.
func (s *appSource) wholeNumbers() {
	if s == nil {
		return
	}
	if s.Helm != nil {
		WholeNumbers(s.Helm.ValuesObject)
	}
	if s.Kustomize != nil {
		for _, patch := range s.Kustomize.Patches {
			WholeNumbers(patch)
		}
	}
}

// unknownField names a field of a value that a structure of that type does not have; empty: there is none.
func unknownField(value any, of reflect.Type) string {
	switch of.Kind() {
	case reflect.Pointer:
		return unknownField(value, of.Elem())
	case reflect.Slice:
		elements, _ := value.([]any)
		for _, element := range elements {
			if name := unknownField(element, of.Elem()); name != "" {
				return name
			}
		}
	case reflect.Struct:
		fields, _ := value.(map[string]any)
		known := map[string]reflect.Type{}
		for i := range of.NumField() {
			name, _, _ := strings.Cut(of.Field(i).Tag.Get("json"), ",")
			known[name] = of.Field(i).Type
		}
		for _, key := range sortedKeys(fields) {
			below, ok := known[key]
			if !ok {
				return key
			}
			if name := unknownField(fields[key], below); name != "" {
				return key + "." + name
			}
		}
	}
	return ""
}

// clusterOf reads a cluster Secret; its config, which has credentials, is never looked at.
func clusterOf(o object) (knownCluster, bool) {
	var secret struct {
		Metadata   metadata          `json:"metadata"`
		Data       map[string]string `json:"data"`
		StringData map[string]string `json:"stringData"`
	}
	if o.kind != "Secret" || convert(o.fields, &secret) != nil || secret.Metadata.Labels["argocd.argoproj.io/secret-type"] != "cluster" {
		return knownCluster{}, false
	}
	field := func(name string) string {
		if text, ok := secret.StringData[name]; ok {
			return text
		}
		text, err := base64.StdEncoding.DecodeString(secret.Data[name])
		if err != nil {
			return ""
		}
		return string(text)
	}
	c := knownCluster{name: field("name"), server: strings.TrimSuffix(field("server"), "/"), project: field("project"), labels: secret.Metadata.Labels, annotations: secret.Metadata.Annotations}
	return c, c.server != ""
}
