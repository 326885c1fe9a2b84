package intent

import (
	"encoding/json"
	"time"
)

// RolloutState says where a run of a rollout stands.
type RolloutState string

const (
	// RolloutQueued: it begins when others that hold what it changes have ended.
	RolloutQueued RolloutState = "queued"
	// RolloutRunning: it lets assets go on, or waits for those that did.
	RolloutRunning RolloutState = "running"
	// RolloutPaused: it lets no asset go on until a person says so.
	RolloutPaused RolloutState = "paused"
	// RolloutRollingBack: what it brought was bad, or a person said so; its assets go
	// back to what was good.
	RolloutRollingBack RolloutState = "rolling-back"
	// RolloutRolledBack: they are back.
	RolloutRolledBack RolloutState = "rolled-back"
	// RolloutStopped: it was ended as it stood, by a person or because what it brings
	// is bad.
	RolloutStopped RolloutState = "stopped"
	// RolloutSuperseded: a newer run took its place.
	RolloutSuperseded RolloutState = "superseded"
	// RolloutDone: all its assets went through.
	RolloutDone RolloutState = "done"
)

// RolloutStates are all of them, those under way first.
func RolloutStates() []RolloutState {
	return []RolloutState{
		RolloutQueued, RolloutRunning, RolloutPaused, RolloutRollingBack,
		RolloutRolledBack, RolloutStopped, RolloutSuperseded, RolloutDone,
	}
}

// Open reports whether the run goes on.
func (s RolloutState) Open() bool {
	switch s {
	case RolloutQueued, RolloutRunning, RolloutPaused, RolloutRollingBack:
		return true
	}
	return false
}

// Rollout is one run of a rollout: what brings one incarnation, or one value, to
// the assets that the policy of that name governs.
type Rollout struct {
	Partition PartitionID `json:"partition"`
	Name      string      `json:"name"`
	// Run numbers the runs of the name, from 1.
	Run   uint64       `json:"run"`
	State RolloutState `json:"state"`
	// To is the incarnation that it brings. It is zero in a run that sets Value in
	// a document.
	To    IncarnationID   `json:"to,omitzero"`
	Value json.RawMessage `json:"value,omitempty"`
	// From is the newest incarnation that its assets followed before; none: they
	// followed none.
	From  IncarnationID `json:"from,omitzero"`
	Began time.Time     `json:"began"`
	Ended time.Time     `json:"ended,omitzero"`
	// By started it, and for what reason.
	By     Actor  `json:"by"`
	Reason string `json:"reason,omitempty"`
	// Skipped stages are done whatever they lack; Promoted: all of them. Accepted are
	// those whose validations a person did not wait for. Emergency: it goes by the
	// stages for that.
	Skipped   []string `json:"skipped,omitempty"`
	Accepted  []string `json:"accepted,omitempty"`
	Promoted  bool     `json:"promoted,omitempty"`
	Emergency bool     `json:"emergency,omitempty"`
	// Votes are the newest of each person on stages that ask people, and Approved the stages
	// that enough of them let begin.
	Votes    []StageVote `json:"votes,omitempty"`
	Approved []string    `json:"approved,omitempty"`
	// Bad says why what it brings was judged bad; empty: it was not.
	Bad string `json:"bad,omitempty"`
	// Back is the incarnation to which it was rolled back, and Reverts the assets of
	// which that undid more than this run had changed.
	Back    IncarnationID `json:"back,omitzero"`
	Reverts []AssetID     `json:"reverts,omitempty"`
	// Staged: it was done before, so it goes back by stages, and not all at once.
	Staged bool `json:"staged,omitempty"`
	// Orders is the number of the last order that it carried out.
	Orders uint64 `json:"orders,omitempty"`
	// Base is the revision of the document on which a run that sets Value began. What
	// others changed since is theirs.
	Base string `json:"base,omitempty"`
	// Edits are the fields of documents that it set, or is about to: each is stored before
	// the document is edited.
	Edits []RolloutEdit `json:"edits,omitempty"`
	// Proposals are the pull requests by which fields are set, or go back: each is stored before
	// it is opened. Proposed numbers those of the run.
	Proposals []RolloutProposal `json:"proposals,omitempty"`
	Proposed  uint64            `json:"proposed,omitempty"`
	// Progress as of the last step.
	Progress RolloutProgress `json:"progress"`
	// Events, the oldest first, at most MaxRolloutEvents: the oldest are left out.
	Events []RolloutEvent `json:"events,omitempty"`
}

