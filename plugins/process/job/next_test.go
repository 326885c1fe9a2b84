package job

import (
	"fmt"
	"maps"
	"slices"
	"testing"

	"pgregory.net/rapid"

	processpb "lehr.dev/gen/lehr/process/v1"
)

// From any situation a roll ends with every task as intended, and meanwhile
// at most one task that served is down; unless ports move over each other,
// when a task may have to go for the port that the next one needs.
func TestEveryRollEndsAndKeepsServing(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		job := &processpb.Job{Name: "job", Replicas: rapid.Uint32Range(0, 5).Draw(t, "replicas"), BasePort: 100}
		w := world{job: job, tasks: map[uint32][]simulated{}}
		moved := rapid.Int64Range(-2, 2).Draw(t, "moved")
		for number := range rapid.Uint32Range(0, 6).Draw(t, "before") {
			for copy := range rapid.IntRange(0, 2).Draw(t, fmt.Sprintf("processes of %d", number)) {
				w.pid++
				w.tasks[number] = append(w.tasks[number], simulated{
					pid: w.pid, intended: moved == 0 && rapid.Bool().Draw(t, "intended"),
					port:    uint32(100 + int64(number) + moved + int64(1000*copy)),
					healthy: rapid.Bool().Draw(t, "healthy"),
				})
			}
		}
		serving := w.serving()
		for range 100 {
			step := next(w.sighting())
			if step.act == done {
				w.mustBeRight(t)
				return
			}
			w.carryOut(t, step)
			// A task counts while it serves; duplicates count once.
			if now := w.serving(); moved == 0 && now < min(serving, int(job.Replicas))-1 {
				t.Fatalf("%d serve after %+v, at the start %d did", now, step, serving)
			}
		}
		t.Fatalf("no end: %+v", w.tasks)
	})
}

// A roll of an elastic job ends with the tasks that were there, each as
// intended, and never takes the last one that serves; of a version that does
// not start, it takes none that serves, however often it is tried.
func TestElasticRollKeepsWhatServes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		job := &processpb.Job{Name: "job", Replicas: rapid.Uint32Range(0, 5).Draw(t, "replicas"), BasePort: 100}
		w := world{job: job, elastic: true, tasks: map[uint32][]simulated{}}
		for _, number := range rapid.SliceOfNDistinct(rapid.Uint32Range(0, 6), 1, 5, rapid.ID).Draw(t, "numbers") {
			w.pid++
			w.tasks[number] = []simulated{{pid: w.pid, port: 100 + number, intended: rapid.Bool().Draw(t, "intended"), healthy: rapid.Bool().Draw(t, "healthy")}}
		}
		numbers, serving := slices.Sorted(maps.Keys(w.tasks)), w.serving()
		starts := rapid.Bool().Draw(t, "the version starts") || slices.ContainsFunc(numbers, func(n uint32) bool { return w.tasks[n][0].intended })
		for range 100 {
			step := next(w.sighting())
			if step.act == done {
				break
			}
			if !starts && (step.act == startMissing || step.act == startSpare) {
				// The push fails, and the next one begins anew.
				w.also, w.spare = nil, nil
			} else {
				w.carryOut(t, step)
			}
			now := w.serving()
			if now < serving-1 || now == 0 && serving > 0 || !starts && now < serving {
				t.Fatalf("%d serve after %+v, at the start %d did", now, step, serving)
			}
		}
		if !starts {
			return
		}
		var left []uint32
		for _, number := range slices.Sorted(maps.Keys(w.tasks)) {
			if processes := w.tasks[number]; len(processes) == 1 && processes[0].intended && processes[0].healthy {
				left = append(left, number)
			}
		}
		if !slices.Equal(numbers, left) {
			t.Fatalf("tasks %v became %v: %+v", numbers, left, w.tasks)
		}
	})
}

type simulated struct {
	pid               int
	port              uint32
	intended, healthy bool
}

type world struct {
	job     *processpb.Job
	elastic bool
	also    map[uint32]bool
	spare   *uint32
	pid     int
	tasks   map[uint32][]simulated
}

// sighting does what group and probe do. The intended one comes first.
func (w *world) sighting() sighting {
	seen := sighting{tasks: map[uint32]*task{}, blocked: map[uint32]bool{}, elastic: w.elastic, spare: w.spare}
	present := map[uint32]*task{}
	for number, processes := range w.tasks {
		if len(processes) > 0 {
			present[number] = nil
		}
	}
	seen.wanted = demand{Job: w.job, elastic: w.elastic, also: w.also}.tasks(present)
	for number, processes := range w.tasks {
		if len(processes) == 0 {
			continue
		}
		t := &task{number: number, intended: seen.wants(number) && processes[0].intended}
		for _, p := range processes {
			t.processes = append(t.processes, process{pid: p.pid})
		}
		if !processes[0].healthy {
			t.trouble = "hangs"
		}
		seen.tasks[number] = t
	}
	for _, number := range seen.wanted {
		for other, t := range seen.tasks {
			if other != number && !t.intended && w.tasks[other][0].port == port(w.job, number) {
				seen.blocked[number] = true
			}
		}
	}
	return seen
}

func (w *world) carryOut(t *rapid.T, step step) {
	switch step.act {
	case stopToReplace:
		w.also = map[uint32]bool{step.task: true}
	case startSpare:
		w.spare = &step.task
	}
	switch step.act {
	case startMissing, startSpare:
		for number, processes := range w.tasks {
			for _, p := range processes {
				if p.port == port(w.job, step.task) && p.port < 1000 {
					t.Fatalf("task %d is started although task %d has its port: %+v", step.task, number, w.tasks)
				}
			}
		}
		w.pid++
		w.tasks[step.task] = []simulated{{pid: w.pid, port: port(w.job, step.task), intended: true}}
	case awaitHealth:
		w.tasks[step.task][0].healthy = true
	case stopToReplace, stopSurplus:
		for _, stopped := range step.processes {
			var left []simulated
			for _, p := range w.tasks[step.task] {
				if p.pid != stopped.pid {
					left = append(left, p)
				}
			}
			w.tasks[step.task] = left
		}
	}
}

func (w *world) serving() (count int) {
	for _, processes := range w.tasks {
		if len(processes) > 0 && processes[0].healthy {
			count++
		}
	}
	return count
}

func (w *world) mustBeRight(t *rapid.T) {
	for number := range uint32(8) {
		processes := w.tasks[number]
		switch {
		case number >= w.job.Replicas && len(processes) > 0:
			t.Fatalf("task %d is left", number)
		case number < w.job.Replicas && (len(processes) != 1 || !processes[0].intended || !processes[0].healthy):
			t.Fatalf("task %d is %+v", number, processes)
		}
	}
}
