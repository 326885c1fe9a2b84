package schema

import (
	"bytes"
	"cmp"
	"encoding/json"
	"slices"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/intent"
)

// The fields of lehr.intent.v1.Asset.
const (
	fieldID      = 1
	fieldPayload = 2
	fieldAddons  = 3
)

// Pack returns a message's canonical bytes with its type.
func (s *Set) Pack(m proto.Message) (intent.Message, error) {
	name := intent.TypeName(m.ProtoReflect().Descriptor().FullName())
	if _, err := s.find(name); err != nil {
		return intent.Message{}, err
	}
	encoded, err := s.Canonical(m)
	return intent.Message{Type: name, Bytes: encoded}, err
}

// Unpack decodes a message. It accepts any wire of the type that Canonical
// would accept: no unknown fields, no nesting deeper than 100.
func (s *Set) Unpack(m intent.Message) (proto.Message, error) {
	messageType, err := s.find(m.Type)
	if err != nil {
		return nil, err
	}
	message := messageType.New().Interface()
	options := proto.UnmarshalOptions{RecursionLimit: maxDepth, Resolver: s.types}
	if err := options.Unmarshal(m.Bytes, message); err != nil {
		return nil, fault.New(fault.Invalid, "cannot decode %d bytes as a %s: %w", len(m.Bytes), m.Type, err)
	}
	if _, err := s.encoding.encode(make([]byte, 0, len(m.Bytes)), message); err != nil {
		return nil, err
	}
	return message, nil
}

// Encode returns the canonical bytes of an asset, which are those of a
// lehr.intent.v1.Asset, and their digest. Payload and addons may be any wire
// of their types: they are encoded anew, and addons sorted. Invalid names the
// asset and says what is wrong: id, type, content, two addons of a type, or
// more than intent.MaxAssetBytes.
func (s *Set) Encode(a intent.Asset) ([]byte, intent.Digest, error) {
	if _, err := intent.ParseAssetID(string(a.ID)); err != nil {
		return nil, intent.Digest{}, err
	}
	size := 64 + len(a.ID) + len(a.Payload.Bytes) + 64*len(a.Addons)
	for _, addon := range a.Addons {
		size += len(addon.Bytes)
	}
	b := make([]byte, 0, size)
	b = protowire.AppendString(protowire.AppendTag(b, fieldID, protowire.BytesType), string(a.ID))
	if a.Payload.Type == "" {
		return nil, intent.Digest{}, fault.New(fault.Invalid, "asset %s has no payload", a.ID)
	}
	b, err := s.envelop(b, fieldPayload, a.Payload)
	if err != nil {
		return nil, intent.Digest{}, fault.New(fault.Invalid, "asset %s: payload: %w", a.ID, err)
	}
	addons := a.Addons
	if !slices.IsSortedFunc(addons, byType) {
		addons = slices.SortedFunc(slices.Values(addons), byType)
	}
	for i, addon := range addons {
		if i > 0 && addon.Type == addons[i-1].Type {
			return nil, intent.Digest{}, fault.New(fault.Invalid, "asset %s has two addons of type %s, at most one of a type is allowed", a.ID, addon.Type)
		}
		if b, err = s.envelop(b, fieldAddons, addon); err != nil {
			return nil, intent.Digest{}, fault.New(fault.Invalid, "asset %s: addon: %w", a.ID, err)
		}
	}
	if len(b) > intent.MaxAssetBytes {
		return nil, intent.Digest{}, s.tooLarge(a.ID, b)
	}
	return b, intent.BodyDigest(b), nil
}

func byType(a, b intent.Message) int { return cmp.Compare(a.Type, b.Type) }

// envelop writes a message as an Any field of the asset.
func (s *Set) envelop(b []byte, number protowire.Number, m intent.Message) ([]byte, error) {
	messageType, err := s.find(m.Type)
	if err != nil {
		return nil, err
	}
	b = append(protowire.AppendTag(b, number, protowire.BytesType), 0)
	start := len(b)
	if b, err = s.encoding.content(b, messageType, m.Bytes, 1); err != nil {
		return nil, err
	}
	return withLength(b, start), nil
}

