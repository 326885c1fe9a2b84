package canaries

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/files"
	"lehr.dev/internal/ground/secrecy"
	"lehr.dev/internal/importer"
	"lehr.dev/sdk/generator/kubernetes"
)

// MaxBytes of all files together.
const MaxBytes = 64 << 20

// object is one that was read, as people wrote it and as kubectl reads it.
type object struct {
	kind, namespace, name string
	file                  string
	node                  *yaml.Node
	fields                map[string]any
	// taken: it becomes something else than the object that it is.
	taken bool
}

func (o *object) String() string { return fmt.Sprintf("%s %s/%s", o.kind, o.namespace, o.name) }

// readFiles reads files, the manifests of folders, and standard input as -.
func (r *reading) readFiles(names []string) error {
	var manifests []kubernetes.Manifest
	remaining := int64(MaxBytes)
	add := func(name string, source io.Reader) error {
		text, err := io.ReadAll(io.LimitReader(source, remaining+1))
		if remaining -= int64(len(text)); remaining < 0 {
			return fault.New(fault.Invalid, "the files have more than %d MiB", MaxBytes>>20).WithHint("import them in parts")
		}
		manifests = append(manifests, kubernetes.Manifest{File: filepath.ToSlash(name), Text: text})
		return err
	}
	open := func(name string) error {
		file, err := files.Open(name)
		if _, ok := errors.AsType[*fault.Error](err); ok {
			return err
		}
		if err != nil {
			return fault.New(fault.NotFound, "cannot read %s: %w", name, err).WithHint("name files or folders that are there, or - for standard input")
		}
		defer file.Close()
		return add(name, file)
	}
	for _, name := range names {
		info, err := os.Stat(name)
		switch {
		case name == "-":
			err = add("stdin.yaml", os.Stdin)
		case err == nil && info.IsDir():
			err = openFolder(name, open)
		default:
			err = open(name)
		}
		if err != nil {
			return err
		}
	}
	r.parse(manifests)
	return nil
}

func openFolder(folder string, open func(string) error) error {
	return filepath.WalkDir(folder, func(name string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return fault.New(fault.Invalid, "reading %s: %w", folder, err).WithHint("name a folder that can be read")
		case !entry.Type().IsRegular() || !slices.Contains([]string{".yaml", ".yml", ".json"}, strings.ToLower(filepath.Ext(name))):
			return nil
		}
		return open(name)
	})
}

// parse reads manifests: by kubectl's rules for what they say, and as YAML for where it stands.
func (r *reading) parse(manifests []kubernetes.Manifest) {
	nodes := map[string]map[int][]*yaml.Node{}
	for _, m := range manifests {
		nodes[m.File] = documentNodes(m.Text)
	}
	read, findings := kubernetes.Read(manifests, kubernetes.Settings{Cluster: r.settings.cluster, Namespace: r.settings.namespace})
	for _, f := range findings {
		switch place := fmt.Sprintf("%s:%d", f.File, f.Line); {
		case f.Warning:
			r.Hints = append(r.Hints, fmt.Sprintf("%s: %s; %s", place, f.Message, f.Hint))
		case len(nodes[f.File][f.Line]) == 0 || slices.ContainsFunc(nodes[f.File][f.Line], r.isOwn):
			// What the workloads are made of must be read whole.
			r.problems = append(r.problems, fmt.Sprintf("%s: %s (%s)", place, f.Message, f.Hint))
		default:
			r.LeftOut = append(r.LeftOut, importer.LeftOut{What: place, Why: f.Message + " (" + f.Hint + ")", Wrong: true})
		}
	}
	for _, o := range read {
		made := &object{namespace: o.Payload.GetNamespace(), name: o.Payload.GetName(), file: o.File, node: nodeOf(nodes[o.File][o.Line], o)}
		decoder := json.NewDecoder(strings.NewReader(o.Payload.GetJson()))
		decoder.UseNumber()
		if err := decoder.Decode(&made.fields); err != nil || made.node == nil {
			r.problems = append(r.problems, fmt.Sprintf("%s:%d: the object is too large, or has no place of its own", o.File, o.Line))
			continue
		}
		made.kind = kindOf(made.fields)
		bare(made.fields)
		r.objects = append(r.objects, made)
	}
}

