package world

import (
	"context"
	"slices"
	"strings"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	intentpb "lehr.dev/gen/lehr/intent/v1"
	workflowpb "lehr.dev/gen/lehr/workflow/v1"
	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/ground/schema"
)

// wanted is an asset as of an incarnation, as a plugin understands it.
type wanted struct {
	intent.Asset
	incarnation intent.IncarnationID
	effective   intent.Digest
	set         *schema.Set
	message     protoreflect.Message
	key         intent.ResourceKey
	turndown    bool
	unmanaged   []*intentpb.UnmanagedField
	// sealed is the secret that the payload names; nil: it names none.
	sealed *sealed
	// procedure is what the payload says of a device; nil: it is of something else.
	procedure *workflowpb.Procedure
	// told is what was answered last.
	told told
}

// place is an asset as of an incarnation.
type place struct {
	incarnation intent.IncarnationID
	asset       intent.AssetID
}

// look is what read returned before, to look at only: an incarnation never
// changes.
func (w *World) look(ctx context.Context, id intent.IncarnationID, asset intent.AssetID) (*wanted, error) {
	const most = 2000
	at := place{id, asset}
	if known := w.known[at]; known != nil {
		return known, nil
	}
	read, err := w.read(ctx, id, asset)
	if err != nil {
		return nil, err
	}
	if len(w.known) >= most {
		clear(w.known)
	}
	w.known[at] = read
	return read, nil
}

// read decodes an asset's intent.
func (w *World) read(ctx context.Context, id intent.IncarnationID, asset intent.AssetID) (*wanted, error) {
	content, own, err := w.options.Contents.Content(ctx, id, asset)
	if err != nil {
		return nil, err
	}
	read := &wanted{incarnation: id}
	if read.effective, err = w.effective(ctx, id, asset, own); err != nil {
		return nil, err
	}
	if read.set, err = w.options.Schemas(ctx, id); err != nil {
		return nil, err
	}
	if read.Asset, err = schema.Decode(content); err != nil {
		return nil, err
	}
	payload, err := read.set.Unpack(read.Payload)
	if err != nil {
		return nil, err
	}
	read.message = payload.ProtoReflect()
	if w.options.Secret != "" {
		read.sealed = w.sealedBy(read.message)
	}
	read.key = keyOf(read.message, asset, w.options.Nameless)
	if err := w.readProcedure(read); err != nil {
		return nil, err
	}
	if read.turndown, err = schema.Addon(read.Asset, &intentpb.Turndown{}); err != nil {
		return nil, err
	}
	unmanaged := &intentpb.Unmanaged{}
	_, err = schema.Addon(read.Asset, unmanaged)
	read.unmanaged = unmanaged.Fields
	return read, err
}

// effective digests an asset's content and that of what it reads.
func (w *World) effective(ctx context.Context, id intent.IncarnationID, asset intent.AssetID, own intent.Digest) (intent.Digest, error) {
	reads, err := w.options.Contents.Reads(ctx, id, asset)
	if err != nil {
		return intent.Digest{}, err
	}
	slices.Sort(reads)
	reads = slices.Compact(reads)
	digests := make([]intent.Digest, len(reads))
	for i, other := range reads {
		_, digest, err := w.options.Contents.Content(ctx, id, other)
		if err != nil && !fault.Is(err, fault.NotFound) {
			return intent.Digest{}, err
		}
		digests[i] = digest
	}
	return intent.EffectiveDigest(own, digests), nil
}

// keyOf is the identity of the real thing that a payload is about: by its name,
// which stays when the asset is renamed, unless names say nothing.
func keyOf(payload protoreflect.Message, asset intent.AssetID, nameless bool) intent.ResourceKey {
	name := string(asset)
	if field := nameField(payload.Descriptor()); !nameless && field != nil && payload.Get(field).String() != "" {
		name = payload.Get(field).String()
	}
	return intent.ResourceKey("sim:" + string(payload.Descriptor().Name()) + "/" + name)
}

func nameField(descriptor protoreflect.MessageDescriptor) protoreflect.FieldDescriptor {
	field := descriptor.Fields().ByName("name")
	if field == nil || field.Kind() != protoreflect.StringKind || field.IsList() {
		return nil
	}
	return field
}

// decode reads a state in the types of today. What they do not know is left
// out, as a provider's newer client would.
func decode(schemas *schema.Set, name intent.TypeName, payload []byte) (protoreflect.Message, error) {
	message, err := schemas.New(name)
	if err != nil {
		return nil, err
	}
	options := proto.UnmarshalOptions{DiscardUnknown: true, Resolver: schemas.Types()}
	if options.Unmarshal(payload, message) != nil {
		message, err = schemas.New(name)
	}
	return message.ProtoReflect(), err
}

func shortName(name intent.TypeName) string {
	return string(name[strings.LastIndexByte(string(name), '.')+1:])
}
