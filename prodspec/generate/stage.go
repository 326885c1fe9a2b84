package generate

import (
	"maps"
	"slices"
	"strings"
	"time"

	"lehr.dev/intent"
	"lehr.dev/prodspec/definition"
	"lehr.dev/prodspec/generate/starlark"
)

// stage is one generator in one build: what each of its runs may read now.
type stage struct {
	generator definition.Generator
	inputs    Inputs
	base      intent.Digest
	// files to run for, sorted; one empty name: a single run for all.
	files []string
	each  map[string]Input
	// shared by all runs, sorted.
	shared, programs, assets []Input
	// The same by name, and the digests of the lists.
	byName                map[Read]bool
	filesList, assetsList intent.Digest
	makers                map[intent.AssetID]*Run
}

func newStage(g *Graph, generator definition.Generator, inputs Inputs) *stage {
	s := &stage{generator: generator, inputs: inputs, each: map[string]Input{}, byName: map[Read]bool{}, makers: map[intent.AssetID]*Run{}}
	schemaDigest := g.schema.Digest()
	s.base = intent.Sum("lehr.generate.v1", []byte(starlark.Version), []byte(inputs.Partition), []byte(generator.Name), []byte(generator.Program), schemaDigest[:])
	s.programs = slices.Clone(inputs.Programs)
	for i, name := range generator.Sources {
		for _, input := range inputs.Sources[name] {
			switch {
			case isProgram(input.Name):
				s.programs = append(s.programs, input)
			case i == 0 && generator.ForEachFile:
				s.each[input.Name] = input
			default:
				s.shared = append(s.shared, input)
			}
		}
	}
	s.programs, s.shared = unique(s.programs), unique(s.shared)
	for _, name := range generator.Generators {
		for _, run := range g.runs[name] {
			for _, output := range run.Outputs {
				s.assets = append(s.assets, Input{Name: string(output.ID), Digest: output.Digest, Type: output.Type})
				s.makers[output.ID] = run
			}
		}
	}
	s.assets = unique(s.assets)
	s.index()
	return s
}

func (s *stage) index() {
	s.files = []string{""}
	if s.generator.ForEachFile {
		s.files = slices.Sorted(maps.Keys(s.each))
	}
	for kind, inputs := range map[starlark.Kind][]Input{starlark.ReadFile: s.shared, starlark.ReadProgram: s.programs, starlark.ReadAsset: s.assets} {
		for _, input := range inputs {
			s.byName[Read{Kind: kind, Name: input.Name, Digest: input.Digest}] = true
		}
	}
	s.filesList, s.assetsList = starlark.Listing(s.shared), starlark.Listing(s.assets)
}

func (s *stage) wants(file string) bool {
	if !s.generator.ForEachFile {
		return file == ""
	}
	_, found := s.each[file]
	return found
}

// filesOf are the files that the run for a file sees.
func (s *stage) filesOf(file string) []Input {
	if file == "" {
		return s.shared
	}
	own := s.each[file]
	at, found := slices.BinarySearchFunc(s.shared, own, byName)
	if found {
		return s.shared
	}
	return slices.Insert(slices.Clone(s.shared), at, own)
}

func (s *stage) job(file string) Job {
	return Job{
		Partition: s.inputs.Partition, Generator: s.generator.Name, Program: s.generator.Program, File: file,
		Files: s.filesOf(file), Programs: s.programs, Assets: s.assets,
	}
}

// holds reports whether everything a run rested on is as it was.
func (s *stage) holds(base intent.Digest, reads []Read, until time.Time, file string, now time.Time) bool {
	if base != s.base || !until.IsZero() && !now.Before(until) {
		return false
	}
	for _, read := range reads {
		switch read.Kind {
		case starlark.ReadAssets:
			if read.Digest != s.assetsList {
				return false
			}
		case starlark.ReadFiles:
			list := s.filesList
			if file != "" {
				list = starlark.Listing(s.filesOf(file))
			}
			if read.Digest != list {
				return false
			}
		case starlark.ReadFile:
			if own, mine := s.each[read.Name]; mine && read.Name == file {
				if own.Digest != read.Digest {
					return false
				}
				continue
			}
			if !s.byName[read] {
				return false
			}
		default:
			if !s.byName[read] {
				return false
			}
		}
	}
	return true
}

func byName(a, b Input) int { return strings.Compare(a.Name, b.Name) }

// unique sorts by name and drops what two sources both have.
func unique(inputs []Input) []Input {
	slices.SortStableFunc(inputs, byName)
	return slices.CompactFunc(inputs, func(a, b Input) bool { return a.Name == b.Name })
}
