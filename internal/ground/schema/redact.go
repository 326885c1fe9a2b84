package schema

import (
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/descriptorpb"
)

// Redacted stands where the value of a secret field would be.
const Redacted = "(redacted)"

// IsSecret reports whether a field's values must never be shown (S13): it has
// the option debug_redact.
func IsSecret(field protoreflect.FieldDescriptor) bool {
	options, _ := field.Options().(*descriptorpb.FieldOptions)
	return options.GetDebugRedact()
}

// redact hides the values of secret fields, at any depth: of a text it shows
// that there is one, of all else nothing.
func redact(message protoreflect.Message) {
	message.Range(func(field protoreflect.FieldDescriptor, value protoreflect.Value) bool {
		switch {
		case IsSecret(field) && field.Kind() == protoreflect.StringKind && !field.IsList() && !field.IsMap():
			message.Set(field, protoreflect.ValueOfString(Redacted))
		case IsSecret(field):
			message.Clear(field)
		case field.IsMap() && field.MapValue().Message() != nil:
			value.Map().Range(func(_ protoreflect.MapKey, v protoreflect.Value) bool {
				redact(v.Message())
				return true
			})
		case field.IsList() && field.Message() != nil:
			for i := range value.List().Len() {
				redact(value.List().Get(i).Message())
			}
		case field.Message() != nil && !field.IsMap():
			redact(value.Message())
		}
		return true
	})
}
