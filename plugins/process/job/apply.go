package job

import (
	"context"
	"errors"
	"fmt"
	"time"

	"google.golang.org/protobuf/proto"

	processpb "lehr.dev/gen/lehr/process/v1"
	"lehr.dev/sdk/serve"
)

// A roll that waits for a task looks again after a quarter of the time that
// it has waited, within these bounds: looking costs some milliseconds.
const (
	shortestPause = 20 * time.Millisecond
	longestPause  = 250 * time.Millisecond
)

// roll brings one job to its intent, one task at a time.
type roll struct {
	demand
	logs   string
	push   string
	mayAct effect
	// creates: nothing was there when the push was planned.
	creates bool
	tell    func(string)
	// children started by this roll, and since when a task's health is
	// awaited.
	children map[uint32]*child
	since    map[uint32]time.Time
	// right are the tasks that this roll saw run as intended. What differs of them
	// afterwards is not of its plan.
	right map[uint32]bool
}

// Apply rolls the job out.
func (j Jobs) Apply(ctx context.Context, change serve.Change[*processpb.Job], permit serve.Permit) error {
	r := j.newRoll(change, permit)
	r.Job = proto.CloneOf(change.Target)
	var err error
	if r.elastic, err = elastic(change.Asset); err != nil {
		return err
	}
	// The values are those of the plan, or the push is stale.
	if r.secrets, err = j.secretsOf(ctx, change.Asset.SecretRequest(), r.Job); err != nil {
		return err
	}
	defer wipe(r.secrets.values)
	if r.creates = change.Plan.Action == serve.ActionCreate; r.creates {
		for number := range r.Replicas {
			r.also[number] = true
		}
	}
	return r.run(ctx)
}

func (j Jobs) newRoll(change serve.Change[*processpb.Job], permit serve.Permit) *roll {
	return &roll{
		demand: demand{Job: change.Asset.Payload, also: map[uint32]bool{}},
		logs:   j.Logs, push: string(change.Push), mayAct: permit.Effect,
		tell:     change.Progress,
		children: map[uint32]*child{}, since: map[uint32]time.Time{}, right: map[uint32]bool{},
	}
}

func (r *roll) run(ctx context.Context) error {
	for {
		sightings, err := look(ctx, []demand{r.demand})
		if err != nil {
			return err
		}
		for number, t := range sightings[0].tasks {
			if t.intended {
				r.right[number] = true
			}
		}
		step := next(sightings[0])
		switch step.act {
		case done:
			return nil
		case startMissing:
			err = r.start(ctx, step.task)
		case startSpare:
			r.spare = &step.task
			err = r.start(ctx, step.task)
		case awaitHealth:
			err = r.await(ctx, sightings[0].tasks[step.task])
		case stopToReplace:
			if r.right[step.task] {
				return fmt.Errorf("%w: task %d of job %s ran as intended when this push looked before, and process %d, which runs now, does not: somebody replaced it meanwhile", serve.ErrStale, step.task, r.Name, step.processes[0].pid)
			}
			if err = r.replaceable(step, sightings[0]); err == nil {
				r.also[step.task] = true
				err = r.stop(ctx, step, "to replace it")
			}
		case stopSurplus:
			err = r.stop(ctx, step, "which should not run")
		}
		if err != nil {
			return err
		}
	}
}

func (r *roll) start(ctx context.Context, number uint32) error {
	if c := r.children[number]; c != nil {
		// Started by this very roll, and gone again: once is enough.
		return serve.Retryable(fmt.Errorf("task %d of job %s was started and did not stay: %s", number, r.Name, c.account()))
	}
	if err := r.canStart(number); err != nil {
		return err
	}
	if err := r.mayAct(ctx); err != nil {
		return err
	}
	r.tell(fmt.Sprintf("starting task %d, version %q", number, r.Version))
	c, err := start(r.logs, r.Job, r.secrets, number, r.push)
	if err != nil {
		return err
	}
	r.children[number] = c
	if !r.creates {
		delete(r.also, number)
	}
	return nil
}

