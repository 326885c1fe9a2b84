package prodspec

import (
	"context"
	"errors"
	"fmt"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"lehr.dev/internal/ground/branchpreview"
	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/ground/outputs"
	"lehr.dev/internal/ground/schema"
	"lehr.dev/internal/ground/turndown"
	"lehr.dev/internal/prodspec/definition"
	"lehr.dev/internal/prodspec/derive"
	"lehr.dev/internal/prodspec/generate"
	"lehr.dev/internal/prodspec/generate/render"
	"lehr.dev/internal/prodspec/generate/work"
	"lehr.dev/internal/prodspec/source"
	"lehr.dev/internal/prodspec/source/fetch"
	"lehr.dev/internal/store"
)

// reading is one consistent view of everything a partition is built from.
type reading struct {
	definition definition.Definition
	// common is what the server's common policy asks of the partition.
	common common
	// set is what types there are, and rules what is derived.
	set       *schema.Set
	rules     *derive.Rules
	revisions []intent.SourceRevision
	// failing are those of them that could not be read now, and warnings what is
	// strange about any.
	failing  []intent.SourceRevision
	warnings []intent.Finding
	inputs   generate.Inputs
	// turndowns are what people had turned down by command; nil: there is no such document.
	turndowns []turndown.Entry
	// outputs are what assets told; nil: there is no such document yet.
	outputs outputs.Values
	// previews are the entries of the rules of previews, by the rules' names.
	previews map[string]branchpreview.Entries
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
	// repository has the definition, if it is in one.
	repository *fetch.Repository
	// keeper are the names under which sources were kept.
	keeper *sourceKeeper
	// definition is what was parsed last, types what was compiled last.
	definition parsed
	types      compiled
	// identity is that of the definition as read last. servedOwner is the owner of what is
	// served; nil: nothing is, or nobody knows.
	identity    identity
	servedOwner *string
	// renderers that are programs of their own.
	renderers *render.Programs
	watched   []string
	// begin is called before what was read is worked on; nil: nobody asks.
	begin func(ctx context.Context, sources []intent.SourceRevision) error
	// moved: a source came or went, and mirrors that were used before may not be
	// needed any more.
	moved bool
	// turnedDown is what was parsed last of the document of turndowns.
	turnedDown turnedDown
	// workflows are what the files of workflows said, by the names of their sources.
	workflows map[string]exploredWorkflow
	// outputTable is what was parsed last of the document of outputs.
	outputTable outputTable
	// grantedTables are where the outputs of other partitions are.
	grantedTables map[intent.PartitionID]grantedTable
	// previews are what was parsed last of the documents of previews, by the rules' names.
	previews map[string]previewTable
	// incomplete: a reading ended early, and changes were not looked at.
	incomplete bool
	// builtInputs is what was built last, and held are contents kept for a build.
	builtInputs  generate.Inputs
	heldContents map[intent.Digest][]byte
}

type folder struct {
	directory source.Folder
	spec      string
	files     []string
	snapshot  *source.Snapshot
	inputs    []generate.Input
}

func newSources(program Program) (*sources, error) {
	place, err := source.ParseDefinition(program.Definition)
	if err != nil {
		return nil, err
	}
	s := &sources{program: program, home: filepath.Dir(place.Path), file: filepath.Base(place.Path), folders: map[string]folder{}, renderers: render.NewPrograms()}
	s.types.set = schema.Builtin()
	if program.Elsewhere.Keep != nil {
		s.keeper = &sourceKeeper{Keeper: program.Elsewhere.Keep}
		s.program.Elsewhere.Keep = s.keeper
	}
	if s.program.Elsewhere.Partition == "" {
		s.program.Elsewhere.Partition = program.Partition
	}
	limits := program.Limits
	limits.FileBytes = min(limits.FileBytes, definition.MaxBytes)
	if place.Git == nil {
		s.own, err = program.place().Open(s.home, []string{s.file}, limits)
		return s, err
	}
	s.repository = fetch.NewRepository(s.program.Elsewhere, *place.Git)
	s.own, err = s.repository.Lead(definition.DefinitionSource, s.home, []string{s.file}, limits, place.Every)
	return s, err
}

