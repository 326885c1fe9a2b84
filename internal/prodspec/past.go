package prodspec

import (
	"context"
	"regexp"
	"slices"
	"strings"
	"time"

	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/prodspec/definition"
	"lehr.dev/internal/prodspec/provenance"
	"lehr.dev/internal/prodspec/source"
)

// mostBlamed files of one incarnation are asked which change each of their lines
// is from. Of others, only the changes of the files are known.
const mostBlamed = 20

// pastPatience is how long a publication waits for all that.
const pastPatience = 10 * time.Second

// mostOthers are named of the changes of a file beside the newest.
const mostOthers = 4

// sourceHistory says which changes of sources made files and lines what they are since the
// incarnation before. What cannot be told is left out: it ends no publication.
type sourceHistory struct {
	ctx      context.Context
	sources  *sources
	previous []intent.SourceRevision
	note     func(name string, change provenance.Change)
	// changes by source and file, and lines by file, as far as they were asked for.
	changes map[string]map[string][]source.Change
	lines   map[string][]source.Change
	budget  int
}

func newSourceHistory(ctx context.Context, s *sources, previous []intent.SourceRevision, note func(string, provenance.Change)) *sourceHistory {
	return &sourceHistory{ctx: ctx, sources: s, previous: previous, note: note, changes: map[string]map[string][]source.Change{}, lines: map[string][]source.Change{}, budget: mostBlamed}
}

// folder of a source, if it knows its past, and the path of a file in it.
func (p *sourceHistory) folder(at provenance.Place) (source.Past, string) {
	if at.Source == definition.DefinitionSource {
		folder, _ := p.sources.own.(source.Past)
		return folder, p.sources.file
	}
	f := p.sources.folders[at.Source]
	folder, ok := f.directory.(source.Past)
	if !ok {
		return nil, ""
	}
	rel, inside := p.sources.pathInFolder(at.Source, f, at.File)
	if !inside {
		return nil, ""
	}
	return folder, rel
}

// changesOf a file since the incarnation before, the newest first.
func (p *sourceHistory) changesOf(at provenance.Place) []source.Change {
	folder, rel := p.folder(at)
	if folder == nil {
		return nil
	}
	if _, ok := p.changes[at.Source]; !ok {
		base := ""
		if i := slices.IndexFunc(p.previous, func(r intent.SourceRevision) bool { return r.Source == at.Source }); i >= 0 {
			base = p.previous[i].Revision
		}
		// Without them the sources' states are all that is known.
		p.changes[at.Source], _ = folder.Changes(p.ctx, base)
	}
	return p.changes[at.Source][rel]
}

// ofFile names the newest change of a file.
func (p *sourceHistory) ofFile(at provenance.Place) provenance.Place {
	changes := p.changesOf(at)
	if len(changes) == 0 {
		return at
	}
	at.Change = p.noted(changes[0])
	if len(p.previous) == 0 {
		return at // The others are all that ever changed it.
	}
	var others []string
	for _, change := range changes[1:min(len(changes), 1+mostOthers)] {
		others = append(others, p.noted(change))
	}
	at.Others = strings.Join(others, " ")
	return at
}

// ofLine names the change of a line.
func (p *sourceHistory) ofLine(at provenance.Place) provenance.Place {
	lines := p.linesOf(at)
	if at.Line > len(lines) {
		return at
	}
	at.Change, at.OfLine = p.noted(lines[at.Line-1]), true
	changed := p.changed(at) // It asks for the changes of the source.
	at.Old = len(p.previous) > 0 && !changed && p.changes[at.Source] != nil
	return at
}

func (p *sourceHistory) linesOf(at provenance.Place) []source.Change {
	file := at.Source + "\x00" + at.File
	if lines, ok := p.lines[file]; ok || p.budget == 0 {
		return lines
	}
	folder, rel := p.folder(at)
	if folder == nil {
		return nil
	}
	p.budget--
	p.lines[file], _ = folder.Lines(p.ctx, rel)
	return p.lines[file]
}

// changed reports whether a line is from a change since the incarnation before.
func (p *sourceHistory) changed(at provenance.Place) bool {
	return len(p.previous) > 0 && at.OfLine && slices.ContainsFunc(p.changesOf(at), func(c source.Change) bool { return c.Revision == at.Change })
}

func (p *sourceHistory) noted(change source.Change) string {
	p.note(change.Revision, provenance.Change{Commit: change.Commit, Earlier: change.Earlier})
	return change.Revision
}

// fieldOf finds the paths of fields in an expression.
var fieldOf = regexp.MustCompile(`\b(?:payload|addons)(?:\.[A-Za-z_][A-Za-z0-9_]*|\["[^"\]]*"\]|\[[0-9]+\])+`)

// named are the fields that a derivation's or resolver's expressions name.
func (s *sources) named(derivation string) (fields []string) {
	const most = 10
	add := func(all ...*definition.Expression) {
		for _, e := range all {
			if e == nil {
				continue
			}
			for _, field := range fieldOf.FindAllString(e.Text, -1) {
				if !slices.Contains(fields, field) && len(fields) < most {
					fields = append(fields, field)
				}
			}
		}
	}
	for _, d := range s.definition.definition.Derivations {
		if d.Name == derivation {
			for i := range d.Values {
				add(&d.Values[i].Expression)
			}
			for i := range d.Edges {
				add(&d.Edges[i].On, d.Edges[i].When, d.Edges[i].AtLeast)
			}
		}
	}
	for _, r := range s.definition.definition.Resolvers {
		if r.Name == derivation {
			for i := range r.Fields {
				add(&r.Fields[i].Expression)
			}
		}
	}
	return fields
}
