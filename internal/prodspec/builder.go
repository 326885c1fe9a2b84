package prodspec

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/ground/schema"
	"lehr.dev/internal/ground/turndown"
	"lehr.dev/internal/prodspec/definition"
	"lehr.dev/internal/prodspec/derive"
	"lehr.dev/internal/prodspec/generate"
	"lehr.dev/internal/prodspec/generate/work"
	"lehr.dev/internal/prodspec/source"
	"lehr.dev/internal/prodspec/validate"
	"lehr.dev/internal/store"
)

// builder turns sources into the members of a partition, and remembers which
// of them may differ from head.
type builder struct {
	program Program
	sources *sources
	graph   *generate.Graph
	members *members
	// covering are the effective digests of the members that read others, which
	// most do not, of a million.
	covering map[intent.AssetID]intent.Digest
	// readers of an asset are those whose effective digest covers it.
	readers map[intent.AssetID][]intent.AssetID
	// servers of an asset have a capacity edge to it, once for each.
	servers map[intent.AssetID][]intent.AssetID
	dirty   map[intent.AssetID]bool
	// selection is which environments the members select.
	selection environmentSelection
	// policy is the asset lehr/policy.
	policy work.Asset
	// set is what the members are written in.
	set *schema.Set
	// built are the revisions of the last build without findings.
	built []intent.SourceRevision
	// stored is what was served and enforced before, and olderBuilt the digest of the older
	// generations that the last build without findings knew.
	stored     stored
	olderBuilt intent.Digest
	// providesSurplus: what was built last has older generations that are to be removed.
	providesSurplus bool
	// providesEnded: what was built last has assets of ended previews that no generator gives.
	providesEnded bool
	// judgedPreviews are the rules of previews by which all members were judged.
	judgedPreviews intent.Digest
	// failing are the sources that could not be read the last time.
	failing []intent.SourceRevision
	// follow watches the folders that were read, and reports whether any is new:
	// what changed in it until then was not told. Nil: nobody watches.
	follow func(folders []string) bool
	// generating is the context of generators; nil: that of the whole build.
	generating context.Context
	// patient: what changed is kept as it was read, for it may change again
	// before it is built.
	patient bool
	// checked is what checking programs found of what was built; checkAgain: one was stopped
	// from outside and is tried again.
	checked    []validate.Checked
	checkAgain bool
	// timed notes how long steps took; nil: nobody asks.
	timed *timed
}

func newBuilder(program Program, cache generate.Cache) (*builder, error) {
	s, err := newSources(program)
	if err != nil {
		return nil, err
	}
	graph := generate.NewGraph(program.Runner, cache)
	graph.ShowProgress(program.Progress)
	return &builder{
		program: s.program, sources: s, set: schema.Builtin(),
		graph:   graph,
		members: newMembers(), covering: map[intent.AssetID]intent.Digest{}, servers: map[intent.AssetID][]intent.AssetID{}, readers: map[intent.AssetID][]intent.AssetID{}, dirty: map[intent.AssetID]bool{},
	}, nil
}

// build reads and generates. With findings in the reading, the members are
// still those of the last build without.
func (b *builder) build(ctx context.Context, now time.Time, changes source.Changes) (reading, error) {
	read := b.timed.step("read")
	b.program.Progress.BeginStep("read sources", 0)
	r, err := b.read(ctx, now, changes)
	read(err != nil || len(r.findings) > 0)
	defer func() { b.sources.heldContents = nil }()
	b.failing = r.failing
	if err != nil || len(r.findings) > 0 {
		return r, err
	}
	older, err := b.readGenerations(ctx, r.definition)
	if err != nil {
		return r, err
	}
	ended, err := b.readEnded(ctx, &r)
	if err != nil {
		return r, err
	}
	older.digest = intent.Sum("lehr.older.v1", older.digest[:], ended.digest[:])
	if b.built != nil && slices.Equal(b.built, r.revisions) && b.olderBuilt == older.digest && !b.checkAgain {
		return r, nil
	}
	if err := b.sources.workOn(ctx, &r); err != nil {
		return r, err
	}
	b.built, b.set = nil, r.set
	for _, inputs := range r.inputs.Sources {
		for _, input := range inputs {
			poison(input.Name)
		}
	}
	b.graph.Use(r.set, r.rules)
	if err := b.providePolicy(r, now); err != nil {
		return r, err
	}
	generating := ctx
	if b.generating != nil {
		generating = b.generating
	}
	generated := b.timed.step("generate")
	r.findings, err = b.graph.Build(generating, r.definition.Generators, r.inputs, now)
	if err == nil && len(r.findings) == 0 {
		err = b.graph.Check(generating, checkers(r.definition), r.inputs, now)
	}
	generated(err != nil || len(r.findings) > 0)
	if err != nil && generating.Err() != nil {
		return r, context.Cause(generating)
	}
	if fault.Is(err, fault.Unavailable) && !errors.Is(err, store.ErrAway) && ctx.Err() == nil {
		// A file changed meanwhile, or no child could be started.
		r.unavailable = true
		r.findings = []intent.Finding{{Rule: "generate", Severity: intent.Error, File: b.sources.file, Line: 1, Message: message(err), Hint: hint(err)}}
		return r, nil
	}
	if err == nil && len(r.findings) == 0 {
		if r.findings = b.outputCircles(r); len(r.findings) == 0 {
			r.findings, err = b.provideTurnedDown(r, now)
		}
		if err == nil && len(r.findings) == 0 {
			err = b.provideSurplus(ctx, &r, older, now)
		}
		if err == nil && len(r.findings) == 0 {
			err = b.provideEnded(ctx, &r, ended, now)
		}
		if err == nil && len(r.findings) == 0 {
			r.findings = b.judgePreviews(r.definition)
		}
		if err == nil && len(r.findings) == 0 {
			err = b.selectEnvironments(ctx, &r)
		}
		if err == nil && len(r.findings) == 0 {
			err = b.providePolicy(r, now) // Which environments are selected is part of it.
		}
	}
	if err != nil || len(r.findings) > 0 {
		return r, err
	}
	if r.findings = b.take(); len(r.findings) == 0 {
		b.built, b.sources.builtInputs, b.olderBuilt = r.revisions, r.inputs, older.digest
		b.gatherChecked(r)
	}
	return r, nil
}