// close ends what looks at sources.
func (s *sources) close() {
	for _, f := range s.folders {
		f.close()
	}
	folder{directory: s.own}.close()
}

func (f folder) close() {
	if lasting, ok := f.directory.(source.Lasting); ok {
		lasting.Close()
	}
}

// lasting are the folders that look at sources elsewhere.
func (s *sources) lasting() (list []source.Lasting) {
	add := func(directory source.Folder) {
		if lasting, ok := directory.(source.Lasting); ok {
			list = append(list, lasting)
		}
	}
	add(s.own)
	for _, f := range s.folders {
		add(f.directory)
	}
	return list
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
	changes.All = changes.All || s.incomplete
	r, err := s.readAll(ctx, now, changes)
	s.incomplete = err != nil || len(r.findings) > 0
	return r, err
}

func (s *sources) readAll(ctx context.Context, now time.Time, changes source.Changes) (reading, error) {
	var r reading
	s.watched = nil
	if s.repository == nil {
		s.watched = []string{s.home}
	}
	if err := s.define(ctx, now, changes, &r); err != nil || len(r.findings) > 0 {
		return r, err
	}
	d := &r.definition
	used := map[string]bool{definition.DefinitionSource: true, definition.ProgramSource: true, definition.TypeSource: d.Types != nil}
	r.inputs.Partition = d.Partition
	r.inputs.Sources = map[string][]generate.Input{}
	var programs []string
	programLine := 1
	for _, g := range slices.Concat(d.Generators, checkers(*d)) {
		if g.Language != work.Model && g.Language != work.Render && !slices.Contains(programs, g.Program) {
			programs, programLine = append(programs, g.Program), g.Line
		}
	}
	list := slices.Clone(d.Sources)
	if len(programs) > 0 {
		list = append(list, definition.Source{Name: definition.ProgramSource, Directory: ".", Files: programs, Line: programLine})
	}
	for _, src := range list {
		used[src.Name] = true
		if src.Name == definition.OutputSource {
			continue // It is read below, and may not be there yet.
		}
		if isThere, err := s.hasPreviews(ctx, src, &r); err != nil {
			return r, err
		} else if !isThere {
			continue
		}
		inputs, err := s.readOne(ctx, now, changes, src, &r)
		if err != nil {
			return r, err
		}
		if src.Name == definition.ProgramSource {
			r.inputs.Programs = inputs
			continue
		}
		r.inputs.Sources[src.Name] = inputs
	}
	for _, w := range d.Workflows {
		used[w.Source().Name] = true
	}
	if err := s.readWorkflows(ctx, now, changes, &r); err != nil {
		return r, err
	}
	if err := s.readTurndowns(ctx, now, changes, &r); err != nil {
		return r, err
	}
	used[definition.TurndownSource] = r.turndowns != nil
	if err := s.readOutputs(ctx, now, changes, &r); err != nil {
		return r, err
	}
	used[definition.OutputSource] = r.outputs != nil
	if err := s.useOutputs(ctx, &r); err != nil {
		return r, err
	}
	if err := s.readPreviews(ctx, &r); err != nil {
		return r, err
	}
	s.findRenderers(d, &r)
	s.judgeHosts(d, &r)
	for name, f := range s.folders {
		if !used[name] {
			f.close()
			delete(s.folders, name)
			s.moved = true
		}
	}
	if len(r.findings) == 0 {
		s.apart(d, &r)
		if err := s.keeper.retainOnly(ctx, used); err != nil {
			return r, err
		}
		if s.moved {
			s.program.Elsewhere.Sweep(s.lasting())
			s.moved = false
		}
	}
	r.inputs.Open = s.open
	return r, nil
}

