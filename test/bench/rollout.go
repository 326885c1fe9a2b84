package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	apipb "lehr.dev/gen/lehr/api/v1"
	"lehr.dev/internal/ground/intent"
)

// Waves of the run that is measured.
const rolloutWaves = 10

// rolloutProgram makes a job of each field of a document.
const rolloutProgram = `def generate(ctx):
    jobs = json("held/knobs.json")
    return [asset(name, lehr.process.v1.Job(name = name, replicas = 3, binary = "/opt/job", version = j["version"])) for name, j in jobs.items()]
`

// measureRollouts measures a run that moves the pin of each asset, and one that sets a field
// of a document for each, in waves of a tenth: of the size, and of a tenth of it, so that the
// growth shows.
func measureRollouts(ctx context.Context, plugin string, size int) error {
	for _, size := range []int{size / 10, size} {
		if err := measurePins(ctx, plugin, size); err != nil {
			return fmt.Errorf("a rollout of %d assets: %w", size, err)
		}
		if err := measureFields(ctx, plugin, size); err != nil {
			return fmt.Errorf("a rollout of %d fields: %w", size, err)
		}
	}
	return nil
}

// pinsProgram makes jobs of one version.
const pinsProgram = `def generate(ctx):
    jobs = yaml("jobs.yaml")
    return [asset("job-%d" % i, lehr.process.v1.Job(name = "job-%d" % i, replicas = 3, binary = "/opt/job", version = jobs["version"])) for i in range(jobs["count"])]
`

// pinsDefinition has one rollout of all, by pins, in such stages.
const pinsDefinition = `lehr: v1
partition: %s
owner: bench@example.com
mode: enforce
sources:
  sizes: {dir: ., files: [jobs.yaml]}
generate:
  jobs: {starlark: jobs.star, from: [sizes]}
plugins:
  Job: {run: [%s]}
`

const pinsRollout = `rollouts:
  versions:
    select: type == "Job"
    stages: [{rest: true, %s}]
`

func measurePins(ctx context.Context, plugin string, size int) error {
	folder, err := os.MkdirTemp("", "lehr-bench-")
	if err != nil {
		return err
	}
	b := &bed{folder: folder, plugin: plugin, size: size}
	if err := os.MkdirAll(filepath.Join(folder, "store"), 0o755); err != nil {
		return err
	}
	define := func(stage, version string) error {
		if err := errors.Join(b.write("jobs.star", pinsProgram), b.write("jobs.yaml", fmt.Sprintf("{version: %s, count: %d}\n", version, size))); err != nil {
			return err
		}
		definition := fmt.Sprintf(pinsDefinition, partition, plugin)
		if stage != "" {
			definition += fmt.Sprintf(pinsRollout, stage)
		}
		return b.write("lehr.yaml", definition)
	}
	if err := define("", "v1"); err != nil { // What is there before any rollout follows head.
		return err
	}
	if err := b.start(ctx); err != nil {
		return err
	}
	defer b.close()
	if err := b.until(ctx, seldom, func() bool { return b.enforced(ctx) == size }); err != nil {
		return err
	}
	waves := fmt.Sprintf("count: %d", size/rolloutWaves)
	if err := define(waves, "v1"); err != nil {
		return err
	}
	if err := b.planned(ctx, rolloutWaves); err != nil {
		return err
	}
	start, spent := time.Now(), computed()
	if err := define(waves, "v2"); err != nil {
		return err
	}
	if err := b.rolled(ctx, func(run *apipb.RolloutRun) bool { return run.State == string(intent.RolloutDone) }); err != nil {
		return err
	}
	b.tell(fmt.Sprintf("%d_assets", size), time.Since(start), computed()-spent)
	// What is asked for before a change comes pauses nothing.
	if err := define("soak: 1h", "v2"); err != nil {
		return err
	}
	if err := b.planned(ctx, 1); err != nil {
		return err
	}
	if err := define("soak: 1h", "v3"); err != nil {
		return err
	}
	return b.soaks(fmt.Sprintf("%d_assets", size), b.rolled(ctx, func(run *apipb.RolloutRun) bool {
		return run.Run == 2 && b.reported(ctx, intent.StateInSync) == size && len(run.Stages) > 0 && run.Stages[0].Selected == int64(size)
	}))
}

// planned waits until the rollout by pins would go in so many waves.
func (b *bed) planned(ctx context.Context, waves int) error {
	return b.until(ctx, seldom, func() bool {
		found, err := b.client().Rollouts.PlanRollout(ctx, &apipb.PlanRolloutRequest{Partition: string(partition), Rollout: "versions"})
		return err == nil && len(found.Steps) == waves
	})
}

