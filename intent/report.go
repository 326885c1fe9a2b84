package intent

import (
	"hash/fnv"
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
	// StateModel: no plugin serves the type, nor should one.
	StateModel State = "model"
)

// WaitingKind says what an asset waits for. Not acting is always one of these.
type WaitingKind string

const (
	WaitStop          WaitingKind = "stop"           // the stop is on
	WaitMode          WaitingKind = "mode"           // observe mode: shown, not pushed
	WaitHold          WaitingKind = "hold"           // a person's hold
	WaitOrder         WaitingKind = "order"          // another asset comes first
	WaitCapacity      WaitingKind = "capacity"       // another asset still expects, or does not yet serve, that much
	WaitVersion       WaitingKind = "version"        // another asset does not declare the version yet, or still needs it
	WaitTurndown      WaitingKind = "turndown"       // a removal that is not asked for, or that others still depend on
	WaitApproval      WaitingKind = "approval"       // a person's approval
	WaitRejected      WaitingKind = "rejected"       // a person rejected the plan
	WaitBudget        WaitingKind = "budget"         // too many in flight in its scope
	WaitAge           WaitingKind = "age"            // what it is to become was published too recently
	WaitDenied        WaitingKind = "denied"         // its version or commit is on a denylist
	WaitCalendar      WaitingKind = "calendar"       // outside its windows, on a holiday, or frozen
	WaitRate          WaitingKind = "rate"           // as many pushes as are allowed began within a time
	WaitPartition     WaitingKind = "partition"      // another partition is stopped, or not in sync
	WaitCondition     WaitingKind = "condition"      // a condition of the policy is not so
	WaitClaim         WaitingKind = "claim"          // another asset holds the resource
	WaitNotSelected   WaitingKind = "not-selected"   // governed, and no rollout chose it yet
	WaitPluginMissing WaitingKind = "plugin-missing" // no plugin for an enforced type
	WaitPlugin        WaitingKind = "plugin"         // the plugin is down, hung or of a wrong version
	WaitUnknown       WaitingKind = "unknown"        // the plugin cannot tell the difference
	WaitBackoff       WaitingKind = "backoff"        // the last push failed
	WaitSettling      WaitingKind = "settling"       // an earlier push may still be running
	WaitFlapping      WaitingKind = "changed-back"   // something keeps changing it back
	WaitCheckBroken   WaitingKind = "check-broken"   // a check could not answer
	WaitTarget        WaitingKind = "target-missing" // the target incarnation does not have it
	WaitStale         WaitingKind = "stale"          // the world moved during admission; looked at again at once
	WaitStore         WaitingKind = "store"          // the store refuses writes
	WaitGeneration    WaitingKind = "generation"     // the partition's newest sources are not served
	WaitTurn          WaitingKind = "turn"           // queued behind others for a diff or push slot
)

// WaitingOn is one reason why an asset is not pushed now.
type WaitingOn struct {
	Kind WaitingKind `json:"kind"`
	// Reason in plain words, with numbers and what to do.
	Reason string `json:"reason"`
	// Blockers are the assets that must move first.
	Blockers []AssetID `json:"blockers,omitempty"`
	// Owner of the hold, pin or stop in the way.
	Owner string `json:"owner,omitempty"`
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
	// Waiting names every blocker, the most decisive first.
	Waiting   []WaitingOn   `json:"waiting,omitempty"`
	Unmanaged []FieldChange `json:"unmanaged,omitempty"`
	// Consent to the plan; nil: nobody's is asked for.
	Consent *Consent `json:"consent,omitempty"`
	// Overrides that count for this content, in force when it was reported.
	Overrides []Override `json:"overrides,omitempty"`
	// Absent: nothing is there, as the asset's Turndown asks.
	Absent bool `json:"absent,omitempty"`
	// Next is when it will be looked at again at the latest.
	Next time.Time `json:"next,omitzero"`
}

// Key covers what makes a report worth rewriting: state, target of what is
// not in sync, plan, who approved it, overrides, push, health, fields left to
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
	for _, left := range r.Unmanaged {
		write("unmanaged", left.Path)
	}
	if r.Consent != nil {
		write("consent", strconv.Itoa(r.Consent.Need), strings.Join(r.Consent.Approved, "\x00"))
		write(r.Consent.Authors...)
	}
	for _, o := range r.Overrides {
		write("override", o.Check, o.By.Name, o.Reason, o.Until.UTC().String())
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
