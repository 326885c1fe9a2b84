package generate

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"path"
	"slices"
	"strings"
	"time"

	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/ground/measure"
	"lehr.dev/internal/ground/schema"
	"lehr.dev/internal/prodspec/definition"
	"lehr.dev/internal/prodspec/derive"
	"lehr.dev/internal/prodspec/generate/archetype"
	"lehr.dev/internal/prodspec/generate/render"
	"lehr.dev/internal/prodspec/generate/work"
)

// Run is one run of a generator and what it gave last.
type Run struct {
	Generator string
	// File it runs for; empty: for all.
	File    string
	Outputs []Output
	// Taken are the outputs that the graph's owner has taken over.
	Taken []Output
	// Number is for that owner; 0: it gave none.
	Number uint32

	base     intent.Digest
	reads    []Read
	findings []intent.Finding
	warnings []intent.Finding
	reported []work.Report
	until    time.Time
	// rules that its outputs were derived by; underived: that is what failed.
	rules     intent.Digest
	underived bool
	// documents covers what the partition's own documents said of its outputs.
	documents intent.Digest
	// blobs that it gave, and the outputs that name some.
	blobs  map[intent.Digest]int
	naming []Output
}

// Reads are what its result rests on. They are not to be changed.
func (r *Run) Reads() []Read { return r.reads }

// Inputs are what the generators may read.
type Inputs struct {
	Partition intent.PartitionID
	// Sources by name, each sorted by path.
	Sources map[string][]Input
	// Programs of all generators, sorted by path.
	Programs []Input
	// Renderers that are programs of their own, by format, as they are now.
	Renderers map[string]render.Program
	// Open returns the content of a file or program as it was listed.
	Open func(input Input) ([]byte, error)
}

// Graph holds the runs of one partition. It is used by one goroutine.
type Graph struct {
	runner Runner
	cache  Cache
	// What generators write in, and what is derived from what they give.
	schema *schema.Set
	rules  *derive.Rules
	runs   map[string]map[string]*Run
	// settled are the last stages of generators, where nothing is due again by itself.
	settled map[string]*settled
	// pending are the runs whose outputs differ from what was taken.
	pending map[*Run]bool
	// warning are the runs with warnings.
	warning map[*Run]bool
	// bodies made lately, by digest, until Forget; the cache has the rest.
	bodies    map[intent.Digest][]byte
	bodyBytes int
	interned  map[string]string
	makes     map[Make]*Make
	// blobs and the runs that give them, and the runs whose outputs name some.
	blobs  map[intent.Digest]map[*Run]bool
	naming map[*Run]bool
	// provided are the names of the runs that are of no program.
	provided map[string]bool
	// checks are the names of the runs that are of checking programs.
	checks map[string]*checked
	// places of generators in the definition.
	places     map[string]definition.Generator
	derived    map[string]*more
	executions int
	keptRuns   int
	// unsaved are the outcomes that the cache did not take.
	unsaved []outcome
	// splits of generators that run for keys, by what was split.
	splits map[string]map[string]splitFile
	// progress is told of the generators that run; nil: nobody waits to see them.
	progress *measure.Progress
}

// NewGraph returns a graph without runs, of the built-in types.
func NewGraph(runner Runner, cache Cache) *Graph {
	return &Graph{
		runner: runner, schema: schema.Builtin(), cache: cache, derived: map[string]*more{}, provided: map[string]bool{}, splits: map[string]map[string]splitFile{},
		runs: map[string]map[string]*Run{}, settled: map[string]*settled{}, pending: map[*Run]bool{}, warning: map[*Run]bool{},
		bodies: map[intent.Digest][]byte{}, interned: map[string]string{}, makes: map[Make]*Make{},
		blobs: map[intent.Digest]map[*Run]bool{}, naming: map[*Run]bool{},
		places: map[string]definition.Generator{}, checks: map[string]*checked{},
	}
}

// Use sets the types and the derivations of the next builds. Runs that rested on
// other types run again; by other derivations, what runs gave is derived again.
func (g *Graph) Use(schemas *schema.Set, rules *derive.Rules) { g.schema, g.rules = schemas, rules }

