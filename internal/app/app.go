// Package app is the only wiring: it opens the store, starts plugins, runs a
// pipeline and an enforcer for every registered partition under its lease,
// and serves the API. It decides nothing; each part is handed what it needs.
// cmd/lehr calls it, and a simulator drives it in process with parts of its
// own, without sockets or children.
package app

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	intentpb "lehr.dev/gen/lehr/intent/v1"
	"lehr.dev/internal/access"
	"lehr.dev/internal/external"
	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/ground/loop"
	"lehr.dev/internal/ground/pushlog"
	"lehr.dev/internal/ground/quota"
	"lehr.dev/internal/notify"
	"lehr.dev/internal/pluginhost/plugin"
	"lehr.dev/internal/prodspec"
	"lehr.dev/internal/prodspec/generate"
	"lehr.dev/internal/prodspec/source"
	"lehr.dev/internal/server"
	"lehr.dev/internal/store"
	"lehr.dev/internal/store/braked"
	"lehr.dev/internal/store/postgres"
	"lehr.dev/internal/store/sqlite"
)

// App is one server process, or one simulated one.
type App struct {
	options Options
	log     *slog.Logger
	outage  *absence
	runtime loop.Runtime
	holder  string

	store store.All
	// place is locked, where the store itself is not.
	place   io.Closer
	fleet   fleet
	schemas *schemas
	// cached is the store with the content that was read last.
	cached cachedStore
	// previews are the plans under way.
	previews *previews
	// policy is the access policy as last read.
	policy   atomic.Pointer[access.Policy]
	plugins  func(intent.PartitionID, *intentpb.PluginBinding) plugin.Plugin
	pool     *pool
	api      *server.Server
	listener *listener
	// brakes that the store does not have; nil: another's store is used.
	brakes *braked.Store
	// sender of checkpoints; nil: they are sent nowhere.
	sender *sender
	// written are the documents that lie in repositories.
	written *repositories
	logins  atomic.Pointer[logins]
	// elsewhere is what sources that are no folders may use.
	elsewhere elsewhere
	// hub tells of changes in folders; nil where sources are not on the disk.
	hub *source.Hub
	// turns are shared by all builds; nil in a simulation: nobody waits.
	turns *generate.Turns
	// common is the file of the common policy; nil: none was named. refusedMatches says why
	// definitions that match it are not registered; the goroutine that follows it has it.
	common         *prodspec.PolicyFile
	refusedMatches map[string]string
	// tell delivers notifications; nil where nobody is told.
	tell func(ctx context.Context, target string, message notify.Message) error
	// inquires: what rules ask outside is asked. In a simulation it is not.
	inquires bool
	// traces go to a collector; nil: to nobody.
	traces *traces
	// quotas of callers.
	quotas      *quota.Keeper
	connections *quota.Connections
	// measures are of the process; those of partitions are in their states.
	measures  measures
	heartbeat heartbeat
	// metricsHandler answers whoever asks for metrics.
	metricsHandler func() http.Handler
	tail           tail
	// followed: the registered partitions were read once.
	followed atomic.Bool

	// guarded are the files that are nobody's input, until unguard is called.
	guarding sync.Mutex
	guarded  [2][]string
	unguard  func()

	cancel context.CancelFunc
	// acting ends when all partitions' actors have.
	acting loop.Group

	mutex  sync.Mutex
	states map[intent.PartitionID]*state
	// firstEpochs is the first epoch of this process for each partition.
	firstEpochs map[intent.PartitionID]uint64
	// ending are the last states of partitions that were removed.
	ending map[intent.PartitionID]*state
}

// New returns an app that does nothing yet.
func New(options Options) (*App, error) {
	if err := options.Validate(); err != nil {
		return nil, err
	}
	runtime := options.Parts.Runtime
	if runtime == nil {
		runtime = loop.Real()
	}
	host, _ := os.Hostname()
	holder := fmt.Sprintf("%s:%d", host, os.Getpid())
	switch {
	case options.Parts.Replica != "":
		holder = options.Parts.Replica
	case options.Database != "":
		holder += ":" + rand.Text()[:8] // First processes of containers have one name.
	}
	a := &App{
		options: options, runtime: runtime,
		holder: holder, states: map[intent.PartitionID]*state{}, fleet: newFleet(),
		ending: map[intent.PartitionID]*state{}, firstEpochs: map[intent.PartitionID]uint64{},
		elsewhere: elsewhere{hooks: make(chan struct{}, maxHooks)},
	}
	log := options.Log
	if options.Listen != "" {
		log = a.tail.keeping(log)
	}
	outage := newOutage(slog.New(redacting{log.Handler()}), runtime.Now)
	a.log, a.outage = slog.New(outage), outage.absence
	a.metricsHandler = sync.OnceValue(a.newMetrics)
	return a, nil
}

