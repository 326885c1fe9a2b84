// Package provenance keeps where assets come from, as of the incarnation in
// which each became what it is: the generator, the files it read, and the
// sources' revisions. The pipeline writes it before it publishes, package query
// reads it, and the collector removes it with the last content that the
// incarnation changed. It names files and lines, and holds none of their words.
package provenance

import (
	"context"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"time"

	"lehr.dev/fault"
	"lehr.dev/intent"
	"lehr.dev/store"
)

// Place is a file of a source.
type Place struct {
	File string `json:"file"`
	// Line from 1; 0: it is not known.
	Line int `json:"line,omitempty"`
	// Source that has the file; empty: it is not known.
	Source string `json:"source,omitempty"`
}

// Derived is an addon, or a part of it, that a derivation gave.
type Derived struct {
	Derivation string          `json:"derivation"`
	Addon      intent.TypeName `json:"addon"`
	Place      Place           `json:"place"`
}

// Run is what made assets.
type Run struct {
	Generator string `json:"generator"`
	// Inputs are the files that it read, at most MostInputs of them, and More
	// how many others.
	Inputs []Place `json:"inputs,omitempty"`
	More   int     `json:"more,omitempty"`
	// Assets of other generators that it read, at most MostInputs.
	Assets []intent.AssetID `json:"assets,omitempty"`
}

// MostInputs of a run are named.
const MostInputs = 20

// Origin is where one asset comes from.
type Origin struct {
	Run
	// Made is the place in the program that made the asset, or what the program
	// says that it was made from.
	Made    Place     `json:"made"`
	Derived []Derived `json:"derived,omitempty"`
	// Lines says of a field, by its path as in package query, which line of an
	// input is the only one that has its name and value.
	Lines map[string]Place `json:"lines,omitempty"`
}

// Published is an incarnation, as far as its assets' origins need it: it may be
// no longer retained.
type Published struct {
	At      time.Time               `json:"at"`
	Sources []intent.SourceRevision `json:"sources"`
	Parts   int                     `json:"parts"`
}

// one asset in a part. Its run is shared by many.
type one struct {
	Run     int              `json:"run"`
	Made    Place            `json:"made"`
	Derived []Derived        `json:"derived,omitempty"`
	Lines   map[string]Place `json:"lines,omitempty"`
}

type part struct {
	Runs   []*Run                 `json:"runs"`
	Assets map[intent.AssetID]one `json:"assets"`

	index map[*Run]int
}

// perPart is how many assets a part has, about.
const perPart = 1000

// Writer gathers the origins of what an incarnation adds and changes.
type Writer struct {
	published Published
	sequence  intent.Sequence
	parts     []part
}

// NewWriter for an incarnation that is to be published, with so many assets
// added and changed.
func NewWriter(incarnation intent.Incarnation) *Writer {
	parts := (incarnation.Added+incarnation.Changed)/perPart + 1
	w := &Writer{
		published: Published{At: incarnation.Created, Sources: incarnation.Sources, Parts: parts},
		sequence:  incarnation.ID.Sequence, parts: make([]part, parts),
	}
	for i := range w.parts {
		w.parts[i] = part{Assets: map[intent.AssetID]one{}, index: map[*Run]int{}}
	}
	return w
}

// Add notes where an asset comes from. The run is compared by its address.
func (w *Writer) Add(asset intent.AssetID, run *Run, made Place, derived []Derived, lines map[string]Place) {
	p := &w.parts[partOf(asset, len(w.parts))]
	at, known := p.index[run]
	if !known {
		at = len(p.Runs)
		p.Runs, p.index[run] = append(p.Runs, run), at
	}
	p.Assets[asset] = one{Run: at, Made: made, Derived: derived, Lines: lines}
}

func partOf(asset intent.AssetID, parts int) int {
	hash := fnv.New32a()
	hash.Write([]byte(asset))
	return int(hash.Sum32() % uint32(parts))
}

// perWrite is how many parts one transaction stores.
const perWrite = 32

// Save stores all. What was left by an incarnation of the same sequence that was
// never published is replaced.
func (w *Writer) Save(ctx context.Context, blobs store.Blobs, lease store.Lease) error {
	text, err := json.Marshal(w.published)
	if err != nil {
		return fault.New(fault.Internal, "cannot encode the sources of an incarnation: %w", err)
	}
	pending := map[string][]byte{store.OriginName(w.sequence): text}
	for i, p := range w.parts {
		if len(p.Assets) > 0 {
			if text, err = json.Marshal(p); err != nil {
				return fault.New(fault.Internal, "cannot encode the origins of assets: %w", err)
			}
			pending[partName(w.sequence, i)] = text
		}
		if len(pending) < perWrite && i+1 < len(w.parts) {
			continue
		}
		if err := blobs.PutBlobs(ctx, lease, store.OriginBlobs, pending); err != nil {
			return err
		}
		pending = map[string][]byte{}
	}
	return nil
}

func partName(sequence intent.Sequence, part int) string {
	return fmt.Sprintf("%s/%d", store.OriginName(sequence), part)
}

// Reader is what Read needs of a store.
type Reader interface {
	GetBlob(ctx context.Context, partition intent.PartitionID, kind, name string) ([]byte, error)
}

// Read finds where an asset comes from that the incarnation added or changed.
// NotFound: that was not kept, as by a version that kept none.
func Read(ctx context.Context, from Reader, id intent.IncarnationID, asset intent.AssetID) (Published, Origin, error) {
	var published Published
	var p part
	if err := decode(ctx, from, id, store.OriginName(id.Sequence), &published); err != nil {
		return published, Origin{}, err
	}
	if published.Parts < 1 {
		return published, Origin{}, fault.New(fault.Internal, "the origins of %s have no parts", id)
	}
	if err := decode(ctx, from, id, partName(id.Sequence, partOf(asset, published.Parts)), &p); err != nil {
		return published, Origin{}, err
	}
	found, known := p.Assets[asset]
	if !known {
		return published, Origin{}, fault.New(fault.NotFound, "%s did not change %s", id, asset)
	}
	if found.Run < 0 || found.Run >= len(p.Runs) || p.Runs[found.Run] == nil {
		return published, Origin{}, fault.New(fault.Internal, "the origin of %s in %s names a run that is not there", asset, id)
	}
	return published, Origin{Run: *p.Runs[found.Run], Made: found.Made, Derived: found.Derived, Lines: found.Lines}, nil
}

func decode(ctx context.Context, from Reader, id intent.IncarnationID, name string, into any) error {
	text, err := from.GetBlob(ctx, id.Partition, store.OriginBlobs, name)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(text, into); err != nil {
		return fault.New(fault.Internal, "the origins of the assets of %s cannot be read: %w", id, err)
	}
	return nil
}