// read takes snapshots that belong together: of folders that are watched, and
// with patience, of files that were read, too.
func (b *builder) read(ctx context.Context, now time.Time, changes source.Changes) (reading, error) {
	r, err := b.sources.read(ctx, now, changes)
	for err == nil && len(r.findings) == 0 && b.follow != nil && b.follow(b.sources.watched) {
		r, err = b.sources.read(ctx, now, source.Changes{All: true})
	}
	const tries = 3
	for i := 0; b.patient && err == nil && len(r.findings) == 0; i++ {
		whole, failed := b.sources.hold(r.inputs)
		if whole || failed != nil || i == tries {
			return r, failed
		}
		r, err = b.sources.read(ctx, now, source.Changes{All: true})
	}
	return r, err
}

// judgeElsewhere applies the rules of the partition's own types.
func (b *builder) judgeElsewhere(ctx context.Context, bodies [][]byte) ([]intent.Finding, error) {
	return b.program.Runner.Judge(ctx, b.set, bodies)
}

func message(err error) string {
	if e, ok := errors.AsType[*fault.Error](err); ok {
		return e.Message
	}
	return err.Error()
}

func hint(err error) string {
	if e, ok := errors.AsType[*fault.Error](err); ok {
		return e.Hint
	}
	return ""
}

// providePolicy has the graph give the asset lehr/policy, if it changed.
func (b *builder) providePolicy(r reading, now time.Time) error {
	policy, err := b.policyAsset(r.definition)
	if err != nil || b.policy.Digest == policy.Digest {
		return err
	}
	if err := b.graph.Provide(definition.DefinitionSource, []work.Asset{policy}, now); err != nil {
		return err
	}
	b.policy = policy
	return nil
}

func (b *builder) policyAsset(d definition.Definition) (work.Asset, error) {
	payload, err := b.set.Pack(d.Policy)
	if err != nil {
		return work.Asset{}, err
	}
	body, digest, err := b.set.Encode(intent.Asset{ID: intent.PolicyAsset, Payload: payload})
	return work.Asset{ID: intent.PolicyAsset, Type: payload.Type, Digest: digest, Body: body, File: b.sources.file, Line: d.PolicyLine}, err
}

// take moves the outputs of changed runs into the members, unless an id would
// come from two places (S22): then all stays as it was.
func (b *builder) take() []intent.Finding {
	pending := b.graph.Pending()
	if findings := b.duplicates(pending); len(findings) > 0 {
		return findings
	}
	touched, oldOutputs := map[intent.AssetID]bool{}, map[intent.AssetID]*generate.Output{}
	for _, run := range pending {
		for i := range run.Taken {
			old := &run.Taken[i]
			b.unread(old)
			touched[old.ID], oldOutputs[old.ID] = true, old
		}
		b.members.leave(run)
	}
	b.graph.Take()
	b.selection.take()
	for _, run := range pending {
		b.members.take(run)
		for i := range run.Taken {
			output := &run.Taken[i]
			// Most of what a run gave it gives again: only what it gives otherwise is
			// looked for in the store.
			if old := oldOutputs[output.ID]; old != nil && old.Digest == output.Digest && old.Type == output.Type && slices.Equal(old.Refers(), output.Refers()) {
				delete(touched, output.ID)
			} else {
				touched[output.ID] = true
			}
			for _, target := range output.Refers() {
				b.readers[target] = append(b.readers[target], output.ID)
			}
			for _, target := range output.Serves() {
				b.servers[target] = append(b.servers[target], output.ID)
			}
		}
	}
	b.settle(touched)
	return nil
}