// Start opens everything and returns when the API answers. After an error
// nothing is left open.
func (a *App) Start(ctx context.Context) (err error) {
	defer func() {
		if err != nil {
			a.close()
		}
	}()
	if err := a.open(ctx); err != nil {
		return err
	}
	actor := intent.Actor{Name: a.holder, Origin: intent.ServerOrigin}
	for _, id := range slices.Sorted(maps.Keys(a.options.Register)) {
		if err := a.store.AddPartition(ctx, id, a.options.Register[id], "named when the server was started", actor); err != nil {
			return err
		}
	}
	if err := a.listen(); err != nil {
		return err
	}
	running, cancel := context.WithCancel(context.WithoutCancel(ctx))
	a.cancel = cancel
	if a.shares() {
		if err := a.store.Renew(ctx, a.holder, leasePeriod); err != nil {
			return err
		}
		a.acting.Go(a.runtime, "leases", func() { a.live(running) })
		a.acting.Go(a.runtime, "free leases", func() { a.seek(running) })
	}
	if a.options.Access != "" {
		a.acting.Go(a.runtime, "access policy", func() { a.followPolicy(running) })
	}
	if a.common != nil {
		a.acting.Go(a.runtime, "common policy", func() { a.followCommon(running) })
	}
	if a.options.PluginServers != "" && a.pool != nil {
		a.acting.Go(a.runtime, "plugin servers", func() { a.followServers(running) })
	}
	if a.options.Sources != "" {
		a.acting.Go(a.runtime, "policy of sources", func() { a.elsewhere.follow(running, a) })
	}
	if a.options.Quotas != "" {
		a.acting.Go(a.runtime, "quotas", func() { a.followQuotas(running) })
	}
	if a.hub != nil {
		a.acting.Go(a.runtime, "mirrors", func() { a.sweep(running) })
		a.acting.Go(a.runtime, "own files", func() { a.followOwn(running) })
	}
	if a.sender != nil {
		a.acting.Go(a.runtime, "checkpoints", func() { a.sender.run(running) })
	}
	if a.brakes != nil {
		a.acting.Go(a.runtime, "brakes", func() { a.brakes.Run(running) })
	}
	a.acting.Go(a.runtime, "partitions", func() { a.follow(running) })
	return nil
}

// alone reports whether the caller is the one user of a server that has no
// other.
func (a *App) alone(ctx context.Context) bool {
	caller, ok := store.CallerOf(ctx)
	return ok && caller.Local && a.options.Access == ""
}

