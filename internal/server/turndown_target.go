package server

import (
	"context"
	"fmt"
	"slices"
	"strings"

	apipb "lehr.dev/gen/lehr/api/v1"
	intentpb "lehr.dev/gen/lehr/intent/v1"
	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/ground/schema"
	"lehr.dev/internal/ground/spell"
	"lehr.dev/internal/ground/turndown"
	"lehr.dev/internal/store"
)

// turndownTarget is one asset that is to be turned down.
type turndownTarget struct {
	preview *apipb.TurndownPreview
	// orphan is what it was, if it left intent; else nil.
	orphan *turndown.Orphan
}

// target looks at one asset. It is refused where nothing could be removed, or where that is
// asked for already.
func (t *turningDown) target(ctx context.Context, id intent.AssetID) (target turndownTarget, err error) {
	if entry, ok := t.entries[id]; ok {
		return target, alreadyTurnedDown(id, entry.Reason, "lehr turndown --undo "+string(id)+" takes it back")
	}
	member, body, err := t.store.Content(ctx, t.partition.Head, id)
	switch {
	case fault.Is(err, fault.NotFound):
		target, err = t.orphanTarget(ctx, id)
	case err == nil:
		target.preview = &apipb.TurndownPreview{Asset: string(id), Type: string(member.Type)}
		err = t.inIntent(ctx, id, body, target.preview)
	}
	if err == nil {
		err = t.setMode(target, body)
	}
	if err != nil {
		return target, err
	}
	kind := target.preview.Type
	if !slices.ContainsFunc(t.policy.GetPlugins(), func(b *intentpb.PluginBinding) bool { return b.GetType() == kind }) {
		return target, fault.New(fault.Conflict, "%s is not turned down: no plugin is bound to its type %s, so nothing would be removed", id, kind).
			WithHint("bind a plugin to the type in lehr.yaml; what is a model is taken out of the sources")
	}
	return target, nil
}

// setMode says which mode is in force for what has these canonical bytes.
func (t *turningDown) setMode(target turndownTarget, body []byte) error {
	if target.orphan != nil {
		body = target.orphan.Body
	}
	content, err := schema.Decode(body)
	if err != nil {
		return err
	}
	own := &intentpb.Mode{}
	if _, err := schema.Addon(content, own); err != nil {
		return err
	}
	strictest := t.policy.GetMode()
	for _, mode := range []intentpb.EnforcementMode{t.policy.GetTypeModes()[target.preview.Type], own.Mode} {
		if mode != intentpb.EnforcementMode_ENFORCEMENT_MODE_UNSPECIFIED && mode < strictest {
			strictest = mode
		}
	}
	target.preview.Mode = modes[strictest]
	return nil
}

func alreadyTurnedDown(id intent.AssetID, reason, hint string) error {
	return fault.New(fault.Conflict, "%s is turned down already: %s", id, reason).WithHint("lehr why %s says what it waits for; %s", id, hint)
}

// inIntent fills in what is known of an asset of head.
func (t *turningDown) inIntent(ctx context.Context, id intent.AssetID, body []byte, preview *apipb.TurndownPreview) error {
	content, err := schema.Decode(body)
	if err != nil {
		return err
	}
	own := &intentpb.Turndown{}
	if exists, err := schema.Addon(content, own); err != nil {
		return err
	} else if exists {
		return alreadyTurnedDown(id, own.Reason, "lehr blame "+string(id)+" addons.Turndown.reason says where from")
	}
	report, err := t.report(ctx, t.partition.ID, id)
	if err != nil {
		return err
	}
	if report != nil {
		preview.Report = toReport(*report)
	}
	record, err := t.enforcedAs(ctx, id)
	if err != nil {
		return err
	}
	preview.ResourceKey = string(record.ResourceKey)
	return t.dependants(ctx, id, preview)
}

// enforcedAs is an asset's enforced record; empty: it has none.
func (t *turningDown) enforcedAs(ctx context.Context, id intent.AssetID) (store.Enforced, error) {
	page, err := t.store.EnforcedPage(ctx, t.partition.ID, id.JustBefore(), 1)
	if err != nil || len(page) == 0 || page[0].Asset != id {
		return store.Enforced{}, err
	}
	return page[0], nil
}

// dependants lists who refers to an asset, and is not turned down with it.
func (t *turningDown) dependants(ctx context.Context, id intent.AssetID, preview *apipb.TurndownPreview) error {
	edges, err := t.store.EdgesTo(ctx, t.partition.Head, id)
	if err != nil {
		return err
	}
	for _, edge := range edges {
		goes, capacity, err := t.goesToo(ctx, edge)
		if err != nil {
			return err
		}
		list := &preview.NeededBy
		if capacity {
			list = &preview.WaitsFor
		}
		if !goes && edge.From != id && !slices.Contains(*list, string(edge.From)) {
			*list = append(*list, string(edge.From))
		}
	}
	slices.Sort(preview.NeededBy)
	slices.Sort(preview.WaitsFor)
	return nil
}

// goesToo reports whether the asset that an edge is from is turned down, too, and whether
// the edge is one of capacity, which a removal only waits for.
func (t *turningDown) goesToo(ctx context.Context, edge store.Edge) (goes, capacity bool, err error) {
	if _, ok := t.entries[edge.From]; ok || slices.Contains(t.assets, edge.From) {
		return true, false, nil
	}
	_, body, err := t.store.Content(ctx, t.partition.Head, edge.From)
	if err != nil {
		return false, false, err
	}
	content, err := schema.Decode(body)
	if err != nil {
		return false, false, err
	}
	if goes, err = schema.Addon(content, &intentpb.Turndown{}); goes || err != nil {
		return goes, false, err
	}
	dependencies := &intentpb.Dependencies{}
	if _, err := schema.Addon(content, dependencies); err != nil {
		return false, false, err
	}
	var at int
	rest := strings.TrimPrefix(edge.Field, string(dependencies.ProtoReflect().Descriptor().FullName())+".")
	if n, _ := fmt.Sscanf(rest, "dependencies[%d]", &at); n == 1 && rest != edge.Field && at < len(dependencies.Dependencies) {
		capacity = dependencies.Dependencies[at].Rule == intentpb.Dependency_RULE_CAPACITY
	}
	return false, capacity, nil
}

