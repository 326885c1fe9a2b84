package serve

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/known/anypb"

	intentpb "lehr.dev/gen/lehr/intent/v1"
	"lehr.dev/internal/ground/intent"
)

// decodeAsset reads canonical bytes.
func decodeAsset(id AssetID, content []byte) (intent.Asset, error) {
	decoded := &intentpb.Asset{}
	if err := proto.Unmarshal(content, decoded); err != nil {
		return intent.Asset{}, fmt.Errorf("reading the intent of %s: %w", id, err)
	}
	if decoded.Id != string(id) || decoded.Payload == nil {
		return intent.Asset{}, fmt.Errorf("the intent of %s is that of %q, or has no payload", id, decoded.Id)
	}
	asset := intent.Asset{ID: id, Payload: messageOf(decoded.Payload)}
	for _, addon := range decoded.Addons {
		asset.Addons = append(asset.Addons, messageOf(addon))
	}
	return asset, nil
}

func messageOf(carried *anypb.Any) Message {
	return Message{Type: TypeName(carried.TypeUrl[strings.LastIndexByte(carried.TypeUrl, '/')+1:]), Bytes: carried.Value}
}

// intents returns each asset as of the incarnation with what it reads, or the
// error of that asset.
func (a *asker) intents(ctx context.Context, incarnation IncarnationID, ids []AssetID) ([]Intent, []error) {
	assets, failures := make([]Intent, len(ids)), make([]error, len(ids))
	answers, err := a.fetch(ctx, incarnation, ids)
	if err != nil {
		for i := range failures {
			failures[i] = err
		}
		return assets, failures
	}
	reads := map[AssetID]*intent.Asset{}
	for i, id := range ids {
		if failures[i] = answers[i].err; failures[i] != nil {
			continue
		}
		asset, err := decodeAsset(id, answers[i].content)
		assets[i] = Intent{Asset: asset, Incarnation: incarnation, asker: a}
		failures[i] = err
		for _, read := range readReferences(asset) {
			reads[read] = nil
		}
	}
	if len(reads) > 0 {
		a.attachReads(ctx, incarnation, reads, assets, failures)
	}
	return assets, failures
}

// attachReads fetches what the assets read. What does not exist is left out.
func (a *asker) attachReads(ctx context.Context, incarnation IncarnationID, reads map[AssetID]*intent.Asset, assets []Intent, failures []error) {
	ids := slices.Sorted(maps.Keys(reads))
	answers, err := a.fetch(ctx, incarnation, ids)
	broken := map[AssetID]error{}
	for i, id := range ids {
		if err != nil {
			broken[id] = err
			continue
		}
		asset, failed := intent.Asset{}, answers[i].err
		if failed == nil {
			asset, failed = decodeAsset(id, answers[i].content)
		}
		switch {
		case failed == nil:
			reads[id] = &asset
		case !errors.Is(failed, errNoContent):
			broken[id] = failed
		}
	}
	for i := range assets {
		if failures[i] != nil {
			continue
		}
		for _, id := range readReferences(assets[i].Asset) {
			if broken[id] != nil {
				failures[i] = broken[id]
			} else if reads[id] != nil {
				if assets[i].Reads == nil {
					assets[i].Reads = map[AssetID]intent.Asset{}
				}
				assets[i].Reads[id] = *reads[id]
			}
		}
	}
}

// readReferences lists the assets that payload and addons read.
func readReferences(asset intent.Asset) []AssetID {
	var references []AssetID
	messages := append([]Message{asset.Payload}, asset.Addons...)
	for _, message := range messages {
		messageType, err := protoregistry.GlobalTypes.FindMessageByName(protoreflect.FullName(message.Type))
		if err != nil || !mayRead(messageType.Descriptor()) {
			continue
		}
		decoded := messageType.New()
		if proto.Unmarshal(message.Bytes, decoded.Interface()) == nil {
			collectReads(decoded, &references)
		}
	}
	return references
}

// mayReadTypes remembers per type whether anything below it is a reference
// that is read.
var mayReadTypes sync.Map

func mayRead(descriptor protoreflect.MessageDescriptor) bool {
	if cached, ok := mayReadTypes.Load(descriptor.FullName()); ok {
		return cached.(bool)
	}
	may := searchReads(descriptor, map[protoreflect.FullName]bool{})
	mayReadTypes.Store(descriptor.FullName(), may)
	return may
}

func searchReads(descriptor protoreflect.MessageDescriptor, seen map[protoreflect.FullName]bool) bool {
	if seen[descriptor.FullName()] {
		return false
	}
	seen[descriptor.FullName()] = true
	for i := range descriptor.Fields().Len() {
		field := descriptor.Fields().Get(i)
		if isRead(field) || field.Message() != nil && searchReads(field.Message(), seen) {
			return true
		}
	}
	return false
}

func isRead(field protoreflect.FieldDescriptor) bool {
	if field.Kind() != protoreflect.StringKind || !proto.HasExtension(field.Options(), intentpb.E_Reference) {
		return false
	}
	return proto.GetExtension(field.Options(), intentpb.E_Reference).(*intentpb.Reference).GetRead()
}

func collectReads(message protoreflect.Message, references *[]AssetID) {
	add := func(value protoreflect.Value) {
		if value.String() != "" {
			*references = append(*references, AssetID(value.String()))
		}
	}
	message.Range(func(field protoreflect.FieldDescriptor, value protoreflect.Value) bool {
		switch {
		case isRead(field) && field.IsList():
			for i := range value.List().Len() {
				add(value.List().Get(i))
			}
		case isRead(field):
			add(value)
		case field.IsMap() && field.MapValue().Message() != nil:
			value.Map().Range(func(_ protoreflect.MapKey, v protoreflect.Value) bool {
				collectReads(v.Message(), references)
				return true
			})
		case field.IsList() && field.Message() != nil:
			for i := range value.List().Len() {
				collectReads(value.List().Get(i).Message(), references)
			}
		case field.Message() != nil && !field.IsMap():
			collectReads(value.Message(), references)
		}
		return true
	})
}