// findRenderers that are programs. Each is among the sources, so that another one
// is noticed, and an incarnation says which it was rendered by.
func (s *sources) findRenderers(d *definition.Definition, r *reading) {
	r.inputs.Renderers = map[string]render.Program{}
	for _, g := range slices.Concat(d.Generators, checkers(*d)) {
		if _, ok := r.inputs.Renderers[g.Program]; ok || g.Language != work.Render || !work.Apart(g.Program) {
			continue
		}
		program := s.renderers.Find(g.Program)
		r.inputs.Renderers[g.Program] = program
		if program.Path != "" {
			r.revisions = append(r.revisions, intent.SourceRevision{Source: work.ProgramOf(g.Program), Revision: program.Digest.Short()})
		}
	}
}

// apart finds files of folders that have the names of files that lie elsewhere.
func (s *sources) apart(d *definition.Definition, r *reading) {
	for _, remote := range d.Sources {
		if remote.Remote == nil {
			continue
		}
		for _, local := range d.Sources {
			if local.Remote == nil && slices.ContainsFunc(r.inputs.Sources[local.Name], func(i generate.Input) bool { return strings.HasPrefix(i.Name, remote.Name+"/") }) {
				r.findings = append(r.findings, intent.Finding{
					Rule: "source", Severity: intent.Error, File: s.file, Line: remote.Line, Field: "sources." + remote.Name,
					Message: fmt.Sprintf("the files of source %s are found as %s/…, and source %s has files of a folder %s", remote.Name, remote.Name, local.Name, remote.Name),
					Hint:    "rename the source",
				})
				return
			}
		}
	}
}

func (s *sources) readOne(ctx context.Context, now time.Time, changes source.Changes, src definition.Source, r *reading) ([]generate.Input, error) {
	at, allowedFolders := s.place(src), s.program.Elsewhere.Folders()
	spec := folderSpec(src) + strings.Join(allowedFolders, "\n")
	f := s.folders[src.Name]
	if f.spec != spec {
		f.close()
		delete(s.folders, src.Name)
		directory, err := s.openFolder(src, at, allowedFolders)
		if err != nil {
			return nil, s.cannotRead(ctx, err, src, r)
		}
		f = folder{directory: directory, spec: spec, files: src.Files}
		s.folders[src.Name] = f
	}
	snapshot, err := f.directory.Read(ctx, now, changes)
	if _, ok := f.directory.(source.Lasting); !ok {
		s.watched = append(s.watched, at)
	}
	if err != nil {
		return nil, s.cannotRead(ctx, err, src, r)
	}
	for _, sub := range snapshot.Folders {
		if sub != "." {
			s.watched = append(s.watched, filepath.Join(at, sub))
		}
	}
	s.note(src, f.directory, snapshot, r)
	if f.snapshot == snapshot {
		return f.inputs, nil
	}
	f.snapshot, f.inputs = snapshot, s.inputs(src, snapshot)
	s.folders[src.Name] = f
	return f.inputs, nil
}

// note what was read, and how.
func (s *sources) note(src definition.Source, directory source.Folder, snapshot *source.Snapshot, r *reading) {
	read := revision(src.Name, snapshot)
	r.revisions = append(r.revisions, read)
	field := "sources." + src.Name
	if _, ok := map[string]bool{definition.DefinitionSource: true, definition.ProgramSource: true, definition.TypeSource: true}[src.Name]; ok {
		field = ""
	}
	if name, ok := definition.WorkflowOf(src.Name); ok {
		field = "workflows." + name
	}
	if snapshot.Warning != "" {
		r.warnings = append(r.warnings, intent.Finding{Rule: "source", Severity: intent.Warning, File: s.file, Line: src.Line, Field: field, Message: snapshot.Warning})
	}
	lasting, ok := directory.(source.Lasting)
	if !ok {
		return
	}
	if read.Failing = lasting.Failing(); read.Failing != (intent.Failing{}) {
		r.failing = append(r.failing, read)
	}
}

