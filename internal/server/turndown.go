package server

import (
	"context"
	"fmt"
	"slices"
	"strings"

	apipb "lehr.dev/gen/lehr/api/v1"
	intentpb "lehr.dev/gen/lehr/intent/v1"
	"lehr.dev/internal/ground/document"
	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/ground/spell"
	"lehr.dev/internal/ground/turndown"
	"lehr.dev/internal/store"
)

// mostTurndowns are asked for in one call.
const mostTurndowns = 100

func (s *Server) PreviewTurndown(ctx context.Context, request *apipb.PreviewTurndownRequest) (*apipb.PreviewTurndownResponse, error) {
	t, err := s.readTurndown(ctx, request.Partition, request.Assets)
	if err != nil {
		return nil, err
	}
	response := &apipb.PreviewTurndownResponse{Base: t.base, Quorum: max(1, t.policy.GetApproval().GetQuorum())}
	for _, id := range t.assets {
		target, err := t.target(ctx, id)
		if err != nil {
			return nil, err
		}
		response.Assets = append(response.Assets, target.preview)
	}
	return response, nil
}

func (s *Server) TurnDown(ctx context.Context, request *apipb.TurnDownRequest) (*apipb.TurnDownResponse, error) {
	t, err := s.readTurndown(ctx, request.Partition, request.Assets)
	if err != nil {
		return nil, err
	}
	reason, err := loosened(fmt.Sprintf("turning down %s of partition %s", strings.Join(request.Assets, ", "), request.Partition), request.Reason)
	if err != nil {
		return nil, err
	}
	if request.Base != t.base {
		return nil, fault.New(fault.Conflict, "somebody turned down something of partition %s since it was looked at", t.partition.ID).WithHint("look again: lehr turndown ASSET --dry-run")
	}
	entries := make([]turndown.Entry, len(t.assets))
	for i, id := range t.assets {
		target, err := t.target(ctx, id)
		if err != nil {
			return nil, err
		}
		if needed := target.preview.NeededBy; len(needed) > 0 {
			return nil, fault.New(fault.Conflict, "%s is not turned down: %s needs it, and stays", id, strings.Join(needed, ", ")).
				WithHint("take the reference out first, or turn both down in one command")
		}
		entries[i] = turndown.Entry{Asset: id, Reason: reason, Orphan: target.orphan}
	}
	return t.write(ctx, entries, reason)
}

func (s *Server) UndoTurndown(ctx context.Context, request *apipb.UndoTurndownRequest) (*apipb.UndoTurndownResponse, error) {
	t, err := s.readTurndown(ctx, request.Partition, request.Assets)
	if err != nil {
		return nil, err
	}
	reason, err := loosened(fmt.Sprintf("taking the turndown of %s of partition %s back", strings.Join(request.Assets, ", "), request.Partition), request.Reason)
	if err != nil {
		return nil, err
	}
	edit := document.Edit{Base: t.base, Reason: reason}
	for _, id := range t.assets {
		if _, ok := t.entries[id]; !ok {
			return nil, t.notTurnedDown(id)
		}
		edit.Operations = append(edit.Operations, document.Operation{Path: turndown.PathOf(id)})
	}
	doc, err := s.store.EditDocument(ctx, t.partition.ID, turndown.Document, edit, actorOf(ctx))
	if err != nil {
		return nil, err
	}
	return &apipb.UndoTurndownResponse{Revision: doc.Revision.ID}, nil
}

// turningDown is what a call about turndowns rests on.
type turningDown struct {
	*Server
	partition store.Partition
	head      reading
	policy    *intentpb.Policy
	assets    []intent.AssetID
	// base is the document's revision, and entries what it says; empty: there is none.
	base    string
	entries map[intent.AssetID]turndown.Entry
}

func (s *Server) readTurndown(ctx context.Context, partition string, names []string) (*turningDown, error) {
	p, err := s.registered(ctx, partition)
	if err != nil {
		return nil, err
	}
	if len(names) == 0 || len(names) > mostTurndowns {
		return nil, fault.New(fault.Invalid, "%d assets were named, from 1 to %d can be", len(names), mostTurndowns).WithHint("lehr get assets, and lehr get orphans, list what there is")
	}
	t := &turningDown{Server: s, partition: p, head: s.stored(p.Head), entries: map[intent.AssetID]turndown.Entry{}}
	for _, name := range names {
		id, err := intent.ParseAssetID(name)
		switch {
		case err != nil:
			return nil, err
		case id == intent.PolicyAsset:
			return nil, fault.New(fault.Invalid, "%s is the partition's policy, and nothing in production", id).WithHint("lehr partition remove forgets a partition")
		case !slices.Contains(t.assets, id):
			t.assets = append(t.assets, id)
		}
	}
	if p.Head.IsZero() {
		return nil, fault.New(fault.Conflict, "partition %s has no incarnation yet", p.ID).WithHint("lehr describe partition %s says why", p.ID)
	}
	if t.policy, err = s.policy(ctx, p.Head); err != nil {
		return nil, err
	}
	doc, err := s.store.Document(ctx, p.ID, turndown.Document, "")
	if fault.Is(err, fault.NotFound) {
		return t, nil
	}
	if err != nil {
		return nil, err
	}
	entries, findings := turndown.Parse(doc.Content)
	if len(findings) > 0 {
		return nil, fault.New(fault.Conflict, "%s", findings[0].Message).WithHint("%s", findings[0].Hint)
	}
	t.base = doc.Revision.ID
	for _, e := range entries {
		t.entries[e.Asset] = e
	}
	return t, nil
}

// write adds entries to the document, or makes it.
func (t *turningDown) write(ctx context.Context, entries []turndown.Entry, reason string) (*apipb.TurnDownResponse, error) {
	if t.base == "" {
		content, err := turndown.Content(entries)
		if err != nil {
			return nil, err
		}
		doc, err := t.store.CreateDocument(ctx, t.partition.ID, turndown.Document, content, reason, actorOf(ctx))
		if err != nil {
			return nil, err
		}
		return &apipb.TurnDownResponse{Revision: doc.Revision.ID}, nil
	}
	edit := document.Edit{Base: t.base, Reason: reason}
	for _, e := range entries {
		value, err := turndown.ValueOf(e)
		if err != nil {
			return nil, err
		}
		edit.Operations = append(edit.Operations, document.Operation{Path: turndown.PathOf(e.Asset), Value: value})
	}
	doc, err := t.store.EditDocument(ctx, t.partition.ID, turndown.Document, edit, actorOf(ctx))
	if err != nil {
		return nil, err
	}
	return &apipb.TurnDownResponse{Revision: doc.Revision.ID}, nil
}

// notTurnedDown says that there is nothing to take back, and what was probably meant.
func (t *turningDown) notTurnedDown(id intent.AssetID) error {
	names := make([]string, 0, len(t.entries))
	for entry := range t.entries {
		names = append(names, string(entry))
	}
	slices.Sort(names)
	hint := fmt.Sprintf("lehr document get %s lists what was; if it has a Turndown all the same, lehr blame %s says where from", turndown.Document, id)
	if nearest := spell.Nearest(string(id), names); nearest != "" {
		hint = "did you mean " + nearest + "? " + hint
	}
	return fault.New(fault.NotFound, "%s was not turned down by command", id).WithHint("%s", hint)
}
