package app

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"time"

	"lehr.dev/client"
	"lehr.dev/document"
	"lehr.dev/external"
	"lehr.dev/fault"
	"lehr.dev/intent"
	"lehr.dev/loop"
	"lehr.dev/prodspec"
	"lehr.dev/prodspec/definition"
	"lehr.dev/prodspec/generate"
	"lehr.dev/prodspec/inquiry"
	"lehr.dev/schema"
	"lehr.dev/server"
	"lehr.dev/store"
	"lehr.dev/store/postgres"
	"lehr.dev/store/sqlite"
)

// OpenStore returns a client that works in this process on a store's file, or
// on the database at a URL, beside running servers or without any: for reading,
// and for the brakes. It never makes a store. The actor is this machine's local
// user, who may do anything that the file's or the database's own rights allow.
func OpenStore(ctx context.Context, name string, by intent.Actor) (*client.Client, func() error, error) {
	opened, err := openBeside(ctx, name)
	if err != nil {
		return nil, nil, err
	}
	api := server.New(server.Options{
		Store: opened, Schemas: newSchemas(opened), Runtime: loop.Real(), Location: StoreName(name),
		Identify: func(context.Context) (store.Caller, error) { return store.Caller{Actor: by, Local: true}, nil },
		// Who may write the file needs nobody's leave.
		Alone: func(context.Context) bool { return true },
	})
	return client.InProcess(api.Handler()), opened.Close, nil
}

// StoreName is what people may see of a store's name: no password.
func StoreName(name string) string {
	if postgres.Is(name) {
		return postgres.Name(name)
	}
	return name
}

// openBeside opens a file, or a database, that others may serve meanwhile.
func openBeside(ctx context.Context, name string) (store.All, error) {
	log := slog.New(slog.DiscardHandler)
	if postgres.Is(name) {
		return ifOpened(postgres.OpenBeside(ctx, postgres.Options{URL: name, Log: log}))
	}
	if err := there(name); err != nil {
		return nil, err
	}
	return ifOpened(sqlite.OpenUnlocked(ctx, sqlite.Options{Path: name, Log: log}))
}

// there is NotFound unless there is such a file.
func there(name string) error {
	if _, err := os.Stat(name); err != nil {
		return fault.New(fault.NotFound, "there is no store at %s: %w", name, err).
			WithHint("name it with --store FILE or --database URL, or start a server with: lehr serve")
	}
	return nil
}

// Building is what is built, and how. Files that are not named allow nothing.
type Building struct {
	Definition string
	// Generators is the file that lists the partitions which may have native
	// programs run.
	Generators string
	// Sources is the file that says which secrets and networks sources may use.
	Sources string
	// PluginServers is the file that lists those which may be dialled.
	PluginServers string
	// ExternalChecks is the file that says what rules and checks may ask outside; without
	// it, public URLs only.
	ExternalChecks string
	// Verify runs it again elsewhere; what differs is a finding.
	Verify bool
	// Documents reads those that a server holds; nil: none is asked.
	Documents func(ctx context.Context, partition intent.PartitionID, name string) (document.Document, error)
}

// Build runs a definition's pipeline once, and keeps nothing but compiled
// modules.
func Build(ctx context.Context, of Building) (prodspec.Built, error) {
	return of.run(ctx, prodspec.Build)
}

// Lint is Build, and warns of what is probably not meant.
func Lint(ctx context.Context, of Building) (prodspec.Built, error) {
	return of.run(ctx, prodspec.Lint)
}

func (of Building) run(ctx context.Context, build func(context.Context, prodspec.Program, time.Time) (prodspec.Built, error)) (prodspec.Built, error) {
	elsewhere, end, err := once(of.Sources)
	if err != nil {
		return prodspec.Built{}, err
	}
	defer end()
	elsewhere.Documents = of.Documents
	if _, err := external.ReadPolicy(of.ExternalChecks); err != nil {
		return prodspec.Built{}, err
	}
	real := loop.Real()
	options := runner(ownModules(), of.Generators)
	program := prodspec.Program{
		Definition: of.Definition, Runner: generate.NewProcess(options), Elsewhere: elsewhere,
		Outside: inquiry.New(of.ExternalChecks, real.Now).Ask,
	}
	if !of.Verify {
		return build(ctx, program, real.Now())
	}
	options.Elsewhere = true
	return prodspec.Verify(ctx, program, generate.NewProcess(options), real)
}

// JSONSchema is that of a lehr.yaml, when no type is named, or of a type in JSON
// or YAML: a built-in one, or one of the definition, which may be empty.
func JSONSchema(ctx context.Context, definitionPath, sources, typeName string) (map[string]any, []intent.Finding, error) {
	if typeName == "" {
		return definition.Schema(), nil, nil
	}
	set := schema.Builtin()
	if definitionPath != "" {
		elsewhere, end, err := once(sources)
		if err != nil {
			return nil, nil, err
		}
		defer end()
		program := prodspec.Program{Definition: definitionPath, Runner: generate.NewProcess(runner(ownModules(), "")), Elsewhere: elsewhere}
		var findings []intent.Finding
		if set, findings, err = prodspec.Types(ctx, program, loop.Real().Now()); err != nil || len(findings) > 0 {
			return nil, findings, err
		}
	}
	name, err := set.Resolve(typeName)
	if err != nil {
		return nil, nil, err
	}
	made, err := set.JSONSchema(name)
	return made, nil, err
}

// ReadDefinition reads a definition, wherever it lies.
func ReadDefinition(ctx context.Context, place, sources string) ([]byte, error) {
	elsewhere, end, err := once(sources)
	if err != nil {
		return nil, err
	}
	defer end()
	return prodspec.ReadDefinition(ctx, prodspec.Program{Definition: place, Elsewhere: elsewhere}, loop.Real().Now())
}