// rolled waits until the newest run by pins is so.
func (b *bed) rolled(ctx context.Context, so func(*apipb.RolloutRun) bool) error {
	return b.until(ctx, betimes*4, func() bool {
		found, err := b.client().Rollouts.GetRollout(ctx, &apipb.GetRolloutRequest{Partition: string(partition), Rollout: "versions"})
		return err == nil && found.Rollout.GetRun().GetRun() > 0 && so(found.Rollout.Run)
	})
}

// tell how long a run took, and what it computed.
func (b *bed) tell(of string, duration, spent time.Duration) {
	machine.figure("rollout_of_"+of, duration.Seconds(), "s", b.size, pushing...)
	machine.figure("rollout_step_of_"+of, ms(duration)/rolloutWaves, "ms", b.size/rolloutWaves, pushing...)
	machine.figure("rollout_computing_of_"+of, spent.Seconds(), "s", b.size, byCoreTime)
}

// soaks tells what a second of it computes, if all could be brought there.
func (b *bed) soaks(of string, err error) error {
	const soaks = 20 * time.Second
	if err == nil {
		time.Sleep(soaks / 4)
		spent := computed()
		time.Sleep(soaks)
		print("rollout_soak_of_"+of, ms(computed()-spent)/soaks.Seconds(), "ms/s")
	}
	return err
}

func measureFields(ctx context.Context, plugin string, size int) error {
	folder, err := os.MkdirTemp("", "lehr-bench-")
	if err != nil {
		return err
	}
	b := &bed{folder: folder, plugin: plugin, size: size}
	if err := os.MkdirAll(filepath.Join(folder, "store"), 0o755); err != nil {
		return err
	}
	if err := b.write("jobs.star", rolloutProgram); err != nil {
		return err
	}
	if err := b.write("lehr.yaml", fmt.Sprintf(`lehr: v1
partition: %s
owner: bench@example.com
mode: enforce
sources:
  held: {document: knobs}
generate:
  jobs: {starlark: jobs.star, from: [held]}
plugins:
  Job: {run: [%s]}
rollouts:
  versions:
    select: type == "Job"
    by: {document: knobs, field: "/{id}/version"}
    stages: [{rest: true, count: %d}]
  slowly:
    select: type == "Job"
    by: {document: knobs, field: "/{id}/version"}
    stages: [{rest: true, soak: 1h}]
`, partition, plugin, size/rolloutWaves)); err != nil {
		return err
	}
	if err := b.start(ctx); err != nil {
		return err
	}
	defer b.close()
	jobs := map[string]map[string]string{}
	for i := range size {
		jobs[fmt.Sprintf("job-%05d", i)] = map[string]string{"version": "v1"}
	}
	content, err := json.Marshal(jobs)
	if err != nil {
		return err
	}
	c := b.client()
	if _, err := c.Documents.CreateDocument(ctx, &apipb.CreateDocumentRequest{Partition: string(partition), Name: "knobs", Content: string(content), Reason: "to measure"}); err != nil {
		return err
	}
	if err := b.until(ctx, seldom, func() bool { return b.enforced(ctx) == size }); err != nil {
		return err
	}
	start, spent := time.Now(), computed()
	if err := b.rollOut(ctx, "versions", func(run *apipb.RolloutRun) bool { return run.State == string(intent.RolloutDone) }); err != nil {
		return err
	}
	b.tell(fmt.Sprintf("%d_fields", size), time.Since(start), computed()-spent)
	return b.soaks(fmt.Sprintf("%d_fields", size), b.rollOut(ctx, "slowly", func(run *apipb.RolloutRun) bool {
		return b.reported(ctx, intent.StateInSync) == size && len(run.Stages) > 0 && run.Stages[0].Selected == int64(size)
	}))
}

// rollOut starts a run, and waits until it is so.
func (b *bed) rollOut(ctx context.Context, rollout string, so func(*apipb.RolloutRun) bool) error {
	c := b.client()
	value := fmt.Sprintf("%q", "v-"+rollout)
	if _, err := c.Rollouts.OrderRollout(ctx, &apipb.OrderRolloutRequest{Partition: string(partition), Rollout: rollout, Kind: string(intent.OrderStart), Value: value, Reason: "to measure"}); err != nil {
		return err
	}
	return b.until(ctx, betimes*4, func() bool {
		found, err := c.Rollouts.GetRollout(ctx, &apipb.GetRolloutRequest{Partition: string(partition), Rollout: rollout})
		return err == nil && found.Rollout.GetRun().GetRun() > 0 && so(found.Rollout.Run)
	})
}
