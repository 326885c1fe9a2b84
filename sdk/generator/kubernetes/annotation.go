package kubernetes

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
	"google.golang.org/protobuf/proto"

	intentpb "lehr.dev/gen/lehr/intent/v1"
	kubernetespb "lehr.dev/gen/lehr/kubernetes/v1"
	"lehr.dev/sdk/generator/addon"
)

// AnnotationPrefix of the annotations that are for Lehr: of an object they give its asset
// an addon, and are no part of what is pushed.
const AnnotationPrefix = "lehr.dev/"

// takeAddons takes the annotations that are for Lehr off an object, returns the
// addons that they give, and notes in its payload which outputs it tells. False: one of them is wrong, and it was said.
func (r *reader) takeAddons(m Manifest, line int, node *yaml.Node, fields map[string]any, o *kubernetespb.Object) (list []proto.Message, ok bool) {
	r.warnOfNested(m, line, fields)
	metadata, _ := fields["metadata"].(map[string]any)
	annotations, _ := metadata["annotations"].(map[string]any)
	ok = true
	for _, name := range slices.Sorted(maps.Keys(annotations)) {
		key, isOurs := strings.CutPrefix(name, AnnotationPrefix)
		if !isOurs {
			continue
		}
		at := cmp.Or(annotationLine(node, name), line)
		value := annotations[name]
		delete(annotations, name)
		if output, isOutput := strings.CutPrefix(key, outputPrefix); isOutput {
			ok = r.takeOutput(m, at, name, output, value, o) && ok
			continue
		}
		kind, hint, known := addon.ByKey(key)
		if !known {
			r.wrong(m, at, hint, "the annotation %s names no addon", name)
			ok = false
			continue
		}
		text, isText := value.(string)
		if !isText {
			r.wrong(m, at, "quote it: annotations are texts", "the annotation %s is no text", name)
			ok = false
			continue
		}
		given, err := kind.FromText(text, "the annotation "+name)
		if e, wrong := errors.AsType[*addon.Error](err); wrong {
			r.wrong(m, at, e.Hint, "the annotation %s: %s", name, e.Message)
			ok = false
			continue
		}
		list = append(list, withinObject(given))
	}
	return list, ok
}

// withinObject has paths that are of the object be of the asset's payload, which has the
// object in its field json.
func withinObject(addon proto.Message) proto.Message {
	if unmanaged, ok := addon.(*intentpb.Unmanaged); ok {
		for _, field := range unmanaged.Fields {
			if field.Path != "json" && !strings.HasPrefix(field.Path, "json.") {
				field.Path = "json." + field.Path
			}
		}
	}
	return addon
}

// annotationLine is the line of an object's annotation; 0: it comes from an alias or a
// merge, or the object's node is not known.
func annotationLine(node *yaml.Node, name string) int {
	annotations := child(child(node, "metadata"), "annotations")
	if annotations == nil || annotations.Kind != yaml.MappingNode {
		return 0
	}
	for i := 0; i+1 < len(annotations.Content); i += 2 {
		if annotations.Content[i].Value == name {
			return annotations.Content[i].Line
		}
	}
	return 0
}

// warnOfNested says which annotations for Lehr are not the object's own, but of a pod's
// template or the like: there they mean nothing, and stay.
func (r *reader) warnOfNested(m Manifest, line int, fields map[string]any) {
	var found []string
	var visit func(value any, path string)
	visit = func(value any, path string) {
		switch value := value.(type) {
		case map[string]any:
			for key, inner := range value {
				if path != "metadata.annotations" && strings.HasSuffix(path, ".metadata.annotations") && strings.HasPrefix(key, AnnotationPrefix) {
					found = append(found, path+" has "+key)
					continue
				}
				visit(inner, strings.TrimPrefix(path+"."+key, "."))
			}
		case []any:
			for i, inner := range value {
				visit(inner, fmt.Sprintf("%s[%d]", path, i))
			}
		}
	}
	visit(fields, "")
	slices.Sort(found)
	for _, place := range found {
		r.find(m, line, true, "write it in metadata.annotations of the object itself, or take it out", "%s, where it gives no addon and is pushed as it is", place)
	}
}