// isOwn reports whether a document is of the tool that is imported, or runs pods for it.
func (r *reading) isOwn(node *yaml.Node) bool {
	version := child(node, "apiVersion")
	return version != nil && (strings.HasPrefix(version.Value, "argoproj.io/") || strings.HasPrefix(version.Value, "flagger.app/"))
}

// documentNodes are the objects of a text by their lines; those of lists, too. JSON may have all in one line.
func documentNodes(text []byte) map[int][]*yaml.Node {
	found := map[int][]*yaml.Node{}
	decoder := yaml.NewDecoder(bytes.NewReader(text))
	for {
		var document yaml.Node
		if err := decoder.Decode(&document); err != nil {
			return found // The other reading says why.
		}
		if len(document.Content) > 0 {
			addNodes(found, document.Content[0])
		}
	}
}

func addNodes(found map[int][]*yaml.Node, node *yaml.Node) {
	kind, items := child(node, "kind"), child(node, "items")
	if kind != nil && strings.HasSuffix(kind.Value, "List") && items != nil {
		for _, item := range items.Content {
			addNodes(found, item)
		}
		return
	}
	found[node.Line] = append(found[node.Line], node)
}

// nodeOf finds the node of an object among those of its line.
func nodeOf(nodes []*yaml.Node, o kubernetes.Object) *yaml.Node {
	if len(nodes) == 1 {
		return nodes[0]
	}
	for _, node := range nodes {
		metadata := child(node, "metadata")
		namespace := digTextOf(metadata, "namespace")
		if digTextOf(node, "kind") == o.Payload.GetKind() && digTextOf(metadata, "name") == o.Payload.GetName() && (namespace == "" || namespace == o.Payload.GetNamespace()) {
			return node
		}
	}
	return nil
}

// kindOf is KIND.GROUP.
func kindOf(fields map[string]any) string {
	kind := digText(fields, "kind")
	if group, _, ok := strings.Cut(digText(fields, "apiVersion"), "/"); ok {
		return kind + "." + group
	}
	return kind
}

// bare takes out what a cluster or the tool's controller wrote.
func bare(fields map[string]any) {
	delete(fields, "status")
	metadata := digMap(fields, "metadata")
	for _, key := range []string{"creationTimestamp", "generation", "managedFields", "resourceVersion", "selfLink", "uid"} {
		delete(metadata, key)
	}
	annotations := digMap(metadata, "annotations")
	for key := range annotations {
		if key == "kubectl.kubernetes.io/last-applied-configuration" || key == "deployment.kubernetes.io/revision" ||
			strings.HasPrefix(key, "rollout.argoproj.io/") || strings.HasPrefix(key, "argo-rollouts.argoproj.io/") {
			delete(annotations, key)
		}
	}
	if len(annotations) == 0 {
		delete(metadata, "annotations")
	}
	if spec := digMap(fields, "spec"); kindOf(fields) == "Service" {
		if spec["clusterIP"] != "None" {
			delete(spec, "clusterIP")
			delete(spec, "clusterIPs")
		}
		delete(digMap(spec, "selector"), podHash)
	}
}

// find an object by kind, namespace and name.
func (r *reading) find(kind, namespace, name string) *object {
	for _, o := range r.objects {
		if o.kind == kind && o.namespace == namespace && o.name == name {
			return o
		}
	}
	return nil
}

// findKind finds an object of a kind of any version of a group.
func (r *reading) findKinds(namespace, name string, kinds ...string) *object {
	for _, kind := range kinds {
		if o := r.find(kind, namespace, name); o != nil {
			return o
		}
	}
	return nil
}

// checkSecrets refuses a value that would be copied and looks like a secret.
func (r *reading) checkSecrets(o *object, value any) {
	if hits := secrecy.Find(value); len(hits) > 0 {
		r.problems = append(r.problems, fmt.Sprintf("%s:%d: %s: %s looks like %s, and no secret enters intent: keep it in a Secret and name that by secretKeyRef",
			o.file, o.node.Line, o, hits[0].Path, hits[0].Is))
	}
}
