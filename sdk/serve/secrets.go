package serve

import (
	"strings"

	"google.golang.org/protobuf/reflect/protoreflect"

	"lehr.dev/sdk/secret"
)

// hideInPlan takes the secrets that this process has read out of what a plan shows. It
// is done before the plan's digest is taken, on both sides of an approval alike.
func hideInPlan(changes []FieldChange) {
	for i := range changes {
		change := &changes[i]
		change.Path, change.Current, change.Target = secret.Redact(change.Path), secret.Redact(change.Current), secret.Redact(change.Target)
		change.Reason = secret.Redact(change.Reason)
	}
}

func holdsSecret(text string) bool { return text != "" && secret.Redact(text) != text }

// rotations ends the reason of a stale push with the secrets that it may be about.
func rotations(push *secret.Push) string {
	names := push.Rotated()
	if len(names) == 0 {
		return ""
	}
	return "; rotated since production was looked at: " + strings.Join(names, ", ")
}

// hideSecrets takes the secrets that this process has read out of all texts of a
// message. A key of a map that holds one loses its entry.
func hideSecrets(message protoreflect.Message) {
	message.Range(func(field protoreflect.FieldDescriptor, value protoreflect.Value) bool {
		switch {
		case field.IsMap():
			hideInMap(field, value.Map())
		case field.IsList():
			list := value.List()
			for i := range list.Len() {
				if hidden, changed := hideInValue(field, list.Get(i)); changed {
					list.Set(i, hidden)
				}
			}
		default:
			if hidden, changed := hideInValue(field, value); changed {
				message.Set(field, hidden)
			}
		}
		return true
	})
}

func hideInMap(field protoreflect.FieldDescriptor, entries protoreflect.Map) {
	entries.Range(func(key protoreflect.MapKey, value protoreflect.Value) bool {
		if holdsSecret(key.String()) {
			entries.Clear(key)
		} else if hidden, changed := hideInValue(field.MapValue(), value); changed {
			entries.Set(key, hidden)
		}
		return true
	})
}

// hideInValue returns what takes the place of a value that holds a secret.
func hideInValue(field protoreflect.FieldDescriptor, value protoreflect.Value) (hidden protoreflect.Value, changed bool) {
	switch field.Kind() {
	case protoreflect.StringKind:
		return protoreflect.ValueOfString(secret.Redact(value.String())), holdsSecret(value.String())
	case protoreflect.BytesKind:
		return protoreflect.ValueOfBytes([]byte(secret.Redact(string(value.Bytes())))), holdsSecret(string(value.Bytes()))
	case protoreflect.MessageKind, protoreflect.GroupKind:
		hideSecrets(value.Message())
	}
	return value, false
}
