package intent

import (
	"hash/fnv"
	"slices"
	"strconv"
	"strings"
	"time"
)

// State of an asset after a pass.
type State string

const (
	// StateInSync: production is as the target says.
	StateInSync State = "in-sync"
	// StateWaiting: it differs, or cannot be told, and something is in the way.
	StateWaiting State = "waiting"
	// StatePushing: an admitted push is under way.
	StatePushing State = "pushing"
	// StateOff: the mode says not to look.
	StateOff State = "off"
	// StateGone: intent does not name it any more. Production keeps what it
	// has.
	StateGone State = "gone"
	// StateUnserved: no plugin serves the type, and nobody declared it a model.
	StateUnserved State = "unserved"
	// StateModel: no plugin serves the type, and policy declares that none is to.
	StateModel State = "model"
	// StateUnseen: it was not looked at yet, so no report says so.
	StateUnseen State = "unseen"
)

// States are all that an asset can be in, what needs a person most first. A group is
// in the first that a member is in: a model only where all are, for they are compared
// with nothing.
func States() []State {
	return []State{StateWaiting, StatePushing, StateUnseen, StateGone, StateOff, StateUnserved, StateInSync, StateModel}
}

// IsUncompared reports whether no plugin serves the type: it is compared with nothing.
func (s State) IsUncompared() bool { return s == StateModel || s == StateUnserved }

// Words say what a state means, in a plain sentence.
func (s State) Words() string {
	switch s {
	case StateWaiting:
		return "it differs from intent, or cannot be told, and something is in the way"
	case StatePushing:
		return "a push is under way"
	case StateUnseen:
		return "it is in intent, and was not looked at yet"
	case StateGone:
		return "intent does not name it any more; production keeps what it has"
	case StateOff:
		return "its mode is off: it is not looked at"
	case StateModel:
		return "its type is declared a model: it is compared with nothing"
	case StateUnserved:
		return "no plugin serves its type: it is not looked at"
	case StateInSync:
		return "production is as its target says"
	default:
		return "it is no state"
	}
}

// Worst is the first of States that is counted; empty: none is.
func Worst(counts map[State]int) State {
	for _, state := range States() {
		if counts[state] > 0 {
			return state
		}
	}
	return ""
}

// ModePlace is a place that sets an enforcement mode; the strictest of all counts.
type ModePlace string

const (
	// ModeOfPartition is "mode" in lehr.yaml.
	ModeOfPartition ModePlace = "partition"
	// ModeOfType is what "modes" in lehr.yaml says of the asset's type.
	ModeOfType ModePlace = "type"
	// ModeOfAsset is the asset's own addon Mode.
	ModeOfAsset ModePlace = "asset"
)

// Words name the place.
func (p ModePlace) Words() string {
	switch p {
	case ModeOfPartition:
		return "mode in lehr.yaml"
	case ModeOfType:
		return "modes in lehr.yaml, for its type"
	default:
		return "its addon Mode"
	}
}

// WaitingKind says what an asset waits for. Not acting is always one of these.
type WaitingKind string

