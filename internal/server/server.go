// Package server is the API's edge: Connect handlers over the store's roles.
// It checks input, asks or changes the store, and turns values into messages;
// it never decides anything that an actor decides, and never touches
// production. app builds it and serves its Handler; an in-process client
// speaks to the same Handler where there is no server.
package server

import (
	"cmp"
	"context"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"connectrpc.com/connect"

	apipb "lehr.dev/gen/lehr/api/v1"
	"lehr.dev/gen/lehr/api/v1/apipbconnect"
	intentpb "lehr.dev/gen/lehr/intent/v1"
	"lehr.dev/internal/access/oidc"
	"lehr.dev/internal/annealing/delivery"
	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/ground/loop"
	"lehr.dev/internal/ground/measure"
	"lehr.dev/internal/ground/pushlog"
	"lehr.dev/internal/ground/quota"
	"lehr.dev/internal/ground/schema"
	"lehr.dev/internal/ground/trace"
	"lehr.dev/internal/prodspec/query"
	"lehr.dev/internal/store"
)

// Store is what the handlers read and change.
type Store interface {
	store.Partitions
	store.Snapshots
	store.Candidates
	store.Brakes
	store.Approvals
	store.Labels
	store.Documents
	GetBlob(ctx context.Context, partition intent.PartitionID, kind, name string) ([]byte, error)
	Orphans(ctx context.Context, partition intent.PartitionID, cursor intent.AssetID, limit int) ([]store.Enforced, error)
	EnforcedPage(ctx context.Context, partition intent.PartitionID, cursor intent.AssetID, limit int) ([]store.Enforced, error)
	OrphanCount(ctx context.Context, partition intent.PartitionID) (int, error)
	Disown(ctx context.Context, partition intent.PartitionID, asset intent.AssetID, reason string, actor intent.Actor) error
	Pushes(ctx context.Context, partition intent.PartitionID, asset intent.AssetID, limit int) ([]store.PushRecord, error)
	Report(ctx context.Context, partition intent.PartitionID, asset intent.AssetID) (intent.Report, error)
	ListReports(ctx context.Context, partition intent.PartitionID, filter store.ReportFilter) ([]intent.Report, error)
	CountReports(ctx context.Context, partition intent.PartitionID) (map[intent.State]int, error)
	OpenPushes(ctx context.Context, partition intent.PartitionID) ([]store.OpenPush, error)
	ReportHistory(ctx context.Context, partition intent.PartitionID, filter store.HistoryFilter) ([]store.PastReport, error)
	ReportsAfter(ctx context.Context, partition intent.PartitionID, cursor uint64, limit int) ([]store.PastReport, error)
	LastReport(ctx context.Context, partition intent.PartitionID) (uint64, error)
	Arrivals(ctx context.Context, id intent.IncarnationID, assets []intent.AssetID) (map[intent.AssetID]store.Arrival, error)
	Push(ctx context.Context, partition intent.PartitionID, push intent.PushID) (store.PushRecord, error)
	store.Groups
	store.Surveys
	store.Audit
	store.Access
	CommonPolicy(ctx context.Context) (store.CommonPolicy, error)
	Changed(partition intent.PartitionID) <-chan struct{}
	Rollouts(ctx context.Context, partition intent.PartitionID, filter store.RolloutFilter) ([]intent.Rollout, error)
	Observations(ctx context.Context, partition intent.PartitionID, rollout string) ([]intent.Observation, error)
	Judgements(ctx context.Context, partition intent.PartitionID, assets []intent.AssetID) ([]intent.Judgement, error)
	OrderRollout(ctx context.Context, order intent.RolloutOrder) (intent.RolloutOrder, error)
	RolloutOrders(ctx context.Context, partition intent.PartitionID, cursor uint64) ([]intent.RolloutOrder, error)
	Versions(ctx context.Context, partition intent.PartitionID, source string) ([]intent.Version, error)
	VersionsRevision(ctx context.Context, partition intent.PartitionID, source string) (string, error)
	Verifications(ctx context.Context, partition intent.PartitionID) ([]intent.Verification, error)
	DeliveryRecords(ctx context.Context, partition intent.PartitionID, filter store.DeliveryFilter) ([]intent.DeliveryRecord, error)
	RecordDelivery(ctx context.Context, record intent.DeliveryRecord, may store.DeliveryAuthority) (intent.DeliveryRecord, error)
	Workflows
}

