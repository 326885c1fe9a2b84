package job

import (
	"cmp"
	"maps"
	"slices"

	processpb "lehr.dev/gen/lehr/process/v1"
)

// act is what comes next in bringing a job to its intent.
type act uint8

const (
	// done: every task is as it should be.
	done act = iota
	// startMissing starts a task that has no process.
	startMissing
	// awaitHealth waits for a task that runs as intended.
	awaitHealth
	// stopToReplace stops a task that does not run as intended.
	stopToReplace
	// stopSurplus stops processes that should not be there.
	stopSurplus
)

// step is one act on one task.
type step struct {
	act       act
	task      uint32
	processes []process
}

// next decides the one next step from what is seen, so that a roll that was
// cut short anywhere goes on from there. The order keeps as many tasks
// serving as can be: duplicates are in the way of their task and go first;
// what is missing is started, and what was started becomes healthy, before a
// running task is touched; tasks that do not serve are replaced before those
// that do; surplus goes last. A task whose port another one still has to give
// up waits for that.
func next(job *processpb.Job, seen sighting) step {
	tasks := slices.SortedFunc(maps.Values(seen.tasks), func(a, b *task) int { return cmp.Compare(a.number, b.number) })
	for _, t := range tasks {
		if len(t.processes) > 1 {
			return step{stopSurplus, t.number, t.processes[1:]}
		}
	}
	missing, isMissing := firstMissing(job, seen)
	if isMissing && !seen.blocked[missing] {
		return step{act: startMissing, task: missing}
	}
	for _, t := range tasks {
		if t.intended && t.trouble != "" {
			return step{act: awaitHealth, task: t.number}
		}
	}
	wrong := firstWrong(job, seen, tasks)
	if wrong != nil && !seen.blocked[wrong.number] {
		return step{stopToReplace, wrong.number, wrong.processes}
	}
	if len(tasks) > 0 && tasks[len(tasks)-1].number >= job.Replicas {
		surplus := tasks[len(tasks)-1]
		return step{stopSurplus, surplus.number, surplus.processes}
	}
	if wrong != nil {
		return step{stopToReplace, wrong.number, wrong.processes}
	}
	if isMissing {
		return step{act: startMissing, task: missing}
	}
	return step{act: done}
}

// firstMissing prefers tasks that are not blocked.
func firstMissing(job *processpb.Job, seen sighting) (first uint32, found bool) {
	for number := range job.Replicas {
		switch {
		case seen.tasks[number] != nil:
		case !seen.blocked[number]:
			return number, true
		case !found:
			first, found = number, true
		}
	}
	return first, found
}

// firstWrong prefers tasks that are not blocked, then those that do not
// serve, then the lowest number.
func firstWrong(job *processpb.Job, seen sighting, tasks []*task) *task {
	wrong := slices.DeleteFunc(slices.Clone(tasks), func(t *task) bool { return t.intended || t.number >= job.Replicas })
	if len(wrong) == 0 {
		return nil
	}
	weight := func(t *task) int {
		switch {
		case seen.blocked[t.number]:
			return 2
		case t.trouble == "":
			return 1
		}
		return 0
	}
	return slices.MinFunc(wrong, func(a, b *task) int { return cmp.Compare(weight(a), weight(b)) })
}
