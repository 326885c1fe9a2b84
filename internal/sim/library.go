package sim

import (
	"context"

	"lehr.dev/internal/app"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/ground/schema"
	"lehr.dev/internal/pluginhost/plugin"
	"lehr.dev/internal/store"
)

// library keeps what plugins were told, as the real caller of plugins does:
// incarnations never change.
type library struct {
	plugin.Contents
	types func(context.Context, intent.IncarnationID) (*schema.Set, error)
	known map[place]content
	sets  map[intent.IncarnationID]*schema.Set
}

type place struct {
	incarnation intent.IncarnationID
	asset       intent.AssetID
}

type content struct {
	body   []byte
	digest intent.Digest
	reads  []intent.AssetID
}

func newLibrary(s store.All) *library {
	return &library{app.Contents(s), app.Types(s), map[place]content{}, map[intent.IncarnationID]*schema.Set{}}
}

// schemas finds the types of an incarnation.
func (l *library) schemas(ctx context.Context, id intent.IncarnationID) (*schema.Set, error) {
	if schemas, ok := l.sets[id]; ok {
		return schemas, nil
	}
	schemas, err := l.types(ctx, id)
	if err == nil {
		l.sets[id] = schemas
	}
	return schemas, err
}

func (l *library) find(ctx context.Context, at place) (content, error) {
	const most = 2000
	if c, ok := l.known[at]; ok {
		return c, nil
	}
	var c content
	var err error
	if c.body, c.digest, err = l.Contents.Content(ctx, at.incarnation, at.asset); err != nil {
		return c, err
	}
	if c.reads, err = l.Contents.Reads(ctx, at.incarnation, at.asset); err != nil {
		return c, err
	}
	if len(l.known) >= most {
		clear(l.known)
	}
	l.known[at] = c
	return c, nil
}

// Content implements plugin.Contents.
func (l *library) Content(ctx context.Context, incarnation intent.IncarnationID, asset intent.AssetID) ([]byte, intent.Digest, error) {
	c, err := l.find(ctx, place{incarnation, asset})
	return c.body, c.digest, err
}

// Reads implements plugin.Contents.
func (l *library) Reads(ctx context.Context, incarnation intent.IncarnationID, asset intent.AssetID) ([]intent.AssetID, error) {
	c, err := l.find(ctx, place{incarnation, asset})
	return c.reads, err
}
