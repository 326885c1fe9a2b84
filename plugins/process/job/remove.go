package job

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"

	"google.golang.org/protobuf/proto"

	processpb "lehr.dev/gen/lehr/process/v1"
	"lehr.dev/sdk/serve"
)

const (
	// maxDraining is how many processes drain at once.
	maxDraining = 64
	// removals is how often a removal stops what it finds: something else may
	// be starting tasks.
	removals = 3
)

// Remove stops all tasks of the job. They drain together; that of the highest
// number is told first.
func (j Jobs) Remove(ctx context.Context, change serve.Change[*processpb.Job], permit serve.Permit) error {
	r := j.newRoll(change, permit)
	// No task is wanted, so none is asked how it is.
	r.Job = proto.CloneOf(change.Asset.Payload)
	r.Replicas = 0
	for range removals {
		sightings, err := look(ctx, []demand{r.demand})
		if err != nil || len(sightings[0].tasks) == 0 {
			return err
		}
		if err := r.drain(ctx, sightings[0]); err != nil {
			return err
		}
	}
	return serve.Retryable(fmt.Errorf("tasks of job %s come back while they are stopped: find what starts them, and stop that", r.Name))
}

// drain ends all processes of all tasks.
func (r *roll) drain(ctx context.Context, current sighting) error {
	slots := make(chan struct{}, maxDraining)
	problems := make(chan error, 1)
	note := func(err error) {
		if err != nil {
			select {
			case problems <- err:
			default: // the first one tells enough
			}
		}
	}
	var draining sync.WaitGroup
	for _, p := range lastFirst(current) {
		slots <- struct{}{}
		r.tell(fmt.Sprintf("stopping process %d of task %d, as the job is turned down", p.pid, p.task))
		h, err := terminate(ctx, p, r.mayAct)
		if note(err); err != nil {
			break
		}
		draining.Go(func() {
			note(finish(ctx, p, h, r.grace(), r.mayAct))
			<-slots
		})
	}
	draining.Wait()
	select {
	case err := <-problems:
		return err
	default:
		return nil
	}
}

// lastFirst lists all processes by their task's number, the highest first.
func lastFirst(current sighting) []process {
	var processes []process
	for _, number := range slices.Backward(slices.Sorted(maps.Keys(current.tasks))) {
		processes = append(processes, current.tasks[number].processes...)
	}
	return processes
}
