package intent

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

// Outcome of a diff.
type Outcome uint8

const (
	// Unknown: the plugin could not tell. Never taken for in sync (S11).
	Unknown Outcome = iota
	InSync
	Differs
	// Pending: a change is under way that no push hastens. Never taken for in sync (S11).
	Pending
)

// Action is what a push would do to the resource.
type Action string

const (
	ActionCreate  Action = "create"
	ActionUpdate  Action = "update"
	ActionReplace Action = "replace"
	ActionDelete  Action = "delete"
)

// FieldChange is one field that differs. Values are rendered and redacted.
type FieldChange struct {
	Path        string `json:"path"`
	Current     string `json:"current,omitempty"`
	Target      string `json:"target,omitempty"`
	Reason      string `json:"reason,omitempty"`
	Destructive bool   `json:"destructive,omitempty"`
	// Writer of current, as the provider records it; empty: it records nobody.
	Writer string `json:"writer,omitempty"`
}

// Plan is what a push would do. Its digest is what approvals bind to.
type Plan struct {
	Action  Action        `json:"action,omitempty"`
	Changes []FieldChange `json:"changes,omitempty"`
}

// Destructive reports whether the plan destroys data or capacity: a delete, a
// replace, or any change so marked.
func (p Plan) Destructive() bool {
	return p.Action == ActionDelete || p.Action == ActionReplace ||
		slices.ContainsFunc(p.Changes, func(c FieldChange) bool { return c.Destructive })
}

// Digest covers action, field changes and destructive set, in the order of
// their paths, as they are Shown: what a person approves is what was seen.
// Reasons and writers are for people and are left out.
func (p Plan) Digest() Digest {
	changes := p.Changes
	byPath := func(a, b FieldChange) int { return cmp.Compare(a.Path, b.Path) }
	if !slices.IsSortedFunc(changes, byPath) {
		changes = slices.Clone(changes)
		slices.SortStableFunc(changes, byPath)
	}
	var all Parts
	all.Begin("lehr.plan.v1")
	all.AddText(string(p.Action))
	for _, c := range changes {
		all.AddText(Shown(c.Path))
		all.AddText(Shown(c.Current))
		all.AddText(Shown(c.Target))
		destructive := "\x00"
		if c.Destructive {
			destructive = "\x01"
		}
		all.AddText(destructive)
	}
	return all.Sum()
}

// Shown escapes what would upset a terminal or a log line: control
// characters, and bytes that are no text. Text without them stays as it is.
func Shown(text string) string {
	if utf8.ValidString(text) && strings.IndexFunc(text, func(r rune) bool { return !strconv.IsPrint(r) }) < 0 {
		return text
	}
	quoted := strconv.Quote(text)
	return strings.ReplaceAll(quoted[1:len(quoted)-1], `\"`, `"`)
}

// Impact is a capacity or the like that the resource has and will have.
type Impact struct {
	Dimension string  `json:"dimension"`
	Current   float64 `json:"current"`
	Target    float64 `json:"target"`
}

// HealthState of a resource, as its plugin sees it.
type HealthState string

const (
	HealthUnknown HealthState = "unknown"
	Healthy       HealthState = "healthy"
	Unhealthy     HealthState = "unhealthy"
)

// HealthSource is who judged a resource's health.
type HealthSource string

const (
	// SourcePlugin: its plugin.
	SourcePlugin HealthSource = ""
	// SourceAfterPush: the protections that are asked after its push, which are not over.
	SourceAfterPush HealthSource = "after-push"
	// SourceAddon: the asset's Health addon, with what its plugin tells. Unknown then
	// counts as not healthy, for the asset is meant to have a health.
	SourceAddon HealthSource = "addon"
)

// Health of a resource. Programs read the fields; Reason is for people alone.
type Health struct {
	State           HealthState  `json:"state"`
	Reason          string       `json:"reason,omitempty"`
	ObservedVersion string       `json:"observedVersion,omitempty"`
	Source          HealthSource `json:"source,omitempty"`
	// Check is the protection that State is of, which a person may override; empty: none.
	Check string `json:"check,omitempty"`
	// Plugin is what the plugin told, where State is not that; HealthUnknown: it told
	// something before, and what holds now is not known. Empty: State is what it told.
	Plugin HealthState `json:"plugin,omitempty"`
}

// IsAfterPush reports whether what is asked after a push is not over.
func (h Health) IsAfterPush() bool { return h.Source == SourceAfterPush }

// IsByAddon reports whether the asset's Health addon judged it.
func (h Health) IsByAddon() bool { return h.Source == SourceAddon }

// Difference is a fact: how production compares with an asset's intent.
type Difference struct {
	Asset AssetID
	// Incarnation and Effective say which intent was compared.
	Incarnation IncarnationID
	Effective   Digest
	Outcome     Outcome
	// Reason why the outcome is unknown, or what is pending.
	Reason string
	// PendingSince is when what is pending began, as its provider tells; zero: it does
	// not tell. PendingEnd says for people what ends it.
	PendingSince time.Time
	PendingEnd   string
	// RetryAfter: its plugin is too busy to tell, and is not to be asked sooner; 0: it
	// is not.
	RetryAfter time.Duration
	Plan       Plan
	// Base is the provider's compare-and-set token of the state read.
	Base        string
	ResourceKey ResourceKey
	Impacts     []Impact
	// Current is the state read, in the payload's type; empty: nothing there.
	Current []byte
	Health  Health
	// Unmanaged differences are left to production.
	Unmanaged []FieldChange
	// Outputs of an asset in sync, in the order of their names. OutputProblem says why what
	// its plugin tells is not among them; empty: nothing is wrong.
	Outputs       []Output
	OutputProblem string
	// At is when production began to be read.
	At time.Time
}
