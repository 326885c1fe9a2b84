package sim

import (
	"fmt"
	"net/http"
	"slices"
	"time"

	"lehr.dev/internal/access"
	"lehr.dev/internal/app"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/pluginhost/plugin"
	"lehr.dev/internal/prodspec/generate"
	"lehr.dev/internal/sim/virtual"
	"lehr.dev/internal/store/braked"
	"lehr.dev/internal/store/sqlite"
	"lehr.dev/sdk/client"
)

// Replica is one process of Lehr.
type Replica struct {
	*virtual.Process
	// Client speaks to it as a person does; nil until it serves.
	Client *client.Client

	lab     *Lab
	handler http.Handler
	// holder is its name among replicas.
	holder string
	app    *app.App
	store  *sqlite.Store
	link   *link
	// brakes have stops count before the store has them; nil: this run has none.
	brakes   *braked.Store
	stopping chan struct{}
	// told: it was asked to end.
	told bool
	born time.Time
	// cut is what is wrong with its connection to the store.
	cut cut
	// leased is until when its leases run at least, holds: it has the
	// partition's. idle is since when it could have acted and nobody did.
	leased, idle time.Time
	holds        bool
}

// Begin starts a process that serves the store.
func (l *Lab) Begin() *Replica {
	l.born++
	r := &Replica{
		Process: l.Start(l.machine()), lab: l, stopping: make(chan struct{}), born: l.Now(),
	}
	r.Zone(zones[l.born%len(zones)])
	r.holder = fmt.Sprintf("%s-%d", r.Name(), l.born)
	l.replicas = append(l.replicas, r)
	l.failover = l.Now()
	l.tell("%s begins", r.Name())
	r.Go("main", r.main)
	if l.supervised {
		l.people.Go("supervisor", func() {
			if l.people.Wait(l.ctx, -1, r.Ended()) == nil && l.people.Wait(l.ctx, l.noticed(), nil) == nil {
				l.tend()
			}
		})
	}
	return r
}

// noticed is how long the supervisor takes to see that a process has died.
func (l *Lab) noticed() time.Duration {
	return time.Duration(l.stream("supervisor").Int64N(int64(2 * time.Second)))
}

// machine on which the next process begins: in a fleet, one without a replica.
func (l *Lab) machine() string {
	names := []string{"north", "south", "east", "west"}
	for n := l.born - 1; ; n++ {
		name := names[n%len(names)]
		if round := (n - l.born + 1) / len(names); round > 0 {
			name = fmt.Sprint(name, round+1)
		}
		taken := slices.ContainsFunc(l.replicas, func(r *Replica) bool { return r.Alive() && r.Name() == name })
		if !l.fleet() || !taken {
			return name
		}
	}
}

// sweep is how often Lehr looks at what is quiet, in this run.
func (l *Lab) sweep() time.Duration {
	sweeps := []time.Duration{30 * time.Second, time.Minute, 2 * time.Minute}
	return sweeps[l.options.Seed%uint64(len(sweeps))]
}

// watched is how often it looks at what a rollout watches: seldom, for the soaks here
// are long and runs may be paused for hours.
const watched = 20 * time.Second

// zones in which machines keep their clocks.
var zones = []*time.Location{time.UTC, zone("Europe/London"), zone("Australia/Lord_Howe"), zone("America/St_Johns")}

func zone(name string) *time.Location {
	z, err := time.LoadLocation(name)
	if err != nil {
		return time.FixedZone(name, 3600)
	}
	return z
}

