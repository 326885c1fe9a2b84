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
	"strings"
	"time"

	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/store"
)

// Place is a file of a source.
type Place struct {
	File string `json:"file"`
	// Line from 1; 0: it is not known.
	Line int `json:"line,omitempty"`
	// Source that has the file; empty: it is not known.
	Source string `json:"source,omitempty"`
	// Change that made it so: of the line, when OfLine, else the newest of the file since
	// the incarnation before. Empty: there was none, or that is not known.
	Change string `json:"change,omitempty"`
	OfLine bool   `json:"ofLine,omitempty"`
	// Old: that was before the incarnation before already.
	Old bool `json:"old,omitempty"`
	// Others are some that changed the file before that, separated by
	// spaces, for places are compared.
	Others string `json:"others,omitempty"`
	// Under is the name that the line has the value under, or a part of it, when that
	// is another than the field's; it changed in the same incarnation.
	Under string `json:"under,omitempty"`
}

// Change of a source: a commit, or a revision of a document.
type Change struct {
	intent.Commit
	// Earlier: it is the oldest that is known, and what it has may be older.
	Earlier bool `json:"earlier,omitempty"`
}

// Derived is an addon, or a part of it, that a derivation gave, or a field that a
// resolver changed.
type Derived struct {
	Derivation string          `json:"derivation"`
	Addon      intent.TypeName `json:"addon,omitempty"`
	Place      Place           `json:"place"`
	// Field that a resolver changed, what it was for people, empty if it was not
	// set, and the reason that the resolver gives.
	Field  string `json:"field,omitempty"`
	Was    string `json:"was,omitempty"`
	Reason string `json:"reason,omitempty"`
	// Reads are the fields of the asset that the expressions name, by their paths.
	Reads []string `json:"reads,omitempty"`
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
	Made    Place
	Derived []Derived
	// Lines says of a field, by its path as in package query, which line of an
	// input is the only one that has its name and value.
	Lines map[string]Place
	// Changes are those that the places name.
	Changes map[string]Change
}

// Published is an incarnation, as far as its assets' origins need it: it may be
// no longer retained.
type Published struct {
	At      time.Time               `json:"at"`
	Sources []intent.SourceRevision `json:"sources"`
	Parts   int                     `json:"parts"`
}

// one asset in a part, of which an incarnation may have a million: what is
// shared by many is named by its index.
type one struct {
	Run  int32 `json:"r,omitempty"`
	Made int32 `json:"m,omitempty"`
	// Derived is 1 more than the index; 0: nothing is.
	Derived int32            `json:"d,omitempty"`
	Lines   map[string]Place `json:"lines,omitempty"`
}

type part struct {
	Runs    []*Run                 `json:"runs"`
	Made    []Place                `json:"made"`
	Derived [][]Derived            `json:"derived,omitempty"`
	Assets  map[intent.AssetID]one `json:"assets"`
	Changes map[string]Change      `json:"changes,omitempty"`

	runs    map[*Run]int32
	made    map[Place]int32
	derived map[string]int32
}

// perPart is how many assets a part has, about.
const perPart = 1000

// Writer gathers the origins of what an incarnation adds and changes.
type Writer struct {
	published Published
	sequence  intent.Sequence
	parts     []part
	// changes that places may name.
	changes map[string]Change
}

// NewWriter for an incarnation that is to be published, with so many assets
// added and changed.
func NewWriter(incarnation intent.Incarnation) *Writer {
	parts := (incarnation.Added+incarnation.Changed)/perPart + 1
	w := &Writer{
		published: Published{At: incarnation.Created, Sources: incarnation.Sources, Parts: parts},
		sequence:  incarnation.ID.Sequence, parts: make([]part, parts), changes: map[string]Change{},
	}
	for i := range w.parts {
		w.parts[i] = part{Assets: map[intent.AssetID]one{}, runs: map[*Run]int32{}, made: map[Place]int32{}, derived: map[string]int32{}}
	}
	return w
}