// open makes the parts.
func (a *App) open(ctx context.Context) error {
	a.guardOwn()
	a.store = a.options.Parts.Store
	if a.store == nil {
		if err := a.openStore(ctx); err != nil {
			return err
		}
	} else if brakes, ok := a.store.(*braked.Store); ok {
		a.brakes = brakes
	}
	if err := a.readPolicy(ctx); err != nil {
		return err
	}
	if err := a.elsewhere.read(a.options.Sources); err != nil {
		return err
	}
	if err := a.openCommon(ctx); err != nil {
		return err
	}
	if a.options.Checkpoints.To != "" {
		a.sender = newSender(a)
	}
	if a.options.Parts.Sources == nil {
		a.hub = source.NewHub(a.log)
		a.options.Parts.Sources = source.Disk{Hub: a.hub}
	}
	if a.tell = a.options.Parts.Notify; a.tell == nil && (a.options.Parts.Runner == nil || a.options.Notifications != "") {
		if _, err := notify.ReadPolicy(a.options.Notifications); err != nil {
			return err
		}
		a.tell = (&notify.Sender{Path: a.options.Notifications, Roots: a.options.Roots}).Send
	}
	a.cached = newKept(a.store)
	a.schemas, a.previews = newSchemas(a.store), newPreviews(a.cached)
	if a.options.Parts.Runtime == nil {
		var err error
		if a.traces, err = a.newTraces(ctx, a.options.Traces); err != nil {
			return err
		}
	}
	if err := a.openPlugins(); err != nil {
		return err
	}
	a.guardOwn()
	if a.options.Parts.Runner == nil {
		if _, err := external.ReadPolicy(a.options.ExternalChecks); err != nil {
			return err
		}
		a.inquires = true
		running, err := a.runner()
		if err != nil {
			return err
		}
		a.turns = generate.NewTurns(0)
		running.Turns = a.turns
		a.options.Parts.Runner, a.options.Parts.Trial = generate.NewProcess(running), prodspec.InChild(running)
	}
	limits, err := quota.Read(a.options.Quotas)
	if err != nil {
		return err
	}
	a.quotas = quota.NewKeeper(limits, a.runtime.Now)
	a.written = &repositories{app: a}
	var tried server.Trials
	if a.options.Parts.Trial != nil {
		tried = &trials{app: a}
	}
	a.api = server.New(server.Options{
		Repositories: a.written, Trials: tried, Plan: a.planCandidate, PlanPolicy: a.planPolicy, Quotas: a.quotas,
		Store: a.store, Schemas: a.schemas, Runtime: a.runtime, Health: a.health, Problems: a.problems,
		Identify: access.CallerOf, Location: a.location(), Version: a.options.Version, Log: a.log, Login: a.exchange,
		// Who bears the launch token is the one user of a local server.
		Alone: a.alone, Sweep: a.options.Limits.Sweep, Measure: &a.measures.API, Diagnose: a.diagnose, Trace: a.tracer(), PushLog: a.readPushLog, Plugin: a.askedPlugin,
	})
	return nil
}

// openPlugins makes the pool, unless another answers for all plugins.
func (a *App) openPlugins() error {
	if run := a.options.Parts.Plugins; run != nil {
		a.plugins = func(_ intent.PartitionID, binding *intentpb.PluginBinding) plugin.Plugin { return run(binding.Run) }
		return nil
	}
	list, err := readServers(a.options.PluginServers)
	if err != nil {
		return err
	}
	folder := a.options.Store + ".plugins"
	if a.options.Store == "" {
		folder = ""
	}
	if a.pool, err = newPool(folder, contents{a.previews}, a.log); err != nil {
		return err
	}
	a.pool.strict, a.pool.assets, a.pool.schemas = a.options.Access != "", a.previews, a.schemas
	a.pool.useServers(list)
	a.plugins = a.pool.bound
	return nil
}

// openStore opens a file, or a database.
func (a *App) openStore(ctx context.Context) (err error) {
	if err := sqlite.MakeFolder(filepath.Dir(a.options.Store)); err != nil {
		return fault.New(fault.Unavailable, "making the store's folder: %w", err).WithHint("name a place you may write with --store")
	}
	if a.options.Database == "" {
		opened, err := ifOpened(sqlite.Open(ctx, sqlite.Options{Path: a.options.Store, Runtime: a.runtime, Log: a.log, Measure: &a.measures.Store}))
		return a.brake(opened, err)
	}
	if a.place, err = sqlite.Reserve(a.options.Store); err != nil {
		return err
	}
	opened, err := ifOpened(postgres.Open(ctx, postgres.Options{URL: a.options.Database, Witness: a.options.Store + ".witness", Runtime: a.runtime, Log: a.log, Measure: &a.measures.Store}))
	return a.brake(opened, err)
}

// brake has stops count before the store has them.
func (a *App) brake(opened store.All, err error) error {
	if err != nil {
		return err
	}
	a.store = opened // It is closed where what follows fails.
	if a.brakes, err = braked.New(opened, braked.Options{Beside: a.options.Store, Runtime: a.runtime, Log: a.log}); err == nil {
		a.store = a.brakes
	}
	return err
}

// ifOpened is nil, and no pointer to nothing, after an error.
func ifOpened[S store.All](opened S, err error) (store.All, error) {
	if err != nil {
		return nil, err
	}
	return opened, nil
}

