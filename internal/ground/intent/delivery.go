package intent

import (
	"slices"
	"time"
)

// VersionName names a version of an application for good: what it is called, and what that led
// to. A tag that was moved to another digest is another version.
type VersionName struct {
	Name string `json:"name"`
	// Digest of what is deployed; empty where the source gives none.
	Digest string `json:"digest,omitempty"`
}

// Version is one that a source lists, or listed and that is still remembered.
type Version struct {
	VersionName
	// Commit that it was made of; empty: not known.
	Commit string `json:"commit,omitempty"`
	// Created is when it was made; zero: not known. Build is the number of the build that
	// made it; 0: not known.
	Created time.Time `json:"created,omitzero"`
	Build   uint64    `json:"build,omitempty"`
	// What its source says of it beside; empty: nothing. Others wrote it.
	Author      string `json:"author,omitempty"`
	Message     string `json:"message,omitempty"`
	PullRequest string `json:"pullRequest,omitempty"`
	BuildURL    string `json:"buildURL,omitempty"`
	Repository  string `json:"repository,omitempty"`
	// Seen is when the source listed it first, Gone when it no longer did; zero: it does.
	Seen time.Time `json:"seen,omitzero"`
	Gone time.Time `json:"gone,omitzero"`
}

// DeliveryKind says what a row of a delivery is.
type DeliveryKind string

// Kinds of rows.
const (
	// DeliveryAct is what a person asked.
	DeliveryAct DeliveryKind = "act"
	// DeliveryVote is a person's word on a version, for one judgement.
	DeliveryVote DeliveryKind = "vote"
	// DeliveryResult is what a verification, or a constraint that is decided outside, came to.
	DeliveryResult DeliveryKind = "result"
	// DeliveryAnswer is an answer to what a constraint asks about a version, and DeliveryUnanswered
	// says that it asked and got none. A no is for now, and marks nothing bad.
	DeliveryAnswer     DeliveryKind = "answer"
	DeliveryUnanswered DeliveryKind = "unanswered"
	// DeliveryAdmission says that a version was let in, with the verdicts of that time.
	DeliveryAdmission DeliveryKind = "admission"
	// DeliveryPromotion says that a field was set, in which revision of its document.
	DeliveryPromotion DeliveryKind = "promotion"
	// DeliveryFound says that the field was found to hold what delivery did not set.
	DeliveryFound DeliveryKind = "found"
	// DeliveryStanding says that all assets of an environment became good with what it has, or
	// that they are no longer.
	DeliveryStanding DeliveryKind = "standing"
	// DeliveryAttempt is one after which an environment did not converge.
	DeliveryAttempt DeliveryKind = "attempt"
	// DeliveryVeto is a rollout's bad verdict on what an environment was given.
	DeliveryVeto DeliveryKind = "veto"
	// DeliveryVerifying says that a verification began. DeliveryVoid says that one ended without a
	// result: it could not be run to its end, or what it verified is no longer there.
	DeliveryVerifying DeliveryKind = "verifying"
	DeliveryVoid      DeliveryKind = "void"
	// DeliveryWait says for which constraint a version waits in an environment from then on;
	// without a constraint, that it waits for none any more.
	DeliveryWait DeliveryKind = "wait"
	// DeliveryLanding says how it goes with a field in a repository: which version is to come, by
	// which pull request, and what is in its way. It counts until the next one of its environment,
	// a promotion or a found field. One without a version says that none is to come.
	DeliveryLanding DeliveryKind = "landing"
	// DeliveryRelease is a release that somebody made in a line of releases, whose name is the row's
	// application. Acts on releases are acts of the line.
	DeliveryRelease DeliveryKind = "release"
)

// Causes of what is in the way of a landing.
const (
	// LandingAway: the repository, or the git host, cannot be read.
	LandingAway = "away"
	// LandingFieldGone: the document, or the field in it, is not there.
	LandingFieldGone = "field-gone"
	// LandingRefused: the commit or the pull request was not taken.
	LandingRefused = "refused"
)

// PullRequest is a pull or merge request at a git host.
type PullRequest struct {
	Number int    `json:"number"`
	Link   string `json:"link,omitempty"`
}

// CauseNeedsPeople is the cause of a wait for people who are asked now.
const CauseNeedsPeople = "needs-people"

// WhyPinned is why a version came that a person pinned.
const WhyPinned = "pinned"

// Said reports whether a person or a program outside said it, so that nothing which was decided
// before it may be carried out after it.
func (k DeliveryKind) Said() bool {
	return slices.Contains(SaidKinds(), k)
}

// SaidKinds are the kinds of rows that people or programs outside add.
func SaidKinds() []DeliveryKind {
	return []DeliveryKind{DeliveryAct, DeliveryVote, DeliveryResult, DeliveryRelease}
}