func (s *Set) tooLarge(id intent.AssetID, encoded []byte) error {
	asset, err := Decode(encoded)
	if err != nil {
		return err
	}
	largest, size := "", 0
	for _, message := range append([]intent.Message{asset.Payload}, asset.Addons...) {
		sizes := map[protowire.Number]int{}
		for rest := message.Bytes; len(rest) > 0; {
			number, _, n := protowire.ConsumeField(rest)
			if n < 0 {
				break
			}
			sizes[number] += n
			rest = rest[n:]
		}
		fields := s.types.messages[protoreflect.FullName(message.Type)].Descriptor().Fields()
		for i := range fields.Len() {
			if field := fields.Get(i); sizes[field.Number()] > size {
				largest, size = string(field.FullName()), sizes[field.Number()]
			}
		}
	}
	return fault.New(fault.Invalid, "asset %s has %d canonical bytes, at most %d are allowed; its largest field is %s with %d bytes",
		id, len(encoded), intent.MaxAssetBytes, largest, size).
		WithHint("keep large content elsewhere and name it by digest, or split the asset")
}

// Decode reads canonical bytes into their parts, without a schema. It accepts
// only what Encode may have written; what payload and addons hold is not
// looked into. The asset shares the bytes.
func Decode(canonical []byte) (intent.Asset, error) {
	var asset intent.Asset
	rest := canonical
	for len(rest) > 0 {
		number, content, n := consumeBytes(rest)
		if n < 0 {
			return intent.Asset{}, notCanonical("it has a broken field at byte %d", len(canonical)-len(rest))
		}
		rest = rest[n:]
		switch {
		case number == fieldID && asset.ID == "" && asset.Payload.Type == "" && len(asset.Addons) == 0:
			asset.ID = intent.AssetID(content)
			if len(content) == 0 {
				return intent.Asset{}, notCanonical("its id is empty")
			}
			continue
		case number == fieldPayload && asset.ID != "" && asset.Payload.Type == "" && len(asset.Addons) == 0:
		case number == fieldAddons && asset.Payload.Type != "":
		default:
			return intent.Asset{}, notCanonical("field number %d is out of place", number)
		}
		message, err := decodeContent(content)
		if err != nil {
			return intent.Asset{}, err
		}
		if number == fieldPayload {
			asset.Payload = message
			continue
		}
		if last := len(asset.Addons) - 1; last >= 0 && asset.Addons[last].Type >= message.Type {
			return intent.Asset{}, notCanonical("its addons are not sorted by type")
		}
		asset.Addons = append(asset.Addons, message)
	}
	if asset.Payload.Type == "" {
		return intent.Asset{}, notCanonical("it has no payload")
	}
	return asset, nil
}

// decodeContent reads the two fields of an Any.
func decodeContent(b []byte) (intent.Message, error) {
	number, url, n := consumeBytes(b)
	name, ok := bytes.CutPrefix(url, []byte(anyPrefix))
	if n < 0 || number != 1 || !ok || len(name) == 0 {
		return intent.Message{}, notCanonical("a message in it has no type")
	}
	message := intent.Message{Type: intent.TypeName(name)}
	if b = b[n:]; len(b) == 0 {
		return message, nil
	}
	number, content, n := consumeBytes(b)
	if number != 2 || n != len(b) || len(content) == 0 {
		return intent.Message{}, notCanonical("the %.120q in it has a broken content", message.Type)
	}
	message.Bytes = content
	return message, nil
}