// MaxRolloutEvents are kept of a run.
const MaxRolloutEvents = 200

// RolloutEdit is a field of a document that a run sets for assets.
type RolloutEdit struct {
	Document string `json:"document"`
	Pointer  string `json:"pointer"`
	// Before is the value that it had, and has again if the run is undone; nil: it had
	// none. Revision of the document that has the new one; empty: none is known to.
	Before   json.RawMessage `json:"before,omitempty"`
	Revision string          `json:"revision"`
	// At is when it was let go on; zero: the run has not set it. Of a run that took
	// the place of another, what the other had set is known from the beginning.
	At time.Time `json:"at,omitzero"`
	// Changed says who set it to something else since: then it is kept.
	Changed string `json:"changed,omitempty"`
	// Landed is the incarnation that had the new value first, or was head already
	// where the value changed no asset.
	Landed IncarnationID `json:"landed,omitzero"`
}

// Set reports whether the run has let the field go on, and nobody changed it since.
func (e RolloutEdit) Set() bool { return !e.At.IsZero() && e.Changed == "" }

// RolloutProgress is how far a run has come.
type RolloutProgress struct {
	Stages []StageProgress `json:"stages"`
	// Waits says for what it waits, in words for people, Cause of which kind that is,
	// and For for which assets; empty: it lets assets go on, or has ended.
	Waits string       `json:"waits,omitempty"`
	Cause RolloutCause `json:"cause,omitempty"`
	For   []AssetID    `json:"for,omitempty"`
	// Next is when time alone changes that, if known.
	Next time.Time `json:"next,omitzero"`
	// Fields that a run which sets Value is about, those that are kept included.
	Fields int `json:"fields,omitempty"`
	// Verdicts of its validations.
	Verdicts []ValidationVerdict `json:"verdicts,omitempty"`
	// Retries are how often each validation began anew, over all stages.
	Retries map[string]int `json:"retries,omitempty"`
}

// Wait says for what the run waits; an empty text: for nothing.
func (p *RolloutProgress) Wait(cause RolloutCause, waits string, assets []AssetID) {
	if waits == "" {
		cause = ""
	}
	p.Cause, p.Waits, p.For = cause, waits, assets
}

// RolloutCause is the kind of what a run waits for.
type RolloutCause string

const (
	CauseStage    RolloutCause = "stage"    // a stage that it is at, or that wants none of its assets
	CauseApproval RolloutCause = "approval" // people, to let a stage begin
	CausePause    RolloutCause = "pause"    // it is paused
	CauseStop     RolloutCause = "stop"     // the stop is on
	CauseRollouts RolloutCause = "rollouts" // the rollouts that it comes after
	CauseBad      RolloutCause = "bad"      // head has content that was judged bad
	CausePerson   RolloutCause = "person"   // a person is to start it
	CauseEnded    RolloutCause = "ended"    // a run of the same content was ended
	CauseDocument RolloutCause = "document" // the document that it edits, or who edits it too
	CauseBack     RolloutCause = "back"     // assets that go back
)

// StageProgress is how far a stage has come: of Total assets so many were let go
// on, and so many of those are done.
type StageProgress struct {
	Name     string `json:"name"`
	Total    int    `json:"total"`
	Selected int    `json:"selected"`
	Done     int    `json:"done"`
	// Waits says for what; empty: for nothing.
	Waits string `json:"waits,omitempty"`
	// Began is when its first asset was let go on, Ended when it was done.
	Began time.Time `json:"began,omitzero"`
	Ended time.Time `json:"ended,omitzero"`
	// Approval of people that it needs; nil: it asks nobody.
	Approval *StageApproval `json:"approval,omitempty"`
}