// ShowProgress has the next builds tell which generator runs, and for how many files.
func (g *Graph) ShowProgress(progress *measure.Progress) { g.progress = progress }

// Executions is how many runs were carried out since the start.
func (g *Graph) Executions() int { return g.executions }

// Kept is how many were found to hold still, in memory or in the cache.
func (g *Graph) Kept() int { return g.keptRuns }

// Build brings the runs up to date with the inputs: those whose reads changed
// run again, nothing else. Findings say what failed; an error, that nothing
// can be concluded. Either way nothing may be taken then.
func (g *Graph) Build(ctx context.Context, generators []definition.Generator, inputs Inputs, now time.Time) ([]intent.Finding, error) {
	if err := g.saveRest(ctx); err != nil {
		return nil, err
	}
	var findings []intent.Finding
	reported := map[intent.Finding]bool{} // Generators of one source find the same in it.
	failed, names := map[string]bool{}, map[string]bool{definition.DefinitionSource: true, definition.TurndownSource: true, definition.OutputSource: true, definition.GenerationSource: true, definition.PreviewSource: true}
	for _, generator := range generators {
		if err := g.dropCheck(ctx, generator.Name); err != nil { // It had the generator's name.
			return nil, err
		}
		names[generator.Name] = true
		g.places[generator.Name] = generator
		if slices.ContainsFunc(generator.Generators, func(name string) bool { return failed[name] }) {
			failed[generator.Name] = true
			continue
		}
		unread, err := g.generator(ctx, generator, inputs, now)
		if err != nil {
			return nil, err
		}
		for _, run := range g.failing(generator.Name) {
			for _, finding := range run.findings {
				if finding.Alike == 0 && run.File != "" {
					finding.Examples = intent.Examples{run.File}
				}
				unread = append(unread, finding)
			}
		}
		for _, finding := range intent.GroupFindings(unread) {
			failed[generator.Name] = true
			finding = g.placed(generator.Name, finding)
			if !reported[finding] {
				findings = append(findings, finding)
			}
			reported[finding] = true
		}
	}
	for _, name := range slices.Sorted(maps.Keys(g.runs)) {
		if !names[name] && g.checks[name] == nil {
			if err := g.dropAll(ctx, name); err != nil {
				return nil, err
			}
		}
	}
	if len(findings) == 0 {
		findings = g.judgeBlobs()
	}
	return intent.GroupFindings(findings), nil
}

// Provide sets the assets that no program makes, such as the policy. They may name blobs that
// no run gives: whoever provides them knows that these are kept.
func (g *Graph) Provide(name string, assets []work.Asset, now time.Time) error {
	rec, err := recorder{set: g.schema, now: now}.record(intent.Digest{}, Job{Generator: name}, Result{Result: work.Result{Assets: assets}})
	if err != nil {
		return err
	}
	g.setOutcome(name, "", rec, true)
	g.provided[name] = true
	return nil
}

// Pending lists the runs whose outputs were not taken yet.
func (g *Graph) Pending() []*Run { return inOrder(g.pending) }

func inOrder(runs map[*Run]bool) []*Run {
	return slices.SortedFunc(maps.Keys(runs), func(a, b *Run) int {
		return cmp.Or(strings.Compare(a.Generator, b.Generator), strings.Compare(a.File, b.File))
	})
}

// Warnings of all runs, those with one cause once.
func (g *Graph) Warnings() (findings []intent.Finding) {
	reported := map[intent.Finding]bool{}
	for _, run := range inOrder(g.warning) {
		if g.checks[run.Generator] != nil {
			continue
		}
		for _, finding := range run.warnings {
			finding = g.placed(run.Generator, finding)
			if !reported[finding] {
				findings = append(findings, finding)
			}
			reported[finding] = true
		}
	}
	return intent.GroupFindings(findings)
}

// LeftOut is what runs left out, by generator, in no order.
func (g *Graph) LeftOut() map[string][]intent.Finding {
	found := map[string][]intent.Finding{}
	for run := range g.warning {
		for _, finding := range run.warnings {
			if finding.LeftOut {
				found[run.Generator] = append(found[run.Generator], g.placed(run.Generator, finding))
			}
		}
	}
	return found
}

