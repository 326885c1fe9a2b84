package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"lehr.dev/internal/ground/intent"
)

const (
	// restSettled is how long after the last run tasks are at rest: the pauses between looks
	// have grown to the cadence that the plugin declares.
	restSettled = 12 * time.Minute
	// restWatched is how long they are watched then: one cadence, in which each is looked at.
	restWatched = 10 * time.Minute
)

// measureTasks measures tasks that have run: how long it takes until all have, each a process
// beside its keeper, and what the server and the plugin compute in a minute at rest.
func measureTasks(ctx context.Context, programs string, size int) error {
	folder, err := os.MkdirTemp("", "lehr-bench-")
	if err != nil {
		return err
	}
	programs, err = filepath.Abs(programs)
	if err != nil {
		return err
	}
	b := &bed{folder: folder, size: size, most: time.Hour}
	if err := errors.Join(os.MkdirAll(filepath.Join(folder, "store"), 0o755), b.writeTasks(programs)); err != nil {
		return err
	}
	if err := b.start(ctx); err != nil {
		return err
	}
	defer b.close()
	name := func(figure string) string { return fmt.Sprintf("%s_%d_tasks", figure, size) }
	start := time.Now()
	if err := b.until(ctx, seldom, func() bool { return b.reported(ctx, intent.StateInSync) >= size }); err != nil {
		return err
	}
	print(name("all_have_run"), time.Since(start).Seconds(), "s")
	time.Sleep(restSettled)
	used := computed()
	time.Sleep(restWatched)
	if settled := b.reported(ctx, intent.StateInSync); settled < size {
		return fmt.Errorf("%d of %d tasks are in sync at rest", settled, size)
	}
	print(name("rest_core_time"), ms(computed()-used)*float64(time.Minute)/float64(restWatched), "ms/min")
	return nil
}

// writeTasks writes the definition of the partition and its tasks.
func (b *bed) writeTasks(programs string) error {
	var tasks strings.Builder
	for i := range b.size {
		fmt.Fprintf(&tasks, "- {id: task/%d, type: lehr.task.v1.Task, payload: {command: [/bin/true], version: \"1\"}}\n", i)
	}
	definition := fmt.Sprintf("lehr: v1\npartition: %s\nowner: bench@example.com\nmode: enforce\nsources:\n  list: {dir: ., files: [tasks.yaml]}\ngenerate:\n  tasks: {render: assets, from: [list]}\nplugins:\n  lehr.task.v1.Task: {run: [%s, --records, %s, --host, bench]}\n",
		partition, filepath.Join(programs, "lehr-task"), filepath.Join(b.folder, "records"))
	return errors.Join(b.write("tasks.yaml", tasks.String()), b.write("lehr.yaml", definition))
}
