package serve

import (
	"errors"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/dynamicpb"
	"google.golang.org/protobuf/types/known/anypb"

	intentpb "lehr.dev/gen/lehr/intent/v1"
	pluginpb "lehr.dev/gen/lehr/plugin/v1"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/ground/recent"
)

// backendType is registered once: a type whose assets read others.
var backendType = func() protoreflect.MessageType {
	options := &descriptorpb.FieldOptions{}
	proto.SetExtension(options, intentpb.E_Reference, &intentpb.Reference{Read: true})
	file, err := protodesc.NewFile(&descriptorpb.FileDescriptorProto{
		Name: proto.String("backend_test.proto"), Package: proto.String("servetest"), Syntax: proto.String("proto3"),
		MessageType: []*descriptorpb.DescriptorProto{{Name: proto.String("Backend"), Field: []*descriptorpb.FieldDescriptorProto{{
			Name: proto.String("pools"), Number: proto.Int32(1), Options: options,
			Label: descriptorpb.FieldDescriptorProto_LABEL_REPEATED.Enum(), Type: descriptorpb.FieldDescriptorProto_TYPE_STRING.Enum(),
		}}}},
	}, protoregistry.GlobalFiles)
	if err != nil {
		panic(err)
	}
	made := dynamicpb.NewMessageType(file.Messages().Get(0))
	if err := protoregistry.GlobalTypes.RegisterMessage(made); err != nil {
		panic(err)
	}
	return made
}()

func backend(pools ...string) proto.Message {
	m := backendType.New()
	list := m.Mutable(m.Descriptor().Fields().ByName("pools")).List()
	for _, pool := range pools {
		list.Append(protoreflect.ValueOfString(pool))
	}
	return m.Interface()
}

// lehr answers an asker from a map, and counts what it sends.
type lehr struct {
	t      *testing.T
	asker  *asker
	assets map[string]proto.Message
	sent   int
	unsent int
}

func newLehr(t *testing.T, cacheBytes int) *lehr {
	l := &lehr{t: t, assets: map[string]proto.Message{}}
	l.asker = newAsker(recent.New[heldKey, heldIntent](cacheBytes), newHistories(), 0, l.answer)
	return l
}

func (l *lehr) answer(need *pluginpb.Need) error {
	content := &pluginpb.Content{Partition: need.Partition, Incarnation: need.Incarnation}
	for _, asset := range need.Assets {
		one := &pluginpb.AssetContent{Asset: asset.Asset}
		payload, ok := l.assets[asset.Asset]
		if !ok {
			one.Refused = "no such asset"
			content.Assets = append(content.Assets, one)
			continue
		}
		carried, err := anypb.New(payload)
		if err != nil {
			return err
		}
		bytes, err := proto.Marshal(&intentpb.Asset{Id: asset.Asset, Payload: carried})
		if err != nil {
			return err
		}
		digest := intent.BodyDigest(bytes)
		one.Digest = digest[:]
		if one.Unchanged = string(asset.Known) == string(digest[:]); one.Unchanged {
			l.unsent++
		} else {
			one.Content = bytes
			l.sent++
		}
		content.Assets = append(content.Assets, one)
	}
	go l.asker.deliver(content)
	return nil
}

func (l *lehr) intents(sequence intent.Sequence, ids ...AssetID) ([]Intent, []error) {
	return l.asker.intents(l.t.Context(), IncarnationID{Partition: "shop", Sequence: sequence}, ids)
}

func TestReadReferencesAreFetched(t *testing.T) {
	l := newLehr(t, 1<<20)
	l.assets["balancer"] = backend("pool-a", "pool-gone")
	l.assets["pool-a"] = &intentpb.Owner{Owner: "ann"}
	assets, failures := l.intents(1, "balancer", "nowhere")
	if failures[0] != nil || !errors.Is(failures[1], errNoContent) {
		t.Fatal(failures)
	}
	reads := assets[0].Reads
	if len(reads) != 1 || reads["pool-a"].Payload.Type != "lehr.intent.v1.Owner" {
		t.Errorf("reads %v", reads)
	}
}

func TestContentIsHeldByDigest(t *testing.T) {
	l := newLehr(t, 1<<20)
	l.assets["a"], l.assets["b"] = &intentpb.Owner{Owner: "ann"}, &intentpb.Owner{Owner: "ann"}
	for range 2 {
		l.intents(1, "a", "b")
	}
	if l.sent != 2 || l.unsent != 0 {
		t.Errorf("within one incarnation: %d sent, %d unchanged", l.sent, l.unsent)
	}
	l.assets["b"] = &intentpb.Owner{Owner: "bob"}
	assets, _ := l.intents(2, "a", "b")
	if l.sent != 3 || l.unsent != 1 {
		t.Errorf("in the next incarnation: %d sent, %d unchanged", l.sent, l.unsent)
	}
	owner := &intentpb.Owner{}
	if err := proto.Unmarshal(assets[1].Payload.Bytes, owner); err != nil || owner.Owner != "bob" {
		t.Errorf("%v: the old content was kept: %v", err, owner)
	}
}

func TestACacheTooSmallOnlyCostsMore(t *testing.T) {
	l := newLehr(t, 10)
	l.assets["a"] = &intentpb.Owner{Owner: strings.Repeat("a", 100)}
	for range 3 {
		if _, failures := l.intents(1, "a"); failures[0] != nil {
			t.Fatal(failures)
		}
	}
	if l.sent != 3 {
		t.Errorf("%d sent", l.sent)
	}
}
