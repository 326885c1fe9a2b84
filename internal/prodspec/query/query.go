// Package query reads incarnations for those who ask: pages of assets that
// match a filter, what differs between two incarnations, and, for those who
// watch, what each new head changed. An answer is as of one incarnation, and
// the work for one page is bounded. Work that many ask for at once is done
// once. It writes nothing, and never speaks to production. The server calls it.
package query

import (
	"context"

	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/ground/loop"
	"lehr.dev/internal/ground/rule"
	"lehr.dev/internal/ground/schema"
	"lehr.dev/internal/prodspec/provenance"
	"lehr.dev/internal/store"
)

// Store is what is read.
type Store interface {
	store.Snapshots
	provenance.Reader
	Partition(ctx context.Context, id intent.PartitionID) (store.Partition, error)
	Changed(partition intent.PartitionID) <-chan struct{}
}

// Schemas finds the schema set that an incarnation was published with.
type Schemas interface {
	Schema(ctx context.Context, partition intent.PartitionID, digest intent.Digest) (*schema.Set, error)
}

// Reader answers queries. It is safe for concurrent use.
type Reader struct {
	store   Store
	schemas Schemas
	heads   heads
	// environments by the digest of their schema.
	environments memo[intent.Digest, *rule.Environment]
	// all and changed hold the pages that watchers were sent last.
	all     memo[pageKey, Page]
	changed memo[changeKey, ChangePage]
	deltas  memo[changeKey, []store.Change]
}

// How much is remembered for watchers that ask for the same.
const (
	rememberedSchemas = 16
	rememberedPages   = 32
	rememberedChanges = 64
)

// New returns a reader.
func New(src Store, schemas Schemas, runtime loop.Runtime) *Reader {
	r := &Reader{store: src, schemas: schemas}
	r.heads = heads{store: src, runtime: runtime, followers: map[intent.PartitionID]*follower{}}
	r.environments = memo[intent.Digest, *rule.Environment]{runtime: runtime, most: rememberedSchemas}
	r.all = memo[pageKey, Page]{runtime: runtime, most: rememberedPages}
	r.changed = memo[changeKey, ChangePage]{runtime: runtime, most: rememberedChanges}
	r.deltas = memo[changeKey, []store.Change]{runtime: runtime, most: rememberedChanges}
	return r
}

// filterIn compiles a filter against the schema of an incarnation; nil for an
// empty text.
func (r *Reader) filterIn(ctx context.Context, id intent.IncarnationID, text string) (*rule.Filter, error) {
	if text == "" {
		return nil, nil
	}
	environment, _, err := r.environment(ctx, id)
	if err != nil {
		return nil, err
	}
	return environment.Filter(text)
}

// environment is over the types of an incarnation.
func (r *Reader) environment(ctx context.Context, id intent.IncarnationID) (*rule.Environment, *schema.Set, error) {
	incarnation, err := r.store.Incarnation(ctx, id)
	if err != nil {
		return nil, nil, err
	}
	schemas, err := r.schemas.Schema(ctx, id.Partition, incarnation.Schema)
	if err != nil {
		return nil, nil, err
	}
	environment, err := r.environments.get(ctx, incarnation.Schema, func(context.Context) (*rule.Environment, error) {
		return rule.New(schemas), nil
	})
	return environment, schemas, err
}

// Asset reads and decodes a member's content.
func (r *Reader) Asset(ctx context.Context, member intent.Member) (intent.Asset, error) {
	body, err := r.store.Body(ctx, member.Digest)
	if err != nil {
		return intent.Asset{}, err
	}
	asset, err := schema.Decode(body)
	if err == nil && asset.ID != member.Asset {
		err = fault.New(fault.Internal, "the content of asset %s is that of %s", member.Asset, asset.ID)
	}
	return asset, err
}

// matches reports whether a filter, which may be nil, is true of a member, and
// what it cost to evaluate. The content is read only when it is looked at.
func (r *Reader) matches(ctx context.Context, filter *rule.Filter, member intent.Member) (matched bool, cost int, err error) {
	if filter == nil {
		return true, 0, nil
	}
	if wanted := filter.Narrow().Type; wanted != "" && member.Type != wanted {
		return false, 0, nil
	}
	asset := intent.Asset{ID: member.Asset, Payload: intent.Message{Type: member.Type}}
	if filter.NeedsContent() {
		if asset, err = r.Asset(ctx, member); err != nil {
			return false, 0, err
		}
	}
	return filter.Measure(asset)
}

// Environment is over the types of an incarnation.
func (r *Reader) Environment(ctx context.Context, id intent.IncarnationID) (*rule.Environment, error) {
	environment, _, err := r.environment(ctx, id)
	return environment, err
}