// Add notes where an asset comes from. The run is compared by its address.
func (w *Writer) Add(asset intent.AssetID, run *Run, madeAt Place, derived []Derived, lines map[string]Place) {
	p := &w.parts[partOf(asset, len(w.parts))]
	place := one{Lines: lines}
	place.Run, p.Runs = index(p.runs, p.Runs, run, run)
	place.Made, p.Made = index(p.made, p.Made, madeAt, madeAt)
	if len(derived) > 0 {
		place.Derived, p.Derived = index(p.derived, p.Derived, fmt.Sprint(derived), derived)
		place.Derived++
	}
	p.Assets[asset] = place
}

// index of a value in a list that has it once.
func index[K comparable, T any](indexes map[K]int32, list []T, key K, value T) (int32, []T) {
	at, ok := indexes[key]
	if !ok {
		at, list = int32(len(list)), append(list, value)
		indexes[key] = at
	}
	return at, list
}

func partOf(asset intent.AssetID, parts int) int {
	hash := fnv.New32a()
	hash.Write([]byte(asset))
	return int(hash.Sum32() % uint32(parts))
}

// perWrite is how many parts one transaction stores.
const perWrite = 32

// Note a change that places name.
func (w *Writer) Note(name string, change Change) { w.changes[name] = change }

// noted are the changes that the places of a part name.
func (w *Writer) noted(p *part) {
	p.Changes = map[string]Change{}
	note := func(at Place) {
		for _, name := range append(strings.Fields(at.Others), at.Change) {
			if change, ok := w.changes[name]; ok {
				p.Changes[name] = change
			}
		}
	}
	for _, run := range p.Runs {
		for _, input := range run.Inputs {
			note(input)
		}
	}
	for _, place := range p.Made {
		note(place)
	}
	for _, list := range p.Derived {
		for _, d := range list {
			note(d.Place)
		}
	}
	for _, asset := range p.Assets {
		for _, line := range asset.Lines {
			note(line)
		}
	}
}

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
			w.noted(&p)
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
func Read(ctx context.Context, reader Reader, id intent.IncarnationID, asset intent.AssetID) (Published, Origin, error) {
	var published Published
	var p part
	if err := decode(ctx, reader, id, store.OriginName(id.Sequence), &published); err != nil {
		return published, Origin{}, err
	}
	if published.Parts < 1 {
		return published, Origin{}, fault.New(fault.Internal, "the origins of %s have no parts", id)
	}
	if err := decode(ctx, reader, id, partName(id.Sequence, partOf(asset, published.Parts)), &p); err != nil {
		return published, Origin{}, err
	}
	record, ok := p.Assets[asset]
	if !ok {
		return published, Origin{}, fault.New(fault.NotFound, "%s did not change %s", id, asset)
	}
	run, hasRun := item(p.Runs, record.Run)
	place, hasMade := item(p.Made, record.Made)
	derived, hasDerived := item(p.Derived, record.Derived-1)
	if !hasRun || run == nil || !hasMade || !hasDerived && record.Derived != 0 {
		return published, Origin{}, fault.New(fault.Internal, "the origin of %s in %s names what is not there", asset, id)
	}
	return published, Origin{Run: *run, Made: place, Derived: derived, Lines: record.Lines, Changes: p.Changes}, nil
}

func item[T any](list []T, at int32) (value T, ok bool) {
	if at < 0 || int(at) >= len(list) {
		return value, false
	}
	return list[at], true
}

func decode(ctx context.Context, reader Reader, id intent.IncarnationID, name string, target any) error {
	text, err := reader.GetBlob(ctx, id.Partition, store.OriginBlobs, name)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(text, target); err != nil {
		return fault.New(fault.Internal, "the origins of the assets of %s cannot be read: %w", id, err)
	}
	return nil
}