// StageApproval is how far people have come with a stage that begins when they have approved it.
type StageApproval struct {
	State ApprovalState `json:"state"`
	// Approved of Needs people have, each of whom has one of Roles.
	Approved int    `json:"approved"`
	Needs    int    `json:"needs"`
	Roles    []Role `json:"roles"`
	// RejectedBy is who rejected it, for Reason; empty: nobody did.
	RejectedBy string `json:"rejectedBy,omitempty"`
	Reason     string `json:"reason,omitempty"`
}

// ApprovalState says what people are asked of a stage.
type ApprovalState string

const (
	ApprovalLater    ApprovalState = "later"    // what comes before it is not done, so nobody is asked
	ApprovalAsked    ApprovalState = "asked"    // it waits for people
	ApprovalRejected ApprovalState = "rejected" // one of them rejected it
	ApprovalGiven    ApprovalState = "approved" // enough of them approved it
	ApprovalSkipped  ApprovalState = "skipped"  // an operator passed over them
)

// StageVote is a person's vote on whether a run goes on to a stage.
type StageVote struct {
	Stage string `json:"stage"`
	By    Actor  `json:"by"`
	// Roles that the person had, read where the vote was stored.
	Roles   []Role    `json:"roles"`
	At      time.Time `json:"at"`
	Approve bool      `json:"approve"`
	Reason  string    `json:"reason,omitempty"`
}

// ValidationVerdict is what a validation finds of a stage.
type ValidationVerdict struct {
	Validation string `json:"validation"`
	Stage      string `json:"stage"`
	// Result is "good", "bad", "inconclusive", "waiting" or "broken".
	Result string    `json:"result"`
	Reason string    `json:"reason,omitempty"`
	At     time.Time `json:"at"`
	// Changed is when all that was let go on of the stage had arrived: what it is of.
	Changed time.Time `json:"changed,omitzero"`
	// Metrics that it looked at.
	Metrics []MetricVerdict `json:"metrics,omitempty"`
	// Record is the name of the record with the raw data; empty: there is none.
	Record string `json:"record,omitempty"`
	// Restarted is when it began anew after it had found what is bad, as its retries allow, and Found
	// what that was; zero: it did not.
	Restarted time.Time `json:"restarted,omitzero"`
	Found     string    `json:"found,omitempty"`
}

// MetricVerdict is what is found of one metric.
type MetricVerdict struct {
	Name   string `json:"name"`
	Result string `json:"result"`
	Reason string `json:"reason,omitempty"`
	// Values of what is judged, and of what it is compared with, the newest last, at
	// most MaxMetricValues.
	Values   []float64 `json:"values,omitempty"`
	Baseline []float64 `json:"baseline,omitempty"`
}

// MaxMetricValues are kept in a run's record for a plot.
const MaxMetricValues = 60

// RolloutEvent is something that a run did, or that was done to it.
type RolloutEvent struct {
	At time.Time `json:"at"`
	By Actor     `json:"by"`
	// Kind is "begin", "select", "stage", "verdict", "bad", "good", "rollback", "land",
	// "kept", "approved", or a RolloutOrder's.
	Kind string `json:"kind"`
	// Stage that is done, of kind "stage".
	Stage string `json:"stage,omitempty"`
	// Text is for people.
	Text string `json:"text"`
	// Paused says for what a run paused itself.
	Paused PauseCause `json:"paused,omitzero"`
}

// PauseCause is what a run paused itself for: a validation of a stage that cannot tell,
// or a rollout that it comes after and that went back. Zero: a person paused it.
type PauseCause struct {
	Validation string `json:"validation,omitempty"`
	Stage      string `json:"stage,omitempty"`
	Rollout    string `json:"rollout,omitempty"`
	// From is the incarnation that the rollout went back from.
	From IncarnationID `json:"from,omitzero"`
}

// OrderKind is what a person may ask of a rollout.
type OrderKind string

const (
	OrderStart     OrderKind = "start"     // begin a run
	OrderPause     OrderKind = "pause"     // let no asset go on
	OrderResume    OrderKind = "resume"    // go on
	OrderAbort     OrderKind = "abort"     // end the run as it stands
	OrderSkip      OrderKind = "skip"      // wait no longer for the stage that it is at
	OrderPromote   OrderKind = "promote"   // let all go on
	OrderRollback  OrderKind = "rollback"  // go back to what was good
	OrderEmergency OrderKind = "emergency" // go by the stages for emergencies
	OrderForgive   OrderKind = "forgive"   // what was judged bad may be brought again
	OrderRelease   OrderKind = "release"   // its assets follow head
)