// Workflows are the runs of workflows that the handlers read and change.
type Workflows interface {
	StartWorkflow(ctx context.Context, run intent.WorkflowRun, events []intent.WorkflowEvent, role intent.Role) (intent.WorkflowRun, error)
	StepWorkflowAs(ctx context.Context, step store.WorkflowStep, anyOf []intent.Role, verb, reason string) (intent.WorkflowRun, error)
	WorkflowRun(ctx context.Context, partition intent.PartitionID, number uint64) (intent.WorkflowRun, error)
	WorkflowRuns(ctx context.Context, partition intent.PartitionID, filter store.WorkflowFilter) ([]intent.WorkflowRun, error)
	WorkflowEvents(ctx context.Context, partition intent.PartitionID, run uint64, filter store.WorkflowEventFilter) ([]intent.WorkflowEvent, error)
	RolesOf(ctx context.Context, partition intent.PartitionID) ([]intent.Role, error)
}

// Schemas finds the schema set that an incarnation was published with.
type Schemas interface {
	Schema(ctx context.Context, partition intent.PartitionID, digest intent.Digest) (*schema.Set, error)
}

// Health says how a partition's actors are.
type Health struct {
	Partition intent.PartitionID
	Acting    bool
	// Problem says why it does not act.
	Problem string
	// Elsewhere: it is not for this replica to act.
	Elsewhere bool
	// Waiting says since when its build waits for its turn, and behind how many;
	// empty: it does not.
	Waiting string
	// Building is since when its sources are read and built; zero: they are not.
	Building time.Time
}

// problem says what is wrong with a partition's actors, wherever they run.
func (h Health) problem(p store.Partition) string {
	if h.Elsewhere && p.Replica == "" {
		return "no replica acts for it; one that has room does within seconds"
	}
	return h.Problem
}

// Options of a server.
type Options struct {
	Store Store
	// Workflows keeps runs of workflows; nil: Store does.
	Workflows Workflows
	Schemas   Schemas
	Runtime   loop.Runtime
	// Health lists the partitions acted for; nil: none, there are no actors.
	Health func() []Health
	// Problems lists what is wrong with the server as a whole; nil: nothing can
	// be.
	Problems func() []string
	// Identify returns who calls, or why nobody may.
	Identify func(ctx context.Context) (store.Caller, error)
	// Login returns what exchanges the provider's ID tokens; nil, and nil from
	// it: nobody can log in.
	Login func() *oidc.Exchange
	// Log is told of what was denied; nil: nobody is.
	Log *slog.Logger
	// Alone reports whether the caller is the only person there is, as the user
	// of a local server, whose approvals count for their own changes; nil: never.
	Alone func(ctx context.Context) bool
	// Repositories finds documents in repositories; nil: there are none.
	Repositories Repositories
	// Trials build what releases would make of partitions; nil: nothing is tried.
	Trials Trials
	// Diagnose tells what the process knows of itself; nil: there is no process to
	// tell of.
	Diagnose func(ctx context.Context) []DiagnosisFile
	// Quotas of callers; nil: the usual ones.
	Quotas *quota.Keeper
	// Measure is told of calls; nil: nobody is.
	Measure *measure.API
	// Trace is told of pushes; nil: nobody is.
	Trace trace.Tracer
	// PushLog returns what the plugin told of a push that this process has under way; not ok: it has none of
	// that name. Nil: it has none.
	PushLog func(partition intent.PartitionID, push intent.PushID) (_ pushlog.Log, ok bool)
	// Plugin returns how a plugin does that this process asks for a partition; nil: it asks none.
	Plugin func(partition intent.PartitionID, binding *intentpb.PluginBinding) AskedPlugin
	// PlanPolicy says what another common policy would hold and refuse; nil: nobody can here.
	PlanPolicy func(ctx context.Context, file string, text []byte) (*apipb.PlanCommonPolicyResponse, error)
	// Plan looks at what a held candidate would change; nil: nobody can here.
	Plan func(ctx context.Context, candidate intent.Candidate) (Plan, error)
	// Location is the store's path, and Version the program's, for people.
	Location, Version string
	// Sweep is the longest pause between two looks at an asset; 0: half a minute.
	Sweep time.Duration
}

