package sim

import (
	"context"

	"lehr.dev/intent"
	"lehr.dev/plugin"
)

// library keeps what plugins were told, as the real caller of plugins does:
// incarnations never change.
type library struct {
	plugin.Contents
	known map[place]content
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

func newLibrary(contents plugin.Contents) *library {
	return &library{contents, map[place]content{}}
}

func (l *library) find(ctx context.Context, at place) (content, error) {
	const most = 2000
	if c, found := l.known[at]; found {
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