// consumeBytes reads one length-delimited field with the shortest encoding of
// tag and length. n is negative when there is none.
func consumeBytes(b []byte) (number protowire.Number, content []byte, n int) {
	number, wire, tag := protowire.ConsumeTag(b)
	if tag != 1 || wire != protowire.BytesType {
		return 0, nil, -1
	}
	content, n = protowire.ConsumeBytes(b[tag:])
	if n < 0 || n != protowire.SizeBytes(len(content)) {
		return 0, nil, -1
	}
	return number, content, tag + n
}

func notCanonical(format string, arguments ...any) error {
	return fault.New(fault.Invalid, "cannot decode an asset: "+format, arguments...)
}

// Addon decodes an asset's addon of a generated type, and reports whether
// there is one.
func Addon[M proto.Message](a intent.Asset, target M) (bool, error) {
	addon, ok := a.Addon(intent.TypeName(target.ProtoReflect().Descriptor().FullName()))
	if !ok {
		return false, nil
	}
	return true, decodeInto(a.ID, addon, target)
}

// Payload decodes an asset's payload of a generated type. Invalid when the
// asset is of another type.
func Payload[M proto.Message](a intent.Asset, target M) error {
	if name := target.ProtoReflect().Descriptor().FullName(); a.Payload.Type != intent.TypeName(name) {
		return fault.New(fault.Invalid, "asset %s is a %s, not a %s", a.ID, a.Payload.Type, name)
	}
	return decodeInto(a.ID, a.Payload, target)
}

func decodeInto(id intent.AssetID, m intent.Message, target proto.Message) error {
	if err := (proto.UnmarshalOptions{RecursionLimit: maxDepth}).Unmarshal(m.Bytes, target); err != nil {
		return fault.New(fault.Invalid, "cannot decode the %s of asset %s: %w", m.Type, id, err)
	}
	return nil
}

// JSON renders an asset for people: id, type, payload, and addons by type,
// with the field names of the .proto files, and without secrets. The text is
// stable.
func (s *Set) JSON(a intent.Asset) ([]byte, error) {
	payload, err := s.messageJSON(a.Payload)
	if err != nil {
		return nil, err
	}
	addons := make(map[intent.TypeName]json.RawMessage, len(a.Addons))
	for _, addon := range a.Addons {
		if addons[addon.Type], err = s.messageJSON(addon); err != nil {
			return nil, err
		}
	}
	text, err := json.MarshalIndent(struct {
		ID      intent.AssetID                      `json:"id"`
		Type    intent.TypeName                     `json:"type"`
		Payload json.RawMessage                     `json:"payload"`
		Addons  map[intent.TypeName]json.RawMessage `json:"addons,omitempty"`
	}{a.ID, a.Payload.Type, payload, addons}, "", "  ")
	if err != nil {
		return nil, fault.New(fault.Internal, "cannot render asset %s: %w", a.ID, err)
	}
	return append(text, '\n'), nil
}

// Redact hides the secrets of an asset, for what is said of it to people.
func (s *Set) Redact(a intent.Asset) (intent.Asset, error) {
	redacted := intent.Asset{ID: a.ID}
	for i := -1; i < len(a.Addons); i++ {
		content := a.Payload
		if i >= 0 {
			content = a.Addons[i]
		}
		message, err := s.Unpack(content)
		if err != nil {
			return redacted, err
		}
		redact(message.ProtoReflect())
		if content, err = s.Pack(message); err != nil {
			return redacted, err
		}
		if i < 0 {
			redacted.Payload = content
		} else {
			redacted.Addons = append(redacted.Addons, content)
		}
	}
	return redacted, nil
}

func (s *Set) messageJSON(m intent.Message) (json.RawMessage, error) {
	message, err := s.Unpack(m)
	if err != nil {
		return nil, err
	}
	redact(message.ProtoReflect())
	text, err := (protojson.MarshalOptions{UseProtoNames: true, Resolver: s.types}).Marshal(message)
	if err != nil {
		return nil, fault.New(fault.Invalid, "cannot render a %s: %w", m.Type, err)
	}
	return text, nil
}