// Server answers the API's calls.
type Server struct {
	store    Store
	schemas  Schemas
	runtime  loop.Runtime
	health   func() []Health
	problems func() []string
	identify func(ctx context.Context) (store.Caller, error)
	login    func() *oidc.Exchange
	log      *slog.Logger
	alone    func(ctx context.Context) bool
	location string
	version  string
	started  time.Time
	queries  *query.Reader
	// delivered reads how applications stand.
	delivered *delivery.Reader
	// workflows keeps runs of workflows. definitions are those that were read.
	workflows   Workflows
	definitions definitions
	sweep       time.Duration

	repositories Repositories
	trials       Trials
	measure      *measure.API
	trace        trace.Tracer
	diagnose     func(ctx context.Context) []DiagnosisFile
	pushLog      func(partition intent.PartitionID, push intent.PushID) (pushlog.Log, bool)
	plugin       func(partition intent.PartitionID, binding *intentpb.PluginBinding) AskedPlugin
	plan         func(ctx context.Context, candidate intent.Candidate) (Plan, error)
	planPolicy   func(ctx context.Context, file string, text []byte) (*apipb.PlanCommonPolicyResponse, error)
	quotas       *quota.Keeper
	// planning has a slot for each partition of which a plan was asked for.
	planning sync.Map
}

// New returns a server over the store.
func New(o Options) *Server {
	health := o.Health
	if health == nil {
		health = func() []Health { return nil }
	}
	problems := o.Problems
	if problems == nil {
		problems = func() []string { return nil }
	}
	log := o.Log
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	alone := o.Alone
	if alone == nil {
		alone = func(context.Context) bool { return false }
	}
	login := o.Login
	if login == nil {
		login = func() *oidc.Exchange { return nil }
	}
	quotas := o.Quotas
	if quotas == nil {
		quotas = quota.NewKeeper(quota.DefaultLimits(), o.Runtime.Now)
	}
	counted := o.Measure
	if counted == nil {
		counted = &measure.API{}
	}
	workflows := o.Workflows
	if workflows == nil {
		workflows = o.Store
	}
	return &Server{
		alone: alone, workflows: workflows,
		log: log, login: login, problems: problems,
		store: o.Store, schemas: o.Schemas, runtime: o.Runtime, health: health, identify: o.Identify,
		location: o.Location, version: o.Version, started: o.Runtime.Now(),
		delivered: &delivery.Reader{Store: o.Store, Schemas: o.Schemas},
		queries:   query.New(o.Store, o.Schemas, o.Runtime), repositories: o.Repositories, trials: o.Trials, measure: counted, trace: o.Trace, diagnose: o.Diagnose, pushLog: o.PushLog, plugin: o.Plugin,
		plan: o.Plan, planPolicy: o.PlanPolicy, quotas: quotas,
		sweep: cmp.Or(o.Sweep, 30*time.Second),
	}
}

const (
	maxRequestBytes = 1 << 20
	// Answers smaller than this are not worth the time to compress.
	compressFrom = 4096
)

