package store

import (
	"context"
	"time"

	"lehr.dev/internal/ground/intent"
)

// ReportFilter selects reports. Empty fields select all.
type ReportFilter struct {
	Prefix string
	State  intent.State
	After  intent.AssetID
	Limit  int
	// Group whose members are meant, at cost ∝ those in the state.
	Group intent.Group
	// Unhealthy: those that are in sync and unhealthy, at cost ∝ these; without State.
	Unhealthy bool
	// Asks: those that wait for people (intent.Report.AsksPeople), at cost ∝ these.
	Asks bool
}

// PastReport is a report that was kept, without its plan's changes and the fields left
// to production.
type PastReport struct {
	// Number grows by one with each in its partition, in the order of the commits: whoever
	// has read one finds none before it later.
	Number uint64 `json:"number"`
	intent.Report
}

// HistoryFilter selects reports that were kept.
type HistoryFilter struct {
	Asset intent.AssetID
	// Until: those reported at that time or before it; zero: all.
	Until time.Time
	// Before: those with a lower number; 0: all.
	Before uint64
	Limit  int
}

// Reports keeps the last report of each asset, and of those before it what was in the
// way: each report that is not settled (intent.Report.Settled), and each that replaced
// one that was not. Pushes that nothing was in the way of are in the Journal alone.
type Reports interface {
	SaveReports(ctx context.Context, lease Lease, reports []intent.Report) error
	// Report is NotFound before the asset's first pass.
	Report(ctx context.Context, partition intent.PartitionID, asset intent.AssetID) (intent.Report, error)
	ListReports(ctx context.Context, partition intent.PartitionID, filter ReportFilter) ([]intent.Report, error)
	CountReports(ctx context.Context, partition intent.PartitionID) (map[intent.State]int, error)
	// ReportHistory lists an asset's, the newest first.
	ReportHistory(ctx context.Context, partition intent.PartitionID, filter HistoryFilter) ([]PastReport, error)
	// ReportsAfter lists those of a partition after a number, in their order.
	ReportsAfter(ctx context.Context, partition intent.PartitionID, cursor uint64, limit int) ([]PastReport, error)
	// LastReport is the number given last; 0: none was.
	LastReport(ctx context.Context, partition intent.PartitionID) (uint64, error)
}

// GroupFilter selects groups. Empty fields select all.
type GroupFilter struct {
	// Of the service, or of one instance.
	Of intent.Group
	// After the service, in the order of their names.
	After string
	// Limit of the services, as AssetFilter's.
	Limit int
}

// GroupStates counts the members of a group by the states of their reports.
type GroupStates struct {
	intent.Group
	States map[intent.State]int
	// Unhealthy are those in sync whose plugins say that they are unhealthy.
	Unhealthy int
}

// Groups reads what the Group addons say of what was reported.
type Groups interface {
	// ListGroups lists the instances of services in the order of their names, and
	// what is of a service but of no instance as one without a name. Members
	// that were not reported yet are not counted, unless none of the group asked
	// for was: then those of head are, as StateUnseen. It reads
	// indexes alone, and what is unhealthy: some 50 ms for 100 000 members.
	ListGroups(ctx context.Context, head intent.IncarnationID, filter GroupFilter) ([]GroupStates, error)
}
