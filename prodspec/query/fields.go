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

	"lehr.dev/intent"
	"lehr.dev/schema"
)

// leaf is one value within a content.
type leaf struct {
	path string
	// shown is the value for people, and whole tells different values apart:
	// a long value, or a secret, is not shown as it is.
	shown, whole string
}

// Differences lists how two contents of an asset differ, in the order of the
// paths, which are as in a filter: payload.replicas, addons.Owner.owner. The
// two may be of different schemas, so that values are found by their paths.
func Differences(older *schema.Set, before intent.Asset, newer *schema.Set, after intent.Asset) ([]intent.FieldChange, error) {
	was, err := leaves(older, before)
	if err != nil {
		return nil, err
	}
	is, err := leaves(newer, after)
	if err != nil {
		return nil, err
	}
	var found []intent.FieldChange
	for len(was) > 0 || len(is) > 0 {
		change, differs := intent.FieldChange{}, true
		switch order := comparePaths(was, is); {
		case order < 0:
			change, was = intent.FieldChange{Path: was[0].path, Current: was[0].shown}, was[1:]
		case order > 0:
			change, is = intent.FieldChange{Path: is[0].path, Target: is[0].shown}, is[1:]
		default:
			change, differs = intent.FieldChange{Path: is[0].path, Current: was[0].shown, Target: is[0].shown}, was[0].whole != is[0].whole
			was, is = was[1:], is[1:]
		}
		if differs {
			found = append(found, change)
		}
	}
	if more := len(found) - MostFields + 1; more > 1 {
		found = append(found[:MostFields-1], intent.FieldChange{Path: fmt.Sprintf("(%d more)", more)})
	}
	return found, nil
}

// comparePaths says which list's first leaf comes first; an empty list's never
// does.
func comparePaths(was, is []leaf) int {
	switch {
	case len(is) == 0:
		return -1
	case len(was) == 0:
		return 1
	}
	return cmp.Compare(was[0].path, is[0].path)
}

// leaves of payload and addons, by path.
func leaves(set *schema.Set, asset intent.Asset) ([]leaf, error) {
	found := []leaf{{path: "type", shown: string(asset.Payload.Type), whole: string(asset.Payload.Type)}}
	add := func(path string, m intent.Message) error {
		message, err := set.Unpack(m)
		if err == nil {
			found = appendMessage(found, path, message.ProtoReflect())
		}
		return err
	}
	if err := add("payload", asset.Payload); err != nil {
		return nil, err
	}
	for _, addon := range asset.Addons {
		name := string(addon.Type[strings.LastIndexByte(string(addon.Type), '.')+1:])
		if resolved, err := set.Resolve(name); err != nil || resolved != addon.Type {
			name = string(addon.Type)
		}
		if err := add("addons."+name, addon); err != nil {
			return nil, err
		}
	}
	slices.SortFunc(found, func(a, b leaf) int { return cmp.Compare(a.path, b.path) })
	return found, nil
}

func appendMessage(found []leaf, path string, message protoreflect.Message) []leaf {
	if text, ok := oneValue(message); ok {
		return append(found, leaf{path, text, text})
	}
	// Its being there is a value too.
	found = append(found, leaf{path, "{}", "{}"})
	message.Range(func(field protoreflect.FieldDescriptor, value protoreflect.Value) bool {
		below := path + "." + string(field.Name())
		if schema.IsSecret(field) {
			found = append(found, secret(below, appendField(nil, below, field, value)))
		} else {
			found = appendField(found, below, field, value)
		}
		return true
	})
	return found
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

func appendField(found []leaf, path string, field protoreflect.FieldDescriptor, value protoreflect.Value) []leaf {
	switch {
	case field.IsMap():
		value.Map().Range(func(key protoreflect.MapKey, value protoreflect.Value) bool {
			name := key.String()
			if field.MapKey().Kind() == protoreflect.StringKind {
				name = clip(strconv.Quote(name))
			}
			found = appendValue(found, path+"["+name+"]", field.MapValue(), value)
			return true
		})
	case field.IsList():
		for i := range value.List().Len() {
			found = appendValue(found, fmt.Sprintf("%s[%d]", path, i), field, value.List().Get(i))
		}
	default:
		found = appendValue(found, path, field, value)
	}
	return found
}

func appendValue(found []leaf, path string, field protoreflect.FieldDescriptor, value protoreflect.Value) []leaf {
	if field.Message() != nil {
		return appendMessage(found, path, value.Message())
	}
	text := value.String()
	switch field.Kind() {
	case protoreflect.StringKind:
		if within, is := appendJSON(found, path, text); is {
			return within
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
	return append(found, leaf{path, clip(text), text})
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
func Values(set *schema.Set, asset intent.Asset, each func(path, value string) bool) error {
	found, err := leaves(set, asset)
	if err != nil {
		return err
	}
	for _, l := range found {
		if l.shown != schema.Redacted && l.whole != "{}" && !each(l.path, l.whole) {
			break
		}
	}
	return nil
}
