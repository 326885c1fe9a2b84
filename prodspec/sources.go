package prodspec

import (
	"context"
	"fmt"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"lehr.dev/fault"
	"lehr.dev/intent"
	"lehr.dev/prodspec/definition"
	"lehr.dev/prodspec/derive"
	"lehr.dev/prodspec/generate"
	"lehr.dev/prodspec/source"
	"lehr.dev/schema"
)

// reading is one consistent view of everything a partition is built from.
type reading struct {
	definition definition.Definition
	// set is what types there are, and rules what is derived.
	set       *schema.Set
	rules     *derive.Rules
	revisions []intent.SourceRevision
	inputs    generate.Inputs
	// findings, when it could not be read; unavailable: it may be soon.
	findings    []intent.Finding
	unavailable bool
}

// sources reads the definition and the sources it names.
type sources struct {
	program Program
	home    string
	file    string
	// own is the definition's file. folders are by name, remade when what
	// they are made from changes.
	own     source.Folder
	folders map[string]folder
	// definition is what was parsed last, types what was compiled last.
	definition parsed
	types      compiled
	watched    []string
	// begin is called before what was read is worked on; nil: nobody asks.
	begin func(ctx context.Context, sources []intent.SourceRevision) error
	// lost: a reading ended early, and changes were not looked at.
	lost bool
}

type folder struct {
	directory source.Folder
	made      string
	snapshot  *source.Snapshot
	inputs    []generate.Input
}

func newSources(program Program) (*sources, error) {
	if !filepath.IsAbs(program.Definition) {
		return nil, fault.New(fault.Invalid, "the definition %q is not an absolute path", program.Definition)
	}
	s := &sources{program: program, home: filepath.Dir(program.Definition), file: filepath.Base(program.Definition), folders: map[string]folder{}}
	s.types.set = schema.Builtin()
	var err error
	limits := program.Limits
	limits.FileBytes = min(limits.FileBytes, definition.MaxBytes)
	s.own, err = program.place().Open(s.home, []string{s.file}, limits)
	return s, err
}

// workOn what was read.
func (s *sources) workOn(ctx context.Context, r *reading) error {
	if s.begin == nil {
		return nil
	}
	return s.begin(ctx, r.revisions)
}

// read takes snapshots of all sources. An error is the context's, or begin's.
func (s *sources) read(ctx context.Context, now time.Time, changes source.Changes) (reading, error) {
	changes.All = changes.All || s.lost
	r, err := s.readAll(ctx, now, changes)
	s.lost = err != nil || len(r.findings) > 0
	return r, err
}

func (s *sources) readAll(ctx context.Context, now time.Time, changes source.Changes) (reading, error) {
	var r reading
	s.watched = []string{s.home}
	if err := s.define(ctx, now, changes, &r); err != nil || len(r.findings) > 0 {
		return r, err
	}
	d := &r.definition
	used := map[string]bool{definition.ProgramSource: true, definition.TypeSource: d.Types != nil}
	r.inputs.Partition = d.Partition
	r.inputs.Sources = map[string][]generate.Input{}
	var programs []string
	for _, g := range d.Generators {
		if !slices.Contains(programs, g.Program) {
			programs = append(programs, g.Program)
		}
	}
	list := slices.Clone(d.Sources)
	if len(programs) > 0 {
		list = append(list, definition.Source{Name: definition.ProgramSource, Directory: ".", Files: programs, Line: d.Generators[0].Line})
	}
	for _, from := range list {
		used[from.Name] = true
		inputs, err := s.readOne(ctx, now, changes, from, &r)
		if err != nil {
			return r, err
		}
		if from.Name == definition.ProgramSource {
			r.inputs.Programs = inputs
			continue
		}
		r.inputs.Sources[from.Name] = inputs
	}
	for name := range s.folders {
		if !used[name] {
			delete(s.folders, name)
		}
	}
	r.inputs.Open = s.open
	return r, nil
}

