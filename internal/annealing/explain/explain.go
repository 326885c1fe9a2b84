// Package explain answers "why is this asset not as I want it?": from stored
// reports and the partition's state it builds the tree of reasons down to the
// root cause. It is pure: values in, tree out; it reads no store and no
// clock, and decides nothing that the enforcer does. The server calls it.
package explain

import (
	"cmp"
	"slices"
	"time"

	"lehr.dev/internal/ground/intent"
)

// MaxDepth bounds the chain of blockers that is followed.
const MaxDepth = 32

// Kinds of reason beyond those of package intent.
const (
	KindInSync   = "in-sync"
	KindPushing  = "pushing"
	KindOff      = "off"
	KindModel    = "model"
	KindUnserved = "unserved"
	KindGone     = "gone"
	KindNoAsset  = "no-asset"
	KindNoHead   = "no-head"
	KindNoReport = "no-report"
	KindOutdated = "outdated"
	KindCycle    = "cycle"
	KindDepth    = "depth"
	KindTold     = "told"
	// KindOutput: an output that it tells is not taken up.
	KindOutput = "output-problem"
	// KindTurnedDown: the removal that it asks for is complete.
	KindTurnedDown = "turned-down"
	// KindPreview: it is of a preview, and goes with it.
	KindPreview = "preview"
	KindPin     = "pin"
	// KindApproved and KindOverride tell of what people let through.
	KindApproved = "approved"
	KindOverride = "override"
	// KindPassedOver tells of checks that do not hold what goes back.
	KindPassedOver = "passed-over"
	// KindObserved tells what common rules that only observe would hold it for.
	KindObserved  = "observed"
	KindUnhealthy = "unhealthy"
	KindHeld      = "candidate-held"
	KindRejected  = "candidate-rejected"
	KindSilent    = "not-acting"
	// KindUnbuilt: newer sources wait for their turn to be built.
	KindUnbuilt = "not-built-yet"
	// KindOldSource: a source is as it was read last.
	KindOldSource = "source-failing"
)

// Facts are all that the answer rests on.
type Facts struct {
	Asset     intent.AssetID
	Partition intent.PartitionID
	Head      intent.IncarnationID
	// Stop in force for the partition, its own or that of all.
	Stop *intent.Stop
	// Others are stops of other partitions that are waited for, of those that whoever
	// asks may read.
	Others map[intent.PartitionID]intent.Stop
	// Problem says what of the partition does not work in the server; empty:
	// all does.
	Problem string
	// Turn says since when the build of newer sources waits for its turn; empty:
	// it does not.
	Turn string
	// Reports of the asset and of whatever it waits on. One that is left out
	// was not written yet.
	Reports map[intent.AssetID]intent.Report
	// After lists, of assets whose difference is unknown, those that they come
	// after: what they cannot be looked at through may be one of these.
	After map[intent.AssetID][]intent.AssetID
	// Taken lists, by the scope of a budget, the assets whose pushes take its
	// places.
	Taken map[string][]intent.AssetID
	// Members of head among the assets asked for.
	Members map[intent.AssetID]intent.Member
	// Pins of those assets that have some.
	Pins map[intent.AssetID][]intent.Pin
	// Rollouts by name, each with its newest run.
	Rollouts map[string]intent.Rollout
	// Holds of assets, where a run of a rollout is open: it lets none of these go on.
	Holds map[intent.AssetID]intent.Hold
	// Before lists, by a rollout, those that it comes after.
	Before map[string][]string
	// Fields that open runs set for the asset asked for, by rollout.
	Fields map[string]string
	// Generation says which rule names the asset asked for, where that is an orphan.
	Generation *Generation
	// Preview that the asset asked for is of; nil: of none.
	Preview *Preview
	// Covered are the sources of head, with what fails of them.
	Covered []intent.SourceRevision
	// Blocked is the newest candidate, when it is held or rejected.
	Blocked *intent.Candidate
	// Approvers are who may approve plans of the partition, in words; none: it is
	// not known, or nobody asks for more than the local user.
	Approvers []string
	// Approvals of plans, where one is waited for.
	Approvals []intent.Approval
	// Owners of assets, where their Owner addon names one; Owner is the
	// partition's.
	Owners map[intent.AssetID]string
	Owner  string
	// Sweep is the longest pause between two looks at an asset that waits and whose report
	// tells of no time to come.
	Sweep time.Duration
	Now   time.Time
	// Past: Now is over, and the reports are those that were kept of then.
	Past bool
}

// Reason is a node of the chain; its causes say why it is so.
type Reason struct {
	Kind string
	// Asset that it is said of; empty: the partition.
	Asset intent.AssetID
	Text  string
	Hint  string
	// Owner of the brake that is in the way: a hold, pin, stop, override or
	// rejection. Responsible is who owns the asset, or else the partition.
	Owner       string
	Responsible string
	Since       time.Time
	// Until is when it ends by itself, if that is known.
	Until time.Time
	// Next is when it is looked at again at the latest; zero: nobody looks.
	Next     time.Time
	Findings []intent.Finding
	Causes   []Reason
	// Partition is another one that is waited for, or that is stopped; empty: none.
	Partition intent.PartitionID
	// Shared is equal for reasons of several partitions that are one and the same thing outside them; empty:
	// it is this partition's own.
	Shared string
}

// Answer is the whole chain, the most decisive reason first.
type Answer struct {
	State    intent.State
	Standing Standing
	Reasons  []Reason
	// Root is the first leaf of the most decisive chain.
	Root Reason
	// Summary is the root cause in one line.
	Summary string
}

// Explain builds the chain for one asset.
func Explain(f Facts) Answer {
	answer := Answer{State: f.Reports[f.Asset].State, Standing: f.standing()}
	answer.Reasons = slices.Concat(f.partitionReasons(), f.assetReasons(f.Asset, newPath()), f.intentReasons(), f.previewReasons())
	f.answerFor(answer.Reasons)
	order(answer.Reasons)
	answer.Root = root(answer.Reasons[0])
	answer.Summary = f.summary(answer)
	return answer
}

// answerFor says who is responsible for what each reason is about.
func (f Facts) answerFor(reasons []Reason) {
	for i := range reasons {
		reasons[i].Responsible = cmp.Or(f.Owners[reasons[i].Asset], f.Owner)
		f.answerFor(reasons[i].Causes)
	}
}
