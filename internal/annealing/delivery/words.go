package delivery

import (
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/ground/ordering"
	"lehr.dev/internal/ground/promotion"
)

// Words by which programs know what is decided.
var (
	stateWords = map[promotion.State]string{
		promotion.Pending: "pending", promotion.Approved: "approved", promotion.Deploying: "deploying", promotion.Current: "current",
		promotion.Previous: "previous", promotion.Skipped: "skipped", promotion.Superseded: "superseded", promotion.Vetoed: "vetoed",
		promotion.Failed: "failed", promotion.Withdrawn: "withdrawn", promotion.Unordered: "unordered",
	}
	holdWords = map[promotion.Hold]string{
		promotion.NoHold: "", promotion.HeldByPause: "pause", promotion.HeldByRollout: "rollout", promotion.HeldByVerification: "verification",
		promotion.HeldByTrouble: "trouble", promotion.HeldByEdit: "edit", promotion.HeldByOrder: "order", promotion.HeldByBadPin: "bad-pin",
		promotion.HeldByConstraint: "constraint", promotion.HeldForNothingGood: "nothing-good",
	}
	causeWords = map[promotion.Cause]string{
		promotion.Met: "met", promotion.Forced: "forced", promotion.PassedByHotfix: "hotfix", promotion.NothingSelected: "nothing-selected", promotion.NotThere: "not-there", promotion.NotGood: "not-good",
		promotion.NotStable: "not-stable", promotion.Unverified: "unverified", promotion.BadThere: "bad-there", promotion.NotAsked: "not-asked",
		promotion.NeedsPeople: intent.CauseNeedsPeople, promotion.Rejected: "rejected", promotion.Closed: "closed", promotion.WindowFull: "window-full",
		promotion.Young: "young", promotion.AgeUnknown: "age-unknown", promotion.Denied: "denied", promotion.NoResult: "no-result", promotion.ResultBad: "result-bad",
		promotion.SaysNo: "says-no", promotion.LineUnreadable: "line-unreadable", promotion.NotReleased: "not-released", promotion.InAborted: "release-aborted",
		promotion.InSkipped: "release-skipped", promotion.InHeld: "release-held", promotion.BehindHeld: "behind-held", promotion.FirstUnreadable: "first-unreadable",
		promotion.FailedThere: "failed-there", promotion.WentBackThere: "went-back", promotion.TooFarAhead: "too-far-ahead",
		promotion.NotRun: "not-run", promotion.Running: "running", promotion.TaskFailed: "task-failed", promotion.NotNext: "not-next", promotion.NotGoodBefore: "not-good-before",
		promotion.NotFailedThere: "not-failed",
	}
	asideWords = map[ordering.Cause]string{
		ordering.NoMatch: "no-match", ordering.NotAVersion: "not-a-version", ordering.Prerelease: "prerelease", ordering.NotKnown: "not-known",
	}
	troubleWords = map[promotion.Trouble]string{
		promotion.FieldGone: "its document, or the field in it, is not there: lehr document list shows what there is", promotion.Unreachable: "its partition is not registered here: lehr get partitions",
		promotion.NotAllowed: "its partition's lehr.yaml does not let the application set the field: add it to promotions.grants there",
		promotion.Stopped:    "its partition is stopped: lehr resume ends that",
		promotion.NotReadYet: "the repository of its document was not read yet", promotion.RepositoryAway: "the repository of its document cannot be read",
	}
	holdTexts = map[promotion.Hold]string{
		promotion.HeldByPause: "a person paused it: lehr delivery resume ends that", promotion.HeldByRollout: "a rollout holds its assets: lehr get rollouts",
		promotion.HeldByVerification: "a verification is under way", promotion.HeldByEdit: "somebody else set its field, so it is left alone: lehr delivery resume, or pin, says how it goes on",
		promotion.HeldByOrder:        "what it has has no place in the order, so nothing is newer: lehr delivery skip-to says with what it goes on",
		promotion.HeldByBadPin:       "what it is pinned to is bad, withdrawn or not known: lehr delivery unpin, or pin another",
		promotion.HeldByConstraint:   "what it is pinned to, or is to go back to, is not let in: lehr why says by what",
		promotion.HeldForNothingGood: "what it has is bad, and nothing else was good there: lehr delivery pin says what it gets",
	}
)

// StateWord is a word for where a version stands.
func StateWord(s promotion.State) string { return stateWords[s] }

// HoldWord is a word for why an environment takes no edit; empty: it does.
func HoldWord(h promotion.Hold) string { return holdWords[h] }

// HoldText says for people why an environment takes no edit, and what ends that.
func HoldText(h promotion.Hold, trouble promotion.Trouble) string {
	if h == promotion.HeldByTrouble {
		return troubleWords[trouble]
	}
	return holdTexts[h]
}

// CauseWord is a word for why a constraint says what it says.
func CauseWord(c promotion.Cause) string { return causeWords[c] }

// StatusWord is a word for what a constraint says.
func StatusWord(s promotion.Status) string { return statusWords[s] }

// AsideWord is a word for why a version has no place in the order; empty: it has one.
func AsideWord(c ordering.Cause) string { return asideWords[c] }
