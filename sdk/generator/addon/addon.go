// Package addon lists the addons that can be given to any asset, and reads them as
// people write them: in an annotation of a Kubernetes object, under with: of a renderer.
// The list is made of the contract: a message with the option lehr.intent.v1.addon is on
// it. It knows no partition's own types, and does no I/O. Package kubernetes reads
// annotations by it, package definition the file lehr.yaml, and package derive adds up
// what several places say.
package addon

import (
	"slices"
	"strings"
	"sync"
	"unicode"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"

	"buf.build/gen/go/bufbuild/protovalidate/protocolbuffers/go/buf/validate"

	intentpb "lehr.dev/gen/lehr/intent/v1"
	"lehr.dev/internal/ground/spell"
)

// Kind of addon.
type Kind struct {
	// Name is short, as Turndown; Key is it in small letters with hyphens, as in
	// lehr.dev/impacted-scope.
	Name, Key string
	// Form says how it is written and added up.
	Form *intentpb.AddonForm

	message protoreflect.MessageType
}

// usualStage is that of addons whose form names none.
const usualStage = 2

var kinds = sync.OnceValue(func() (list []Kind) {
	messages := intentpb.File_lehr_intent_v1_addons_proto.Messages()
	for i := range messages.Len() {
		descriptor := messages.Get(i)
		form, ok := proto.GetExtension(descriptor.Options(), intentpb.E_Addon).(*intentpb.AddonForm)
		if !ok || !proto.HasExtension(descriptor.Options(), intentpb.E_Addon) {
			continue
		}
		message, err := protoregistry.GlobalTypes.FindMessageByName(descriptor.FullName())
		if err != nil {
			continue // The file's messages are registered with it.
		}
		list = append(list, Kind{Name: string(descriptor.Name()), Key: hyphenated(string(descriptor.Name())), Form: form, message: message})
	}
	slices.SortFunc(list, func(a, b Kind) int { return strings.Compare(a.Name, b.Name) })
	return list
})

// All kinds, in the order of their names. They are not to be changed.
func All() []Kind { return kinds() }

// Names of all kinds, in order.
func Names() (list []string) {
	for _, kind := range All() {
		list = append(list, kind.Name)
	}
	return list
}

// ByName finds a kind by its short or full name. Where there is none, the hint names the
// probable one and all that there are.
func ByName(name string) (kind Kind, hint string, ok bool) {
	short := strings.TrimPrefix(name, string(intentpb.File_lehr_intent_v1_addons_proto.Package())+".")
	return find(short, Names(), func(k Kind) string { return k.Name })
}

// ByKey finds a kind by its key, as turndown.
func ByKey(key string) (kind Kind, hint string, ok bool) {
	var keys []string
	for _, kind := range All() {
		keys = append(keys, kind.Key)
	}
	return find(key, keys, func(k Kind) string { return k.Key })
}

func find(name string, names []string, nameOf func(Kind) string) (kind Kind, hint string, ok bool) {
	for _, kind := range All() {
		if nameOf(kind) == name {
			return kind, "", true
		}
	}
	hint = "the addons are " + strings.Join(names, ", ")
	if suggestion := spell.Nearest(name, names); suggestion != "" {
		hint = "did you mean " + suggestion + "? " + hint
	}
	return Kind{}, hint, false
}

func hyphenated(name string) string {
	var b strings.Builder
	for i, c := range name {
		if unicode.IsUpper(c) && i > 0 {
			b.WriteByte('-')
		}
		b.WriteRune(unicode.ToLower(c))
	}
	return b.String()
}

// New is an empty addon of the kind.
func (k Kind) New() proto.Message { return k.message.New().Interface() }

// FullName of its type.
func (k Kind) FullName() protoreflect.FullName { return k.message.Descriptor().FullName() }

// Fields of its message, in the order of the contract.
func (k Kind) Fields() (list []protoreflect.FieldDescriptor) {
	fields := k.message.Descriptor().Fields()
	for i := range fields.Len() {
		list = append(list, fields.Get(i))
	}
	return list
}

// Stage in which derivations give it.
func (k Kind) Stage() int {
	if stage := int(k.Form.GetStage()); stage > 0 {
		return stage
	}
	return usualStage
}

// Entries is the field in which it holds texts by name: a map of texts, or a list of
// messages of two texts, of which the first is the name. Nil: it has none.
func (k Kind) Entries() protoreflect.FieldDescriptor {
	for _, field := range k.Fields() {
		if field.IsMap() && field.MapValue().Kind() == protoreflect.StringKind {
			return field
		}
		if name, value := pair(field); name != nil && value != nil {
			return field
		}
	}
	return nil
}

// pair is the two texts of a list's elements; nil: they are something else.
func pair(field protoreflect.FieldDescriptor) (name, value protoreflect.FieldDescriptor) {
	if !field.IsList() || field.Kind() != protoreflect.MessageKind {
		return nil, nil
	}
	fields := field.Message().Fields()
	if fields.Len() != 2 || fields.Get(0).Kind() != protoreflect.StringKind || fields.Get(1).Kind() != protoreflect.StringKind {
		return nil, nil
	}
	return fields.Get(0), fields.Get(1)
}

// Required reports whether a field of an addon may not be left empty.
func Required(field protoreflect.FieldDescriptor) bool {
	rules, ok := proto.GetExtension(field.Options(), validate.E_Field).(*validate.FieldRules)
	if !ok || rules == nil {
		return false
	}
	return rules.GetRequired() || rules.GetString().GetMinLen() > 0 || rules.GetRepeated().GetMinItems() > 0 ||
		rules.GetMap().GetMinPairs() > 0 || slices.Contains(rules.GetEnum().GetNotIn(), 0)
}
