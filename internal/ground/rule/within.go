package rule

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"strings"

	"cel.dev/cel-go/common/types/ref"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/structpb"

	"lehr.dev/internal/ground/fault"
)

// holdsJSON reports whether a field is a text that is JSON, so that a path can lead into it: payloads of
// Kubernetes and of HTTP resources call it json.
func holdsJSON(field protoreflect.FieldDescriptor) bool {
	return field.Kind() == protoreflect.StringKind && !field.IsList() && !field.IsMap() && field.Name() == "json"
}

// parseWithin reads JSON so that no number loses a digit.
func parseWithin(text string) (root any, err error) {
	decoder := json.NewDecoder(strings.NewReader(text))
	decoder.UseNumber()
	return root, decoder.Decode(&root)
}

// writeWithin writes JSON with sorted keys and no more escapes than it needs.
func writeWithin(value any) (string, error) {
	var text bytes.Buffer
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false)
	err := encoder.Encode(value)
	return strings.TrimSuffix(text.String(), "\n"), err
}

// readWithin is the value at a path of keys, as JSON.
func readWithin(text string, path []string) (value protoreflect.Value, isSet bool) {
	at, err := parseWithin(text)
	for _, key := range path {
		entries, ok := at.(map[string]any)
		if at, isSet = entries[key]; !ok || !isSet {
			return value, false
		}
	}
	written, writeErr := writeWithin(at)
	if err != nil || writeErr != nil || at == nil {
		return value, false
	}
	return protoreflect.ValueOfString(written), true
}

// putWithin sets the value at the path, and makes the objects that lead there. It leaves a text that is empty
// as it is, for then the JSON is elsewhere. With fill, an empty value is not put.
func (f Field) putWithin(message protoreflect.Message, celValue ref.Val, fill bool) (empty bool, err error) {
	for _, field := range f.parents {
		message = message.Mutable(field).Message()
	}
	text := message.Get(f.last).String()
	if text == "" {
		return true, nil
	}
	native, err := celValue.ConvertToNative(reflect.TypeFor[*structpb.Value]())
	if err != nil {
		return false, fault.New(fault.Invalid, "gives %s, and %s is a value of JSON", celValue.Type().TypeName(), f.path)
	}
	value := native.(*structpb.Value).AsInterface()
	if fill && (value == nil || reflect.ValueOf(value).IsZero()) {
		return true, nil
	}
	root, err := parseWithin(text)
	if err != nil {
		return false, fault.New(fault.Invalid, "%s is no JSON: %v", f.last.Name(), err)
	}
	at, ok := root.(map[string]any)
	for i, key := range f.within {
		if !ok {
			return false, fault.New(fault.Invalid, "%s.%s has no fields of its own", f.last.Name(), strings.Join(f.within[:i], ".")).
				WithHint("set it as a whole: a path leads through objects, and not into lists")
		}
		if i == len(f.within)-1 {
			at[key] = value
			break
		}
		if at[key] == nil {
			at[key] = map[string]any{}
		}
		at, ok = at[key].(map[string]any)
	}
	written, err := writeWithin(root)
	if err != nil {
		return false, fmt.Errorf("writing %s: %w", f.last.Name(), err)
	}
	message.Set(f.last, protoreflect.ValueOfString(written))
	return false, nil
}