// placed has what is said of a renderer stand where the definition names it now.
func (g *Graph) placed(name string, finding intent.Finding) intent.Finding {
	generator := g.places[name]
	ofRenderer := finding.Rule != "derive" && finding.Rule != "resolve" // These name their own line.
	if ofRenderer && generator.Language == work.Render && finding.File == generator.File {
		finding.Line, finding.Field = generator.Line, "generate."+name
	}
	return finding
}

// Take marks all outputs as taken over.
func (g *Graph) Take() {
	for run := range g.pending {
		run.Taken = run.Outputs
	}
	g.pending = map[*Run]bool{}
}

// Forget lets go of bodies that were kept for a publication.
func (g *Graph) Forget() {
	// A cleared map keeps its memory.
	g.bodies = map[intent.Digest][]byte{}
	g.bodyBytes = 0
}

// Body returns the canonical bytes of an output of a run.
func (g *Graph) Body(ctx context.Context, run *Run, digest intent.Digest) ([]byte, error) {
	if body := g.bodies[digest]; body != nil {
		return body, nil
	}
	rec, err := g.stored(ctx, run)
	if err != nil {
		return nil, err
	}
	g.keep(rec)
	for _, asset := range rec.Assets {
		if asset.Digest == digest && intent.BodyDigest(asset.Body) == digest {
			return asset.Body, nil
		}
	}
	return nil, fault.New(fault.Internal, "the stored run of %s does not hold what it gave", run.Generator)
}

const keptBytes = 64 << 20

func (g *Graph) keep(rec record) {
	for _, asset := range rec.Assets {
		if g.bodyBytes > keptBytes {
			g.Forget()
		}
		g.bodies[asset.Digest] = asset.Body
		g.bodyBytes += len(asset.Body)
	}
}

// generator brings the runs of one generator up to date, unless the keys that
// it runs for cannot be read.
func (g *Graph) generator(ctx context.Context, generator definition.Generator, inputs Inputs, now time.Time) ([]intent.Finding, error) {
	keyed, err := g.split(ctx, generator, inputs)
	if err != nil {
		return nil, err
	}
	if keyed != nil && len(keyed.findings) > 0 {
		return keyed.findings, nil
	}
	return nil, g.bringUpToDate(ctx, newStage(g, generator, inputs, keyed), now)
}

func (g *Graph) bringUpToDate(ctx context.Context, stage *stage, now time.Time) error {
	generator := stage.generator
	candidates, removed, ok := stage.changedSince(g.settledBefore(generator.Name))
	if !ok {
		candidates = stage.files
		for file := range g.runs[generator.Name] {
			if !stage.wants(file) {
				removed = append(removed, file)
			}
		}
	}
	delete(g.settled, generator.Name)
	if err := g.drop(ctx, generator.Name, removed); err != nil {
		return err
	}
	var todo []Job
	var again []string
	for _, file := range candidates {
		is, err := g.standing(ctx, stage, file, now)
		if err != nil {
			return err
		}
		if is == outdated {
			job, err := stage.job(ctx, g, file)
			if err != nil {
				return err
			}
			todo = append(todo, job)
			continue
		}
		g.keptRuns++
		if is == rederived {
			again = append(again, file)
		}
	}
	for batch := range slices.Chunk(again, batchSize) {
		if err := g.judgeAgain(ctx, generator.Name, batch); err != nil {
			return err
		}
	}
	if len(todo) > 0 {
		kind := "generator "
		if generator.Check {
			kind = "check "
		}
		g.progress.BeginStep("run "+kind+generator.Name, len(todo))
	}
	for batch := range slices.Chunk(todo, batchSize) {
		for len(batch) > 0 {
			ran, err := g.execute(ctx, stage, batch, now)
			if err != nil {
				return err
			}
			batch = batch[ran:]
		}
	}
	if settled, ok := g.settle(stage); ok {
		g.settled[generator.Name] = settled
	}
	return nil
}

