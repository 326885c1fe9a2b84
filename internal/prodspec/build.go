package prodspec

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"time"

	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/ground/loop"
	"lehr.dev/internal/ground/schema"
	"lehr.dev/internal/prodspec/definition"
	"lehr.dev/internal/prodspec/generate"
	"lehr.dev/internal/prodspec/source"
	"lehr.dev/internal/prodspec/source/fetch"
	"lehr.dev/internal/prodspec/validate"
	"lehr.dev/internal/store"
)

// Built is what a definition gives, without a server.
type Built struct {
	Partition intent.PartitionID `json:"partition"`
	// Digest of the candidate against what it was built against.
	Digest  intent.Digest           `json:"digest"`
	Sources []intent.SourceRevision `json:"sources"`
	// Assets in the order of their ids; none when there are errors.
	Assets   []BuiltAsset     `json:"assets"`
	Findings []intent.Finding `json:"findings"`
	// Blobs that the assets name.
	Blobs map[intent.Digest][]byte `json:"-"`
	// Delta to what it was built against, and the types that decode it.
	Delta  []store.Entry `json:"-"`
	Schema *schema.Set   `json:"-"`
}

// OK reports whether nothing stands against serving it.
func (b Built) OK() bool {
	return !slices.ContainsFunc(b.Findings, func(f intent.Finding) bool { return f.Severity == intent.Error })
}

// BuiltAsset is an asset for people and programs.
type BuiltAsset struct {
	ID        intent.AssetID  `json:"id"`
	Type      intent.TypeName `json:"type"`
	Digest    intent.Digest   `json:"digest"`
	Effective intent.Digest   `json:"effective"`
	// Generator, and the place in the program that made it.
	Generator string `json:"generator"`
	File      string `json:"file"`
	Line      int    `json:"line"`
	// Resolved are the fields that resolvers changed.
	Resolved []Resolved `json:"resolved,omitempty"`
	// Asset is the whole of it.
	Asset json.RawMessage `json:"asset"`
}

// Resolved is a field that a resolver changed, what it was for people, empty if
// it was not set, and why.
type Resolved struct {
	Resolver string `json:"resolver"`
	Field    string `json:"field"`
	Was      string `json:"was,omitempty"`
	Reason   string `json:"reason"`
}

// Build runs a definition's pipeline once, without a store: every generator
// runs, and the candidate is judged against nothing. What is wrong with the
// sources is in the findings; an error says that it could not be tried.
func Build(ctx context.Context, program Program, now time.Time) (Built, error) {
	built, _, _, err := build(ctx, program, now, nil)
	return built, err
}

// BuildEach is Build, which lists no assets: each is called with every asset of the candidate and the types that decode
// it, where nothing in the sources is wrong. Its error ends the build.
func BuildEach(ctx context.Context, program Program, now time.Time, each func(types *schema.Set, content intent.Asset) error) (Built, error) {
	built, b, _, err := build(ctx, program, now, nil)
	if err != nil || built.Schema == nil {
		return built, err
	}
	for _, member := range b.members.all() {
		content, _, err := b.content(ctx, member)
		if err != nil {
			return built, err
		}
		if err := each(b.set, content); err != nil {
			return built, err
		}
	}
	return built, nil
}

// ReadDefinition reads the file of a definition, wherever it lies.
func ReadDefinition(ctx context.Context, program Program, now time.Time) ([]byte, error) {
	program.Limits = source.DefaultLimits()
	if program.Elsewhere.Runtime == nil {
		program.Elsewhere.Runtime = loop.Real()
	}
	s, err := newSources(program)
	if err != nil {
		return nil, err
	}
	defer s.close()
	snapshot, err := s.own.Read(ctx, now, source.Changes{All: true})
	if err != nil {
		return nil, err
	}
	return s.own.Content(snapshot.Files[0])
}

// Types compiles the types that a definition names, beside the built-in ones;
// what is wrong with them is in the findings.
func Types(ctx context.Context, program Program, now time.Time) (*schema.Set, []intent.Finding, error) {
	program.Limits = source.DefaultLimits()
	if program.Elsewhere.Runtime == nil {
		program.Elsewhere.Runtime = loop.Real()
	}
	s, err := newSources(program)
	if err != nil {
		return nil, nil, err
	}
	defer s.close()
	snapshot, err := s.own.Read(ctx, now, source.Changes{All: true})
	if err != nil {
		return nil, nil, err
	}
	content, err := s.own.Content(snapshot.Files[0])
	if err != nil {
		return nil, nil, err
	}
	var r reading
	typeSource, findings := definition.TypesOf(s.file, content)
	if len(findings) > 0 {
		return s.types.set, findings, nil
	}
	err = s.compile(ctx, now, source.Changes{All: true}, typeSource, &r)
	return s.types.set, r.findings, err
}