// Plan is a partition in a store of its own, compared with production.
type Plan struct {
	Built  prodspec.Built
	Client *client.Client
	Close  func()
}

// planPatience is how long plugins may answer for no further asset.
const planPatience = 5 * time.Second

// NewPlan builds a definition, compares it with production under a stop (S21:
// nothing is pushed), and returns when every asset was looked at. Close ends
// what it started.
func NewPlan(ctx context.Context, of Building, holds []intent.Hold, by intent.Actor) (_ *Plan, err error) {
	plan := &Plan{Close: func() {}}
	if plan.Built, err = Build(ctx, of); err != nil || !plan.Built.OK() {
		return plan, err
	}
	memory, err := sqlite.Memory()
	if err != nil {
		return nil, err
	}
	log := slog.New(slog.DiscardHandler)
	opened, err := sqlite.Open(ctx, sqlite.Options{DB: memory, Log: log})
	if err != nil {
		memory.Close()
		return nil, err
	}
	options := DefaultOptions()
	options.Store, options.Listen, options.Log = "", "", log
	fetched, end, err := once(of.Sources)
	if err != nil {
		return nil, err
	}
	options.Parts, options.PluginServers, options.Generators = Parts{Store: opened, Documents: of.Documents}, of.PluginServers, of.Generators
	options.Sources, options.Fetched = of.Sources, fetched.Folder
	options.ExternalChecks = of.ExternalChecks
	planned, err := New(options)
	if err != nil {
		return nil, err
	}
	plan.Close = func() {
		_ = planned.Stop(context.Background())
		end()
		opened.Close()
		memory.Close()
	}
	if err := plan.look(ctx, planned, of.Definition, holds, by); err != nil {
		plan.Close()
		return nil, err
	}
	return plan, nil
}

// look brakes first, then starts, and waits until all is known.
func (p *Plan) look(ctx context.Context, planned *App, definition string, holds []intent.Hold, by intent.Actor) error {
	opened := planned.options.Parts.Store
	partition := p.Built.Partition
	if err := opened.AddPartition(ctx, partition, definition, "a plan", by); err != nil {
		return err
	}
	stop := intent.Stop{Owner: by, Reason: "a plan changes nothing", Since: planned.runtime.Now()}
	if err := opened.SetStop(ctx, stop); err != nil {
		return err
	}
	for _, hold := range holds {
		if err := opened.SetHold(ctx, partition, hold); err != nil {
			return err
		}
	}
	if err := planned.Start(ctx); err != nil {
		return err
	}
	p.Client = client.InProcess(planned.Handler())
	last, progressed := 0, planned.runtime.Now()
	for {
		if err := p.letThrough(ctx, opened, by); err != nil {
			return err
		}
		open, err := p.open(ctx, planned)
		if err != nil || open == 0 {
			return err
		}
		if now := planned.runtime.Now(); open != last {
			last, progressed = open, now
		} else if now.Sub(progressed) > planPatience {
			break
		}
		const look = 50 * time.Millisecond
		if err := planned.runtime.Wait(ctx, look, nil); err != nil {
			return err
		}
	}
	if p.seen(ctx, planned) {
		return nil // The reports say what could not be told.
	}
	return fault.New(fault.Unavailable, "comparing %s with production: %d assets were not looked at, and none was within %s", partition, last, planPatience).
		WithHint("are its plugins well? lehr build works without them")
}

// letThrough acknowledges what rules hold: the findings tell of it, and nothing
// is pushed.
func (p *Plan) letThrough(ctx context.Context, opened store.All, by intent.Actor) error {
	newest, err := opened.ListCandidates(ctx, p.Built.Partition, 1)
	if err != nil || len(newest) == 0 || newest[0].State != intent.CandidateHeld {
		return err
	}
	err = opened.Acknowledge(ctx, newest[0].ID, "a plan pushes nothing", by)
	if fault.Is(err, fault.Conflict) {
		return nil // It was let through already, or is no longer held.
	}
	return err
}

// open counts the assets whose difference from production is not known yet.
func (p *Plan) open(ctx context.Context, planned *App) (int, error) {
	reports, err := p.reports(ctx, planned)
	if err != nil {
		return 0, err
	}
	open := len(p.Built.Assets) - len(reports)
	for _, report := range reports {
		for _, waiting := range report.Waiting {
			if waiting.Kind == intent.WaitPlugin || waiting.Kind == intent.WaitTurn {
				open++
				break
			}
		}
	}
	return open, nil
}

// seen reports whether every asset has a report at least.
func (p *Plan) seen(ctx context.Context, planned *App) bool {
	reports, err := p.reports(ctx, planned)
	return err == nil && len(reports) >= len(p.Built.Assets)
}

// reports reads all that there are.
func (p *Plan) reports(ctx context.Context, planned *App) ([]intent.Report, error) {
	var all []intent.Report
	filter := store.ReportFilter{Limit: 10_000}
	for {
		found, err := planned.store.ListReports(ctx, p.Built.Partition, filter)
		if err != nil {
			return nil, err
		}
		all = append(all, found...)
		if len(found) < filter.Limit {
			return all, nil
		}
		filter.After = found[len(found)-1].Asset
	}
}

// Serve runs an app until the context ends; ready is called when it listens.
func Serve(ctx context.Context, options Options, ready func(*App)) error {
	running, err := New(options)
	if err != nil {
		return err
	}
	if err := running.Start(ctx); err != nil {
		return err
	}
	ready(running)
	<-ctx.Done()
	if err := running.Stop(context.WithoutCancel(ctx)); err != nil {
		return fmt.Errorf("ending: %w", err)
	}
	return nil
}
