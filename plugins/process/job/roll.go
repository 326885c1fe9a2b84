package job

import (
	"cmp"
	"maps"
	"slices"
)

// act is what comes next in bringing a job to its intent.
type act uint8

const (
	// done: every task is as it should be.
	done act = iota
	// startMissing starts a task that has no process.
	startMissing
	// startSpare starts a task beside those of an elastic job.
	startSpare
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
func next(current sighting) step {
	tasks := slices.SortedFunc(maps.Values(current.tasks), func(a, b *task) int { return cmp.Compare(a.number, b.number) })
	for _, t := range tasks {
		if len(t.processes) > 1 {
			return step{stopSurplus, t.number, t.processes[1:]}
		}
	}
	missing, isMissing := firstMissing(current)
	if isMissing && !current.blocked[missing] {
		return step{act: startMissing, task: missing}
	}
	for _, t := range tasks {
		if t.intended && t.trouble != "" {
			return step{act: awaitHealth, task: t.number}
		}
	}
	wrong := firstWrong(current, tasks)
	if wrong != nil && current.needsProof(wrong) {
		return step{act: startSpare, task: current.free()}
	}
	if wrong != nil && !current.blocked[wrong.number] {
		return step{stopToReplace, wrong.number, wrong.processes}
	}
	for _, t := range slices.Backward(tasks) {
		if !current.wants(t.number) {
			return step{stopSurplus, t.number, t.processes}
		}
	}
	if wrong != nil {
		return step{stopToReplace, wrong.number, wrong.processes}
	}
	if isMissing {
		return step{act: startMissing, task: missing}
	}
	if spare := current.spareTask(); spare != nil && len(tasks) > 1 {
		return step{stopSurplus, spare.number, spare.processes}
	}
	return step{act: done}
}

// firstMissing prefers tasks that are not blocked.
func firstMissing(current sighting) (first uint32, ok bool) {
	for _, number := range current.wanted {
		switch {
		case current.tasks[number] != nil:
		case !current.blocked[number]:
			return number, true
		case !ok:
			first, ok = number, true
		}
	}
	return first, ok
}

// firstWrong prefers tasks that are not blocked, then those that do not
// serve, then the lowest number.
func firstWrong(current sighting, tasks []*task) *task {
	wrong := slices.DeleteFunc(slices.Clone(tasks), func(t *task) bool { return t.intended || !current.wants(t.number) })
	if len(wrong) == 0 {
		return nil
	}
	weight := func(t *task) int {
		switch {
		case current.blocked[t.number]:
			return 2
		case t.trouble == "":
			return 1
		}
		return 0
	}
	return slices.MinFunc(wrong, func(a, b *task) int { return cmp.Compare(weight(a), weight(b)) })
}