const (
	WaitStop          WaitingKind = "stop"           // the stop is on
	WaitMode          WaitingKind = "mode"           // observe mode: shown, not pushed
	WaitHold          WaitingKind = "hold"           // a person's hold
	WaitVerification  WaitingKind = "verification"   // a verification of its environment is under way
	WaitOrder         WaitingKind = "order"          // another asset comes first
	WaitCapacity      WaitingKind = "capacity"       // another asset still expects, or does not yet serve, that much
	WaitVersion       WaitingKind = "version"        // another asset does not declare the version yet, or still needs it
	WaitOutput        WaitingKind = "output"         // another asset did not tell what its content needs
	WaitTurndown      WaitingKind = "turndown"       // a removal that is not asked for, or that others still depend on
	WaitApproval      WaitingKind = "approval"       // a person's approval
	WaitRejected      WaitingKind = "rejected"       // a person rejected the plan
	WaitBudget        WaitingKind = "budget"         // too many in flight in its scope
	WaitAge           WaitingKind = "age"            // what it is to become was published too recently
	WaitDenied        WaitingKind = "denied"         // its version or commit is on a denylist
	WaitCalendar      WaitingKind = "calendar"       // outside its windows, on a holiday, or frozen
	WaitRate          WaitingKind = "rate"           // as many pushes as are allowed were under way within a time
	WaitPartition     WaitingKind = "partition"      // another partition is stopped, or not in sync
	WaitTrain         WaitingKind = "train"          // a train of releases is in its environment, which policy does not enforce meanwhile
	WaitCondition     WaitingKind = "condition"      // a condition of the policy is not so
	WaitMetric        WaitingKind = "metric"         // what monitoring measures is not within limits
	WaitAlert         WaitingKind = "alert"          // an alert is active
	WaitPeak          WaitingKind = "peak"           // it would serve less than was asked of it lately
	WaitProtection    WaitingKind = "protection"     // a protection says no
	WaitCheckConfig   WaitingKind = "check-config"   // a check cannot be asked as it is configured, or may not
	WaitClaim         WaitingKind = "claim"          // another asset holds the resource
	WaitNotSelected   WaitingKind = "not-selected"   // governed, and no rollout chose it yet
	WaitPluginMissing WaitingKind = "plugin-missing" // no plugin for an enforced type
	WaitPlugin        WaitingKind = "plugin"         // the plugin is down, hung or of a wrong version
	WaitUnknown       WaitingKind = "unknown"        // the plugin cannot tell the difference
	WaitPending       WaitingKind = "pending"        // a change is under way that no push hastens
	WaitBackoff       WaitingKind = "backoff"        // the last push failed
	WaitNoEffect      WaitingKind = "no-effect"      // pushes are carried out, and nothing changes
	WaitQuarantined   WaitingKind = "quarantined"    // it breaks what looks at it, or pushes it
	WaitMissing       WaitingKind = "missing"        // a dependency does not exist
	WaitSettling      WaitingKind = "settling"       // an earlier push may still be running
	WaitFlapping      WaitingKind = "changed-back"   // something keeps changing it back
	WaitCheckBroken   WaitingKind = "check-broken"   // a check could not answer
	WaitTarget        WaitingKind = "target-missing" // the target incarnation does not have it
	WaitStale         WaitingKind = "stale"          // the world moved during admission; looked at again at once
	WaitStore         WaitingKind = "store"          // the store refuses writes
	WaitGeneration    WaitingKind = "generation"     // the partition's newest sources are not served
	WaitTurn          WaitingKind = "turn"           // queued behind others for a diff or push slot, or for an answer from outside
	WaitPlan          WaitingKind = "plan"           // nothing: a plan pushes nothing
)

// WaitingKinds are all that an asset can wait for.
func WaitingKinds() []WaitingKind {
	return []WaitingKind{
		WaitStop, WaitMode, WaitHold, WaitVerification, WaitOrder, WaitCapacity, WaitVersion, WaitOutput, WaitTurndown, WaitApproval, WaitRejected, WaitBudget,
		WaitAge, WaitDenied, WaitCalendar, WaitCondition, WaitMetric, WaitAlert, WaitPeak, WaitRate, WaitPartition, WaitTrain, WaitProtection, WaitCheckConfig, WaitPlan, WaitClaim, WaitNotSelected, WaitPluginMissing, WaitPlugin, WaitUnknown,
		WaitPending, WaitBackoff, WaitNoEffect, WaitQuarantined, WaitMissing, WaitSettling, WaitFlapping, WaitCheckBroken, WaitTarget, WaitStale, WaitStore, WaitGeneration, WaitTurn,
	}
}

// Sort of a cause, for whoever is on call.
type Sort string

const (
	// SortFighting: something else changes production too.
	SortFighting Sort = "fighting"
	// SortFailing: something does not work.
	SortFailing Sort = "failing"
	// SortWaiting: all works, and something that is meant is in the way.
	SortWaiting Sort = "waiting"
)

