package kubernetes

import (
	"bytes"
	"fmt"
	"path"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"lehr.dev/internal/ground/secrecy"
)

// Imported is a partition made of what exists.
type Imported struct {
	// Definition is what lehr.yaml says after its partition and mode.
	Definition string
	// Files beside lehr.yaml, by path.
	Files map[string][]byte
	// Objects that were taken over, by kind.
	Objects map[string]int
	LeftOut []LeftOut
}

// LeftOut is an object or a file that was seen and not taken over, and why.
type LeftOut struct {
	What, Why string
	// Wrong: it is no object as it stands; all others are left out on purpose.
	Wrong bool
}

// Import makes a partition of manifests: files that people wrote, or what
// kubectl get -o yaml says. A file whose objects are all taken over is copied as
// it is, with its comments; of others, and of lists, each object gets a file of
// its own. What is made in the cluster by something else is left out, and
// Secrets are (S13), and what is no object as it stands. The findings are warnings.
func Import(manifests []Manifest, settings Settings) (Imported, []Finding) {
	imported := Imported{Files: map[string][]byte{}, Objects: map[string]int{}}
	var copied, apart []Manifest
	reported := map[place]bool{}
	for _, m := range manifests {
		var leftOut []LeftOut
		settings.Skip = func(kind, name string, fields map[string]any) bool {
			reason := madeElsewhere(kind, name, fields)
			if reason != "" {
				leftOut = append(leftOut, LeftOut{What: kind + " " + path.Join(text(fields, "metadata", "namespace"), name), Why: reason})
			}
			return reason != ""
		}
		objects, findings := Read([]Manifest{m}, settings)
		wrong := imported.leaveOut(findings, reported)
		imported.LeftOut = append(imported.LeftOut, leftOut...)
		switch {
		case wrong > 0 && len(sound(objects, reported)) == 0:
			// Nothing of the file is left.
		case wrong > 0 || len(leftOut) > 0 || isList(m.Text) || remarked(m.Text):
			apart = append(apart, m)
		default:
			copied = append(copied, m)
		}
	}
	settings.Skip = func(kind, name string, fields map[string]any) bool { return madeElsewhere(kind, name, fields) != "" }
	objects, findings := Read(slices.Concat(copied, apart), settings)
	imported.leaveOut(findings, reported) // Such as what two files have.
	copied = slices.DeleteFunc(copied, func(m Manifest) bool {
		return slices.ContainsFunc(findings, func(f Finding) bool { return failing(f) && f.File == m.File })
	})
	for _, m := range copied {
		imported.Files[free(imported.Files, path.Base(m.File))] = m.Text
	}
	for _, o := range sound(objects, reported) {
		imported.Objects[kindOf(o.Payload)]++
		if !slices.ContainsFunc(copied, func(m Manifest) bool { return m.File == o.File }) {
			name := strings.ReplaceAll(strings.TrimPrefix(o.ID, "kubernetes/"+settings.Cluster+"/"), "/", "-")
			imported.Files[free(imported.Files, name+".yaml")] = written(o.value)
		}
	}
	options := fmt.Sprintf("cluster: %s, namespace: %s", settings.Cluster, settings.Namespace)
	if len(settings.ClusterScoped) > 0 {
		options += ", cluster_scoped: [" + strings.Join(settings.ClusterScoped, ", ") + "]"
	}
	imported.Definition = fmt.Sprintf(`sources:
  manifests: {dir: manifests, files: ["*"]}
generate:
  objects:
    render: kubernetes
    from: [manifests]
    with: {%s}
`, options)
	return imported, slices.DeleteFunc(findings, failing)
}

// place is where an object, or what is wrong with one, stands.
type place struct {
	file string
	line int
}

// leaveOut tells of what is wrong, unless it was told before, and returns how much it is.
func (imported *Imported) leaveOut(findings []Finding, reported map[place]bool) (wrong int) {
	for _, f := range findings {
		if !failing(f) {
			continue
		}
		wrong++
		if at := (place{f.File, f.Line}); !reported[at] {
			reported[at] = true
			imported.LeftOut = append(imported.LeftOut, LeftOut{What: fmt.Sprintf("%s:%d", f.File, f.Line), Why: f.Message + " (" + f.Hint + ")", Wrong: true})
		}
	}
	return wrong
}

// sound are the objects that nothing is wrong with.
func sound(objects []Object, wrong map[place]bool) []Object {
	return slices.DeleteFunc(slices.Clone(objects), func(o Object) bool { return wrong[place{o.File, o.Line}] })
}

func failing(f Finding) bool { return !f.Warning }

