package kubernetes

import (
	"bytes"
	"cmp"
	"fmt"
	"path"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
	"google.golang.org/protobuf/proto"

	intentpb "lehr.dev/gen/lehr/intent/v1"
	kubernetespb "lehr.dev/gen/lehr/kubernetes/v1"
	"lehr.dev/sdk/generator/addon"
)

// Limits: Lehr's of an asset's canonical bytes, and of an id; Kubernetes' of an
// object.
const (
	maxAssetBytes  = 150_000
	maxID          = 253
	maxObjectBytes = 1_500_000
)

// document takes a manifest's document: an object, a list of them, or nothing.
func (r *reader) document(m Manifest, node *yaml.Node, value any) {
	if value == nil {
		return
	}
	fields, ok := value.(map[string]any)
	if !ok {
		r.unknown(m, node.Line, "write objects, with apiVersion, kind and metadata.name", "a document is no object")
		return
	}
	kind, _ := fields["kind"].(string)
	items, isList := fields["items"].([]any)
	if !strings.HasSuffix(kind, "List") || !isList && fields["items"] != nil || text(fields, "metadata", "name") != "" {
		r.object(m, node, node.Line, fields)
		return
	}
	nodes := itemNodes(node)
	for i, item := range items {
		var itemNode *yaml.Node
		line := node.Line
		if i < len(nodes) {
			itemNode, line = nodes[i], nodes[i].Line
		}
		element, ok := item.(map[string]any)
		if !ok {
			r.unknown(m, line, "write objects, with apiVersion, kind and metadata.name", "items[%d] is no object", i)
			continue
		}
		if itemKind := strings.TrimSuffix(kind, "List"); itemKind != "" && element["kind"] == nil && element["apiVersion"] == nil {
			// Items of a typed list do not repeat what they are.
			element["kind"], element["apiVersion"] = itemKind, fields["apiVersion"]
		}
		r.object(m, itemNode, line, element)
	}
}

func itemNodes(node *yaml.Node) (nodes []*yaml.Node) {
	for i := 0; i+1 < len(node.Content); i += 2 {
		if node.Content[i].Value == "items" {
			nodes = append(nodes, node.Content[i+1].Content...)
		}
	}
	return nodes
}

// object takes one object. Its node is nil where it is not known.
func (r *reader) object(m Manifest, node *yaml.Node, line int, fields map[string]any) {
	version, _ := fields["apiVersion"].(string)
	kind, _ := fields["kind"].(string)
	group, _, hasGroup := strings.Cut(version, "/")
	if !hasGroup {
		group = ""
	}
	switch {
	case group == kustomizeGroup, version == "" && forKustomize(m.File, kind):
		r.leave(m, line, "use render: kustomize with its folder, or leave the file out of the source's files", "a %s is for Kustomize, not for a cluster", cmp.Or(kind, "Kustomization"))
		return
	case version == "" || kind == "":
		r.unknown(m, line, "write apiVersion and kind; leave files that are no manifests out of the source's files (a Helm chart is for render: helm)", "an object has no apiVersion or kind")
		return
	case !kindPattern.MatchString(kind), hasGroup && !segmentPattern.MatchString(group):
		r.unknown(m, line, "a kind is a word, and apiVersion GROUP/VERSION or v1", "apiVersion or kind of an object is malformed")
		return
	}
	name := text(fields, "metadata", "name")
	if name == "" {
		if text(fields, "metadata", "generateName") != "" {
			r.leave(m, line, "write metadata.name: with generateName each look would find another object", "a %s has no metadata.name", kind)
		} else {
			r.unknown(m, line, "write metadata.name as a text", "a %s has no metadata.name", kind)
		}
		return
	}
	if !isObjectName(name) {
		r.unknown(m, line, "a name has at most 253 bytes, and neither / nor %", "metadata.name of a %s is no name", kind)
		return
	}
	o := &kubernetespb.Object{ApiVersion: version, Kind: kind, Namespace: text(fields, "metadata", "namespace"), Name: name, Cluster: r.settings.Cluster}
	full := kindOf(o)
	if r.skipped(m, o) {
		return
	}
	if skip := r.settings.Skip; skip != nil && skip(full, name, fields) {
		return
	}
	place, ok := r.hook(m, line, o, fields)
	if !ok || !r.secrets(m, line, o, fields) {
		return
	}
	given, ok := r.takeAddons(m, line, node, fields, o)
	if !ok {
		return
	}
	bare(fields)
	if !r.nameByContent(m, line, o, fields) {
		return
	}
	r.objects = append(r.objects, Object{File: m.File, Line: placed(m, line), value: fields, Payload: o, given: given, rank: place})
}