// canStart says what would keep a task from starting.
func (r *roll) canStart(number uint32) error {
	if err := startable(r.Binary); err != nil {
		return fmt.Errorf("task %d of job %s cannot be started: %w", number, r.Name, err)
	}
	wanted := port(r.Job, number)
	if wanted == 0 {
		return nil
	}
	if wanted > 65535 {
		return fmt.Errorf("task %d of job %s cannot have port %d, 65535 is the last there is: lower base_port", number, r.Name, wanted)
	}
	// A task that was killed a moment ago may still have its port, and lose it while the holder is looked for.
	const pause, patience, maxUnseen = 10 * time.Millisecond, 5 * time.Second, 5
	unseen := 0
	for deadline := time.Now().Add(patience); ; time.Sleep(pause) {
		ports, err := listeners()
		if err != nil {
			return err
		}
		if len(ports[wanted]) == 0 {
			return nil
		}
		pid, ok := ports.holder(wanted)
		if !ok {
			unseen++
		}
		if ok && !isExiting(pid) || unseen >= maxUnseen || time.Now().After(deadline) {
			return portBusy(r.Job, number, ports)
		}
	}
}

// portBusy is worth trying again soon: the holder may end.
func portBusy(job *processpb.Job, number uint32, ports ports) error {
	wanted := port(job, number)
	return serve.Retryable(fmt.Errorf("task %d of job %s cannot have port %d: %s listens on it; stop that process, or give the job another base_port",
		number, job.Name, wanted, ports.describeHolder(wanted)))
}

// replaceable keeps a running task from being stopped for one that cannot be
// started.
func (r *roll) replaceable(step step, current sighting) error {
	if err := startable(r.Binary); err != nil {
		return fmt.Errorf("task %d of job %s is left as it runs, because what should replace it cannot be started: %w", step.task, r.Name, err)
	}
	wanted := port(r.Job, step.task)
	if wanted == 0 || current.blocked[step.task] {
		return nil
	}
	ports, err := listeners()
	if err != nil {
		return err
	}
	if len(ports[wanted]) > 0 && !ports.heldBy(wanted, step.processes[0]) {
		return portBusy(r.Job, step.task, ports)
	}
	return nil
}

func (r *roll) stop(ctx context.Context, step step, reason string) error {
	for _, p := range step.processes {
		r.tell(fmt.Sprintf("stopping process %d of task %d, %s", p.pid, step.task, reason))
		if err := stop(ctx, p, r.grace(), r.mayAct); err != nil {
			return err
		}
	}
	return nil
}

func (r *roll) grace() time.Duration {
	if r.Update.GetStopGrace() == nil {
		return defaultStopGrace
	}
	return r.Update.StopGrace.AsDuration()
}

// await lets some time pass for a task to become healthy. One that this roll
// started and that takes too long is stopped, so that the next push starts it
// anew; any other is left alone. No further task is touched either way.
func (r *roll) await(ctx context.Context, t *task) error {
	limit := defaultStartTimeout
	if r.Update.GetStartTimeout() != nil {
		limit = r.Update.StartTimeout.AsDuration()
	}
	if r.since[t.number].IsZero() {
		r.since[t.number] = time.Now()
		r.tell(fmt.Sprintf("waiting for task %d to be healthy", t.number))
	}
	if time.Since(r.since[t.number]) < limit {
		return r.pause(ctx, t.number)
	}
	err := fmt.Errorf("task %d of job %s is not healthy after %v: it %s", t.number, r.Name, limit, t.trouble)
	c := r.children[t.number]
	if c == nil || r.keeps(t.number) {
		return fmt.Errorf("%w; it runs as intended and is left alone, and no other task is touched until it is healthy: look at its log, or stop it to have it started again", err)
	}
	words := lastWords(c.log)
	stopping := r.stop(ctx, step{stopSurplus, t.number, t.processes}, "which did not become healthy")
	return errors.Join(fmt.Errorf("%w; it was stopped, and no other task is touched: mend this version, or raise start_timeout; %s", err, words), stopping)
}

// pause ends early when the task does.
func (r *roll) pause(ctx context.Context, number uint32) error {
	var exit chan struct{}
	if c := r.children[number]; c != nil {
		exit = c.done
	}
	waited := time.Since(r.since[number])
	timer := time.NewTimer(min(max(waited/4, shortestPause), longestPause))
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-exit:
	case <-timer.C:
	}
	return nil
}

// account tells how a child ended, for an error.
func (c *child) account() string {
	select {
	case <-c.done:
		return fmt.Sprintf("it ended with %q; %s", c.ending, lastWords(c.log))
	case <-time.After(time.Second):
		return "it no longer carries the task's identity; " + lastWords(c.log)
	}
}
