package world

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strconv"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/descriptorpb"

	"lehr.dev/internal/ground/schema"
)

const redactedValue = "(redacted)"

// render writes the value of a field for people; nothing when it is not set.
func render(schemas *schema.Set, message protoreflect.Message, field protoreflect.FieldDescriptor) string {
	if !message.Has(field) {
		return ""
	}
	holder := message.Type().New()
	holder.Set(field, message.Get(field))
	return renderHolder(schemas, holder, field)
}

// renderEntry writes one value of a map.
func renderEntry(schemas *schema.Set, message protoreflect.Message, field protoreflect.FieldDescriptor, key protoreflect.MapKey) string {
	if !message.Get(field).Map().Has(key) {
		return ""
	}
	holder := message.Type().New()
	holder.Mutable(field).Map().Set(key, message.Get(field).Map().Get(key))
	return renderHolder(schemas, holder, field)
}

// renderHolder writes the only field that a message has.
func renderHolder(schemas *schema.Set, holder protoreflect.Message, field protoreflect.FieldDescriptor) string {
	if isRedacted(field) {
		return redactedValue
	}
	shown := proto.Clone(holder.Interface()).ProtoReflect()
	clearRedacted(shown)
	encoded, err := protojson.MarshalOptions{Resolver: schemas.Types()}.Marshal(shown.Interface())
	if err != nil {
		return "(" + err.Error() + ")"
	}
	// protojson puts spaces where it likes.
	var compact bytes.Buffer
	if json.Compact(&compact, encoded) != nil {
		return "(no JSON)"
	}
	return clip(compact.String())
}

func renderKey(key protoreflect.MapKey) string {
	if text, ok := key.Interface().(string); ok {
		return "[" + clip(strconv.Quote(text)) + "]"
	}
	return "[" + key.String() + "]"
}

// clip shortens a value; two long ones never look the same.
func clip(value string) string {
	const most = 512
	if len(value) <= most {
		return value
	}
	digest := sha256.Sum256([]byte(value))
	return fmt.Sprintf("%s… (%d bytes, sha256 %s)", bytes.ToValidUTF8([]byte(value[:most/2]), nil), len(value), hex.EncodeToString(digest[:8]))
}

// text is a state, short; nothing is empty.
func (s snapshot) text() string {
	if !s.exists {
		return ""
	}
	digest := sha256.Sum256(s.payload)
	return s.base() + " " + hex.EncodeToString(digest[:4])
}

func isRedacted(field protoreflect.FieldDescriptor) bool {
	options, _ := field.Options().(*descriptorpb.FieldOptions)
	return options.GetDebugRedact()
}

// clearRedacted empties what must not be shown, at any depth (S13).
func clearRedacted(message protoreflect.Message) {
	message.Range(func(field protoreflect.FieldDescriptor, value protoreflect.Value) bool {
		switch {
		case isRedacted(field):
			message.Clear(field)
		case field.IsMap():
			if field.MapValue().Message() != nil {
				value.Map().Range(func(_ protoreflect.MapKey, v protoreflect.Value) bool {
					clearRedacted(v.Message())
					return true
				})
			}
		case field.Message() == nil:
		case field.IsList():
			for i := range value.List().Len() {
				clearRedacted(value.List().Get(i).Message())
			}
		default:
			clearRedacted(value.Message())
		}
		return true
	})
}
