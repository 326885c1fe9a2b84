package app

import (
	"context"
	"fmt"
	"time"

	"lehr.dev/internal/annealing/delivery"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/ground/loop"
	"lehr.dev/internal/prodspec"
	"lehr.dev/internal/prodspec/generate"
	"lehr.dev/internal/prodspec/inquiry"
	"lehr.dev/internal/prodspec/validate"
	"lehr.dev/internal/store"
)

// runPipeline keeps the partition's head equal to what its sources say.
func (a *App) runPipeline(ctx context.Context, s *state, runtime loop.Runtime, lease store.Lease) error {
	partition, err := a.store.Partition(ctx, s.partition)
	if err != nil {
		return err
	}
	runner := a.options.Parts.Runner
	if process, ok := runner.(*generate.Process); ok {
		runner = process.Of(s.partition)
	}
	var askOutside validate.Outside
	if a.inquires {
		askOutside = inquiry.New(a.options.ExternalChecks, a.runtime.Now).Ask
	}
	sources := a.elsewhere.optionsOf(a.options, s.partition, partition.Definition)
	if !a.options.Parts.WithoutDelivery {
		sources.KeepVersions = (&delivery.Reader{Store: a.store, Schemas: a.schemas}).Kept
	}
	pipeline, err := prodspec.New(prodspec.Options{
		Partition: partition, Store: a.store, Runner: runner,
		Trial: a.options.Parts.Trial, Place: a.options.Parts.Sources, Elsewhere: sources, Outside: askOutside, Runtime: runtime, Log: a.log, Measure: &s.measure.Pipeline, Trace: a.tracer(),
	})
	if err != nil {
		return err
	}
	s.pipeline.Store(pipeline)
	return pipeline.Run(ctx, lease)
}

// unreadable says why sources cannot be read now; nothing of that is in the
// store, since it says nothing about intent.
func (s *state) unreadable() string {
	pipeline := s.pipeline.Load()
	if pipeline == nil {
		return ""
	}
	status := pipeline.Status()
	if status == nil || status.State != prodspec.Unavailable {
		return ""
	}
	if len(status.Findings) == 0 {
		return "the newest sources could not be built"
	}
	return status.Findings[0].Message
}

// waiting says since when a partition's build waits for its turn, and behind how
// many; empty: it does not.
func (a *App) waiting(partition intent.PartitionID) string {
	start, partitionsAhead := a.turns.Waiting(partition)
	if start.IsZero() {
		return ""
	}
	text := "wait for their turn to be built since " + start.UTC().Format(time.RFC3339)
	if partitionsAhead > 0 {
		text += fmt.Sprintf(", behind %d other partitions", partitionsAhead)
	}
	return text
}
