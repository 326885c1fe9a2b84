package sim

import "slices"

// Required are situations that runs must bring about, or they prove little:
// each is where something went wrong in Lehr once, or in a mutant of it.
var Required = []string{
	"a protection had a push failed", "a protection had a push stopped",
	"admission refused: approval", "admission refused: budget", "admission refused: claim", "admission refused: stale", "admission refused: stop",
	"admission: several at once", "admission: stale lease", "admitted: a removal", "admitted: by an override", "admitted: with an approval",
	"admitted: with the approval of several people",
	"a check of other content was overridden", "a check was overridden: order", "a person had what failed tried again", "a plan was rejected", "a rejection was taken back",
	"an approval was denied: of an author", "an override is allowed by the commit that needs it", "an override ends while its asset is held",
	"approval: void, for what it was given for has changed", "override: void, for what it was given for has changed",
	"rejection: void, for what it was given for has changed", "two others than the author approved",
	"after a push: unhealthy", "after a push: unknown",
	"an edge was heeded: RULE_CAPACITY", "an edge was heeded: RULE_ORDER", "an edge was heeded: RULE_VERSION",
	"candidate: held", "candidate: rejected", "candidate: superseded", "claim: found in sync, and another's",
	"collector: left what is named by: enforced", "collector: left what is named by: pin", "collector: removed something",
	"common: does not parse", "common: observe", "common: require", "common: would have held a push", "damage was seen",
	"document: an edit on an older revision was refused", "document: an undo was refused", "document: undone",
	"effect: a later step of a push", "effect: create", "effect: delete", "effect: destructive", "effect: of a plugin that outlived its replica",
	"effect: replace", "effect: update",
	"field: before an edit: delay at a point, and meanwhile", "field: before an edit: kill at a point", "field: done", "field: kept", "field: land",
	"field: restart after an edit", "field: rolled-back", "field: somebody was faster", "field: superseded",
	"hints: a drift was seen by one", "hints: a false one was looked at", "hints: a flood, of as many as may be", "hints: a flood, of more than may be",
	"hints: a foreign one was dropped", "hints: about what is in quarantine", "hints: lost, as is known", "hints: lost, as nobody knows",
	"hints: one too many was dropped",
	"hours: something is new as they begin", "hours: something is new as they end",
	"hours: something is new as they change, on a day on which clocks are put forward or back",
	"judge: after: blocks", "judge: after: hangs", "judge: before: answers for another plan", "judge: before: blocks", "judge: before: cannot be asked so",
	"judge: before: changes its mind", "judge: before: dies", "judge: before: hangs", "judge: during: answers for another plan", "judge: during: blocks",
	"judge: during: cannot be asked so", "judge: during: changes its mind", "judge: during: dies", "judge: during: hangs", "judge: restart after a push", "judge: turns while a push runs",
	"lease: lost, and noticed",
	"notified: otherwise while something waits",
	"notified: a second time", "notified: awaiting is firing", "notified: awaiting is resolved", "notified: restart while something is owed",
	"permit refused: stale lease", "permit refused: stop", "permit refused: store unreachable", "permit refused: target moved",
	"new content for a busy target", "pinned by a program", "production: changed by drift", "production: changed by writer",
	"publish: acknowledged by a person", "publish: while pushes run",
	"push ended: failed", "push ended: in-doubt", "push ended: settled", "push ended: stale", "push ended: stopped",
	"receiver: fails", "receiver: hangs", "receiver: loses the answer",
	"report: gone", "report: model", "report: off", "report: pinned", "report: turned down", "report: unhealthy", "report: unmanaged fields differ", "report: unserved",
	"rollout: a broken source is waited for", "rollout: a canary soaked", "rollout: a new asset under way", "rollout: an asset gone under way",
	"rollout: begin", "rollout: begun after another", "rollout: forgiven", "rollout: held as bad", "rollout: held for a person", "rollout: pause", "rollout: promote",
	"rollout: in the middle of a soak: a resource is unhealthy", "rollout: in the middle of a soak: an asset comes or goes",
	"rollout: in the middle of a soak: clock jumps", "rollout: in the middle of a soak: restart",
	"rollout: in the middle of a soak: someone changes production", "rollout: in the middle of a soak: what validations ask is in trouble",
	"rollout: restart in the middle of a soak", "rollout: rolled-back", "rollout: stage", "rollout: superseded", "rollout: the newer one is queued",
	"secrets: a rotation was pushed", "secrets: looked at", "secrets: rotated between a plan and its push", "secrets: rotated within a push", "secrets: stored as content alone", "struck: protections are edited",
	"store: a read failed", "store: a reply was lost after the commit of Admit", "store: a reply was lost after the commit of ClosePushes",
	"store: a reply was lost after the commit of Publish", "store: a reply was lost after the commit of SaveEnforced", "store: a reply was lost after the commit of SetFields",
	"struck: somebody changes what another thing comes after, and that one is to change", "struck: somebody shrinks a job, and its balancer is to grow", "stop: in the file beside the store",
	"store: a write failed", "store: a write hung", "store: full", "store: news came late",
	"target refused: a base that has moved", "target refused: an older token",
	"trouble: diff-busy", "trouble: diff-pending", "trouble: permit-late", "trouble: permit-lost", "trouble: plugin-outlives-parent", "trouble: plugin-paused", "trouble: push-ignores-permit-end",
	"trouble: push-busy", "trouble: push-reply-lost", "trouble: push-start-late", "trouble: push-start-twice",
	"unserved: counted",
	"validation: bad", "validation: inconclusive",
	"waits: backoff", "waits: calendar", "waits: calendar that an edit dropped", "waits: changed-back", "waits: check-broken", "waits: check-config", "waits: hold", "waits: pending", "waits: others of its cluster are not healthy", "waits: protection", "waits: rate", "waits: rejected", "waits: settling", "waits: turndown", "waits: unknown",
	"while a push runs: another process takes over", "while a push runs: back to the first intent", "while a push runs: clock jumps",
	"while a push runs: edit", "while a push runs: hold", "while a push runs: kill at a point", "while a push runs: pin",
	"while a push runs: restart", "while a push runs: someone changes production", "while a push runs: stop",
}

// Missed lists what is required and was not met in a set of runs.
func Missed(marks map[string]int) []string {
	return slices.DeleteFunc(slices.Clone(Required), func(mark string) bool { return marks[mark] > 0 })
}