func isObjectName(name string) bool {
	return name != "" && !strings.ContainsAny(name, "/%") && name != "." && name != ".." && len(name) <= maxID
}

// skipped reports whether settings leave an object out.
func (r *reader) skipped(m Manifest, o *kubernetespb.Object) bool {
	return r.omits(kindOf(o), o.Name) || m.Name != "" && r.omits(kindOf(o), m.Name)
}

// omits reports whether settings have a pattern of a kind and name.
func (r *reader) omits(kind, name string) bool {
	return slices.ContainsFunc(r.settings.Omit, func(pattern string) bool {
		matched, _ := path.Match(pattern, kind+"/"+name) // Settings check that it is one.
		return matched
	})
}

const kustomizeGroup = "kustomize.config.k8s.io"

// forKustomize reports whether what has no apiVersion is a kustomization, which may
// leave out what it is.
func forKustomize(file, kind string) bool {
	switch kind {
	case "Kustomization", "Component":
		return true
	case "":
		return slices.Contains([]string{"kustomization.yaml", "kustomization.yml", "Kustomization"}, path.Base(file))
	}
	return false
}

func placed(m Manifest, line int) int {
	if m.Rendered {
		return m.Line
	}
	return line
}

// kindOf is KIND[.GROUP].
func kindOf(o *kubernetespb.Object) string {
	if group, _, ok := strings.Cut(o.GetApiVersion(), "/"); ok {
		return o.GetKind() + "." + group
	}
	return o.GetKind()
}

// bare takes out what a cluster writes into an object.
func bare(fields map[string]any) {
	delete(fields, "status")
	metadata, _ := fields["metadata"].(map[string]any)
	for _, field := range []string{"creationTimestamp", "deletionTimestamp", "generation", "managedFields", "resourceVersion", "selfLink", "uid"} {
		delete(metadata, field)
	}
	if annotations, ok := metadata["annotations"].(map[string]any); ok {
		delete(annotations, "kubectl.kubernetes.io/last-applied-configuration")
		delete(annotations, "deployment.kubernetes.io/revision")
		if len(annotations) == 0 {
			delete(metadata, "annotations")
		}
	}
}

// identify gives namespaces and ids, once all kinds are known, and orders
// objects by id. The same object twice is refused.
func (r *reader) identify() {
	scopes := r.scopes()
	for i := range r.objects {
		o := &r.objects[i]
		metadata := o.value["metadata"].(map[string]any)
		if r.doubtful(o, scopes) {
			r.find(r.manifestOf(o), o.Line, true, "write with: {cluster_scoped: "+kindOf(o.Payload)+"} if it has no namespace, or write metadata.namespace", "%s %s is taken to be in the namespace %s: its CustomResourceDefinition is not rendered with it, and kinds of such a name often have none", kindOf(o.Payload), o.Payload.Name, r.settings.Namespace)
		}
		if scopes.none(o.Payload) {
			delete(metadata, "namespace")
			o.Payload.Namespace = ""
		} else {
			o.Payload.Namespace = cmp.Or(o.Payload.Namespace, r.settings.Namespace)
			metadata["namespace"] = o.Payload.Namespace
			if !segmentPattern.MatchString(o.Payload.Namespace) {
				r.unknown(r.manifestOf(o), o.Line, "a namespace is of the form [a-z0-9]([-a-z0-9]*[a-z0-9])?", "metadata.namespace of %s %s is no name", o.Payload.Kind, o.Payload.Name)
				continue
			}
		}
		o.ID = idOf(o.Payload)
		if len(o.ID) > maxID {
			r.leave(r.manifestOf(o), o.Line, "shorten the object's name", "the id of %s %.60s… would have %d bytes, at most %d are allowed", o.Payload.Kind, o.Payload.Name, len(o.ID), maxID)
			o.ID = ""
		}
	}
	r.objects = slices.DeleteFunc(r.objects, func(o Object) bool { return o.ID == "" })
	for at, o := range r.lost {
		if o.Cluster = r.settings.Cluster; scopes.none(o) {
			o.Namespace = ""
		} else {
			o.Namespace = cmp.Or(o.Namespace, r.settings.Namespace)
		}
		r.findings[at].ID = idOf(o)
	}
	slices.SortStableFunc(r.objects, func(a, b Object) int { return cmp.Compare(a.ID, b.ID) })
	r.objects = slices.CompactFunc(r.objects, func(b, a Object) bool {
		if a.ID == b.ID {
			r.wrong(r.manifestOf(&b), b.Line, "keep one of them", "%s %s is there twice: it was in %s:%d before", b.Payload.Kind, b.Payload.Name, a.File, max(a.Line, 1))
		}
		return a.ID == b.ID
	})
}

