package sim

import (
	"context"
	"io"
	"slices"
	"time"

	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/sim/monitor"
	"lehr.dev/internal/sim/world"
	"lehr.dev/internal/store"
	"lehr.dev/sdk/client"
)

// Kinds of all disturbances, in a fixed order.
func Kinds() []Kind {
	list := make([]Kind, len(kinds))
	for i, k := range kinds {
		list[i] = k.kind
	}
	return list
}

// Scene is a lab in which nothing happens by itself.
type Scene struct {
	Seed uint64
	// Files of the partition "sim" by name; lehr.yaml is its definition.
	Files map[string]string
	// ClocksGoWrong: they will.
	ClocksGoWrong bool
	Trace         io.Writer
}

// folder of a scene's files.
const folder = "/sim/"

// Open returns a lab in which no process runs yet. What is asked of it is to
// be asked between its steps, not by tasks.
func Open(ctx context.Context, s Scene) (*Lab, error) {
	l, err := newLab(ctx, Options{Seed: s.Seed, Density: 1, Trace: s.Trace})
	if err != nil {
		return nil, err
	}
	if s.ClocksGoWrong {
		l.disturbances = []Disturbance{{Kind: ClockJump}}
	}
	// From here on it is somebody's partition: nothing compares it with the
	// simulator's own intent.
	l.options.Definition = l.definition
	l.steps = 2
	if err := l.watch(); err != nil {
		l.close()
		return nil, err
	}
	l.WriteFiles(s.Files)
	l.people.Go("undertaker", func() {
		for l.people.Wait(l.ctx, time.Second, nil) == nil {
			l.bury()
		}
	})
	return l, nil
}

// Close ends all that still runs.
func (l *Lab) Close() { l.close() }

// bury frees what processes held that are dead.
func (l *Lab) bury() {
	for _, r := range l.replicas {
		if !r.Alive() && r.store != nil {
			_ = r.store.Close()
			r.store = nil
		}
	}
	l.replicas = slices.DeleteFunc(l.replicas, func(r *Replica) bool { return !r.Alive() && r.store == nil })
}

// Pass lets virtual time pass, unless something is found wrong.
func (l *Lab) Pass(d time.Duration) { l.run(l.Now().Add(d)) }

// Age is how much virtual time has passed.
func (l *Lab) Age() time.Duration { return l.Now().Sub(l.start) }

// Tell adds a line to the story, Story tells it from a line on.
func (l *Lab) Tell(format string, arguments ...any) { l.tell(format, arguments...) }

// Story is told from a line on.
func (l *Lab) Story(start int) []string { return l.story[min(start, len(l.story)):] }

// Ask lets a person do something with the process that serves, for at most so
// long.
func (l *Lab) Ask(most time.Duration, do func(ctx context.Context, c *client.Client)) error {
	replica := l.replica()
	if replica == nil || replica.Client == nil {
		return fault.New(fault.Unavailable, "no process of Lehr serves")
	}
	ctx, cancel := context.WithCancel(l.ctx)
	defer cancel()
	done := false
	l.people.Go("person", func() {
		do(ctx, replica.Client)
		done = true
		l.Halt()
	})
	for end := l.Now().Add(most); !done && l.Now().Before(end) && !l.failed() && l.ctx.Err() == nil; {
		l.Run(end)
	}
	if !done {
		return fault.New(fault.Unavailable, "there was no answer in %s", most)
	}
	return nil
}

// Living are the processes of Lehr, oldest first.
func (l *Lab) Living() (list []*Replica) {
	for _, r := range l.replicas {
		if r.Alive() {
			list = append(list, r)
		}
	}
	return list
}

// Serving reports whether a process answers.
func (l *Lab) Serving() bool {
	r := l.replica()
	return r != nil && r.Client != nil
}

// Arm lets a disturbance strike at a point.
func (l *Lab) Arm(d Disturbance) { l.armed = append(l.armed, armed{d, d.Skip}) }

// Armed counts those that have not struck yet.
func (l *Lab) Armed() int { return len(l.armed) }

// RefuseCalls makes the next calls of a name to the store fail before they are
// carried out, LoseReplies after.
func (l *Lab) RefuseCalls(name string, count int) {
	l.store.refuse, l.store.lose, l.store.only, l.store.left = true, false, name, count
}

// LoseReplies of the next calls of a name.
func (l *Lab) LoseReplies(name string, count int) {
	l.store.refuse, l.store.lose, l.store.only, l.store.left = false, true, name, count
}

// FillStore lets nothing be written for a while.
func (l *Lab) FillStore(d time.Duration) { l.store.full = l.Now().Add(d) }

// Verdicts that validations may be given.
var Verdicts = []string{"good", "bad", "inconclusive", "broken", "waiting", "absent"}

// Judge lets all validations say one of Verdicts from now on. Good ones wait for half a
// minute of samples.
func (l *Lab) Judge(verdict string) {
	const always = 100 * 365 * 24 * time.Hour
	l.unclear, l.unclearUntil = verdict, l.Now().Add(always)
	if verdict == "good" {
		l.unclear = ""
	}
}

// Rollout is the newest run of a rollout; false: none was begun.
func (l *Lab) Rollout(name string) (intent.Rollout, bool) {
	runs, err := l.reading.Rollouts(l.ctx, l.partition, store.RolloutFilter{Name: name})
	if err != nil || len(runs) == 0 {
		return intent.Rollout{}, false
	}
	return runs[0], true
}

// Mend ends all that is wrong with store, sources, clocks and plugins. What
// exists stays as it is.
func (l *Lab) Mend() {
	l.armed, l.store = nil, storeTrouble{}
	l.World.Heal()
	l.Sources.Fail(nil)
	l.Sources.Torn(false)
	l.Sources.Serve(-1)
	l.Monitor.ClockMoved()
	for _, r := range l.Living() {
		r.Correct()
	}
}

// WriteFiles of the partition, by name.
func (l *Lab) WriteFiles(files map[string]string) {
	if len(files) == 0 {
		return
	}
	paths := map[string]string{}
	for name, content := range files {
		paths[folder+name] = content
	}
	l.changed = l.Now()
	l.Sources.Write(paths)
}

// RemoveFile of the partition.
func (l *Lab) RemoveFile(name string) { l.Sources.Remove(folder + name) }

// Unsettled says what production and reports lack of what head asks for.
func (l *Lab) Unsettled() []string { return l.unsettled() }

// Report that is stored of an asset.
func (l *Lab) Report(asset intent.AssetID) (intent.Report, error) {
	return l.reading.Report(l.ctx, l.partition, asset)
}

// Head is what is served; zero: nothing yet.
func (l *Lab) Head() intent.IncarnationID {
	partition, err := l.reading.Partition(l.ctx, l.partition)
	if err != nil {
		return intent.IncarnationID{}
	}
	return partition.Head
}

// OnEffect is told of every change of production, and after it the monitors.
func (l *Lab) OnEffect(told func(world.Effect)) {
	next := l.World.OnEffect
	l.World.OnEffect = func(e world.Effect) {
		told(e)
		next(e)
	}
}

// Violations that were found.
func (l *Lab) Violations() []monitor.Violation {
	list := append(l.Monitor.Violations(), l.found...)
	for _, panicked := range l.Panics() {
		list = append(list, monitor.Violation{Property: "S12", At: l.Now(), What: "a panic that nothing contained: " + panicked})
	}
	return list
}
