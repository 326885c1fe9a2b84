package generate

import (
	"fmt"

	"lehr.dev/intent"
	"lehr.dev/prodspec/derive"
)

// Output is one asset that a run gave, without its content.
type Output struct {
	ID     intent.AssetID
	Type   intent.TypeName
	Digest intent.Digest
	// Refers are the assets it reads.
	Refers []intent.AssetID
	// File and Line of the program that made it.
	File string
	Line int32
	// more is nil for most assets, of which there may be a million.
	more *more
}

type more struct {
	serves  []intent.AssetID
	blobs   []intent.Digest
	derived []derive.Derived
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
	var m more
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
		if len(m.serves)+len(m.blobs) == 0 {
			return g.derived[key]
		}
		m.derived = g.derived[key].derived
	}
	if len(m.serves)+len(m.blobs) == 0 {
		return nil
	}
	return &m
}