// Handler serves the API, without a guard, to callers in this process.
func (a *App) Handler() http.Handler { return access.InProcess(a.api.Handler()) }

// Store is the open store.
func (a *App) Store() store.All { return a.store }

// location of the store, for people.
func (a *App) location() string {
	if a.options.Database != "" {
		return postgres.Name(a.options.Database)
	}
	return a.options.Store
}

// Remote is the address at which other machines are served; empty: at none.
func (a *App) Remote() string {
	if a.listener == nil {
		return ""
	}
	return a.listener.remote
}

// Address says how to reach the API from this machine; zero without a listener.
func (a *App) Address() access.Rendezvous {
	if a.listener == nil {
		return access.Rendezvous{}
	}
	return a.listener.rendezvous
}

// Monitoring is the address of metrics and health; empty: there is none of its
// own.
func (a *App) Monitoring() string {
	if a.listener == nil {
		return ""
	}
	return a.listener.monitoring
}

// Routes lists what the listener answers to; none without one.
func (a *App) Routes() []access.Route {
	if a.listener == nil {
		return nil
	}
	return slices.Clone(a.listener.routes.List())
}

// actorsEnd bounds how long Stop waits for pushes that were told to stop.
const actorsEnd = 15 * time.Second

// Stop ends everything that Start began; production stays as it is.
func (a *App) Stop(ctx context.Context) error {
	if a.cancel != nil {
		a.cancel()
	}
	a.listener.stopAnnouncing(a.options.Store)
	ctx, cancel := loop.WithTimeout(ctx, a.runtime, actorsEnd)
	defer cancel()
	err := a.acting.Wait(ctx, a.runtime)
	if err != nil {
		err = fault.New(fault.Internal, "the partitions' actors did not end within %s", actorsEnd)
	}
	a.retire()
	if a.sender != nil && err == nil {
		a.sender.send(context.WithoutCancel(ctx), lastCheckpointPatience)
	}
	return errors.Join(err, a.close())
}

// close frees what was opened, in reverse.
func (a *App) close() error {
	a.listener.close(a.options.Store)
	if a.pool != nil {
		a.pool.close()
	}
	if a.written != nil {
		a.written.close()
	}
	a.traces.close()
	var err error
	if a.hub != nil {
		err = a.hub.Close()
	}
	if a.store != nil && a.options.Parts.Store == nil {
		err = errors.Join(err, a.store.Close())
	}
	if a.place != nil {
		err = errors.Join(err, a.place.Close())
	}
	a.freeOwn()
	return err
}

// problems lists what is wrong with this app as a whole.
func (a *App) problems() (list []string) {
	for _, problem := range []string{a.store.AuditTrouble(), a.sender.problem()} {
		if problem != "" {
			list = append(list, problem)
		}
	}
	if problem := a.commonProblem(); problem != "" {
		list = append(list, problem)
	}
	if a.brakes != nil {
		for _, stop := range a.brakes.Unwritten() {
			list = append(list, fmt.Sprintf("a stop by %s is not in the store: %s. %s", stop.Owner.Name, stop.Reason, stop.Reach.Words()))
		}
	}
	return list
}

// health lists the partitions that this app acts for.
func (a *App) health() []server.Health {
	a.mutex.Lock()
	defer a.mutex.Unlock()
	var list []server.Health
	for id, state := range a.states {
		if state.elsewhere() {
			list = append(list, server.Health{Partition: id, Elsewhere: true})
			continue
		}
		problem := state.problem()
		if trouble := a.store.AuditTrouble(); trouble != "" {
			problem = strings.TrimPrefix(problem+"; audit: "+trouble, "; ")
		}
		list = append(list, server.Health{Partition: id, Acting: problem == "", Problem: problem, Waiting: a.waiting(id), Building: state.measure.Pipeline.Step.At()})
	}
	return list
}

// readPushLog returns what the plugin told of a push that this process has under way; not ok: it has none of
// that name.
func (a *App) readPushLog(partition intent.PartitionID, push intent.PushID) (pushlog.Log, bool) {
	a.mutex.Lock()
	state := a.states[partition]
	a.mutex.Unlock()
	if state == nil {
		return pushlog.Log{}, false
	}
	return state.pushLog.Read(push)
}