// Sorts of causes, what needs a person most first.
func Sorts() []Sort { return []Sort{SortFighting, SortFailing, SortWaiting} }

// Sort of what an asset waits for.
func (k WaitingKind) Sort() Sort {
	switch k {
	case WaitFlapping:
		return SortFighting
	case WaitBackoff, WaitNoEffect, WaitQuarantined, WaitMissing, WaitPlugin, WaitPluginMissing, WaitUnknown, WaitCheckBroken, WaitCheckConfig, WaitTarget, WaitClaim, WaitStore, WaitGeneration, WaitSettling:
		return SortFailing
	default:
		return SortWaiting
	}
}

// WaitingOn is one reason why an asset is not pushed now.
type WaitingOn struct {
	Kind WaitingKind `json:"kind"`
	// Reason in plain words, with numbers and what to do. Programs read the other fields.
	Reason string `json:"reason"`
	// Check of policy that gives it, which a person may override; empty: none.
	Check string `json:"check,omitempty"`
	// Quotes: Reason quotes what something outside Lehr said, which may hold a secret.
	Quotes bool `json:"quotes,omitempty"`
	// Approve: an approval of the plan lets the push go.
	Approve bool `json:"approve,omitempty"`
	// Loosened: only what was enforced last asks for it, and no longer the target.
	Loosened bool `json:"loosened,omitempty"`
	// Unhealthy: too many assets of the budget's scope are not healthy.
	Unhealthy bool `json:"unhealthy,omitempty"`
	// Modes are the places whose mode keeps it from being pushed.
	Modes []ModePlace `json:"modes,omitempty"`
	// Blockers are the assets that must move first.
	Blockers []AssetID `json:"blockers,omitempty"`
	// Partition, another one, that must be so first.
	Partition PartitionID `json:"partition,omitempty"`
	// Elsewhere are the assets of Partition that must move first.
	Elsewhere []AssetID `json:"elsewhere,omitempty"`
	// Scope of a budget that is full.
	Scope string `json:"scope,omitempty"`
	// Owner of the hold, pin or stop in the way.
	Owner string `json:"owner,omitempty"`
	// Since is when it began, over pushes that did not end it; zero: with the report.
	Since time.Time `json:"since,omitzero"`
	// Until is when it ends by itself, if known.
	Until time.Time `json:"until,omitzero"`
}

// Report is the stored outcome of a pass over one asset.
type Report struct {
	Partition PartitionID   `json:"partition"`
	Asset     AssetID       `json:"asset"`
	Type      TypeName      `json:"type"`
	At        time.Time     `json:"at"`
	State     State         `json:"state"`
	Target    IncarnationID `json:"target"`
	Effective Digest        `json:"effective"`
	// Pinned says which pin chose the target.
	Pinned string `json:"pinned,omitempty"`
	// Plan that a push would carry out, with its digest.
	Plan        Plan        `json:"plan,omitzero"`
	PlanDigest  Digest      `json:"planDigest,omitzero"`
	ResourceKey ResourceKey `json:"resourceKey,omitempty"`
	Health      Health      `json:"health,omitzero"`
	Guarantee   string      `json:"guarantee,omitempty"`
	// Push under way, or the last one, and how it ended.
	Push     PushID `json:"push,omitempty"`
	PushNote string `json:"pushNote,omitempty"`
	// Waiting names every blocker, the most decisive first, and Passed the checks
	// that pass by themselves.
	Waiting []WaitingOn `json:"waiting,omitempty"`
	Passed  []string    `json:"passed,omitempty"`
	// PassedOver names checks that do not pass, and do not hold the push, for it goes
	// back to what was before.
	PassedOver []string `json:"passedOver,omitempty"`
	// Observed is what would hold the push if the common rules were in force that only
	// observe.
	Observed  []WaitingOn   `json:"observed,omitempty"`
	Unmanaged []FieldChange `json:"unmanaged,omitempty"`
	// Consent to the plan; nil: nobody's is asked for.
	Consent *Consent `json:"consent,omitempty"`
	// Overrides that count for this content, in force when it was reported.
	Overrides []Override `json:"overrides,omitempty"`
	// Absent: nothing is there, as the asset's Turndown asks.
	Absent bool `json:"absent,omitempty"`
	// OutputProblems say which outputs are not taken up as its plugin tells them.
	OutputProblems []OutputProblem `json:"outputProblems,omitempty"`
	// Next is when it will be looked at again at the latest.
	Next time.Time `json:"next,omitzero"`
}