// Votes of people on a stage that asks them.
const (
	OrderApprove OrderKind = "approve" // it may begin
	OrderReject  OrderKind = "reject"  // it may not
)

// IsVote reports whether it is a vote on a stage.
func (k OrderKind) IsVote() bool { return k == OrderApprove || k == OrderReject }

// OrderKinds are all that may be asked of a rollout itself.
func OrderKinds() []OrderKind {
	return []OrderKind{OrderStart, OrderPause, OrderResume, OrderAbort, OrderSkip, OrderPromote, OrderRollback, OrderEmergency, OrderForgive, OrderRelease}
}

// RolloutOrder is what a person asks of a rollout.
type RolloutOrder struct {
	Partition PartitionID `json:"partition"`
	// Number grows with every order of the partition.
	Number uint64    `json:"number"`
	Name   string    `json:"name"`
	Kind   OrderKind `json:"kind"`
	// Value to set, of an order to start a rollout that edits a document; in JSON.
	Value  json.RawMessage `json:"value,omitempty"`
	Reason string          `json:"reason"`
	By     Actor           `json:"by"`
	At     time.Time       `json:"at"`
	// Run and Stage that a vote is on. Roles: before it is stored, those of which its person needs
	// one; then those that the person had.
	Run   uint64 `json:"run,omitempty"`
	Stage string `json:"stage,omitempty"`
	Roles []Role `json:"roles,omitempty"`
}

// Observation is what a rollout saw of an asset with one content.
type Observation struct {
	Rollout   string  `json:"rollout"`
	Asset     AssetID `json:"asset"`
	Effective Digest  `json:"effective"`
	// Selected is when it was let go on to that content by a run; zero: it had it
	// before.
	Selected time.Time `json:"selected,omitzero"`
	// Left is when it went on from what was there before: Selected, or earlier where a
	// newer run took the place of one that had let it go on.
	Left time.Time `json:"left,omitzero"`
	// Arrived is when it was first seen in sync after that.
	Arrived time.Time `json:"arrived,omitzero"`
	// Seen is when it was last known to be in sync and healthy, and Healthy for how
	// long since Arrived, or since it was last unhealthy: only what was seen counts.
	Seen    time.Time     `json:"seen,omitzero"`
	Healthy time.Duration `json:"healthy,omitempty"`
	// LastBad is when it was last seen unhealthy, out of sync after Arrived, or not to
	// get there; Ill since when without a pause, up to now: only what was seen counts.
	LastBad time.Time `json:"lastBad,omitzero"`
	Ill     time.Time `json:"ill,omitzero"`
	// Tells: it was told of its health, with any content. If it is not any more,
	// nobody knows that it is healthy.
	Tells bool `json:"tells,omitempty"`
}

// Judgement says whether a content of an asset is good. One that was once bad
// stays so until a person forgives it (S20).
type Judgement struct {
	Asset     AssetID   `json:"asset"`
	Effective Digest    `json:"effective"`
	Good      bool      `json:"good"`
	Rollout   string    `json:"rollout"`
	Run       uint64    `json:"run,omitempty"`
	Reason    string    `json:"reason"`
	At        time.Time `json:"at"`
}

// Governed is an asset that a rollout governs by pins.
type Governed struct {
	Asset   AssetID
	Rollout string
}

// RolloutHolder is the holder of the pins of a rollout.
func RolloutHolder(name string) Actor {
	return Actor{Name: RolloutPrefix + name, Origin: ServerOrigin}
}

// RolloutPrefix begins the name of an actor that is a rollout.
const RolloutPrefix = "rollout/"

// Sick is the observation after a look that found the asset unhealthy, or not in
// sync any more: what it was healthy for counts no longer.
func (o Observation) Sick(at time.Time) Observation {
	if o.Ill.IsZero() {
		o.Ill = at
	}
	o.LastBad, o.Healthy, o.Seen = at, 0, time.Time{}
	return o
}
