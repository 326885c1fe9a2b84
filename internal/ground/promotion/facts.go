package promotion

import (
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	"lehr.dev/internal/ground/intent"
)

// Facts are all that a decision rests on besides the application and its versions. Whoever asks
// owns them and reads them at one moment; nothing here changes them.
type Facts struct {
	Now time.Time
	// Environments by name. One that is missing has never had a version.
	Environments map[string]*Environment
	// Acts of people, in the order in which they were stored.
	Acts []Act
	// Votes on judgements, in the order in which they were stored.
	Votes []Vote
	// Results of verifications and of constraints that others decide, in the order in which they
	// were stored.
	Results []Result
	// Line is the line of releases that brings the application's versions; nil: it is in none, or the line
	// cannot be read. Member is what the line calls the application, PARTITION/APPLICATION.
	Line   *Line
	Member string
	// Lengths of the validations that analyses are made by, by name: an analysis has no result before it has
	// lasted that long since the environment was good.
	Lengths map[string]time.Duration
}

// Environment is what is known of one.
type Environment struct {
	// Stays are what its field held, the first one first. The last is what it holds.
	Stays []Stay
	// Trouble is why its field cannot be edited now.
	Trouble Trouble
	// EditedAt is when somebody else than delivery set the field last; zero: nobody did.
	EditedAt time.Time
	// Rollout is one that holds the field or its assets: it brings something on, or goes back.
	Rollout bool
	// Verifying: a verification is under way in it.
	Verifying bool
	// Vetoes are what rollouts found bad there.
	Vetoes []Veto
	// Failures are attempts after which the environment did not converge.
	Failures []Failure
	// Approved are the versions that were let in there, also those that never came.
	Approved []intent.VersionName
}

// Trouble is why a field cannot be edited.
type Trouble int

// Troubles of a field.
const (
	// FieldGone: the document, or the field in it, is no longer there.
	FieldGone Trouble = iota + 1
	// Unreachable: the document's place or the partition cannot be reached.
	Unreachable
	// NotAllowed: the partition does not let the application edit the field.
	NotAllowed
	// Stopped: a person stopped the partition.
	Stopped
	// NotReadYet: the repository that has the field was not read yet.
	NotReadYet
	// RepositoryAway: the repository that has the field cannot be read.
	RepositoryAway
)

// Stay is a time for which an environment's field held a version.
type Stay struct {
	intent.VersionName
	// Start is when the field was set, End when it was set to something else; zero: it has it.
	Start, End time.Time
	// GoodSince is when all assets became good at its content; zero: they are not, or were not
	// when it ended.
	GoodSince time.Time
	// GoodBefore is for how long they were good before that, all times added up; LongestBefore
	// is the longest of these times.
	GoodBefore, LongestBefore time.Duration
	// Content is the digest of what its assets were to be: a verification counts for it alone.
	Content string
	// Back: it came by going back.
	Back bool
	// Found: somebody else than delivery set the field.
	Found bool
}

// good reports whether all was good with it at some time.
func (s *Stay) good() bool { return !s.GoodSince.IsZero() || s.GoodBefore > 0 }

// lasting is how long all has been good without a break until it ended, or now; never below 0,
// also where the clock was put back.
func (s *Stay) lasting(now time.Time) time.Duration {
	if s.GoodSince.IsZero() {
		return 0
	}
	end := s.End
	if end.IsZero() {
		end = now
	}
	return max(0, end.Sub(s.GoodSince))
}

// Veto is a rollout's bad verdict on what an environment was given, or that people closed the pull
// request by which it was to come.
type Veto struct {
	intent.VersionName
	At time.Time
	// Rollout that found it.
	Rollout string
	// Request that was closed; empty: a rollout found it bad.
	Request string
	// BackTo is what the rollout went back to, by pins that hold; zero: it stayed.
	BackTo intent.VersionName
}

// Failure counts attempts to bring a version that did not converge, since something of what it
// would meet there changed.
type Failure struct {
	intent.VersionName
	Attempts int
	Last     time.Time
}

// Vote is a person's word on a version in an environment, for one judgement.
type Vote struct {
	Environment, Constraint string
	intent.VersionName
	By string
	// Roles that the person had in the environment's partition, read where the vote was stored.
	Roles   []string
	At      time.Time
	Approve bool
	Reason  string
}

// Result is what a verification, or a constraint that others decide, came to.
type Result struct {
	Environment string
	// Name of the verification or of the constraint.
	Name string
	intent.VersionName
	// Content of the environment that it is about, of a verification; whom a constraint asked, as
	// AskedDigest says.
	Content string
	At      time.Time
	Good    bool
	Reason  string
	// Until is when it ends to count, as it says itself; zero: it does not say.
	Until time.Time
	// Unanswered: a constraint asked, and got no answer.
	Unanswered bool
}

// hasExpired reports whether it no longer counts: it is too old, or it said so itself.
func (r *Result) hasExpired(now time.Time, expires *durationpb.Duration) bool {
	if !r.Until.IsZero() && !now.Before(r.Until) {
		return true
	}
	return expires != nil && !now.Before(r.At.Add(expires.AsDuration()))
}

// ActKind is what a person asks of delivery.
type ActKind int

// Acts of people. Those without an environment are about all of them.
const (
	// Pin keeps an environment at a version.
	Pin ActKind = iota + 1
	Unpin
	// MarkBad keeps a version out of an environment, or of all, and takes it away.
	MarkBad
	// MarkGood takes back what was found bad before: marks, vetoes and failures.
	MarkGood
	// SkipTo makes a version the oldest candidate of an environment.
	SkipTo
	// RollBack gives an environment a version that was good there, and keeps out what is newer
	// and was known then, until it is marked good.
	RollBack
	// Pause makes no edits in an environment, or in all.
	Pause
	Resume
	// Force passes over one constraint for a version in an environment.
	Force
	// Restart has a constraint or a verification judged anew for a version in an environment.
	Restart
	// Hotfix passes over the constraints that say so, for a version.
	Hotfix
)

// Act is one that a person made, with a reason.
type Act struct {
	Kind        ActKind
	Environment string
	intent.VersionName
	// Constraint of Force and Restart.
	Constraint string
	// Had is what the environment had, and Newest the newest version that was known, of
	// RollBack. Whoever owns the catalogue keeps versions that acts name.
	Had, Newest intent.VersionName
	By          string
	Reason      string
	At          time.Time
}
