package prodspec

import (
	"cmp"
	"context"
	"maps"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/ground/loop"
	"lehr.dev/internal/ground/schema"
	"lehr.dev/internal/prodspec/definition"
	"lehr.dev/internal/prodspec/generate"
	"lehr.dev/internal/prodspec/generate/work"
	"lehr.dev/internal/prodspec/provenance"
	"lehr.dev/internal/prodspec/query"
	"lehr.dev/internal/prodspec/source"
	"lehr.dev/internal/store"
)

// What is read to find lines, of one incarnation. Of what is beyond, only the
// files are known.
const (
	linedBytes  = 8 << 20
	linedFile   = 1 << 20
	linedAssets = 2000
	linedFiles  = 200
)

// origins gathers where what a delta changes comes from.
type origins struct {
	*builder
	ctx     context.Context
	runs    map[*generate.Run]*origin
	history *sourceHistory
	// head is the incarnation before.
	snapshots store.Snapshots
	head      intent.IncarnationID
	// What may still be read.
	bytes, assets int
}

// origin of what one run made.
type origin struct {
	run provenance.Run
	// lines of the files that it read; nil: they were not all read.
	lines *provenance.Lines
}

// keepOrigins stores where each asset comes from that an incarnation adds or
// changes, before it can be seen. Before are the states of the sources in the
// incarnation before.
func (b *builder) keepOrigins(ctx context.Context, runtime loop.Runtime, dst Store, lease store.Lease, incarnation intent.Incarnation, previous []intent.SourceRevision, delta change) error {
	if incarnation.Added+incarnation.Changed == 0 {
		return nil
	}
	w := provenance.NewWriter(incarnation)
	asking, cancel := loop.WithTimeout(ctx, runtime, pastPatience)
	defer cancel()
	o := origins{
		builder: b, runs: map[*generate.Run]*origin{}, bytes: linedBytes, assets: linedAssets,
		ctx: ctx, history: newSourceHistory(asking, b.sources, previous, w.Note), snapshots: dst, head: incarnation.Parent,
	}
	for i := range delta.entries {
		entry := &delta.entries[i]
		if entry.Removed {
			continue
		}
		assetOrigin := b.origin(entry.Asset)
		built, _ := b.members.get(entry.Asset)
		var derived []provenance.Derived
		for _, d := range assetOrigin.Derived {
			derived = append(derived, provenance.Derived{
				Derivation: d.Derivation, Addon: d.Addon, Field: d.Field, Was: d.Was, Reason: d.Reason, Reads: b.sources.named(d.Derivation),
				Place: o.history.ofFile(provenance.Place{File: d.File, Line: d.Line, Source: b.sources.sourceOf(d.File)}),
			})
		}
		run := o.runOrigin(built.run)
		lines, err := o.lines(run, entry)
		if err != nil {
			return err
		}
		place := o.history.ofFile(provenance.Place{File: assetOrigin.File, Line: assetOrigin.Line, Source: b.sources.sourceOf(assetOrigin.File)})
		w.Add(entry.Asset, &run.run, place, derived, lines)
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	return w.Save(ctx, dst, lease)
}

func (o *origins) runOrigin(run *generate.Run) *origin {
	if known := o.runs[run]; known != nil {
		return known
	}
	found := &origin{run: provenance.Run{Generator: run.Generator}}
	o.runs[run] = found
	var files []work.Input
	for _, read := range run.Reads() {
		switch read.Kind {
		case work.ReadKey:
			if input, ok := o.sources.find(generate.EntryFile(read.Name)); ok {
				files = append(files, input)
			}
		case work.ReadFile:
			files = append(files, work.Input{Name: read.Name, Digest: read.Digest})
		case work.ReadAsset:
			if len(found.run.Assets) < provenance.MostInputs {
				found.run.Assets = append(found.run.Assets, intent.AssetID(read.Name))
			}
		}
	}
	places := make(map[string]provenance.Place, len(files))
	for i, file := range files {
		if i < linedFiles {
			places[file.Name] = o.history.ofFile(provenance.Place{File: file.Name, Source: o.sources.sourceOf(file.Name)})
		}
	}
	// The file that it ran for comes first, then what changed.
	rank := func(file work.Input) int {
		switch {
		case file.Name == generate.EntryFile(run.File):
			return 0
		case places[file.Name].Change != "" && len(o.history.previous) > 0:
			return 1
		}
		return 2
	}
	slices.SortStableFunc(files, func(a, b work.Input) int {
		return cmp.Or(cmp.Compare(rank(a), rank(b)), strings.Compare(a.Name, b.Name))
	})
	if len(files) <= linedFiles {
		found.lines = o.read(files, places)
	}
	if len(files) > provenance.MostInputs {
		found.run.More = len(files) - provenance.MostInputs
		files = files[:provenance.MostInputs]
	}
	for _, file := range files {
		at, ok := places[file.Name]
		if !ok {
			at = provenance.Place{File: file.Name, Source: o.sources.sourceOf(file.Name)}
		}
		found.run.Inputs = append(found.run.Inputs, at)
	}
	return found
}

// read the lines of files; nil when one is not to be read: a line could be
// another's.
func (o *origins) read(files []work.Input, places map[string]provenance.Place) *provenance.Lines {
	lines := &provenance.Lines{}
	for _, file := range files {
		if o.bytes <= 0 || o.assets <= 0 {
			return nil
		}
		content, err := o.sources.open(file)
		if err != nil || len(content) > linedFile {
			return nil // It has changed since: the next incarnation may tell.
		}
		o.bytes -= len(content)
		lines.Read(places[file.Name], content)
	}
	lines.About(o.history.ofLine, o.history.changed)
	return lines
}

// lines of an asset's fields.
func (o *origins) lines(run *origin, entry *store.Entry) (map[string]provenance.Place, error) {
	if run.lines == nil || len(entry.Body) == 0 || o.assets <= 0 {
		return nil, nil
	}
	o.assets--
	content, err := schema.Decode(entry.Body)
	if err != nil {
		return nil, err
	}
	var previous map[string]string
	if run.lines.Altered() {
		previous = o.valuesBefore(entry.Asset)
	}
	found := map[string]provenance.Place{}
	err = query.Values(o.set, content, func(path, value string) bool {
		at, ok := run.lines.Find(path, value)
		if (!ok || at.Old) && previous != nil && previous[path] != value {
			// What changed with the field is what gave it its value.
			if altered, found := run.lines.FindAltered(path, value); found {
				at, ok = altered, true
			}
		}
		if ok {
			found[path] = at
		}
		return len(found) < query.MostFields
	})
	return found, err
}

// valuesBefore are the fields of an asset in the incarnation before; nil: it had
// none, or they cannot be read.
func (o *origins) valuesBefore(asset intent.AssetID) map[string]string {
	member, exists, err := memberAt(o.ctx, o.snapshots, o.head, asset)
	if err != nil || !exists {
		return nil
	}
	body, err := o.snapshots.Body(o.ctx, member.Digest)
	if err != nil {
		return nil
	}
	content, err := schema.Decode(body)
	if err != nil {
		return nil
	}
	values := map[string]string{}
	if query.Values(o.set, content, func(path, value string) bool { values[path] = value; return true }) != nil {
		return nil
	}
	return values
}

// given says which generator of a definition gave an asset of head; empty: it is
// not known, or the definition has it no more.
func (b *builder) given(from store.Snapshots, head intent.IncarnationID, d definition.Definition) func(context.Context, intent.AssetID) (string, error) {
	return func(ctx context.Context, asset intent.AssetID) (string, error) {
		origins, ok := from.(provenance.Reader)
		if !ok {
			return "", nil
		}
		member, err := from.Member(ctx, head, asset)
		if err != nil {
			return "", err
		}
		_, origin, err := provenance.Read(ctx, origins, intent.IncarnationID{Partition: head.Partition, Sequence: member.Since}, asset)
		if fault.Is(err, fault.NotFound) {
			return "", nil
		}
		if err != nil {
			return "", err
		}
		if !slices.ContainsFunc(d.Generators, func(g definition.Generator) bool { return g.Name == origin.Generator }) {
			return "", nil
		}
		return origin.Generator, nil
	}
}

// find an input by its name, as it is now.
func (s *sources) find(name string) (work.Input, bool) {
	for sourceName, f := range s.folders {
		if rel, ok := s.pathInFolder(sourceName, f, name); ok && f.snapshot != nil {
			if input, ok := work.Find(f.inputs, name); ok && rel != "" {
				return input, true
			}
		}
	}
	return work.Input{}, false
}

// sourceOf says which source has a file that is named as inputs are; empty: none.
func (s *sources) sourceOf(file string) string {
	if file == s.file {
		return definition.DefinitionSource
	}
	for _, name := range slices.Sorted(maps.Keys(s.folders)) {
		f := s.folders[name]
		if f.snapshot == nil {
			continue
		}
		rel, ok := s.pathInFolder(name, f, path.Clean(filepath.ToSlash(file)))
		if !ok {
			continue
		}
		if _, listed := slices.BinarySearchFunc(f.snapshot.Files, rel, func(file source.File, name string) int { return strings.Compare(file.Path, name) }); listed {
			return name
		}
	}
	return ""
}