// Handler serves the API. It asks of every call whether its caller may make it,
// and leaves it to package access to say who that is.
func (s *Server) Handler() http.Handler {
	mux := http.NewServeMux()
	options := []connect.HandlerOption{
		connect.WithCompressMinBytes(compressFrom),
		connect.WithReadMaxBytes(maxRequestBytes),
		connect.WithInterceptors(measured{s.measure, s.runtime.Now}, faults{}, authority{s}),
		strictly(),
	}
	mux.Handle(apipbconnect.NewPartitionServiceHandler(s, options...))
	mux.Handle(apipbconnect.NewIncarnationServiceHandler(s, options...))
	mux.Handle(apipbconnect.NewCandidateServiceHandler(s, options...))
	mux.Handle(apipbconnect.NewAssetServiceHandler(s, options...))
	mux.Handle(apipbconnect.NewReportServiceHandler(s, options...))
	mux.Handle(apipbconnect.NewOrphanServiceHandler(s, options...))
	mux.Handle(apipbconnect.NewBrakeServiceHandler(s, options...))
	mux.Handle(apipbconnect.NewApprovalServiceHandler(s, options...))
	mux.Handle(apipbconnect.NewJournalServiceHandler(s, options...))
	mux.Handle(apipbconnect.NewAuditServiceHandler(s, options...))
	mux.Handle(apipbconnect.NewServerServiceHandler(s, options...))
	mux.Handle(apipbconnect.NewAuthServiceHandler(s, options...))
	mux.Handle(apipbconnect.NewDocumentServiceHandler(s, options...))
	mux.Handle(apipbconnect.NewRolloutServiceHandler(s, options...))
	mux.Handle(apipbconnect.NewTurndownServiceHandler(s, options...))
	mux.Handle(apipbconnect.NewDeliveryServiceHandler(s, options...))
	mux.Handle(apipbconnect.NewReleaseServiceHandler(s, options...))
	mux.Handle(apipbconnect.NewPreviewServiceHandler(s, options...))
	mux.Handle(apipbconnect.NewWorkflowServiceHandler(workflowHandlers{s}, options...))
	return http.MaxBytesHandler(mux, maxRequestBytes)
}

// Services are the full names of all that Handler serves.
func Services() []string {
	return []string{
		apipbconnect.PartitionServiceName, apipbconnect.IncarnationServiceName, apipbconnect.CandidateServiceName, apipbconnect.AssetServiceName,
		apipbconnect.ReportServiceName, apipbconnect.OrphanServiceName, apipbconnect.BrakeServiceName, apipbconnect.ApprovalServiceName,
		apipbconnect.JournalServiceName, apipbconnect.AuditServiceName, apipbconnect.ServerServiceName, apipbconnect.AuthServiceName,
		apipbconnect.DocumentServiceName, apipbconnect.RolloutServiceName, apipbconnect.TurndownServiceName, apipbconnect.DeliveryServiceName,
		apipbconnect.ReleaseServiceName, apipbconnect.PreviewServiceName, apipbconnect.WorkflowServiceName,
	}
}

// registered is the partition, after a check of the id's syntax.
func (s *Server) registered(ctx context.Context, id string) (store.Partition, error) {
	if id == "" {
		return store.Partition{}, fault.New(fault.Invalid, "no partition was named").WithHint("lehr get partitions lists them")
	}
	parsed, err := intent.ParsePartitionID(id)
	if err != nil {
		return store.Partition{}, err
	}
	return s.store.Partition(ctx, parsed)
}

// asset parses partition and asset of a request.
func (s *Server) asset(ctx context.Context, partition, asset string) (store.Partition, intent.AssetID, error) {
	id, err := intent.ParseAssetID(asset)
	if err != nil {
		return store.Partition{}, "", err
	}
	p, err := s.registered(ctx, partition)
	return p, id, err
}

// page bounds a limit: 0 is usual.
func page(limit int32, usual, most int) int {
	if limit <= 0 {
		return usual
	}
	return min(int(limit), most)
}
