package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"time"

	apipb "lehr.dev/gen/lehr/api/v1"
	"lehr.dev/intent"
)

// Waves of the run that is measured.
const rolloutWaves = 10

// rolloutProgram makes a job of each field of a document.
const rolloutProgram = `def generate(ctx):
    jobs = json("held/knobs.json")
    return [asset(name, lehr.process.v1.Job(name = name, replicas = 3, binary = "/opt/job", version = j["version"])) for name, j in jobs.items()]
`

// measureRollouts measures a run that sets a field of a document for each asset, in waves
// of a tenth: of the size, and of a tenth of it, so that the growth shows.
func measureRollouts(ctx context.Context, plugin string, size int) error {
	for _, size := range []int{size / 10, size} {
		if err := measureFields(ctx, plugin, size); err != nil {
			return fmt.Errorf("a rollout of %d fields: %w", size, err)
		}
	}
	return nil
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
	began, spent := time.Now(), computed()
	if err := b.rollOut(ctx, "versions", func(run *apipb.RolloutRun) bool { return run.State == string(intent.RolloutDone) }); err != nil {
		return err
	}
	print(fmt.Sprintf("rollout_of_%d_fields", size), time.Since(began).Seconds(), "s")
	print(fmt.Sprintf("rollout_step_of_%d_fields", size), ms(time.Since(began))/rolloutWaves, "ms")
	print(fmt.Sprintf("rollout_computing_of_%d_fields", size), (computed() - spent).Seconds(), "s")
	if err := b.rollOut(ctx, "slowly", func(run *apipb.RolloutRun) bool {
		return b.reported(ctx, intent.StateInSync) == size && len(run.Stages) > 0 && run.Stages[0].Selected == int64(size)
	}); err != nil {
		return err
	}
	const soaks = 20 * time.Second
	time.Sleep(soaks / 4)
	spent = computed()
	time.Sleep(soaks)
	print(fmt.Sprintf("rollout_soak_of_%d_fields", size), ms(computed()-spent)/soaks.Seconds(), "ms/s")
	return nil
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
