package validate

import (
	"fmt"
	"strings"

	"google.golang.org/protobuf/reflect/protoreflect"

	intentpb "lehr.dev/gen/lehr/intent/v1"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/ground/spell"
)

const observeHint = "to look at an asset and never push it, give it the addon Mode with ENFORCEMENT_MODE_OBSERVE, or its type modes: {TYPE: observe}"

// unmanaged refuses paths that are no field of the payload, and an addon that
// leaves everything to production: that is what mode observe says openly.
func (j *judging) unmanaged(asset intent.Asset, addon *intentpb.Unmanaged) {
	if len(addon.Fields) == 0 {
		return
	}
	empty, err := j.types.New(asset.Payload.Type)
	if err != nil {
		return // It was said already.
	}
	payload := empty.ProtoReflect().Descriptor()
	bad := func(i int, message, hint string) {
		j.add(intent.Finding{
			Rule: "unmanaged", Severity: intent.Error, Asset: asset.ID, Message: message, Hint: hint,
			Field: fmt.Sprintf("lehr.intent.v1.Unmanaged.fields[%d].path", i),
		})
	}
	wholeFields := map[protoreflect.Name]bool{}
	for i, field := range addon.Fields {
		path := strings.TrimSpace(field.Path)
		if path == "" || strings.Trim(path, ".*[]") == "" {
			bad(i, fmt.Sprintf("asset %s: Unmanaged leaves everything to production by the path %q", asset.ID, field.Path), observeHint)
			return
		}
		whole, wrong, hint := resolvePath(payload, path)
		if wrong != "" {
			bad(i, fmt.Sprintf("asset %s: Unmanaged names %q: %s", asset.ID, field.Path, wrong), hint)
			continue
		}
		if whole != "" {
			wholeFields[whole] = true
		}
	}
	if payload.Fields().Len() > 0 && len(wholeFields) == payload.Fields().Len() {
		bad(0, fmt.Sprintf("asset %s: Unmanaged leaves every field of its %s to production", asset.ID, payload.FullName()), observeHint)
	}
}

// jsonField is the text field whose value is a document of its own, as in
// lehr.kubernetes.v1.Object. Paths go on within it, where only the plugin knows the fields.
const jsonField = "json"

// resolvePath follows a path by field names, [index], ["key"] and [*]. whole
// is the field of the payload that it covers as a whole.
func resolvePath(message protoreflect.MessageDescriptor, path string) (whole protoreflect.Name, wrong, hint string) {
	for first := true; ; first = false {
		end := strings.IndexAny(path, ".[")
		if end < 0 {
			end = len(path)
		}
		name := path[:end]
		field := message.Fields().ByTextName(name)
		if field == nil {
			return "", fmt.Sprintf("a %s has no field %q", message.FullName(), name), fieldHint(name, message)
		}
		path = path[end:]
		elements := field.IsList() || field.IsMap()
		covers := path == "" || path == "[*]" && elements
		if covers {
			if first {
				whole = field.Name()
			}
			return whole, "", ""
		}
		if elements {
			if path[0] != '[' || strings.IndexByte(path, ']') < 0 {
				return "", fmt.Sprintf("%s has elements, and %q names none", field.FullName(), path), `write [0], ["key"] or [*]`
			}
			path = afterElement(path)
			if field.IsMap() {
				field = field.MapValue()
			}
			if path == "" {
				return "", "", ""
			}
		}
		if field.Name() == jsonField && field.Kind() == protoreflect.StringKind {
			return "", "", ""
		}
		if path[0] != '.' || field.Message() == nil {
			return "", fmt.Sprintf("%q is below %s, which has no fields", path, field.FullName()), "end the path before it"
		}
		message, path = field.Message(), path[1:]
	}
}

// afterElement skips [index], ["key"] or [*]; a key may hold any character.
func afterElement(path string) string {
	if strings.HasPrefix(path, `["`) {
		if end := strings.Index(path, `"]`); end >= 0 {
			return path[end+2:]
		}
	}
	return path[strings.IndexByte(path, ']')+1:]
}

// fieldHint names the field that was probably meant, and those that there are.
func fieldHint(name string, message protoreflect.MessageDescriptor) string {
	var names []string
	for i := range message.Fields().Len() {
		names = append(names, string(message.Fields().Get(i).Name()))
	}
	const most = 30
	hint := "its fields: " + strings.Join(names[:min(len(names), most)], ", ")
	if suggestion := spell.Nearest(name, names); suggestion != "" {
		return "did you mean " + suggestion + "? " + hint
	}
	return hint
}
