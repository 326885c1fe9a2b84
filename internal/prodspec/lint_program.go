package prodspec

import (
	"context"
	"fmt"
	"maps"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/prodspec/definition"
	"lehr.dev/internal/prodspec/generate/starlark"
	"lehr.dev/internal/prodspec/generate/work"
	"lehr.dev/internal/prodspec/source"
)

// programs warns of Starlark files below lehr.yaml's folder that nothing runs and
// nothing loads. What cannot be read is not warned of.
func (l *linter) programs(ctx context.Context, now time.Time, inputs map[string][]work.Input) {
	programFiles := l.sources.list(ctx, now, ".", "**/*.star")
	u := use{sources: l.sources, byPath: map[string]work.Input{}, used: map[string]bool{}}
	for _, file := range programFiles {
		u.byPath[file.Name] = file
	}
	for _, sourceInputs := range inputs {
		for _, input := range sourceInputs {
			u.byPath[l.sources.relative(input.Name)] = input
		}
	}
	u.definition(".", l.definition)
	for _, g := range slices.Concat(l.definition.Generators, ownCheckers(l.definition)) {
		for _, name := range g.Sources {
			if g.Language == work.Starlark {
				continue
			}
			for _, input := range inputs[name] {
				u.used[l.sources.relative(input.Name)] = true // It may read it as it likes.
			}
		}
	}
	unused := func(file work.Input) bool { return !u.used[file.Name] }
	// Other partitions may lie in the same folders, and have programs there.
	for _, folder := range folders(slices.DeleteFunc(slices.Clone(programFiles), func(file work.Input) bool { return !unused(file) })) {
		for _, file := range l.sources.list(ctx, now, folder, "*.y*ml") {
			if content, err := l.sources.open(file); err == nil && file.Name != l.sources.file {
				otherDefinition, _ := definition.Parse(file.Name, content, l.set)
				u.definition(folder, otherDefinition)
				if otherDefinition.Partition != "" && folder != "." {
					u.markBelow(folder, programFiles) // It warns of those itself.
				}
			}
		}
	}
	for _, file := range programFiles {
		if unused(file) {
			l.findings = append(l.findings, intent.Finding{
				Rule: "lint", Severity: intent.Warning, File: file.Name, Line: 1, Message: fmt.Sprintf("no generator runs or loads %s", file.Name),
				Hint: fmt.Sprintf("run it by a generator of %s (NAME: {starlark: %s}), load it in a program that runs, or remove it", l.sources.file, file.Name),
			})
		}
	}
}

// folders in which files lie, and those above them.
func folders(files []work.Input) []string {
	paths := map[string]bool{}
	for _, file := range files {
		for folder := path.Dir(file.Name); !paths[folder]; folder = path.Dir(folder) {
			paths[folder] = true
		}
	}
	return slices.Sorted(maps.Keys(paths))
}

// use finds the programs that run, and what those load.
type use struct {
	*sources
	// byPath are the files by their paths from lehr.yaml's folder.
	byPath map[string]work.Input
	used   map[string]bool
}

// definition of a partition in a folder.
func (u use) definition(folder string, d definition.Definition) {
	visited := map[string]bool{}
	for _, g := range d.Generators {
		if g.Language == work.Starlark {
			u.program(folder, g.Program, visited)
		}
	}
}

// markBelow marks what lies below a folder as used.
func (u use) markBelow(folder string, files []work.Input) {
	for _, file := range files {
		if strings.HasPrefix(file.Name, folder+"/") {
			u.used[file.Name] = true
		}
	}
}

// program of a partition in a folder, from which what it loads is named.
func (u use) program(folder, name string, visited map[string]bool) {
	if visited[name] {
		return
	}
	visited[name] = true
	full := path.Join(folder, name)
	u.used[full] = true
	content, err := u.open(u.byPath[full])
	if err != nil {
		return
	}
	for _, loaded := range starlark.Loads(content) {
		u.program(folder, loaded, visited)
	}
}

// list the files of a folder below lehr.yaml's, by one pattern; none where it
// cannot be read, or where there are too many.
func (s *sources) list(ctx context.Context, now time.Time, dir, pattern string) []work.Input {
	src := definition.Source{Name: dir + "/" + pattern, Directory: dir, Files: []string{pattern}}
	directory, err := s.openFolder(src, s.place(src), s.program.Elsewhere.Folders())
	if err != nil {
		return nil
	}
	snapshot, err := directory.Read(ctx, now, source.Changes{All: true})
	if err != nil {
		return nil
	}
	s.folders[src.Name] = folder{directory: directory, snapshot: snapshot} // To be opened from.
	return s.inputs(src, snapshot)
}

// relative is a path from lehr.yaml's folder.
func (s *sources) relative(name string) string {
	if !filepath.IsAbs(name) {
		return name
	}
	rel, err := filepath.Rel(s.home, name)
	if err != nil {
		return name
	}
	return strings.TrimPrefix(filepath.ToSlash(rel), "./")
}
