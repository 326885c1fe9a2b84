package app

import (
	"context"

	"lehr.dev/loop"
	"lehr.dev/prodspec"
	"lehr.dev/store"
)

// runPipeline keeps the partition's head equal to what its sources say.
func (a *App) runPipeline(ctx context.Context, s *state, runtime loop.Runtime, lease store.Lease) error {
	partition, err := a.store.Partition(ctx, s.partition)
	if err != nil {
		return err
	}
	pipeline, err := prodspec.New(prodspec.Options{
		Partition: partition, Store: a.store, Runner: a.options.Parts.Runner,
		Trial: a.options.Parts.Trial, Place: a.options.Parts.Sources, Elsewhere: a.elsewhere.options(a.options), Outside: a.outside, Runtime: runtime, Log: a.log,
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
