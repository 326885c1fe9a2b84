package job

import (
	"context"
	"fmt"
	"maps"
	"slices"

	processpb "lehr.dev/gen/lehr/process/v1"
	"lehr.dev/sdk/serve"
)

// An elastic job leaves its replicas to production, and with them which tasks
// there are: an autoscaler starts and stops them. Those that are there are
// kept as intended. A task that is gone is gone, for nobody can tell whether
// it died or was taken away; but when none is there, the job is created as
// intent says.
//
// So nothing but the autoscaler would make up for a task that was stopped for
// a version that does not start, and one push after another would take one
// each. Therefore no task that serves is touched before another one runs as
// intended and is healthy: if there is none, a roll starts a spare one first,
// with the lowest free number, and stops it last.

// elastic reports whether production owns the replicas. Nothing else may be
// left to it.
func elastic(asset serve.Asset[*processpb.Job]) (bool, error) {
	paths, err := asset.Unmanaged()
	if err != nil {
		return false, fmt.Errorf("reading the Unmanaged addon of job %s: %w", asset.Payload.Name, err)
	}
	for _, path := range paths {
		if path != "replicas" {
			return false, fmt.Errorf("the field %q of job %s cannot be left to production: nothing there owns it, only \"replicas\" may be an autoscaler's; take it out of the Unmanaged addon", path, asset.Payload.Name)
		}
	}
	return len(paths) > 0, nil
}

// Yield keeps the tasks that are there, each as it should run.
func (j Jobs) Yield(asset serve.Asset[*processpb.Job], target, current *processpb.Job) error {
	// Resolve has just read them: they are had at once.
	secrets, err := j.secretsOf(context.Background(), asset.SecretRequest(), asset.Payload)
	if err != nil {
		return err
	}
	wipe(secrets.values)
	target.Tasks = map[uint32]*processpb.Task{}
	for number := range current.Tasks {
		if number >= 65536-target.BasePort {
			return fmt.Errorf("task %d of job %s would have a port above 65535: stop its process, or lower base_port", number, target.Name)
		}
		target.Tasks[number] = secrets.intended(target, number)
	}
	return nil
}

// tasks that there should be, by number and in order.
func (d demand) tasks(seen map[uint32]*task) []uint32 {
	wanted := maps.Clone(d.also)
	if wanted == nil {
		wanted = map[uint32]bool{}
	}
	if !d.elastic || len(seen) == 0 && len(wanted) == 0 {
		for number := range d.Replicas {
			wanted[number] = true
		}
	}
	if d.elastic {
		for number := range seen {
			wanted[number] = true
		}
	}
	return slices.Sorted(maps.Keys(wanted))
}

// needsProof reports whether the task of an elastic job serves, and no other
// shows yet that what should replace it does.
func (s sighting) needsProof(wrong *task) bool {
	if !s.elastic || wrong.trouble != "" {
		return false
	}
	for _, t := range s.tasks {
		if t.intended && t.trouble == "" {
			return false
		}
	}
	return true
}

// free is the lowest number without a task.
func (s sighting) free() uint32 {
	for number := uint32(0); ; number++ {
		if s.tasks[number] == nil {
			return number
		}
	}
}

// spareTask is nil when there is none.
func (s sighting) spareTask() *task {
	if s.spare == nil {
		return nil
	}
	return s.tasks[*s.spare]
}

// keeps reports whether a task that does not become healthy is left as it is:
// of an elastic job, one that replaced another would not be started again.
func (d demand) keeps(number uint32) bool {
	return d.elastic && !d.also[number] && (d.spare == nil || *d.spare != number)
}
