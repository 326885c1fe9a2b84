package serve

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strconv"
	"unicode/utf8"

	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"lehr.dev/sdk/secret"
)

const (
	redactedValue = "(redacted)"
	// maxValue is how much of a value is shown; a longer one ends in its
	// digest, so that two long values never look the same.
	maxValue = 1024
)

// isRedacted reports whether a field's values must never be shown (S13).
func isRedacted(field protoreflect.FieldDescriptor) bool {
	options, _ := field.Options().(*descriptorpb.FieldOptions)
	return options.GetDebugRedact()
}

// renderScalar writes one scalar value for people. Secrets go before it is shortened: of
// one that was cut nobody would know that it is one.
func renderScalar(field protoreflect.FieldDescriptor, value protoreflect.Value) string {
	switch field.Kind() {
	case protoreflect.StringKind:
		return clip(strconv.Quote(secret.Redact(value.String())))
	case protoreflect.BytesKind:
		return clip(strconv.Quote(secret.Redact(string(value.Bytes()))))
	case protoreflect.EnumKind:
		if named := field.Enum().Values().ByNumber(value.Enum()); named != nil {
			return string(named.Name())
		}
		return strconv.Itoa(int(value.Enum()))
	default:
		return value.String()
	}
}

// renderWhole writes a message that is one value for people, such as a
// duration.
func renderWhole(message protoreflect.Message) (string, bool) {
	if !message.IsValid() {
		return "", false
	}
	switch known := message.Interface().(type) {
	case *durationpb.Duration:
		return known.AsDuration().String(), true
	case *timestamppb.Timestamp:
		return known.AsTime().Format("2006-01-02T15:04:05.999999999Z"), true
	}
	return "", false
}

func renderKey(key protoreflect.MapKey) string {
	if text, ok := key.Interface().(string); ok {
		return "[" + clip(strconv.Quote(text)) + "]"
	}
	return "[" + key.String() + "]"
}

// clip shortens a rendered value to whole runes and the digest of the whole.
func clip(value string) string {
	if len(value) <= maxValue {
		return value
	}
	digest := sha256.Sum256([]byte(value))
	cut := maxValue - 64
	for !utf8.RuneStart(value[cut]) {
		cut--
	}
	return fmt.Sprintf("%s… (%d bytes, sha256 %s)", value[:cut], len(value), hex.EncodeToString(digest[:8]))
}

// clearRedacted empties redacted fields, at any depth.
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
		case field.IsList():
			if field.Message() != nil {
				for i := range value.List().Len() {
					clearRedacted(value.List().Get(i).Message())
				}
			}
		case field.Message() != nil:
			clearRedacted(value.Message())
		}
		return true
	})
}

// hasRedacted reports whether any field below a type is redacted.
func hasRedacted(message protoreflect.MessageDescriptor, seen map[protoreflect.FullName]bool) bool {
	if seen[message.FullName()] {
		return false
	}
	seen[message.FullName()] = true
	for i := range message.Fields().Len() {
		field := message.Fields().Get(i)
		if isRedacted(field) || field.Message() != nil && hasRedacted(field.Message(), seen) {
			return true
		}
	}
	return false
}
