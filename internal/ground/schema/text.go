package schema

import (
	"bytes"
	"encoding/json"
	"strings"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"

	intentpb "lehr.dev/gen/lehr/intent/v1"
	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/intent"
)

// Text renders an asset's canonical bytes as one line of JSON, a
// lehr.intent.v1.Asset with the field names of the .proto files. Unlike JSON it
// holds secrets, if nobody has taken them out, and ParseText gives the same bytes;
// Invalid when a value has no JSON that does.
func (s *Set) Text(canonical []byte) ([]byte, error) {
	asset := &intentpb.Asset{}
	if err := (proto.UnmarshalOptions{RecursionLimit: maxDepth, Resolver: s.types}).Unmarshal(canonical, asset); err != nil {
		return nil, notCanonical("%w", err)
	}
	text, err := (protojson.MarshalOptions{UseProtoNames: true, Resolver: s.types}).Marshal(asset)
	if err != nil {
		return nil, fault.New(fault.Invalid, "asset %s has no JSON: %w", asset.Id, err)
	}
	var line bytes.Buffer // protojson's own spaces differ from build to build.
	if err := json.Compact(&line, text); err != nil {
		return nil, fault.New(fault.Internal, "cannot render asset %s: %w", asset.Id, err)
	}
	if again, err := s.ParseText(line.Bytes()); err != nil || !bytes.Equal(again, canonical) {
		return nil, fault.New(fault.Invalid, "asset %s has a value that its JSON cannot hold", asset.Id)
	}
	return line.Bytes(), nil
}

// ParseText returns the canonical bytes of an asset that Text rendered, or
// anybody wrote in any layout.
func (s *Set) ParseText(text []byte) ([]byte, error) {
	asset := &intentpb.Asset{}
	if err := (protojson.UnmarshalOptions{Resolver: s.types, RecursionLimit: 10 * maxDepth}).Unmarshal(text, asset); err != nil {
		return nil, fault.New(fault.Invalid, "cannot read an asset: %w", err)
	}
	content := intent.Asset{ID: intent.AssetID(asset.Id), Payload: OfAny(asset.Payload)}
	for _, addon := range asset.Addons {
		content.Addons = append(content.Addons, OfAny(addon))
	}
	canonical, _, err := s.Encode(content)
	return canonical, err
}

// OfAny is the message that an Any holds; of none, or an empty one, it has no
// type.
func OfAny(content *anypb.Any) intent.Message {
	url := content.GetTypeUrl()
	return intent.Message{Type: intent.TypeName(url[strings.LastIndexByte(url, '/')+1:]), Bytes: content.GetValue()}
}