// Acts that a person may ask of delivery.
const (
	ActPin      = "pin"       // keep an environment at a version
	ActUnpin    = "unpin"     // end the pin
	ActMarkBad  = "mark-bad"  // keep a version out, and take it away
	ActMarkGood = "mark-good" // take back what was found bad before
	ActSkipTo   = "skip-to"   // pass by what is older than a version
	ActRollBack = "roll-back" // give an environment a version that was good there
	ActPause    = "pause"     // edit nothing
	ActResume   = "resume"    // go on
	ActForce    = "force"     // pass over one constraint for a version
	ActRestart  = "restart"   // have a constraint or a verification judged anew
	ActHotfix   = "hotfix"    // pass over the constraints that say so, for a version
)

// DeliveryActs are all of them.
func DeliveryActs() []string {
	return []string{ActPin, ActUnpin, ActMarkBad, ActMarkGood, ActSkipTo, ActRollBack, ActPause, ActResume, ActForce, ActRestart, ActHotfix}
}

// Acts that a person may ask about a release of a line.
const (
	ActHoldRelease   = "hold-release"   // no environment takes it, nor a later train of its applications
	ActResumeRelease = "resume-release" // end a hold, or a skip
	ActSkipRelease   = "skip-release"   // an environment never takes it
	ActAbortRelease  = "abort-release"  // no environment takes it, and those that have it go back
)

// ReleaseActs are all of them.
func ReleaseActs() []string {
	return []string{ActHoldRelease, ActResumeRelease, ActSkipRelease, ActAbortRelease}
}

// DeliveryRecord is one row of an application's delivery, in its home partition. Rows are only
// added to: what delivery says follows from them.
type DeliveryRecord struct {
	Partition   PartitionID `json:"partition"`
	Application string      `json:"application"`
	// Number grows with every row of the partition.
	Number uint64       `json:"number"`
	Kind   DeliveryKind `json:"kind"`
	// Environment that it is about; empty: all of the application.
	Environment string `json:"environment,omitempty"`
	// Version that it is about; zero: none.
	Version VersionName `json:"version,omitzero"`
	At      time.Time   `json:"at"`
	By      Actor       `json:"by"`
	Reason  string      `json:"reason,omitempty"`
	// Act is what is asked, of an act. Constraint that it, a vote, a result or a wait is about.
	Act        string `json:"act,omitempty"`
	Constraint string `json:"constraint,omitempty"`
	// Cause is a word for why the constraint did not let the version in when a wait began, or for
	// what is in a landing's way.
	Cause string `json:"cause,omitempty"`
	// Had is what the environment had, and Newest the newest version that was known, of
	// ActRollBack.
	Had    VersionName `json:"had,omitzero"`
	Newest VersionName `json:"newest,omitzero"`
	// Good is what a vote, a result or an answer says, or whether all assets are good with the version, of a
	// standing.
	Good bool `json:"good,omitempty"`
	// Roles of the person in the environment's partition, as the store found them, of a vote.
	Roles []Role `json:"roles,omitempty"`
	// Content is the digest of what the environment's assets were to be, of a verification's
	// result, a standing, an attempt, and a verification that began or is void. Of a constraint that
	// asks it is the digest of whom it asks.
	Content Digest `json:"content,omitzero"`
	// Until is when an answer ends to count, as it says itself; zero: it does not say.
	Until time.Time `json:"until,omitzero"`
	// Revision of the document that set the field, of a promotion, a standing and an attempt; of a
	// landing the one that its edit is made upon.
	Revision string `json:"revision,omitempty"`
	// First is the number of the row with which a landing began, of one that goes on with it.
	First uint64 `json:"first,omitempty"`
	// Request at which people decide on a landing, or closed what is vetoed; zero: none.
	Request PullRequest `json:"request,omitzero"`
	// Trouble is what is in a landing's way, for people; Cause is a word for it.
	Trouble string `json:"trouble,omitempty"`
	// Why a version was to come, of a promotion or a landing, and whether it goes back.
	Why  string `json:"why,omitempty"`
	Back bool   `json:"back,omitempty"`
	// Verdicts of all constraints when it was let in.
	Verdicts []DeliveryVerdict `json:"verdicts,omitempty"`
	// Rollout that found it bad, and BackTo what it went back to, of a veto.
	Rollout string      `json:"rollout,omitempty"`
	BackTo  VersionName `json:"backTo,omitzero"`
	// Release is the number of a release in its line, of one that is made and of acts on it; the store gives
	// it. Versions of its applications, by PARTITION/APPLICATION. Immediate: it goes before older ones.
	Release   int                    `json:"release,omitempty"`
	Versions  map[string]VersionName `json:"versions,omitempty"`
	Immediate bool                   `json:"immediate,omitempty"`
}

// DeliveryVerdict is what a constraint said of a version.
type DeliveryVerdict struct {
	Constraint string `json:"constraint"`
	// Status is "passes", "waits" or "refuses".
	Status string `json:"status"`
	// Text says it for people, with its numbers.
	Text string `json:"text"`
}

// DeliveryPrefix begins the name of an actor that is an application's delivery.
const DeliveryPrefix = "delivery/"

// DeliveryHolder is who edits documents for an application of a partition.
func DeliveryHolder(home PartitionID, application string) Actor {
	return Actor{Name: DeliveryPrefix + string(home) + "/" + application, Origin: ServerOrigin}
}
