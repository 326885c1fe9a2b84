package prodspec

import (
	"context"
	"encoding/json"
	"slices"
	"strings"

	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/ground/schema"
	"lehr.dev/internal/prodspec/validate"
	"lehr.dev/internal/store"
)

// publishedSchema is the set that an incarnation was published with.
type publishedSchema struct {
	incarnation intent.IncarnationID
	set         *schema.Set
}

// schemaOf reads the set of an incarnation.
func (p *Pipeline) schemaOf(ctx context.Context, id intent.IncarnationID) (*schema.Set, error) {
	if p.published.incarnation == id && p.published.set != nil {
		return p.published.set, nil
	}
	incarnation, err := p.options.Store.Incarnation(ctx, id)
	if err != nil {
		return nil, err
	}
	schemas := p.builder.set
	if incarnation.Schema != schemas.Digest() {
		files, err := p.options.Store.GetBlob(ctx, id.Partition, SchemaBlobs, incarnation.Schema.String())
		if err != nil {
			return nil, err
		}
		if schemas, err = schema.FromFiles(files); err != nil {
			return nil, err
		}
	}
	p.published = publishedSchema{id, schemas}
	return schemas, nil
}

// evolve finds what a change of types means for assets whose bytes stay as
// they are. Those that are found otherwise than before, by their references
// or indexed fields, join the delta; the others are judged again by the rules
// of their types. Nil: head has these very types.
func (p *Pipeline) evolve(ctx context.Context, head intent.IncarnationID, delta *change) (validate.Again, error) {
	if head.IsZero() {
		return nil, nil
	}
	headSchema, err := p.schemaOf(ctx, head)
	if err != nil {
		return nil, err
	}
	b := p.builder
	if headSchema.Digest() == b.set.Digest() {
		return nil, nil
	}
	touched := make(map[intent.AssetID]bool, len(delta.entries))
	for i := range delta.entries {
		touched[delta.entries[i].Asset] = delta.entries[i].Body != nil || delta.entries[i].Removed
	}
	changed := b.set.Changed(headSchema)
	again := func(ctx context.Context, visit func(intent.AssetID, []byte) error) error {
		return b.untouched(ctx, touched, changed, visit)
	}
	var entries []store.Entry
	err = again(ctx, func(id intent.AssetID, body []byte) error {
		entry, differs, err := b.foundOtherwise(headSchema, id, body)
		if differs {
			entries = append(entries, entry)
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	for _, entry := range entries {
		if _, ok := touched[entry.Asset]; ok {
			// Its effective digest changed, and so it is in the delta already.
			at := slices.IndexFunc(delta.entries, func(e store.Entry) bool { return e.Asset == entry.Asset })
			delta.entries[at] = entry
		} else {
			delta.entries = append(delta.entries, entry)
			delta.changed++
		}
		touched[entry.Asset] = true
	}
	slices.SortFunc(delta.entries, func(a, b store.Entry) int { return strings.Compare(string(a.Asset), string(b.Asset)) })
	return again, nil
}

// untouched reads the assets that a delta has no content of and that use a
// type that changed, in the order of their ids.
func (b *builder) untouched(ctx context.Context, touched map[intent.AssetID]bool, changed map[intent.TypeName]bool, visit func(intent.AssetID, []byte) error) error {
	if len(changed) == 0 {
		return nil
	}
	return b.visitUntouched(ctx, touched, nil, func(id intent.AssetID, content intent.Asset, body []byte) error {
		uses := changed[content.Payload.Type] ||
			slices.ContainsFunc(content.Addons, func(addon intent.Message) bool { return changed[addon.Type] })
		if !uses {
			return nil
		}
		return visit(id, body)
	})
}

// rest reads the assets that a delta has no content of.
func (b *builder) rest(delta change) validate.Rest {
	return func(ctx context.Context, wanted func(intent.AssetID, intent.TypeName) bool, visit func(intent.AssetID, []byte) error) error {
		touched := make(map[intent.AssetID]bool, len(delta.entries))
		for i := range delta.entries {
			touched[delta.entries[i].Asset] = delta.entries[i].Body != nil || delta.entries[i].Removed
		}
		return b.visitUntouched(ctx, touched, wanted, func(id intent.AssetID, _ intent.Asset, body []byte) error { return visit(id, body) })
	}
}

// visitUntouched reads the members that are not touched, and are wanted (nil: all are),
// in the order of their ids.
func (b *builder) visitUntouched(ctx context.Context, touched map[intent.AssetID]bool, wanted func(intent.AssetID, intent.TypeName) bool, visit func(intent.AssetID, intent.Asset, []byte) error) error {
	ids := make([]intent.AssetID, 0, b.members.len())
	for id, m := range b.members.all() {
		if !touched[id] && (wanted == nil || wanted(id, m.output().Type)) {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	for _, id := range ids {
		if err := ctx.Err(); err != nil {
			return err
		}
		m, _ := b.members.get(id)
		content, body, err := b.content(ctx, m)
		if err != nil {
			return err
		}
		if err := visit(id, content, body); err != nil {
			return err
		}
	}
	return nil
}

// foundOtherwise reports whether other references or fields are found in an
// asset than with the types before, and gives the entry to store then.
func (b *builder) foundOtherwise(headSchema *schema.Set, id intent.AssetID, body []byte) (store.Entry, bool, error) {
	content, err := schema.Decode(body)
	if err != nil {
		return store.Entry{}, false, err
	}
	entry := store.Entry{Asset: id, Body: body, Member: b.intentMember(id)}
	if entry.References, err = b.set.References(content); err != nil {
		return entry, false, err
	}
	if entry.Fields, err = b.set.Fields(content); err != nil {
		return entry, false, err
	}
	references, err := headSchema.References(content)
	if err == nil {
		var fields []intent.Field
		if fields, err = headSchema.Fields(content); err == nil {
			same := slices.Equal(fields, entry.Fields) && slices.EqualFunc(references, entry.References, func(a, b intent.Reference) bool {
				return a.Field == b.Field && a.To == b.To && a.Read == b.Read
			})
			return entry, !same, nil
		}
	}
	// The types before cannot read it: what was found by them is not known.
	return entry, true, nil
}

// validatorOf keeps the validator of the last set.
func (p *Pipeline) validatorOf(schemas *schema.Set) (*validate.Validator, error) {
	if p.validator != nil && p.validator.Types() == schemas {
		return p.validator, nil
	}
	validator, err := validate.New(schemas)
	if err == nil {
		p.validator = validator
	}
	return validator, err
}

// SchemaBlobs is the kind of blob that holds descriptor sets by digest.
const SchemaBlobs = "schema"

// schemaIndex is the blob that lists the digests of the others.
const schemaIndex = "index"

// keepSchema stores the descriptors that decode what is about to be published,
// or kept as a candidate, and forgets those of which neither is left.
func (p *Pipeline) keepSchema(ctx context.Context) error {
	schemas, partition := p.builder.set, p.lease.Partition
	name := schemas.Digest().String()
	_, err := p.options.Store.GetBlob(ctx, partition, SchemaBlobs, name)
	if !fault.Is(err, fault.NotFound) {
		return err
	}
	var stored []string
	text, err := p.options.Store.GetBlob(ctx, partition, SchemaBlobs, schemaIndex)
	if err == nil {
		err = json.Unmarshal(text, &stored)
	}
	if err != nil && !fault.Is(err, fault.NotFound) {
		return err
	}
	used, err := p.usedSchemas(ctx)
	if err != nil {
		return err
	}
	blobs, retained := map[string][]byte{}, []string{name}
	for _, old := range stored {
		if used[old] {
			retained = append(retained, old)
		} else {
			blobs[old] = nil
		}
	}
	blobs[name] = schemas.Files()
	if blobs[schemaIndex], err = json.Marshal(retained); err != nil {
		return fault.New(fault.Internal, "cannot encode the list of schemas: %w", err)
	}
	return p.options.Store.PutBlobs(ctx, p.lease, SchemaBlobs, blobs)
}

// usedSchemas are those of all incarnations and candidates that are retained (S17).
func (p *Pipeline) usedSchemas(ctx context.Context) (map[string]bool, error) {
	const page = 1000
	used := map[string]bool{}
	candidates, err := p.options.Store.ListCandidates(ctx, p.lease.Partition, 10*page)
	if err != nil {
		return nil, err
	}
	for i := range candidates {
		used[candidates[i].Schema.String()] = true
	}
	for cursor := intent.Sequence(0); ; {
		list, err := p.options.Store.Incarnations(ctx, p.lease.Partition, cursor, page)
		if err != nil {
			return nil, err
		}
		for i := range list {
			used[list[i].Schema.String()] = true
		}
		if len(list) < page {
			return used, nil
		}
		cursor = list[len(list)-1].ID.Sequence
	}
}
