package generate

import (
	"fmt"

	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/prodspec/derive"
)

// Output is one asset that a run gave, without its content. There may be a
// million: what is the same for many is shared.
type Output struct {
	ID     intent.AssetID
	Digest intent.Digest
	*Make
	// more is nil for most assets.
	more *more
	// Line of the file of its make.
	Line int32
}

// Make is what assets have in common that one program made.
type Make struct {
	Type intent.TypeName
	File string
}

type more struct {
	refers  []intent.AssetID
	serves  []intent.AssetID
	blobs   []intent.Digest
	derived []derive.Derived
}

// Refers are the assets it reads.
func (o *Output) Refers() []intent.AssetID {
	if o.more == nil {
		return nil
	}
	return o.more.refers
}

// Serves are the assets that it has a capacity edge to.
func (o *Output) Serves() []intent.AssetID {
	if o.more == nil {
		return nil
	}
	return o.more.serves
}

// Blobs are those that it names.
func (o *Output) Blobs() []intent.Digest {
	if o.more == nil {
		return nil
	}
	return o.more.blobs
}

// Derived says which derivations gave it addons.
func (o *Output) Derived() []derive.Derived {
	if o.more == nil {
		return nil
	}
	return o.more.derived
}

// more of an asset. What is derived is the same for many, and shared.
func (g *Graph) more(rec record, i int) *more {
	m := more{refers: rec.Refers[i]}
	if i < len(rec.Serves) {
		m.serves = rec.Serves[i]
	}
	if i < len(rec.Names) {
		m.blobs = rec.Names[i]
	}
	if i < len(rec.Derived) && len(rec.Derived[i]) > 0 {
		key := fmt.Sprint(rec.Derived[i])
		if g.derived[key] == nil {
			g.derived[key] = &more{derived: rec.Derived[i]}
		}
		if len(m.refers)+len(m.serves)+len(m.blobs) == 0 {
			return g.derived[key]
		}
		m.derived = g.derived[key].derived
	}
	if len(m.refers)+len(m.serves)+len(m.blobs) == 0 {
		return nil
	}
	return &m
}