// orphanTarget is an orphan, as it was enforced last.
func (t *turningDown) orphanTarget(ctx context.Context, id intent.AssetID) (target turndownTarget, _ error) {
	page, err := t.store.Orphans(ctx, t.partition.ID, id.JustBefore(), 1)
	if err != nil {
		return target, err
	}
	if len(page) == 0 || page[0].Asset != id {
		return target, t.unknownAsset(ctx, id)
	}
	record := page[0]
	_, body, err := t.store.Content(ctx, record.Incarnation, id)
	if err != nil {
		return target, err
	}
	target.preview = &apipb.TurndownPreview{
		Asset: string(id), Type: string(record.Type), OrphanOf: record.Incarnation.String(), ResourceKey: string(record.ResourceKey),
	}
	body, target.preview.LeftOut, err = t.bringBack(ctx, id, body)
	target.orphan = &turndown.Orphan{Incarnation: record.Incarnation.String(), Body: body}
	return target, err
}

// bringBack makes an orphan's content one that intent may have now: dependencies on what is
// not there any more are left out.
func (t *turningDown) bringBack(ctx context.Context, id intent.AssetID, body []byte) (_ []byte, leftOut []string, _ error) {
	content, err := schema.Decode(body)
	if err != nil {
		return nil, nil, err
	}
	schemas, err := t.schema(ctx, t.partition.Head)
	if err != nil {
		return nil, nil, err
	}
	if _, err := schemas.Unpack(content.Payload); err != nil {
		return nil, nil, fault.New(fault.Conflict, "the orphan %s cannot be turned down: %w", id, err).WithHint("let the types of the partition have %s again", content.Payload.Type)
	}
	dependencies := &intentpb.Dependencies{}
	if exists, err := schema.Addon(content, dependencies); err != nil {
		return nil, nil, err
	} else if exists {
		dependencies.Dependencies = slices.DeleteFunc(dependencies.Dependencies, func(d *intentpb.Dependency) bool {
			isThere, memberErr := t.isThere(ctx, intent.AssetID(d.On))
			if memberErr != nil {
				err = memberErr
			}
			if !isThere {
				leftOut = append(leftOut, d.On)
			}
			return !isThere
		})
		if err != nil {
			return nil, nil, err
		}
		packed, err := schemas.Pack(dependencies)
		if err != nil {
			return nil, nil, err
		}
		content.Addons = slices.DeleteFunc(slices.Clone(content.Addons), func(m intent.Message) bool { return m.Type == packed.Type })
		if len(dependencies.Dependencies) > 0 {
			content.Addons = append(content.Addons, packed)
		}
	}
	if err := t.mayReturn(ctx, schemas, content); err != nil {
		return nil, nil, err
	}
	body, _, err = schemas.Encode(content)
	return body, leftOut, err
}

func (t *turningDown) isThere(ctx context.Context, id intent.AssetID) (bool, error) {
	if slices.Contains(t.assets, id) {
		return true, nil
	}
	_, err := t.store.Member(ctx, t.partition.Head, id)
	if fault.Is(err, fault.NotFound) {
		return false, nil
	}
	return err == nil, err
}

// mayReturn refuses an orphan that needs what is not there any more.
func (t *turningDown) mayReturn(ctx context.Context, schemas *schema.Set, content intent.Asset) error {
	references, err := schemas.References(content)
	if err != nil {
		return err
	}
	for _, reference := range references {
		isThere, err := t.isThere(ctx, reference.To)
		if err != nil {
			return err
		}
		if !isThere {
			return fault.New(fault.Conflict, "the orphan %s cannot be turned down alone: it refers to %s in %s, which is not in intent", content.ID, reference.To, reference.Field).
				WithHint("turn both down in one command, if %s is an orphan too, or bring it back", reference.To)
		}
	}
	externals, err := schemas.Externals(content)
	if err != nil {
		return err
	}
	for _, external := range externals {
		digest, isBlob := intent.BlobDigest(external.URI)
		if !isBlob {
			continue
		}
		_, err := t.store.GetBlob(ctx, t.partition.ID, store.SpillBlobs, digest.String())
		if fault.Is(err, fault.NotFound) {
			return fault.New(fault.Conflict, "the orphan %s cannot be turned down by command: its content in %s lies in a blob that is not kept any more", content.ID, external.Field).
				WithHint("bring it back into the sources, then turn it down")
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// unknownAsset says which asset or orphan was probably meant.
func (t *turningDown) unknownAsset(ctx context.Context, id intent.AssetID) error {
	const most = 1000
	orphans, err := t.store.Orphans(ctx, t.partition.ID, "", most)
	if err != nil {
		return err
	}
	var names []string
	for _, orphan := range orphans {
		names = append(names, string(orphan.Asset))
	}
	refusal := fault.New(fault.NotFound, "there is no asset %s in %s, and no orphan of that name", id, t.partition.Head)
	if nearest := spell.Nearest(string(id), names); nearest != "" {
		return refusal.WithHint("did you mean the orphan %s? lehr get orphans lists them", nearest)
	}
	return t.suggestNearest(ctx, t.head, id, refusal)
}
