package job

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"time"

	"google.golang.org/protobuf/proto"

	processpb "lehr.dev/gen/lehr/process/v1"
)

// demand is a job and what decides which of its tasks there should be.
type demand struct {
	*processpb.Job
	// elastic: production says which tasks there are, see elastic.go.
	elastic bool
	// also wanted of an elastic job, though they may not be there just now.
	also map[uint32]bool
	// spare is the task that an elastic job has for the length of a roll.
	spare *uint32
	// secrets that its tasks should have.
	secrets secrets
}

// sighting is what was seen of one job.
type sighting struct {
	tasks map[uint32]*task
	// wanted tasks by number, in order.
	wanted []uint32
	// elastic and spare are those of the demand.
	elastic bool
	spare   *uint32
	// blocked tasks need a port that another task of the job has to give up.
	blocked map[uint32]bool
	// secrets are those of the demand.
	secrets secrets
}

// task is what was seen of one task: at least one process.
type task struct {
	number uint32
	// processes that carry the task's identity; the first is the task, the
	// others are duplicates.
	processes []process
	// intended: the first runs what it should.
	intended bool
	// trouble says why it is not healthy; empty: it is.
	trouble string
	// reported is the version that its health check told.
	reported string
}

func (t *task) main() process { return t.processes[0] }

// runs tells what the task runs.
func (t *task) runs(job *processpb.Job, secrets secrets) *processpb.Task {
	seen := t.main().runs(job, secrets)
	seen.Duplicates = uint32(len(t.processes) - 1)
	return seen
}

const (
	// maxProbes is how many tasks are asked at once, over all jobs of a batch.
	maxProbes = 64
	// probeWithin is how long asking them all may take: Lehr waits 10 s for a
	// difference, and tasks that hang must not keep it from those of others.
	probeWithin = 7 * time.Second
)

// look scans the machine once, and asks all tasks of the jobs at once how
// they are.
func look(ctx context.Context, demands []demand) ([]sighting, error) {
	all, err := processes()
	if err != nil {
		return nil, err
	}
	ports, err := listeners()
	if err != nil {
		return nil, err
	}
	byJob := map[string][]process{}
	for _, p := range all {
		byJob[p.job] = append(byJob[p.job], p)
	}
	sightings := make([]sighting, len(demands))
	slots := make(chan struct{}, maxProbes)
	var probes sync.WaitGroup
	probing, cancel := context.WithTimeout(ctx, probeWithin)
	defer cancel()
	for i, wanting := range demands {
		sightings[i] = group(wanting, byJob[wanting.Name], ports)
		for _, t := range sightings[i].tasks {
			if !sightings[i].wants(t.number) {
				continue
			}
			slots <- struct{}{}
			probes.Go(func() {
				t.trouble, t.reported = probe(probing, wanting.Job, t, ports)
				<-slots
			})
		}
	}
	probes.Wait()
	return sightings, ctx.Err()
}

// wants reports whether there should be a task of the number.
func (s sighting) wants(number uint32) bool {
	_, ok := slices.BinarySearch(s.wanted, number)
	return ok
}

// group sorts a job's processes into tasks. Of several with one identity the
// one that runs as intended, listens and is the oldest comes first: it stays.
func group(wanting demand, found []process, ports ports) sighting {
	job := wanting.Job
	current := sighting{tasks: map[uint32]*task{}, elastic: wanting.elastic, spare: wanting.spare, blocked: map[uint32]bool{}, secrets: wanting.secrets}
	for _, p := range found {
		if current.tasks[p.task] == nil {
			current.tasks[p.task] = &task{number: p.task}
		}
		current.tasks[p.task].processes = append(current.tasks[p.task].processes, p)
	}
	current.wanted = wanting.tasks(current.tasks)
	for number, t := range current.tasks {
		wanted := wanting.secrets.intended(job, number)
		rank := func(p process) int {
			switch {
			case !proto.Equal(p.runs(job, wanting.secrets), wanted):
				return 2
			case port(job, number) != 0 && !ports.heldBy(port(job, number), p):
				return 1
			}
			return 0
		}
		slices.SortStableFunc(t.processes, func(a, b process) int {
			return cmp.Or(cmp.Compare(rank(a), rank(b)), cmp.Compare(a.started, b.started), cmp.Compare(a.pid, b.pid))
		})
		t.intended = current.wants(number) && rank(t.main()) < 2
	}
	for _, number := range current.wanted {
		wanted := port(job, number)
		if len(ports[wanted]) == 0 {
			continue
		}
		for _, t := range current.tasks {
			if t.number != number && !t.intended && ports.heldBy(wanted, t.main()) {
				current.blocked[number] = true
			}
		}
	}
	return current
}