// settle says what a stage rests on, unless one of its runs is due again with
// nothing changed.
func (g *Graph) settle(stage *stage) (*settled, bool) {
	result := &settled{context: stage.context, items: stage.items, rules: g.rules.Digest(), documents: g.rules.ByDocuments(nil)}
	for _, run := range g.runs[stage.generator.Name] {
		if !run.until.IsZero() {
			return nil, false
		}
		if run.underived {
			result.underived, result.rules = true, g.rules.Places()
		}
	}
	return result, true
}

// settledBefore is what a generator's last stage rested on; nil: the derivations
// are not those of then, or it did not settle.
func (g *Graph) settledBefore(generator string) *settled {
	last := g.settled[generator]
	if last == nil || last.documents != g.rules.ByDocuments(nil) || last.underived && last.rules != g.rules.Places() || !last.underived && last.rules != g.rules.Digest() {
		return nil
	}
	return last
}

// batchSize bounds how many runs are between writes to the cache.
const batchSize = 1000

// standing of a run: what is to be done for it.
type standing int

const (
	// outdated: what it read has changed, or it never ran.
	outdated standing = iota
	// rederived: it holds, and what was derived from what it gave does not.
	rederived
	// current: all of it holds.
	current
)

// standing of a run, in memory or else in the cache.
func (g *Graph) standing(ctx context.Context, stage *stage, file string, now time.Time) (standing, error) {
	run := g.runs[stage.generator.Name][file]
	if run == nil {
		stored, err := g.cache.Get(ctx, runName(stage.generator.Name, file))
		if fault.Is(err, fault.NotFound) {
			return outdated, nil
		}
		if err != nil {
			return outdated, err
		}
		rec, err := parseRecord(stored)
		if err != nil || !stage.holds(rec.Base, rec.Reads, rec.Until, file, now) {
			// A record of an older version is as good as none.
			return outdated, nil
		}
		run = g.setOutcome(stage.generator.Name, file, rec, false)
	}
	switch {
	case !stage.holds(run.base, run.reads, run.until, file, now):
		return outdated, nil
	case run.underived && (run.rules != g.rules.Places() || run.documents != g.rules.ByDocuments(nil)),
		len(run.findings) == 0 && (run.rules != g.rules.Digest() || run.documents != g.rules.ByDocuments(run)):
		return rederived, nil
	}
	return current, nil
}

// judgeAgain derives anew what runs gave.
func (g *Graph) judgeAgain(ctx context.Context, generator string, files []string) error {
	outcomes, recorder := make([]outcome, len(files)), recorder{set: g.schema, rules: g.rules}
	for i, file := range files {
		rec, err := g.stored(ctx, g.runs[generator][file])
		if err != nil {
			return err
		}
		if err := recorder.judge(&rec, Job{Generator: generator, File: file}); err != nil {
			return err
		}
		outcomes[i] = outcome{generator, file, rec}
	}
	return g.save(ctx, outcomes)
}

// execute runs the first of the jobs, and returns how many.
func (g *Graph) execute(ctx context.Context, stage *stage, jobs []Job, now time.Time) (int, error) {
	results, err := g.runner.Run(ctx, g.schema, jobs, func(kind work.Kind, input Input) ([]byte, error) {
		if kind == work.ReadAsset {
			return g.Body(ctx, stage.makers[intent.AssetID(input.Name)], input.Digest)
		}
		if text, ok := archetype.Open(input); ok && kind == work.ReadProgram && stage.generator.Language == work.Model {
			return text, nil
		}
		return stage.inputs.Open(input)
	})
	if err == nil {
		return len(results), g.record(ctx, stage, jobs[:len(results)], results, now)
	}
	// What has ended need not run again.
	keeping := ctx
	if errors.Is(context.Cause(ctx), ErrOvertaken) {
		keeping = context.WithoutCancel(ctx)
	}
	if keeping.Err() == nil {
		if err := g.record(keeping, stage, jobs[:len(results)], results, now); err != nil {
			return len(results), err
		}
	}
	return len(results), err
}

// isProgram: such files are for load, not for ctx.files.
func isProgram(name string) bool { return path.Ext(name) == ".star" }