// duplicates finds ids that two runs would give.
func (b *builder) duplicates(pending []*generate.Run) []intent.Finding {
	changing := make(map[*generate.Run]bool, len(pending))
	for _, run := range pending {
		changing[run] = true
	}
	claimed := map[intent.AssetID]member{}
	var findings []intent.Finding
	for _, run := range pending {
		for i := range run.Outputs {
			output := &run.Outputs[i]
			previous, duplicate := claimed[output.ID]
			claimed[output.ID] = member{run, i}
			place := validate.Origin{}
			if duplicate {
				place = originOf(previous.run, &previous.run.Outputs[previous.at])
			} else if m, exists := b.members.get(output.ID); exists && !changing[m.run] {
				duplicate, place = true, originOf(m.run, m.output())
			}
			if duplicate {
				findings = append(findings, validate.Duplicate(output.ID, []validate.Origin{place, originOf(run, output)}))
			}
		}
	}
	return intent.GroupFindings(findings)
}

func originOf(run *generate.Run, output *generate.Output) validate.Origin {
	origin := validate.Origin{Generator: run.Generator, File: output.File, Line: int(output.Line)}
	if run.File != "" {
		origin.Inputs = []string{generate.EntryFile(run.File)}
	}
	return origin
}

func (b *builder) unread(output *generate.Output) {
	forget(b.readers, output.Refers(), output.ID)
	forget(b.servers, output.Serves(), output.ID)
}

// forget takes an asset off the lists of those that it names.
func forget(lists map[intent.AssetID][]intent.AssetID, named []intent.AssetID, asset intent.AssetID) {
	for _, target := range named {
		remaining := slices.DeleteFunc(lists[target], func(id intent.AssetID) bool { return id == asset })
		lists[target] = remaining
		if len(remaining) == 0 {
			delete(lists, target)
		}
	}
}

// settle computes the effective digests of what was touched and of its
// readers.
func (b *builder) settle(touched map[intent.AssetID]bool) {
	for id := range touched {
		b.dirty[id] = true
		b.digest(id)
		for _, reader := range b.readers[id] {
			if !touched[reader] {
				b.dirty[reader] = true
				b.digest(reader)
			}
		}
	}
}

// digest finds out which contents a member's effective digest covers.
func (b *builder) digest(id intent.AssetID) {
	delete(b.covering, id)
	m, ok := b.members.get(id)
	if !ok {
		return
	}
	output := m.output()
	refers := slices.Clone(output.Refers())
	slices.SortFunc(refers, func(a, b intent.AssetID) int { return strings.Compare(string(a), string(b)) })
	refers = slices.Compact(refers)
	digests := make([]intent.Digest, len(refers))
	for i, target := range refers {
		if read, ok := b.members.get(target); ok {
			digests[i] = read.output().Digest
		}
	}
	if len(refers) > 0 {
		covering := intent.EffectiveDigest(output.Digest, digests)
		b.covering[id] = covering
	}
}

// effective digest of a member's content and of what it reads.
func (b *builder) effective(id intent.AssetID) intent.Digest {
	if covering, reads := b.covering[id]; reads {
		return covering
	}
	m, _ := b.members.get(id)
	return m.output().Digest
}

// intentMember is a member as an incarnation has it.
func (b *builder) intentMember(id intent.AssetID) intent.Member {
	m, _ := b.members.get(id)
	output := m.output()
	return intent.Member{Asset: id, Type: output.Type, Digest: output.Digest, Effective: b.effective(id)}
}

// serving lists the assets with a capacity edge to one; nil: no asset has any.
func (b *builder) serving() func(intent.AssetID) []intent.AssetID {
	if len(b.servers) == 0 {
		return nil
	}
	return func(asset intent.AssetID) []intent.AssetID { return b.servers[asset] }
}

// origin tells where an asset comes from.
func (b *builder) origin(id intent.AssetID) validate.Origin {
	if m, ok := b.members.get(id); ok {
		origin := originOf(m.run, m.output())
		for _, derived := range m.output().Derived() {
			file := b.sources.file
			line, reason := b.sources.derivation(derived.Derivation)
			switch derived.Derivation {
			case derive.Turndowns:
				file = turndown.File()
				line, reason = b.sources.turndownPlace(id)
			case derive.EndedPreviews:
				file, line, reason = b.sources.endedPlace(id)
			case derive.Outputs:
				file, line, reason = b.sources.outputPlace(derived)
			}
			origin.Derived = append(origin.Derived, validate.Derived{
				Derivation: derived.Derivation, Addon: derived.Addon, From: derived.From,
				Payload: m.output().Type, Field: derived.Field, Was: derived.Was, Reason: reason, Unknown: derived.Unknown,
				File: file, Line: line,
			})
		}
		return origin
	}
	return validate.Origin{File: b.sources.file, Line: 1}
}