// Reading names the plan and the content that the report shows, together.
func (r Report) Reading() Digest { return Reading(r.Effective, r.PlanDigest) }

// AsksPeople reports whether it waits for people, who are to approve a plan or to take a rejection back.
func (r Report) AsksPeople() bool { return r.Asked() >= 0 }

// Asked is the place in Waiting of what people are asked for; -1: of nothing.
func (r Report) Asked() int {
	if r.State != StateWaiting {
		return -1
	}
	return slices.IndexFunc(r.Waiting, func(w WaitingOn) bool { return w.Kind == WaitApproval || w.Kind == WaitRejected })
}

// Settled reports tell of nothing in the way: in sync and not unhealthy, under way, or
// in the line for a place.
func (r Report) Settled() bool {
	if r.Health.State == Unhealthy {
		return false
	}
	switch r.State {
	case StateInSync, StatePushing:
		return true
	case StateWaiting:
		return len(r.Waiting) > 0 && !slices.ContainsFunc(r.Waiting, func(w WaitingOn) bool { return w.Kind != WaitTurn && w.Kind != WaitStale })
	}
	return false
}

// Key covers what makes a report worth rewriting: state, target of what is
// not in sync, plan, who approved it, overrides, push, health and why it is bad, fields left to
// production, and kind, owner, words, blockers and minute of each reason. Numbers in texts may differ under one key.
func (r Report) Key() uint64 {
	h := fnv.New64a()
	write := func(parts ...string) {
		h.Write([]byte(strings.Join(parts, "\x00")))
		h.Write([]byte{1})
	}
	write(string(r.State), r.Pinned, string(r.Push), r.PushNote, string(r.Health.State), string(r.ResourceKey))
	if r.State == StateWaiting || r.State == StatePushing {
		write(r.Target.String())
	}
	if r.Absent {
		write("absent")
	}
	if r.Health.IsByAddon() {
		write("addon")
		if r.Health.State == HealthUnknown {
			write(words(r.Health.Reason))
		}
	}
	if r.Health.IsAfterPush() {
		write("after", words(r.Health.Reason))
	} else if r.Health.State == Unhealthy { // A rollout's verdict tells why.
		write("unhealthy", words(r.Health.Reason))
	}
	for _, field := range r.Unmanaged {
		write("unmanaged", field.Path)
	}
	for _, problem := range r.OutputProblems {
		write("output", problem.Name, string(problem.Kind), problem.Reason, problem.Until.UTC().String())
	}
	if r.Consent != nil {
		write("consent", strconv.Itoa(r.Consent.Need), strings.Join(r.Consent.Approved, "\x00"))
		write(r.Consent.Authors...)
	}
	for _, o := range r.Overrides {
		write("override", o.Check, o.By.Name, o.Reason, o.Until.UTC().String())
	}
	if len(r.PassedOver) > 0 {
		write(append([]string{"passed over"}, r.PassedOver...)...)
	}
	for _, w := range r.Observed {
		write("observed", w.Check, words(w.Reason))
	}
	h.Write(r.Effective[:])
	h.Write(r.PlanDigest[:])
	for _, w := range r.Waiting {
		write(string(w.Kind), w.Owner, words(w.Reason), w.Until.Truncate(time.Minute).UTC().String())
		for _, blocker := range w.Blockers {
			write(string(blocker))
		}
	}
	return h.Sum64()
}

// words of a text are all but its numbers.
func words(text string) string {
	return strings.Map(func(r rune) rune {
		if '0' <= r && r <= '9' {
			return -1
		}
		return r
	}, text)
}
