package generate

import (
	"context"
	"slices"
	"strings"
	"time"

	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/prodspec/generate/work"
)

// What runs gave is kept: in memory, and in the cache for the next process.

// record keeps what jobs gave. With an error of one, what the others gave is kept.
func (g *Graph) record(ctx context.Context, stage *stage, jobs []Job, results []Result, now time.Time) error {
	g.executions += len(jobs)
	recorder := recorder{set: g.schema, rules: g.rules, now: now}
	var outcomes []outcome
	var failed error
	for i, job := range jobs {
		rec, err := recorder.record(stage.base, job, results[i])
		if err != nil {
			failed = err
			continue
		}
		outcomes = append(outcomes, outcome{job.Generator, job.File, rec})
	}
	if err := g.save(ctx, outcomes); err != nil {
		return err
	}
	return failed
}

// outcome of a run.
type outcome struct {
	generator, file string
	rec             record
}

// save makes records the outcomes of runs, in the cache first. What the cache
// does not take is kept for the next build: the runs need not be carried out
// again for that.
func (g *Graph) save(ctx context.Context, outcomes []outcome) error {
	encoded := make(map[string][]byte, len(outcomes))
	for _, o := range outcomes {
		text, err := o.rec.encode()
		if err != nil {
			return fault.New(fault.Internal, "cannot encode the run of %s: %w", Job{Generator: o.generator, File: o.file}.Name(), err)
		}
		encoded[runName(o.generator, o.file)] = text
	}
	if len(encoded) == 0 {
		return nil
	}
	if err := g.cache.Put(ctx, encoded); err != nil {
		g.unsaved = outcomes
		return err
	}
	for _, o := range outcomes {
		g.setOutcome(o.generator, o.file, o.rec, true)
	}
	return nil
}

// saveRest saves what the cache did not take before.
func (g *Graph) saveRest(ctx context.Context) error {
	rest := g.unsaved
	g.unsaved = nil
	return g.save(ctx, rest)
}

// stored is the record of a run.
func (g *Graph) stored(ctx context.Context, run *Run) (record, error) {
	text, err := g.cache.Get(ctx, runName(run.Generator, run.File))
	if err != nil {
		return record{}, err
	}
	return parseRecord(text)
}

// setOutcome makes a record the run's outcome.
func (g *Graph) setOutcome(generator, file string, rec record, keep bool) *Run {
	if g.runs[generator] == nil {
		g.runs[generator] = map[string]*Run{}
	}
	run := g.runs[generator][file]
	if run == nil {
		run = &Run{Generator: generator, File: file}
		g.runs[generator][file] = run
	}
	run.base, run.reads, run.findings, run.warnings, run.until = rec.Base, append([]Read(nil), rec.Reads...), rec.Findings, rec.Warnings, rec.Until
	run.reported = rec.Reported
	run.rules, run.underived, run.documents = rec.Rules, rec.Underived, rec.Documents
	delete(g.warning, run)
	if len(run.warnings) > 0 {
		g.warning[run] = true
	}
	for i := range run.reads {
		run.reads[i].Name, run.reads[i].Kind = g.intern(run.reads[i].Name), work.Kind(g.intern(string(run.reads[i].Kind)))
	}
	if len(rec.Findings) > 0 {
		// What it gave before stays what is taken until it succeeds again.
		return run
	}
	outputs := make([]Output, len(rec.Assets))
	for i, asset := range rec.Assets {
		outputs[i] = Output{ID: asset.ID, Make: g.make(asset.Type, asset.File), Digest: asset.Digest, Line: int32(asset.Line)}
		outputs[i].more = g.more(rec, i)
	}
	run.Outputs = outputs
	g.holdBlobs(run, rec)
	if keep {
		g.keep(rec)
	}
	if slices.EqualFunc(outputs, run.Taken, func(a, b Output) bool {
		return a.ID == b.ID && a.Digest == b.Digest && slices.Equal(a.Refers(), b.Refers())
	}) {
		run.Taken = outputs
		delete(g.pending, run)
		return run
	}
	g.pending[run] = true
	return run
}

// drop removes runs that nothing asks for any more.
func (g *Graph) drop(ctx context.Context, generator string, files []string) error {
	records := map[string][]byte{}
	for _, file := range files {
		records[runName(generator, file)] = nil
	}
	if len(records) == 0 {
		return nil
	}
	if err := g.cache.Put(ctx, records); err != nil {
		return err
	}
	for _, file := range files {
		run := g.runs[generator][file]
		run.Outputs = nil
		g.holdBlobs(run, record{})
		delete(g.warning, run)
		g.pending[run] = true
		delete(g.runs[generator], file)
	}
	if len(g.runs[generator]) == 0 {
		delete(g.runs, generator)
	}
	return nil
}

func (g *Graph) failing(generator string) []*Run {
	var runs []*Run
	for _, run := range g.runs[generator] {
		if len(run.findings) > 0 {
			runs = append(runs, run)
		}
	}
	slices.SortFunc(runs, func(a, b *Run) int { return strings.Compare(a.File, b.File) })
	return runs
}

func (g *Graph) intern(s string) string {
	if existing, ok := g.interned[s]; ok {
		return existing
	}
	g.interned[s] = s
	return s
}

// make returns the one of those values.
func (g *Graph) make(typeName intent.TypeName, file string) *Make {
	m := Make{typeName, file}
	if g.makes[m] == nil {
		g.makes[m] = &m
	}
	return g.makes[m]
}