// main is what "lehr serve" does.
func (r *Replica) main() {
	l := r.lab
	opened, err := sqlite.Open(l.ctx, sqlite.Options{DB: l.db, Clock: l.databaseClock(), Runtime: r.Process, Log: l.log()})
	if err != nil {
		l.tell("%s cannot open the store: %v", r.Name(), err)
		l.Kill(r.Process)
		return
	}
	r.store, r.link = opened, newLink(opened, r)
	if l.braked() {
		if r.brakes, err = braked.New(r.link, braked.Options{Beside: l.beside(), Runtime: r.Process, Log: l.log()}); err != nil {
			l.wrong("simulator", "%s cannot read the brake file: %v", r.Name(), err)
			return
		}
	}
	options := app.DefaultOptions()
	options.Store, options.Listen, options.Version, options.Log = "", "", "simulated", l.log()
	options.Register = map[intent.PartitionID]string{l.partition: l.definition}
	if home := l.deliveryHome(); home != l.partition {
		options.Register[home] = releasesDefinition
	}
	if l.underCommon() {
		options.CommonPolicy = l.commonPlace()
	}
	options.Limits.Sweep, options.Limits.Watched = l.sweep(), watched
	options.Collecting = l.collecting()
	options.Parts = app.Parts{
		Store: r.link, Runtime: r.Process, Sources: l.Sources, WithoutDelivery: !l.delivers(), WithoutWorkflows: !l.releases(), Verify: r.verify, Ask: r.advise, CallWorkflow: r.call,
		Plugins: func(run []string) plugin.Plugin { return l.Monitor.Watch(l.World.Plugin(r.Process, run)) },
		Runner:  inProcess{generate.InProcess{Limits: generate.DefaultLimits()}},
	}
	if l.previews() {
		options.Parts.Previews = pullHost{l}
	}
	if r.brakes != nil {
		options.Parts.Store = r.brakes
	}
	if l.tells() {
		options.Parts.Notify = r.receive
	}
	if l.judged() {
		options.Parts.Judge = r.judgeOf
	}
	if l.rolls() {
		options.Parts.Assess = l.assessFor(r.Process)
	}
	if l.fleet() {
		options.Parts.Replica = r.holder
	}
	r.app, err = app.New(options)
	if err == nil {
		err = r.app.Start(l.ctx)
	}
	if err != nil {
		l.tell("%s cannot start: %v", r.Name(), err)
		l.Kill(r.Process)
		return
	}
	r.handler = r.app.Handler()
	r.Client = r.as(somebody, "cli")
	_ = r.Wait(l.ctx, -1, r.stopping)
	start := l.Now()
	if err := r.app.Stop(l.ctx); err != nil {
		// One that was held up ends late: its supervisor kills it.
		l.tell("%s did not end in time: %v", r.Name(), err)
		l.mark("stop: it did not end in time")
		if !l.heldUp.After(start) {
			l.wrong("L7", "%s did not stop: %v", r.Name(), err)
		}
	}
	if err := r.free(); err != nil {
		l.wrong("L7", "%s did not close its store: %v", r.Name(), err)
	}
	l.tell("%s has ended", r.Name())
	l.Kill(r.Process)
}

// free closes its connections.
func (r *Replica) free() error {
	if r.store == nil {
		return nil
	}
	close := r.store.Close
	if r.brakes != nil {
		close = r.brakes.Close // And the file beside the store.
	}
	r.store = nil
	return close()
}

// as speaks to it as a person of that name does, from that place: through the
// guard that the network has, which believes the name.
func (r *Replica) as(name, origin string) *client.Client {
	const token = "simulated"
	guarded := access.Local{Token: token}.Guard(r.handler)
	return client.InProcess(http.HandlerFunc(func(w http.ResponseWriter, request *http.Request) {
		request.Host = "localhost"
		request.Header.Set("Authorization", "Bearer "+token)
		request.Header.Set(access.ActorHeader, name)
		request.Header.Set(access.OriginHeader, origin)
		guarded.ServeHTTP(w, request)
	}))
}

// Kill ends the process as kill -9 does.
func (r *Replica) Kill(reason string) {
	if r.Alive() {
		r.lab.tell("%s is killed: %s", r.Name(), reason)
		r.lab.Scheduler.Kill(r.Process)
	}
}

// Stop asks the process to end in order.
func (r *Replica) Stop() {
	if r.Alive() && !r.told {
		r.told = true
		r.lab.tell("%s is told to end", r.Name())
		close(r.stopping)
	}
}

// replica that was started last, if it lives; of several, the one that acts.
func (l *Lab) replica() *Replica {
	if leader := l.leading(); leader != nil && l.fleet() {
		return leader
	}
	for i := len(l.replicas) - 1; i >= 0; i-- {
		if r := l.replicas[i]; r.Alive() {
			return r
		}
	}
	return nil
}

// tend buries the dead and starts a process when none lives, as a supervisor
// of services does; of several, as many as there are to be.
func (l *Lab) tend() {
	var alive []*Replica
	for _, r := range l.replicas {
		if r.Alive() {
			alive = append(alive, r)
			continue
		}
		_ = r.free() // The process is gone.
	}
	l.replicas = alive
	for range max(l.options.Replicas, 1) - len(alive) {
		if !l.closing {
			l.Begin()
		}
	}
}
