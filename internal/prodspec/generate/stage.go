package generate

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/prodspec/definition"
	"lehr.dev/internal/prodspec/generate/archetype"
	"lehr.dev/internal/prodspec/generate/protocol"
	"lehr.dev/internal/prodspec/generate/render"
	"lehr.dev/internal/prodspec/generate/starlark"
	"lehr.dev/internal/prodspec/generate/work"
)

// stage is one generator in one build: what each of its runs may read now.
type stage struct {
	generator definition.Generator
	inputs    Inputs
	base      intent.Digest
	// files to run for, sorted; one empty name: a single run for all.
	files []string
	items []Input
	// shared by all runs, sorted.
	shared, programs, assets []Input
	// The digests of the lists.
	filesList, assetsList intent.Digest
	makers                map[intent.AssetID]*Run
	// renderer of its own program.
	renderer render.Program
	// context covers everything but the files of each.
	context intent.Digest
	// keyed are the entries to run for; nil: it is files.
	keyed *keyed
}

// settled is what is kept of a stage of which no run is due again by itself. There
// may be many inputs, so it is no more than since looks at, and the derivations;
// underived: some run failed by those, where they were written.
type settled struct {
	context   intent.Digest
	items     []Input
	rules     intent.Digest
	underived bool
	// documents covers what the partition's own documents said, with which the runs were made.
	documents intent.Digest
}

func newStage(g *Graph, generator definition.Generator, inputs Inputs, keyed *keyed) *stage {
	s := &stage{generator: generator, inputs: inputs, keyed: keyed, makers: map[intent.AssetID]*Run{}}
	schemaDigest := g.schema.Digest()
	s.base = intent.Sum("lehr.generate.v3", []byte(version(generator)), []byte(inputs.Partition), []byte(generator.Name), []byte(generator.Program), schemaDigest[:])
	if generator.Check {
		s.base = intent.Sum("lehr.check.v1", s.base[:], []byte(fmt.Sprintf("%q", generator.Types)))
	}
	if generator.Language == work.Model {
		s.programs = slices.Clone(archetype.Programs())
	} else if apart(Job{Language: generator.Language, Program: generator.Program}) {
		s.renderer = inputs.Renderers[generator.Program]
		// One that was not there is not waited for any longer than that.
		s.base = intent.Sum("lehr.generate.v3", s.base[:], s.renderer.Digest[:])
		if s.renderer.Path != "" {
			s.programs = []Input{{Name: generator.Program, Digest: s.renderer.Digest}}
		}
	} else if s.ownProgram() {
		if program, ok := work.Find(inputs.Programs, generator.Program); ok {
			s.programs = []Input{program}
		}
	} else {
		s.programs = slices.DeleteFunc(slices.Clone(inputs.Programs), func(input Input) bool { return !isProgram(input.Name) })
	}
	for i, name := range generator.Sources {
		dst := &s.shared
		if i == 0 && generator.ForEachFile {
			dst = &s.items
		}
		*dst = slices.Grow(*dst, len(inputs.Sources[name]))
		for _, input := range inputs.Sources[name] {
			switch {
			case isProgram(input.Name) && !s.ownProgram():
				s.programs = append(s.programs, input)
			case i == 0 && keyed != nil: // It is split.
			default:
				*dst = append(*dst, input)
			}
		}
	}
	if keyed != nil {
		s.items = slices.Clone(keyed.items)
	}
	s.programs, s.shared, s.items = unique(s.programs), unique(s.shared), unique(s.items)
	for _, name := range generator.Generators {
		for _, file := range slices.Sorted(maps.Keys(g.runs[name])) {
			run := g.runs[name][file]
			for _, output := range run.Outputs {
				if len(generator.Types) > 0 && !slices.Contains(generator.Types, output.Type) {
					continue
				}
				if s.makers[output.ID] != nil {
					// Two runs give it, which is found when all have ended.
					continue
				}
				s.assets = append(s.assets, Input{Name: string(output.ID), Digest: output.Digest, Type: output.Type})
				s.makers[output.ID] = run
			}
		}
	}
	s.assets = unique(s.assets)
	s.index()
	return s
}

// ownProgram: modules and native programs load no others, and to them a .star
// file is a file.
func (s *stage) ownProgram() bool { return s.generator.Language != work.Starlark }

// version changes whenever the same inputs may give other assets.
func version(generator definition.Generator) string {
	switch generator.Language {
	case work.Starlark:
		return starlark.Version
	case work.Model: // Whose files lie over each other in the order of the sources.
		return fmt.Sprintf("%s model %q", starlark.Version, generator.Sources)
	case work.Render:
		return fmt.Sprintf("%s %s %q", protocol.Version, render.Version(generator.Program), generator.Arguments)
	}
	return fmt.Sprintf("%s %s %q", protocol.Version, generator.Language, generator.Arguments)
}

