package enforcer

import (
	"context"
	"log/slog"
	"time"

	intentpb "lehr.dev/gen/lehr/intent/v1"
	"lehr.dev/internal/annealing/check"
	"lehr.dev/internal/ground/document"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/ground/loop"
	"lehr.dev/internal/ground/measure"
	"lehr.dev/internal/ground/pushlog"
	"lehr.dev/internal/ground/schema"
	"lehr.dev/internal/ground/sight"
	"lehr.dev/internal/ground/trace"
	"lehr.dev/internal/pluginhost/plugin"
	"lehr.dev/internal/store"
)

// Stores are the parts of store.All that the enforcer needs, as that says.
type Stores interface {
	Check(ctx context.Context, lease store.Lease) error
	Changed(partition intent.PartitionID) <-chan struct{}
	Partition(ctx context.Context, id intent.PartitionID) (store.Partition, error)
	CommonPolicy(ctx context.Context) (store.CommonPolicy, error)

	Incarnation(ctx context.Context, id intent.IncarnationID) (intent.Incarnation, error)
	Member(ctx context.Context, id intent.IncarnationID, asset intent.AssetID) (intent.Member, error)
	Content(ctx context.Context, id intent.IncarnationID, asset intent.AssetID) (intent.Member, []byte, error)
	Contents(ctx context.Context, id intent.IncarnationID, assets []intent.AssetID) (map[intent.AssetID][]byte, error)
	Members(ctx context.Context, id intent.IncarnationID, filter store.AssetFilter) ([]intent.Member, error)
	Changes(ctx context.Context, base, target intent.IncarnationID, cursor intent.AssetID, limit int) ([]store.Change, error)
	EdgesTo(ctx context.Context, id intent.IncarnationID, asset intent.AssetID) ([]store.Edge, error)

	Pins(ctx context.Context, partition intent.PartitionID) ([]intent.Pin, error)
	Holds(ctx context.Context, partition intent.PartitionID) ([]intent.Hold, error)
	Verifications(ctx context.Context, partition intent.PartitionID) ([]intent.Verification, error)
	Retries(ctx context.Context, partition intent.PartitionID, since uint64) ([]intent.AssetID, error)
	Consents(ctx context.Context, partition intent.PartitionID) (store.Consents, error)
	Authors(ctx context.Context, target intent.IncarnationID, asset intent.AssetID, now time.Time) ([]string, error)

	Admit(ctx context.Context, lease store.Lease, admissions []store.Admission) ([]*store.Refusal, error)
	Permit(ctx context.Context, lease store.Lease, push intent.PushID, now time.Time) error
	ClosePushes(ctx context.Context, lease store.Lease, closings []store.Closing) error
	SaveMemo(ctx context.Context, lease store.Lease, push intent.PushID, memo intent.Memo) error
	Memos(ctx context.Context, partition intent.PartitionID, assets []intent.AssetID) (map[intent.AssetID][]intent.Memo, error)
	MemoAssets(ctx context.Context, partition intent.PartitionID, cursor intent.AssetID, limit int) ([]intent.AssetID, error)
	HasMade(ctx context.Context, partition intent.PartitionID, asset intent.AssetID, key intent.ResourceKey) (bool, error)
	OpenPushes(ctx context.Context, partition intent.PartitionID) ([]store.OpenPush, error)
	Pushes(ctx context.Context, partition intent.PartitionID, asset intent.AssetID, limit int) ([]store.PushRecord, error)
	SaveEnforced(ctx context.Context, lease store.Lease, enforced []store.Enforced) (map[intent.AssetID]store.Claim, error)
	EnforcedPage(ctx context.Context, partition intent.PartitionID, cursor intent.AssetID, limit int) ([]store.Enforced, error)

	Document(ctx context.Context, partition intent.PartitionID, name, revision string) (document.Document, error)
	DocumentRevisions(ctx context.Context, partition intent.PartitionID, name, before string, limit int) ([]document.Revision, error)
	SaveOutputs(ctx context.Context, lease store.Lease, edit document.Edit) (document.Document, error)

	SaveReports(ctx context.Context, lease store.Lease, reports []intent.Report) error
	ListReports(ctx context.Context, partition intent.PartitionID, filter store.ReportFilter) ([]intent.Report, error)
	Report(ctx context.Context, partition intent.PartitionID, asset intent.AssetID) (intent.Report, error)
	CountReports(ctx context.Context, partition intent.PartitionID) (map[intent.State]int, error)
	Ended(ctx context.Context, partition intent.PartitionID, keys []string, most int) (map[string][]store.EndedPush, error)
}

// Schemas finds the set of types that incarnations were published with.
type Schemas interface {
	Schema(ctx context.Context, partition intent.PartitionID, digest intent.Digest) (*schema.Set, error)
}

// Options of an enforcer.
type Options struct {
	Partition intent.PartitionID
	// Since is the first epoch under which this process acted for the
	// partition: what was pushed from then on may still be running in a
	// plugin that lives, what was pushed before only in an older process.
	Since uint64
	Store Stores
	// Schemas is asked for the types that expressions speak of; nil: they are
	// the built-in ones.
	Schemas Schemas
	// Plugins returns the plugin that a binding names, by run or dial.
	Plugins func(binding *intentpb.PluginBinding) plugin.Plugin
	// Plans: every asset is looked at once, to plan, so one report says all that is in the way.
	Plans bool
	// Beside are the pushes that others have under way, for a plan: they fill budgets and
	// rate limits. It is empty where pushes are made.
	Beside []store.OpenPush
	// Train says which train of releases is in an environment of the partition; nil: nobody
	// knows, and checks that ask are broken.
	Train func(ctx context.Context, e check.Environment) check.Train
	// Outside answers what checks ask of monitoring; nil: nobody is asked. It
	// returns within some seconds.
	Outside func(ctx context.Context, q check.Question) (check.Answer, error)
	Runtime loop.Runtime
	Log     *slog.Logger
	Limits  Limits
	// Measure counts what is done; nil: nothing does.
	Measure *measure.Enforcer
	// PushLog keeps what plugins tell of pushes under way; nil: nobody reads it.
	PushLog *pushlog.Book
	// Trace collects the traces of pushes; nil: there are none.
	Trace trace.Tracer
	// Sight keeps what is seen of the assets that rollouts watch, which are looked at more
	// often; nil: none is watched.
	Sight *sight.Board
}

// Limits bound what an enforcer does at once, and how often.
type Limits struct {
	// Sweep is the longest pause between two looks at a quiet asset. While the plugin's
	// hints are reliable, it is the cadence that the plugin declares for the type, where
	// that is longer.
	Sweep time.Duration
	// Watched is that of an asset which a rollout watches.
	Watched time.Duration
	// FactHold is how long a difference may be relied on.
	FactHold time.Duration
	// Pushes in flight at once, per plugin; in the whole partition twice as many, so
	// that one plugin, hung in all of its own, leaves as many to the others.
	Pushes int
	// Diffs in flight at once, in batches, per plugin.
	Diffs int
	// Retry is the pause after failures in a row.
	Retry loop.Backoff
}

// DefaultLimits are fit for a partition of up to a million assets.
func DefaultLimits() Limits {
	return Limits{
		Sweep:    30 * time.Second,
		Watched:  2 * time.Second,
		FactHold: 10 * time.Second,
		Pushes:   512,
		Diffs:    4,
		Retry:    loop.Backoff{First: time.Second, Most: 5 * time.Minute},
	}
}
