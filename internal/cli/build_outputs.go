package cli

import (
	"context"

	"google.golang.org/protobuf/encoding/protojson"

	apipb "lehr.dev/gen/lehr/api/v1"
	intentpb "lehr.dev/gen/lehr/intent/v1"
	"lehr.dev/internal/ground/document"
	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/ground/outputs"
	"lehr.dev/sdk/client"
)

// readOffer asks a server what a partition tells and grants to another, as the person who
// builds may see it. Without a server, or where nobody may look, it is NotFound: what needs
// it stays unknown.
func (s *session) readOffer(ctx context.Context, other, reader intent.PartitionID) (offer outputs.Offer, err error) {
	server, err := s.connect(ctx)
	if err != nil {
		return offer, fault.New(fault.NotFound, "they are held by a server, and none is known here").WithHint("name it with --server URL or LEHR_SERVER")
	}
	policy, err := readPolicy(ctx, server, other)
	if err != nil {
		return offer, fault.New(fault.NotFound, "its policy cannot be read: %w", err)
	}
	offer.Grants = outputs.GrantsTo(reader, policy)
	read, _, err := getDocument(ctx, server, string(other), outputs.Document, "")
	if fault.Is(err, fault.NotFound) {
		return offer, nil
	}
	if err != nil {
		return offer, err
	}
	r := read.Revision
	offer.Document = document.Document{
		Partition: other, Name: outputs.Document, Content: []byte(read.Content),
		Revision: document.Revision{ID: r.GetId(), By: intent.Actor{Name: r.GetBy().GetName(), Origin: r.GetBy().GetOrigin()}, Reason: r.GetReason(), At: r.GetTime().AsTime()},
	}
	return offer, nil
}

// readPolicy reads the policy that a partition serves, as far as this program knows its fields.
func readPolicy(ctx context.Context, server *client.Client, partition intent.PartitionID) (*intentpb.Policy, error) {
	shown, err := server.Assets.GetAsset(ctx, &apipb.GetAssetRequest{Partition: string(partition), Asset: string(intent.PolicyAsset)})
	if err != nil {
		return nil, err
	}
	text, err := protojson.Marshal(shown.Payload)
	if err != nil {
		return nil, err
	}
	policy := &intentpb.Policy{}
	return policy, protojson.UnmarshalOptions{DiscardUnknown: true}.Unmarshal(text, policy)
}
