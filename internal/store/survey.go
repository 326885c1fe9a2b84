package store

import (
	"context"
	"time"

	"lehr.dev/internal/ground/intent"
)

// Standing is the state of a partition.
type Standing struct {
	Partition
	// Count of assets in head; 0 if there is no head.
	Count int
	// Reports counts reports by state, and Orphans the assets that left head.
	Reports map[intent.State]int
	Orphans int
	// Blocked is the newest candidate when it is held or rejected.
	Blocked *intent.Candidate
}

// MattersFilter limits a survey of matters.
type MattersFilter struct {
	// EndsAfter and EndsBefore bound the ends of the pins, holds and overrides that are
	// listed: after the one, and before the other.
	EndsAfter, EndsBefore time.Time
	// Since: incarnations and pushes since that time are listed, at most Events of each partition.
	// Zero: none.
	Since  time.Time
	Events int
	// Limit bounds each of the other lists in each partition.
	Limit int
	// Service: of assets, only those of this service are listed, and among pushes those of the newest
	// MostServicePushes of each partition. Empty: all.
	Service string
}

// MostServicePushes of a partition are looked through for those of a service.
const MostServicePushes = 1000

// Matters is what waits for people, is under way, or happened in a partition.
type Matters struct {
	// Asking are the reports of assets that wait for people (intent.Report.AsksPeople), in the
	// order of the ids.
	Asking []intent.Report
	// Rollouts are the open runs.
	Rollouts []intent.Rollout
	// Runs of workflows that go on, the newest first.
	Runs []intent.WorkflowRun
	// Pins of people, Holds and Overrides that end between the times of the filter.
	Pins      []intent.Pin
	Holds     []intent.Hold
	Overrides []intent.Override
	// Incarnations are the newest, without the labels that people gave, and Pushes the newest
	// that ended, without their plans; each the newest first.
	Incarnations []intent.Incarnation
	Pushes       []PushRecord
	// States counts the assets of the filter's service by state; without a service it is nil.
	States map[intent.State]int
	// More: a list was cut at the limit.
	More bool
	// Problem is why something of the partition could not be read, or nil.
	Problem error
}

// HeadContent is the content of an asset in the head of a partition.
type HeadContent struct {
	Head intent.IncarnationID
	Body []byte
}

// Surveys reads all registered partitions together: a survey is a constant number of
// statements, however many partitions there are.
type Surveys interface {
	// SurveyStandings lists the standings of all partitions at one moment, in the order of their ids.
	SurveyStandings(ctx context.Context) ([]Standing, error)
	// SurveyMatters returns the matters of the partitions that have any.
	SurveyMatters(ctx context.Context, filter MattersFilter) (map[intent.PartitionID]*Matters, error)
	// HeadContents returns an asset's verified content in the heads that have it. It leaves out damaged
	// content, for which Content returns the damage.
	HeadContents(ctx context.Context, asset intent.AssetID) (map[intent.PartitionID]HeadContent, error)
	// SearchAssets goes through the assets of heads whose ids have the fragment, in the order of partitions and ids.
	// For each, take reports whether the asset is part of the result, and whether the search goes on.
	SearchAssets(ctx context.Context, filter SearchFilter, take func(intent.PartitionID, intent.AssetID) (taken, more bool)) ([]FoundAsset, error)
	// SearchFields visits assets of heads of a type that have a value in an indexed field, with the states of their
	// reports and all of their indexed fields by path, in the order of partitions and ids, until visit returns false.
	SearchFields(ctx context.Context, filter FieldFilter, visit func(intent.PartitionID, intent.AssetID, intent.State, map[string]string) bool) error
	// SearchIncarnations visits, among the newest of each partition, the incarnations whose records have
	// the fragment in any case, or that have labels of people: partition by partition, the newest
	// first. It skips damaged ones.
	SearchIncarnations(ctx context.Context, filter SearchFilter, newest int, visit func(intent.Incarnation)) error
	// SearchRuns visits the newest run of each rollout whose record has the fragment. It skips damaged
	// ones.
	SearchRuns(ctx context.Context, filter SearchFilter, visit func(intent.PartitionID, intent.Rollout)) error
	// SearchWorkflowRuns visits, among the newest of each partition, the runs of workflows whose records have the
	// fragment: partition by partition, the newest first. It skips damaged ones.
	SearchWorkflowRuns(ctx context.Context, filter SearchFilter, newest int, visit func(intent.WorkflowRun)) error
	// SearchBrakes visits holds and pins of people whose names have the fragment.
	SearchBrakes(ctx context.Context, filter SearchFilter, held func(intent.PartitionID, intent.Hold), pinned func(intent.Pin)) error
}

// FoundAsset is an asset that a search found, with the state of its report; empty: it has none.
type FoundAsset struct {
	Partition intent.PartitionID
	Asset     intent.AssetID
	State     intent.State
}

// SearchFilter says what to search for, and where.
type SearchFilter struct {
	// Partition to search; empty for all registered ones.
	Partition intent.PartitionID
	// Fragment in lower case; the empty one matches everything. Except for assets, it has only ASCII
	// letters and digits, which no record encodes in another way.
	Fragment string
}

// FieldFilter says which assets to search for, and where.
type FieldFilter struct {
	// Partition to search; empty for all registered ones.
	Partition intent.PartitionID
	Type      intent.TypeName
	// Path of an indexed field, and its Value.
	Path, Value string
}