// madeElsewhere says who makes an object, if it is none that people keep.
func madeElsewhere(kind, name string, fields map[string]any) string {
	owners, _ := dig(fields, "metadata", "ownerReferences").([]any)
	for _, owner := range owners {
		if dig(owner, "controller") == true {
			return "made by " + text(owner, "kind") + " " + text(owner, "name")
		}
	}
	if len(owners) > 0 {
		return "owned by " + text(owners[0], "kind") + " " + text(owners[0], "name") + ", with which it goes"
	}
	data, _ := fields["data"].(map[string]any)
	stringData, _ := fields["stringData"].(map[string]any)
	switch {
	case kind == "Secret" && len(data)+len(stringData) > 0:
		return "no secret enters intent: leave it to what made it, or to what holds secrets"
	case kind == "ConfigMap" && name == "kube-root-ca.crt", kind == "ServiceAccount" && name == "default":
		return "made by the cluster in each namespace"
	case slices.Contains([]string{"Endpoints", "EndpointSlice.discovery.k8s.io", "Event", "Event.events.k8s.io", "Lease.coordination.k8s.io", "Node", "ComponentStatus"}, kind):
		return "made by the cluster"
	}
	if hits := secrecy.Find(fields); len(hits) > 0 {
		return fmt.Sprintf("%s looks like %s: keep it in a Secret, name that by secretKeyRef or in a volume, and import it then", hits[0].Path, hits[0].Is)
	}
	return ""
}

// remarked reports whether a comment of a file looks like a secret, or what else is no
// part of an object.
func remarked(manifest []byte) bool {
	for line := range strings.Lines(string(manifest)) {
		if at := strings.Index(line, "#"); at >= 0 {
			if _, ok := secrecy.Text(strings.TrimSpace(line[at+1:])); ok {
				return true
			}
		}
	}
	return false
}

func isList(manifest []byte) bool {
	for next := yamlDocuments(manifest); ; {
		document, err := next()
		if err != nil {
			return false
		}
		for i := 0; i+1 < len(document.Content); i += 2 {
			if document.Content[i].Value == "kind" && strings.HasSuffix(document.Content[i+1].Value, "List") {
				return true
			}
		}
	}
}

// free is a name in manifests/ that no file has yet.
func free(files map[string][]byte, name string) string {
	extension := path.Ext(name)
	for i := 1; ; i++ {
		try := path.Join("manifests", name)
		if i > 1 {
			try = path.Join("manifests", fmt.Sprintf("%s-%d%s", strings.TrimSuffix(name, extension), i, extension))
		}
		if files[try] == nil {
			return try
		}
	}
}

// written is an object as YAML that people read, and that is read as the same.
func written(value map[string]any) []byte {
	var text bytes.Buffer
	encoder := yaml.NewEncoder(&text)
	encoder.SetIndent(2)
	// Nodes of text, numbers, lists and mappings can be written.
	_ = encoder.Encode(node(value))
	_ = encoder.Close()
	return text.Bytes()
}

func node(value any) *yaml.Node {
	plain := func(tag, text string) *yaml.Node {
		return &yaml.Node{Kind: yaml.ScalarNode, Tag: tag, Value: text}
	}
	switch value := value.(type) {
	case bool:
		return plain("!!bool", fmt.Sprint(value))
	case number:
		if strings.ContainsAny(string(value), ".e") {
			return plain("!!float", string(value))
		}
		return plain("!!int", string(value))
	case string:
		text := plain("!!str", value)
		if again, err := scalar(&yaml.Node{Value: value}, ""); err != nil || again != value {
			text.Style = yaml.DoubleQuotedStyle
		} else if strings.Contains(value, "\n") {
			text.Style = yaml.LiteralStyle
		}
		return text
	case []any:
		list := &yaml.Node{Kind: yaml.SequenceNode}
		for _, element := range value {
			list.Content = append(list.Content, node(element))
		}
		return list
	case map[string]any:
		mapping := &yaml.Node{Kind: yaml.MappingNode}
		for _, key := range inOrder(value) {
			mapping.Content = append(mapping.Content, node(key), node(value[key]))
		}
		return mapping
	}
	return plain("!!null", "null")
}

// inOrder has what says what an object is first, as people write it.
func inOrder(fields map[string]any) (keys []string) {
	rank := func(key string) int { return slices.Index([]string{"metadata", "kind", "apiVersion"}, key) }
	for key := range fields {
		keys = append(keys, key)
	}
	slices.SortFunc(keys, func(a, b string) int {
		if rank(a) != rank(b) {
			return rank(b) - rank(a)
		}
		return strings.Compare(a, b)
	})
	return keys
}