func (s *stage) index() {
	s.files = []string{""}
	if s.forEach() {
		s.files = make([]string, len(s.items))
		for i := range s.items {
			s.files[i] = s.items[i].Name
		}
	}
	s.filesList, s.assetsList = work.Listing(s.shared), work.Listing(s.assets)
	var parts intent.Parts
	parts.Begin("lehr.stage.v1")
	parts.Add(s.base[:])
	parts.Add(s.filesList[:])
	parts.Add(s.assetsList[:])
	for _, inputs := range [][]Input{s.shared, s.programs, s.assets} {
		for i := range inputs {
			parts.AddText(inputs[i].Name)
			parts.Add(inputs[i].Digest[:])
		}
	}
	s.context = parts.Sum()
}

// changedSince lists the files to run for that changed or came, and those that went,
// when nothing else did since a stage in which no run was due again by itself.
func (s *stage) changedSince(last *settled) (changed, removed []string, ok bool) {
	if last == nil || last.context != s.context {
		return nil, nil, false
	}
	i := 0
	for _, previous := range last.items {
		for i < len(s.items) && s.items[i].Name < previous.Name {
			changed = append(changed, s.items[i].Name)
			i++
		}
		if i == len(s.items) || s.items[i].Name > previous.Name {
			removed = append(removed, previous.Name)
			continue
		}
		if s.items[i].Digest != previous.Digest {
			changed = append(changed, previous.Name)
		}
		i++
	}
	for ; i < len(s.items); i++ {
		changed = append(changed, s.items[i].Name)
	}
	return changed, removed, true
}

func (s *stage) wants(file string) bool {
	if !s.forEach() {
		return file == ""
	}
	_, ok := work.Find(s.items, file)
	return ok
}

// filesOf are the files that the run for a file sees.
func (s *stage) filesOf(file string) []Input {
	if file == "" || s.generator.Keys != nil {
		return s.shared
	}
	own, _ := work.Find(s.items, file)
	at, ok := slices.BinarySearchFunc(s.shared, own, work.ByName)
	if ok {
		return s.shared
	}
	return slices.Insert(slices.Clone(s.shared), at, own)
}

// forEach: there is a run for each file or each entry.
func (s *stage) forEach() bool { return s.generator.ForEachFile || s.generator.Keys != nil }

func (s *stage) job(ctx context.Context, g *Graph, file string) (Job, error) {
	job := Job{
		Partition: s.inputs.Partition, Generator: s.generator.Name, File: file,
		Language: s.generator.Language, Program: s.generator.Program, Arguments: s.generator.Arguments,
		Check: s.generator.Check, Definition: s.generator.File, Renderer: s.renderer.Path,
		Files: s.filesOf(file), Programs: s.programs, Assets: s.assets, Layers: s.layers(file),
	}
	var err error
	if s.keyed != nil {
		_, job.Key, _ = strings.Cut(file, keyMark)
		job.Value, err = s.value(ctx, g, file)
	}
	return job, err
}

// layers of a model's manifest: the file that it runs for, or those of the first
// source, and then the others' in the order of the sources.
func (s *stage) layers(file string) (paths []string) {
	if s.generator.Language != work.Model {
		return nil
	}
	sources := s.generator.Sources
	if file != "" {
		paths, sources = append(paths, file), sources[1:]
	}
	for _, name := range sources {
		for _, input := range s.inputs.Sources[name] {
			if !slices.Contains(paths, input.Name) {
				paths = append(paths, input.Name)
			}
		}
	}
	return paths
}

// holds reports whether everything a run rested on is as it was.
func (s *stage) holds(base intent.Digest, reads []Read, end time.Time, file string, now time.Time) bool {
	if base != s.base || !end.IsZero() && !now.Before(end) {
		return false
	}
	for _, read := range reads {
		switch read.Kind {
		case work.ReadKey:
			if own, ok := work.Find(s.items, file); !ok || read.Name != file || own.Digest != read.Digest {
				return false
			}
		case work.ReadAssets:
			if read.Digest != s.assetsList {
				return false
			}
		case work.ReadFiles:
			list := s.filesList
			if file != "" {
				list = work.Listing(s.filesOf(file))
			}
			if read.Digest != list {
				return false
			}
		case work.ReadFile:
			if own, ok := work.Find(s.items, file); ok && read.Name == file {
				if own.Digest != read.Digest {
					return false
				}
				continue
			}
			if !isAsRead(s.shared, read) {
				return false
			}
		case work.ReadProgram:
			if !isAsRead(s.programs, read) {
				return false
			}
		case work.ReadAsset:
			if !isAsRead(s.assets, read) {
				return false
			}
		default:
			return false
		}
	}
	return true
}

func isAsRead(inputs []Input, read Read) bool {
	input, ok := work.Find(inputs, read.Name)
	return ok && input.Digest == read.Digest
}

// unique sorts by name and drops what two sources both have.
func unique(inputs []Input) []Input {
	if !slices.IsSortedFunc(inputs, work.ByName) {
		slices.SortStableFunc(inputs, work.ByName)
	}
	return slices.CompactFunc(inputs, func(a, b Input) bool { return a.Name == b.Name })
}
