package query

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/ground/schema"
)

// leaf is one value within a content.
type leaf struct {
	path string
	// display is the value for people, and whole tells different values apart:
	// a long value, or a secret, is not shown as it is.
	display, whole string
}

// Differences lists how two contents of an asset differ, in the order of the
// paths, which are as in a filter: payload.replicas, addons.Owner.owner. The
// two may be of different schemas, so that values are found by their paths.
func Differences(older *schema.Set, oldAsset intent.Asset, newer *schema.Set, newAsset intent.Asset) ([]intent.FieldChange, error) {
	oldLeaves, err := leaves(older, oldAsset)
	if err != nil {
		return nil, err
	}
	newLeaves, err := leaves(newer, newAsset)
	if err != nil {
		return nil, err
	}
	var changes []intent.FieldChange
	for len(oldLeaves) > 0 || len(newLeaves) > 0 {
		change, differs := intent.FieldChange{}, true
		switch order := comparePaths(oldLeaves, newLeaves); {
		case order < 0:
			change, oldLeaves = intent.FieldChange{Path: oldLeaves[0].path, Current: oldLeaves[0].display}, oldLeaves[1:]
		case order > 0:
			change, newLeaves = intent.FieldChange{Path: newLeaves[0].path, Target: newLeaves[0].display}, newLeaves[1:]
		default:
			change, differs = intent.FieldChange{Path: newLeaves[0].path, Current: oldLeaves[0].display, Target: newLeaves[0].display}, oldLeaves[0].whole != newLeaves[0].whole
			oldLeaves, newLeaves = oldLeaves[1:], newLeaves[1:]
		}
		if differs {
			changes = append(changes, change)
		}
	}
	if more := len(changes) - MostFields + 1; more > 1 {
		changes = append(changes[:MostFields-1], intent.FieldChange{Path: fmt.Sprintf("(%d more)", more)})
	}
	return changes, nil
}

// comparePaths says which list's first leaf comes first; an empty list's never
// does.
func comparePaths(oldLeaves, newLeaves []leaf) int {
	switch {
	case len(newLeaves) == 0:
		return -1
	case len(oldLeaves) == 0:
		return 1
	}
	return cmp.Compare(oldLeaves[0].path, newLeaves[0].path)
}

// leaves of payload and addons, by path.
func leaves(schemas *schema.Set, asset intent.Asset) ([]leaf, error) {
	list := []leaf{{path: "type", display: string(asset.Payload.Type), whole: string(asset.Payload.Type)}}
	add := func(path string, m intent.Message) error {
		message, err := schemas.Unpack(m)
		if err == nil {
			list = appendMessage(list, path, message.ProtoReflect())
		}
		return err
	}
	if err := add("payload", asset.Payload); err != nil {
		return nil, err
	}
	for _, addon := range asset.Addons {
		name := string(addon.Type[strings.LastIndexByte(string(addon.Type), '.')+1:])
		if resolved, err := schemas.Resolve(name); err != nil || resolved != addon.Type {
			name = string(addon.Type)
		}
		if err := add("addons."+name, addon); err != nil {
			return nil, err
		}
	}
	slices.SortFunc(list, func(a, b leaf) int { return cmp.Compare(a.path, b.path) })
	return list, nil
}

func appendMessage(list []leaf, path string, message protoreflect.Message) []leaf {
	if text, ok := oneValue(message); ok {
		return append(list, leaf{path, text, text})
	}
	// Its being there is a value too.
	list = append(list, leaf{path, "{}", "{}"})
	message.Range(func(field protoreflect.FieldDescriptor, value protoreflect.Value) bool {
		fieldPath := path + "." + string(field.Name())
		if schema.IsSecret(field) {
			list = append(list, secret(fieldPath, appendField(nil, fieldPath, field, value)))
		} else {
			list = appendField(list, fieldPath, field, value)
		}
		return true
	})
	return list
}

// secret hides leaves behind one that differs when any of them does.
func secret(path string, hidden []leaf) leaf {
	slices.SortFunc(hidden, func(a, b leaf) int { return cmp.Compare(a.path, b.path) })
	var whole strings.Builder
	for _, l := range hidden {
		fmt.Fprintf(&whole, "%q=%q,", l.path, l.whole)
	}
	return leaf{path, schema.Redacted, whole.String()}
}

func appendField(list []leaf, path string, field protoreflect.FieldDescriptor, value protoreflect.Value) []leaf {
	switch {
	case field.IsMap():
		value.Map().Range(func(key protoreflect.MapKey, value protoreflect.Value) bool {
			name := key.String()
			if field.MapKey().Kind() == protoreflect.StringKind {
				name = clip(strconv.Quote(name))
			}
			list = appendValue(list, path+"["+name+"]", field.MapValue(), value)
			return true
		})
	case field.IsList():
		for i := range value.List().Len() {
			list = appendValue(list, fmt.Sprintf("%s[%d]", path, i), field, value.List().Get(i))
		}
	default:
		list = appendValue(list, path, field, value)
	}
	return list
}

func appendValue(list []leaf, path string, field protoreflect.FieldDescriptor, value protoreflect.Value) []leaf {
	if field.Message() != nil {
		return appendMessage(list, path, value.Message())
	}
	text := value.String()
	switch field.Kind() {
	case protoreflect.StringKind:
		if nested, ok := appendJSON(list, path, text); ok {
			return nested
		}
		text = strconv.Quote(text)
	case protoreflect.BytesKind:
		text = strconv.Quote(string(value.Bytes()))
	case protoreflect.EnumKind:
		if named := field.Enum().Values().ByNumber(value.Enum()); named != nil {
			text = string(named.Name())
		} else {
			text = strconv.Itoa(int(value.Enum()))
		}
	}
	return append(list, leaf{path, clip(text), text})
}

// oneValue writes messages that people take for one value.
func oneValue(message protoreflect.Message) (string, bool) {
	switch known := message.Interface().(type) {
	case *durationpb.Duration:
		return known.AsDuration().String(), true
	case *timestamppb.Timestamp:
		return known.AsTime().Format("2006-01-02T15:04:05.999999999Z"), true
	}
	return "", false
}

// clip shortens a value, and tells it apart by a digest.
func clip(text string) string {
	const most = 500
	if len(text) <= most {
		return text
	}
	cut := most - 64
	for !utf8.RuneStart(text[cut]) {
		cut--
	}
	digest := sha256.Sum256([]byte(text))
	return fmt.Sprintf("%s… (%d bytes, sha256 %s)", text[:cut], len(text), hex.EncodeToString(digest[:8]))
}

// Values calls each for every value of a content, in the order of the paths,
// until it returns false. Secrets are left out, and values are whole.
func Values(schemas *schema.Set, asset intent.Asset, visit func(path, value string) bool) error {
	all, err := leaves(schemas, asset)
	if err != nil {
		return err
	}
	for _, l := range all {
		if l.display != schema.Redacted && l.whole != "{}" && !visit(l.path, l.whole) {
			break
		}
	}
	return nil
}