// build calls begin, if there is one, before it works on what it has read. It
// returns the builder, which has the members, and what was read, too.
func build(ctx context.Context, program Program, now time.Time, begin func(context.Context, []intent.SourceRevision) error) (built Built, _ *builder, r reading, _ error) {
	if program.Limits == (source.Limits{}) {
		program.Limits = source.DefaultLimits()
	}
	if program.Elsewhere.Runtime == nil {
		program.Elsewhere.Runtime = loop.Real()
	}
	if program.Elsewhere.Mode == fetch.Polled {
		program.Elsewhere.Mode = fetch.Once
	}
	b, err := newBuilder(program, generate.NewMemory())
	if err != nil {
		return built, nil, r, err
	}
	defer b.sources.close()
	b.sources.begin = begin
	if baseline := program.Against; baseline != nil {
		b.stored = stored{baseline.Store, baseline.Store, baseline.Head}
		served, err := policyAt(ctx, baseline.Store, baseline.Head)
		if err != nil {
			return built, b, r, err
		}
		b.sources.servedOwner = ownerOf(served)
	}
	r, err = b.build(ctx, now, source.Changes{All: true})
	built = Built{Partition: r.definition.Partition, Sources: r.revisions, Findings: r.findings}
	if err != nil || len(r.findings) > 0 {
		built.Findings = append(built.Findings, r.remarks()...)
		return built, b, r, err
	}
	program.Progress.BeginStep("judge what was generated", 0)
	baseline := program.Against
	if baseline == nil {
		baseline = &Against{}
	}
	if err := b.compare(ctx, baseline.Store, baseline.Head); err != nil {
		return built, b, r, err
	}
	delta, err := b.delta(ctx, baseline.Store, baseline.Head)
	if err != nil {
		return built, b, r, err
	}
	headPolicy, err := policyAt(ctx, baseline.Store, baseline.Head)
	if err != nil {
		return built, b, r, err
	}
	built.Digest, built.Delta, built.Schema = delta.digest(baseline.Head, b.set.Digest()), delta.entries, b.set
	validator, err := validate.New(b.set)
	if err != nil {
		return built, b, r, err
	}
	verdict, err := validator.Run(ctx, validate.Input{
		Candidate: intent.CandidateID{Partition: built.Partition}, // No server has it.
		Base:      baseline.Head, Snapshots: baseline.Store, History: baseline.Store,
		Delta: delta.entries, HeadPolicy: headPolicy, CandidatePolicy: r.common.judged(r.definition.Policy), Origin: b.origin, Now: now,
		Rest:      b.rest(delta),
		Elsewhere: b.judgeElsewhere, Servers: b.serving(), Rule: b.sources.rulePlace, Rollout: b.sources.rolloutPlace, Outside: program.Outside,
		Checked: b.checked, LeftOut: b.graph.LeftOut(), Given: b.given(baseline.Store, baseline.Head, r.definition),
	})
	if err != nil {
		return built, b, r, err
	}
	built.Findings = append(append(r.common.named(verdict.Findings), r.remarks()...), b.graph.Warnings()...)
	if built.Assets, err = b.list(ctx); err == nil {
		built.Blobs, err = b.blobs(ctx)
	}
	return built, b, r, err
}

// blobs that the members name, without those of what left intent, which the server keeps.
func (b *builder) blobs(ctx context.Context) (map[intent.Digest][]byte, error) {
	contents := map[intent.Digest][]byte{}
	for _, built := range b.members.all() {
		for _, digest := range built.output().Blobs() {
			if contents[digest] != nil || !b.graph.HasBlob(digest) {
				continue
			}
			content, err := b.graph.Blob(ctx, digest)
			if err != nil {
				return nil, err
			}
			contents[digest] = content
		}
	}
	return contents, nil
}

// list renders every member.
func (b *builder) list(ctx context.Context) ([]BuiltAsset, error) {
	assets := make([]BuiltAsset, 0, b.members.len())
	b.program.Progress.BeginStep("write assets as text", b.members.len())
	for id, built := range b.members.all() {
		b.program.Progress.AddDone(1)
		content, _, err := b.content(ctx, built)
		if err != nil {
			return nil, err
		}
		text, err := b.set.JSON(content)
		if err != nil {
			return nil, err
		}
		output := built.output()
		asset := BuiltAsset{
			ID: id, Type: output.Type, Digest: output.Digest, Effective: b.effective(id),
			Generator: built.run.Generator, File: output.File, Line: int(output.Line), Asset: text,
		}
		for _, d := range b.origin(id).Derived {
			if d.Field != "" {
				asset.Resolved = append(asset.Resolved, Resolved{Resolver: d.Derivation, Field: d.Field, Was: d.Was, Reason: d.Reason})
			}
		}
		assets = append(assets, asset)
	}
	slices.SortFunc(assets, func(a, b BuiltAsset) int { return strings.Compare(string(a.ID), string(b.ID)) })
	return assets, nil
}