func (s *sources) readOne(ctx context.Context, now time.Time, changes source.Changes, from definition.Source, r *reading) ([]generate.Input, error) {
	at, made := s.place(from), fmt.Sprintf("%q%q", from.Directory, from.Files)
	f := s.folders[from.Name]
	if f.made != made {
		limits := s.program.Limits
		switch from.Name {
		case definition.TypeSource:
			limits = typeLimits
		case definition.ProgramSource:
			limits.FileBytes = max(limits.FileBytes, programBytes)
		}
		directory, err := s.program.place().Open(at, from.Files, limits)
		if err != nil {
			return nil, s.cannotRead(ctx, err, from, r)
		}
		f = folder{directory: directory, made: made}
		s.folders[from.Name] = f
	}
	s.watched = append(s.watched, at)
	snapshot, err := f.directory.Read(ctx, now, changes)
	if err != nil {
		return nil, s.cannotRead(ctx, err, from, r)
	}
	for _, below := range snapshot.Folders {
		if below != "." {
			s.watched = append(s.watched, filepath.Join(at, below))
		}
	}
	r.revisions = append(r.revisions, revision(from.Name, snapshot))
	if f.snapshot == snapshot {
		return f.inputs, nil
	}
	f.snapshot, f.inputs = snapshot, s.inputs(from, snapshot)
	s.folders[from.Name] = f
	return f.inputs, nil
}

func (s *sources) inputs(from definition.Source, snapshot *source.Snapshot) []generate.Input {
	inputs := make([]generate.Input, len(snapshot.Files))
	for i, file := range snapshot.Files {
		inputs[i] = generate.Input{Name: path.Join(filepath.ToSlash(from.Directory), file.Path), Digest: file.Digest}
	}
	return inputs
}

func (s *sources) place(from definition.Source) string {
	if filepath.IsAbs(from.Directory) {
		return from.Directory
	}
	return filepath.Join(s.home, from.Directory)
}

// open reads a file as it was listed.
func (s *sources) open(input generate.Input) ([]byte, error) {
	for name, f := range s.folders {
		if f.snapshot == nil {
			continue
		}
		below, found := s.below(name, f, input.Name)
		if !found {
			continue
		}
		at, found := slices.BinarySearchFunc(f.snapshot.Files, below, func(file source.File, name string) int { return strings.Compare(file.Path, name) })
		if found && f.snapshot.Files[at].Digest == input.Digest {
			return f.directory.Content(f.snapshot.Files[at])
		}
	}
	return nil, fault.New(fault.Unavailable, "%s changed while the partition was being built", input.Name)
}

// below turns an input's name into a path in a source's folder.
func (s *sources) below(name string, f folder, input string) (string, bool) {
	full := input
	if !filepath.IsAbs(full) {
		full = filepath.Join(s.home, full)
	}
	relative, err := filepath.Rel(f.directory.Path(), full)
	return filepath.ToSlash(relative), err == nil && relative != ".." && !strings.HasPrefix(relative, "../")
}

// cannotRead makes the error of a source a finding: nothing may be concluded
// about what it holds.
func (s *sources) cannotRead(ctx context.Context, err error, from definition.Source, r *reading) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	r.unavailable = true
	f := intent.Finding{Rule: "source", Severity: intent.Error, File: s.file, Line: from.Line, Field: "sources." + from.Name, Message: err.Error()}
	switch from.Name {
	case definition.DefinitionSource, definition.ProgramSource:
		f.Field = ""
	case definition.TypeSource:
		f.Field = "types"
	}
	if e, ok := err.(*fault.Error); ok {
		f.Message, f.Hint = e.Message, e.Hint
	}
	r.findings = append(r.findings, f)
	return nil
}

func revision(name string, snapshot *source.Snapshot) intent.SourceRevision {
	return intent.SourceRevision{Source: name, Revision: snapshot.Revision.Short()}
}