// remarks are warnings about the sources: what is strange, and what fails.
func (r *reading) remarks() []intent.Finding {
	list := slices.Clone(r.warnings)
	for _, failing := range r.failing {
		list = append(list, intent.Finding{
			Rule: "source", Severity: intent.Warning, Field: "sources." + failing.Source, Message: failing.Failing.Text(failing.Source),
		})
	}
	return list
}

// covered is what was read, with what fails of it.
func (r *reading) covered() []intent.SourceRevision {
	list := slices.Clone(r.revisions)
	for i := range list {
		for _, failing := range r.failing {
			if failing.Source == list[i].Source {
				list[i] = failing
			}
		}
	}
	return list
}

func (s *sources) inputs(src definition.Source, snapshot *source.Snapshot) []generate.Input {
	inputs := make([]generate.Input, len(snapshot.Files))
	folder := strings.TrimSuffix(path.Join(filepath.ToSlash(src.Directory), "x"), "x")
	for i, file := range snapshot.Files {
		inputs[i] = generate.Input{Name: folder + file.Path, Digest: file.Digest}
	}
	return inputs
}

func (s *sources) place(src definition.Source) string {
	if src.Remote == nil && filepath.IsAbs(src.Directory) {
		return src.Directory
	}
	return filepath.Join(s.home, src.Directory)
}

// open reads a file as it was listed.
func (s *sources) open(input generate.Input) ([]byte, error) {
	if content, ok := s.heldContents[input.Digest]; ok {
		return content, nil
	}
	for name, f := range s.folders {
		if f.snapshot == nil {
			continue
		}
		rel, ok := s.pathInFolder(name, f, input.Name)
		if !ok {
			continue
		}
		at, ok := slices.BinarySearchFunc(f.snapshot.Files, rel, func(file source.File, name string) int { return strings.Compare(file.Path, name) })
		if ok && f.snapshot.Files[at].Digest == input.Digest {
			return f.directory.Content(f.snapshot.Files[at])
		}
	}
	return nil, fault.New(fault.Unavailable, "%s changed while the partition was being built", input.Name)
}

// pathInFolder turns an input's name into a path in a source's folder.
func (s *sources) pathInFolder(name string, f folder, input string) (string, bool) {
	full := input
	if !filepath.IsAbs(full) {
		full = filepath.Join(s.home, full)
	}
	relative, err := filepath.Rel(f.directory.Path(), full)
	return filepath.ToSlash(relative), err == nil && relative != ".." && !strings.HasPrefix(relative, "../")
}

// cannotRead makes the error of a source a finding: nothing may be concluded
// about what it holds. A database that is away is no source's failure.
func (s *sources) cannotRead(ctx context.Context, err error, src definition.Source, r *reading) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if errors.Is(err, store.ErrAway) {
		return err
	}
	r.unavailable = true
	f := intent.Finding{Rule: "source", Severity: intent.Error, File: s.file, Line: src.Line, Field: "sources." + src.Name, Message: err.Error()}
	switch src.Name {
	case definition.DefinitionSource, definition.ProgramSource:
		f.Field = ""
	case definition.TypeSource:
		f.Field = "types"
	}
	if name, ok := definition.WorkflowOf(src.Name); ok {
		f.Field = "workflows." + name + ".file"
	}
	if e, ok := err.(*fault.Error); ok {
		f.Message, f.Hint = e.Message, e.Hint
	}
	r.findings = append(r.findings, f)
	return nil
}

func revision(name string, snapshot *source.Snapshot) intent.SourceRevision {
	r := intent.SourceRevision{Source: name, Revision: snapshot.Revision.Short(), Commit: snapshot.Commit}
	if snapshot.Name != "" {
		r.Revision = snapshot.Name
	}
	return r
}
