package schema

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	intentpb "lehr.dev/gen/lehr/intent/v1"
	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/intent"
)

// MaxFieldBytes bounds the path, and the value, of what is indexed: the index
// is for finding assets by short words, not for holding their content.
const MaxFieldBytes = 256

// indexed holds, by type, the fields that are marked lehr.intent.v1.indexed,
// in the order of their numbers.
type indexed map[protoreflect.FullName][]protoreflect.FieldDescriptor

// newIndexed refuses marks on fields that have no single short text.
func newIndexed(messages map[protoreflect.FullName]protoreflect.MessageType) (indexed, error) {
	result := indexed{}
	for _, name := range slices.Sorted(maps.Keys(messages)) { // The first that is wrong is told.
		fields := messages[name].Descriptor().Fields()
		for i := range fields.Len() {
			field := fields.Get(i)
			if !isIndexed(field) {
				continue
			}
			if !indexable(field) {
				return nil, fault.New(fault.Invalid, "field %s is marked as indexed, but is no number, bool, enum or text, nor a map from text to these", field.FullName())
			}
			result[name] = append(result[name], field)
		}
		slices.SortFunc(result[name], func(a, b protoreflect.FieldDescriptor) int { return int(a.Number()) - int(b.Number()) })
	}
	return result, nil
}

func indexable(field protoreflect.FieldDescriptor) bool {
	element := elementOf(field)
	return !field.IsList() && (!field.IsMap() || field.MapKey().Kind() == protoreflect.StringKind) &&
		element.Message() == nil && element.Kind() != protoreflect.BytesKind
}

func isIndexed(field protoreflect.FieldDescriptor) bool {
	options := field.Options()
	return options != nil && proto.HasExtension(options, intentpb.E_Indexed) && proto.GetExtension(options, intentpb.E_Indexed).(bool)
}

// Fields lists what an asset is found by: the fields marked
// lehr.intent.v1.indexed that its payload and addons set, and the type of each
// addon, with no value.
func (s *Set) Fields(a intent.Asset) ([]intent.Field, error) {
	result, err := s.fieldsOf(nil, a.Payload)
	for i := 0; i < len(a.Addons) && err == nil; i++ {
		result = append(result, intent.Field{Path: string(a.Addons[i].Type)})
		result, err = s.fieldsOf(result, a.Addons[i])
	}
	if err != nil {
		return nil, fault.New(fault.Invalid, "cannot find the indexed fields of asset %s: %w", a.ID, err)
	}
	return result, nil
}

func (s *Set) fieldsOf(result []intent.Field, m intent.Message) ([]intent.Field, error) {
	messageType, err := s.find(m.Type)
	if err != nil {
		return nil, err
	}
	fields := s.indexed[messageType.Descriptor().FullName()]
	if len(fields) == 0 {
		return result, nil
	}
	message := messageType.New()
	options := proto.UnmarshalOptions{RecursionLimit: maxDepth, Resolver: s.types}
	if err := options.Unmarshal(m.Bytes, message.Interface()); err != nil {
		return nil, fault.New(fault.Invalid, "cannot decode a %s: %w", m.Type, err)
	}
	add := func(path, value string) {
		if len(path) <= MaxFieldBytes && len(value) <= MaxFieldBytes {
			result = append(result, intent.Field{Path: path, Value: value})
		}
	}
	for _, field := range fields {
		switch value := message.Get(field); {
		case !message.Has(field):
		case field.IsMap():
			values := map[string]string{}
			value.Map().Range(func(key protoreflect.MapKey, value protoreflect.Value) bool {
				values[key.String()] = textOf(field.MapValue(), value)
				return true
			})
			for _, key := range slices.Sorted(maps.Keys(values)) {
				add(fieldPath(field, key), values[key])
			}
		default:
			add(string(field.FullName()), textOf(field, value))
		}
	}
	return result, nil
}

func fieldPath(field protoreflect.FieldDescriptor, key string) string {
	return fmt.Sprintf("%s[%q]", field.FullName(), key)
}

func textOf(field protoreflect.FieldDescriptor, value protoreflect.Value) string {
	if field.Enum() != nil {
		if enumValue := field.Enum().Values().ByNumber(value.Enum()); enumValue != nil {
			return string(enumValue.Name())
		}
	}
	return value.String()
}

// FieldPath turns what a person writes, such as "Job.version",
// "Labels.labels[team]" or the type of an addon, "Owner", into a path as Fields
// has it.
func (s *Set) FieldPath(short string) (string, error) {
	name, key, keyed := strings.Cut(short, "[")
	if !keyed {
		if addon, err := s.Resolve(name); err == nil {
			return string(addon), nil
		}
	}
	if dot := strings.LastIndexByte(name, '.'); dot > 0 {
		holder, _ := s.Resolve(name[:dot])
		for _, field := range s.indexed[protoreflect.FullName(holder)] {
			if string(field.Name()) != name[dot+1:] || field.IsMap() != keyed {
				continue
			}
			if !keyed {
				return string(field.FullName()), nil
			}
			key, closed := strings.CutSuffix(key, "]")
			if unquoted, err := strconv.Unquote(key); err == nil {
				key = unquoted
			}
			if closed {
				return fieldPath(field, key), nil
			}
		}
	}
	return "", fault.New(fault.Invalid, "no indexed field or addon is named %.300q", short).
		WithHint("assets are found by the type of an addon, or by %s", strings.Join(s.indexedPaths(), ", "))
}

// indexedPaths are the first choices there are.
func (s *Set) indexedPaths() []string {
	const most = 30
	var paths []string
	for _, name := range s.names {
		for _, field := range s.indexed[protoreflect.FullName(name)] {
			path := string(field.FullName())
			if field.IsMap() {
				path += "[KEY]"
			}
			paths = append(paths, path)
		}
	}
	return paths[:min(len(paths), most)]
}
