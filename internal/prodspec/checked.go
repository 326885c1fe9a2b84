package prodspec

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"lehr.dev/internal/ground/document/written"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/prodspec/definition"
	"lehr.dev/internal/prodspec/generate"
	"lehr.dev/internal/prodspec/generate/work"
	"lehr.dev/internal/prodspec/validate"
)

// checkers of a definition, as the graph runs them.
func checkers(d definition.Definition) []definition.Generator {
	list := make([]definition.Generator, len(d.Checkers))
	for i, checker := range d.Checkers {
		list[i] = checker.Generator
	}
	return list
}

// gatherChecked reads what checking programs found of what was built, and gives each finding
// its place. It is called when the members are those of the build.
func (b *builder) gatherChecked(r reading) {
	b.checked, b.checkAgain = nil, false
	for _, checker := range r.definition.Checkers {
		outcome := b.graph.Checked(checker.Name)
		b.checkAgain = b.checkAgain || outcome.Again
		checked := validate.Checked{Name: checker.Name, Severity: checker.Severity}
		for _, f := range outcome.Failed {
			checked.Failed = append(checked.Failed, b.placeOfChecker(checker, f))
		}
		for _, report := range outcome.Reported {
			report.Finding = b.placeOfChecker(checker, report.Finding)
			checked.Found = append(checked.Found, b.placeInAsset(report, r.inputs))
		}
		b.checked = append(b.checked, checked)
	}
}

// placeOfChecker has what is said of the check itself stand where the definition names it.
func (b *builder) placeOfChecker(checker definition.Checker, f intent.Finding) intent.Finding {
	if f.File == checker.File {
		f.Line, f.Field = checker.Line, programField(checker.Name)
	}
	return f
}

func programField(name string) string { return "validate.programs." + name }

// placeInAsset finds the line of a source that a line of an asset's text was made from; else the
// place at which the asset was made.
func (b *builder) placeInAsset(report work.Report, inputs generate.Inputs) intent.Finding {
	f, excerpt := report.Finding, report.Excerpt
	if f.File != "" || f.Asset == "" {
		return f
	}
	member, ok := b.members.get(f.Asset)
	if !ok {
		return f
	}
	if place, ok := b.lineOfPath(member, report, inputs); ok {
		f.File, f.Line, f.Column = place.File, place.Line, 0
		return f
	}
	if place, ok := b.lineOf(member.run, excerpt, inputs); ok {
		f.File, f.Line, f.Column = place.File, place.Line, 0
		return f
	}
	line := f.Line
	origin := originOf(member.run, member.output())
	if f.File, f.Line, f.Column = origin.File, max(origin.Line, 1), 0; excerpt != "" && len(report.Path) == 0 {
		f.Message = fmt.Sprintf("line %d of %s: %s", line, cmp.Or(f.Field, "its text"), f.Message)
	}
	return f
}

// lineOfPath finds a value of an asset in the document that the asset was made from.
func (b *builder) lineOfPath(made member, report work.Report, inputs generate.Inputs) (linePlace, bool) {
	file, line := made.output().File, int(made.output().Line)
	if len(report.Path) == 0 || file == "" || line == 0 {
		return linePlace{}, false
	}
	for _, read := range b.filesOf(made.run) {
		if read.Name != file {
			continue
		}
		content, err := inputs.Open(work.Input{Name: read.Name, Digest: read.Digest})
		if err != nil || len(content) > mostSearchedBytes {
			return linePlace{}, false
		}
		found, ok := written.LineOf(content, line, report.Path, report.Excerpt)
		return linePlace{file, found}, ok
	}
	return linePlace{}, false
}

// linePlace is a line of a file.
type linePlace struct {
	File string
	Line int
}

// Bounds of the files in which a line is looked for.
const mostSearchedFiles, mostSearchedBytes = 500, 32 << 20

// lineOf finds the only place where the lines of an excerpt stand in the files that a run rests
// on, or where its last line does.
func (b *builder) lineOf(run *generate.Run, excerpt string, inputs generate.Inputs) (linePlace, bool) {
	wanted := trimmedLines(excerpt)
	if last := len(wanted) - 1; excerpt == "" || wanted[last] == "" {
		return linePlace{}, false
	}
	// whole are the places of all lines, single those of the last.
	var whole, single []linePlace
	bytes := 0
	for i, read := range b.filesOf(run) {
		content, err := inputs.Open(work.Input{Name: read.Name, Digest: read.Digest})
		if bytes += len(content); err != nil || i == mostSearchedFiles || bytes > mostSearchedBytes {
			return linePlace{}, false // It may stand in what was not read, too.
		}
		lines := trimmedLines(string(content))
		for at := range lines {
			if lines[at] != wanted[len(wanted)-1] {
				continue
			}
			place := linePlace{read.Name, at + 1}
			if single = append(single, place); at+1 >= len(wanted) && slices.Equal(lines[at+1-len(wanted):at+1], wanted) {
				whole = append(whole, place)
			}
		}
	}
	for _, places := range [][]linePlace{whole, single} {
		if len(places) == 1 {
			return places[0], true
		}
	}
	return linePlace{}, false
}

// trimmedLines have neither spaces around them nor the dash of a list before them: what a file
// has indented, an asset need not, and its fields may have another order.
func trimmedLines(text string) []string {
	lines := strings.Split(text, "\n")
	for i := range lines {
		lines[i] = strings.TrimSpace(strings.TrimPrefix(strings.TrimSpace(lines[i]), "- "))
	}
	return lines
}

// filesOf a run are those that it read, and those that what it took from others rests on.
func (b *builder) filesOf(run *generate.Run) (reads []work.Read) {
	visited, files := map[*generate.Run]bool{}, map[string]bool{}
	for queue := []*generate.Run{run}; len(queue) > 0; queue = queue[1:] {
		if visited[queue[0]] {
			continue
		}
		visited[queue[0]] = true
		for _, read := range queue[0].Reads() {
			program := read.Kind == work.ReadProgram && strings.HasSuffix(read.Name, ".star")
			switch member, ok := b.members.get(intent.AssetID(read.Name)); {
			case (read.Kind == work.ReadFile || program) && !files[read.Name]:
				files[read.Name] = true
				reads = append(reads, read)
			case read.Kind == work.ReadAsset && ok:
				queue = append(queue, member.run)
			}
		}
	}
	return reads
}
