package enforcer

import (
	"slices"
	"strings"
	"time"

	"lehr.dev/internal/annealing/check"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/ground/loop"
	"lehr.dev/internal/ground/measure"
)

// asset is what the enforcer knows of one asset. There may be a million: what
// only troubled ones need is in trouble, nil for a quiet one.
type asset struct {
	id   intent.AssetID
	kind *kind
	// effective digest at head; zero when the asset is only pinned.
	effective intent.Digest
	// enforced is the incarnation of the enforced record (0: none), with the
	// effective digest other; nil: that at head.
	enforced       intent.Sequence
	enforcedDigest *intent.Digest
	// reported is the key of the last report stored.
	reported uint64
	// seenAt is when production was last seen in sync, in Unix nanoseconds.
	seenAt int64
	// healthAt is when health was told last, in Unix nanoseconds.
	healthAt int64
	// pinned is the sequence that a pin made it follow at the last look.
	pinned intent.Sequence
	*trouble
	// aftermath is what is asked after its last push; nil: nothing.
	aftermath *aftermath
	// due is its place in the enforcer's queue.
	due loop.Place
	// settled: it was recorded as enforced under the policy of head.
	settled bool
	health  health
	// judge of its health at the target.
	judge healthJudge
	// calm counts looks in a row that found nothing new.
	calm uint8
	// counted is where the last pass counted it.
	counted measure.Place
	// looking: a diff is under way. recording: its sighting is with the store,
	// and what it was enforced with last is not known until that answers.
	// again: look once more after it.
	looking, recording, again bool
	// mode of its Mode addon, if known.
	mode level
	// read says that the content was read for its mode and Turndown: not
	// before something depends on it.
	read, turndown bool
	// absent: it was enforced last by being turned down. lags: its target is
	// not what it was enforced with.
	absent, lags bool
	// unwell: what is asked after its last push did not pass to the end, so it counts
	// as unhealthy. afterKnown: whether that is so was looked up.
	unwell, afterKnown bool
}

// level is a mode in a byte; 0: none.
type level uint8

var levels = []check.Mode{"", check.Enforce, check.Observe, check.Off}

func levelOf(mode check.Mode) level { return level(max(0, slices.Index(levels, mode))) }

// enforcedAs is the effective digest of its enforced record, if it has one.
func (a *asset) enforcedAs() intent.Digest {
	switch {
	case a.enforced == 0:
		return intent.Digest{}
	case a.enforcedDigest != nil:
		return *a.enforcedDigest
	}
	return a.effective
}

// setEnforced takes over what it was enforced with.
func (a *asset) setEnforced(at intent.Sequence, effective intent.Digest, absent bool) {
	a.enforced, a.enforcedDigest, a.absent = at, nil, absent
	if at > 0 && effective != a.effective {
		digest := effective // So that only these are allocated.
		a.enforcedDigest = &digest
	}
}

// setEffective takes over what head asks for.
func (a *asset) setEffective(effective intent.Digest) {
	enforcedDigest := a.enforcedAs()
	a.effective = effective
	a.setEnforced(a.enforced, enforcedDigest, a.absent)
}

// trouble is what is known of an asset that is not quietly in sync.
type trouble struct {
	difference   intent.Difference
	plan         intent.Digest // of the difference
	requirements requirements
	// consent to the plan and overrides, as the last pass saw them.
	consent   *intent.Consent
	overrides []intent.Override
	// passed are the checks that passed in the last pass, passedOver those that would
	// not, and do not hold what goes back.
	passed, passedOver []string
	// observed is what common rules that only observe would have held it for.
	observed []intent.WaitingOn
	// ends is when a check of the policy may answer otherwise by itself; zero:
	// when something changes.
	ends time.Time
	// awaits lists the assets whose moves wake it.
	awaits []intent.AssetID
	// questions are the questions of its checks, and sides what was answered when it
	// was last decided about.
	questions []*question
	sides     []check.Side
	// stopped are the questions of protections that stopped the last push.
	stopped map[string]check.Question
	// failures in a row, and what the retry check says of them. Among them, cut
	// counts pushes in a row that ended with their plugin, vain those that were
	// carried out without effect, and broken looks alone at which it failed.
	failures, cut, vain, broken int
	retry                       *intent.WaitingOn
	// version of the plugin that failed; empty: that is not known.
	version string
	// pending: the last look found a change under way that no push hastens. askedSince is
	// as of when it is asked about until there is another answer; zero: as of now.
	pending    bool
	askedSince time.Time
	// apart: it is kept from being looked at until then; zero: it is not.
	apart time.Time
	// busy: its target is, and it is let be until then; nil: it is not.
	busy *intent.WaitingOn
	// share is the largest batch that it may be in after one that failed; 0:
	// it is no suspect.
	share int
	// flips counts how often it was changed back, from fought on, flipped when last.
	flips           int
	fought, flipped time.Time
	// lined is since when it waits for places; zero: it has them, or wants none.
	lined time.Time
	// admitting: its admission is before the store.
	admitting bool
	// push under way, admitted or in doubt.
	push *push
	// reportedContent is the content of which a pass reported why it waits.
	reportedContent intent.Digest
	// tried is the content of its last push.
	tried intent.Digest
	// note says how the last push ended.
	note string
	// lookTrace is of the last look, and pushTrace that of a push whose effect a look is
	// to tell; both are nil where nobody is told of traces.
	lookTrace *lookTrace
	pushTrace *pushTrace
}

// open reports whether a push of the asset is in the journal without an end.
func (a *asset) open() bool { return a.trouble != nil && a.push != nil }

// isBusy reports whether a look, a record or an admission of the asset is under way.
func (a *asset) isBusy() bool {
	return a.looking || a.recording || a.trouble != nil && a.admitting
}

// isContentKnown reports whether the mode and the Turndown of that content were read, or
// it was recorded as enforced under the present policy, and so has a mode that enforces it.
func (a *asset) isContentKnown(effective intent.Digest) bool {
	return a.read || a.settled && a.enforcedAs() == effective
}

// byID orders assets, so that a run can be replayed.
func byID(a, b *asset) int { return strings.Compare(string(a.id), string(b.id)) }

// urgency of a push: what intent asks for anew goes before what failed, and that
// before what something else changed back.
func (a *asset) urgency() loop.Priority {
	switch {
	case a.trouble != nil && a.failures > 0:
		return loop.Retry
	case a.lags || a.enforced == 0:
		return loop.Fresh
	}
	return loop.Sweep
}