// manifestOf is an object's manifest, for findings.
func (r *reader) manifestOf(o *Object) Manifest { return Manifest{File: o.File} }

const definitionKind = "CustomResourceDefinition.apiextensions.k8s.io"

func definedKind(definition map[string]any) string {
	return text(definition, "spec", "names", "kind") + "." + text(definition, "spec", "group")
}

// idOf is kubernetes/CLUSTER[/NAMESPACE]/KIND[.GROUP]/NAME, for the version of
// an API is not part of what an object is.
func idOf(o *kubernetespb.Object) string {
	parts := []string{"kubernetes", o.Cluster}
	if o.Namespace != "" {
		parts = append(parts, o.Namespace)
	}
	return strings.Join(append(parts, strings.ToLower(kindOf(o)), segment(o.Name)), "/")
}

// segment is a name as a segment of an id. Most names are; in those of roles
// (system:reader) what a segment may not hold is written as _ and its hex
// digits, after 0__ where it is the first byte. No two names give one segment.
func segment(name string) string {
	var b strings.Builder
	for i, c := range []byte(name) {
		plain := 'a' <= c && c <= 'z' || '0' <= c && c <= '9'
		if !plain && i == 0 {
			b.WriteString("0__")
		}
		if plain || i > 0 && (c == '.' || c == '-') {
			b.WriteByte(c)
		} else {
			fmt.Fprintf(&b, "_%02x", c)
		}
	}
	return b.String()
}

// describe gives an identified object its content and addons.
func (r *reader) describe(o *Object) {
	normalise(o)
	var content bytes.Buffer
	canonical(&content, o.value)
	o.Payload.Json = content.String()

	scopes := map[string]string{"cluster": o.Payload.Cluster}
	if o.Payload.Namespace != "" {
		scopes["namespace"] = o.Payload.Namespace
	} else if kindOf(o.Payload) == "Namespace" {
		scopes["namespace"] = o.Payload.Name
	}
	o.Addons = []proto.Message{&intentpb.ImpactedScope{Scopes: scopes}}
	labels := texts(o.value, "metadata", "labels")
	if service := cmp.Or(labels["app.kubernetes.io/part-of"], labels["app.kubernetes.io/name"]); service != "" {
		o.Addons = append(o.Addons, &intentpb.Group{Service: service, Instance: labels["app.kubernetes.io/instance"]})
	}
	if len(labels) > 0 {
		o.Addons = append(o.Addons, &intentpb.Labels{Labels: labels})
	}
	if edges := r.ordered(o); len(edges) > 0 {
		dependencies := &intentpb.Dependencies{}
		for _, target := range edges {
			dependencies.Dependencies = append(dependencies.Dependencies, &intentpb.Dependency{On: target, Rule: intentpb.Dependency_RULE_ORDER})
		}
		o.Addons = append(o.Addons, dependencies)
	}
	r.leaveReplicas(o)
	for _, given := range o.given {
		if kind, _, ok := addon.ByName(string(given.ProtoReflect().Descriptor().FullName())); ok {
			o.Addons = kind.Add(o.Addons, given)
		}
	}
	if size := content.Len(); size > maxObjectBytes {
		r.leave(r.manifestOf(o), o.Line, "split it, for example a ConfigMap by file", "%s %s has %d bytes, and Kubernetes takes at most %d", o.Payload.Kind, o.Payload.Name, size, maxObjectBytes)
		r.findings[len(r.findings)-1].ID, o.ID = o.ID, ""
	}
}

// spilled reports whether an object is too large for an asset, with its addons.
func (o *Object) spilled() bool {
	const framing = 64 // Of each part, at most.
	size := len(o.ID) + proto.Size(o.Payload) + 2*framing
	for _, addon := range o.Addons {
		size += proto.Size(addon) + framing
	}
	return size > maxAssetBytes
}

// Annotation is one of an object's, by its fields.
func Annotation(fields map[string]any, name string) string {
	return text(fields, "metadata", "annotations", name)
}

// dig is the value at a path of fields; nil: there is none.
func dig(value any, path ...string) any {
	for _, name := range path {
		fields, _ := value.(map[string]any)
		value = fields[name]
	}
	return value
}

func text(value any, path ...string) string {
	found, _ := dig(value, path...).(string)
	return found
}

func texts(value any, path ...string) map[string]string {
	result := map[string]string{}
	fields, _ := dig(value, path...).(map[string]any)
	for name, value := range fields {
		if value, ok := value.(string); ok {
			result[name] = value
		}
	}
	return result
}
