// Package intent holds the values that saying and doing share: assets,
// incarnations, pins, differences, verdicts, reports; and the pure functions
// over them, of which Target is the chief. It does no I/O and reads no clock.
// Payloads stay bytes here; package schema decodes them.
package intent

import (
	"slices"
	"time"
)

// Message is a protobuf message in canonical bytes with its full name.
type Message struct {
	Type  TypeName
	Bytes []byte
}

// Asset is the configuration of one resource. Its type is its payload's.
type Asset struct {
	ID      AssetID
	Payload Message
	// Addons, sorted by type, at most one of each.
	Addons []Message
}

// Addon returns the addon of the type, if the asset has one.
func (a Asset) Addon(name TypeName) (Message, bool) {
	for _, addon := range a.Addons {
		if addon.Type == name {
			return addon, true
		}
	}
	return Message{}, false
}

// Reference is a field that names another asset of the same partition.
type Reference struct {
	// Field is the path of the field in payload or addon, for example
	// "lehr.intent.v1.Dependencies.dependencies[0].on".
	Field string
	To    AssetID
	// Read: the plugin reads the named asset too.
	Read bool
	// Types the named asset may have; empty: any.
	Types []TypeName
}

// Field is what an asset can be found by: an indexed field, or an addon.
type Field struct {
	// Path of the field, for example "lehr.process.v1.Job.version" or
	// `lehr.intent.v1.ImpactedScope.scopes["cluster"]`; for an addon, its type.
	Path string
	// Value as text, at most 256 bytes; none for an addon.
	Value string
}

// Member is an asset's place in an incarnation, without its content.
type Member struct {
	Asset AssetID
	Type  TypeName
	// Digest of the canonical bytes.
	Digest Digest
	// Effective covers the content and that of its read references.
	Effective Digest
	// Since is the incarnation in which the effective digest became this.
	Since Sequence
}

// EffectiveDigest covers an asset's own content and that of the assets it
// reads, in the order of their ids. A read asset that is absent counts as a
// zero digest.
func EffectiveDigest(own Digest, read []Digest) Digest {
	if len(read) == 0 {
		return own
	}
	parts := make([][]byte, 0, len(read)+1)
	parts = append(parts, own[:])
	for i := range read {
		parts = append(parts, read[i][:])
	}
	return Sum("lehr.effective.v1", parts...)
}

// Incarnation is what an immutable snapshot is and where it came from.
type Incarnation struct {
	ID     IncarnationID `json:"id"`
	Parent IncarnationID `json:"parent"`
	// Digest of the whole membership, see MembershipDigest.
	Digest Digest `json:"digest"`
	// Schema is the digest of the descriptor set that decodes its payloads.
	Schema Digest `json:"schema"`
	// Policy is the effective digest of the policy asset.
	Policy  Digest           `json:"policy"`
	Sources []SourceRevision `json:"sources"`
	Count   int              `json:"count"`
	Added   int              `json:"added"`
	Changed int              `json:"changed"`
	Removed int              `json:"removed"`
	Created time.Time        `json:"created"`
	Author  Actor            `json:"author"`
	// Acknowledger let its candidate through a guard; zero: none held it.
	Acknowledger Actor             `json:"acknowledger,omitzero"`
	Labels       map[string]string `json:"labels,omitempty"`
	// Grants are what the definition gives, in its partition.
	Grants []Grant `json:"grants,omitempty"`
	// Governed are the assets that it puts under rollouts, as far as they may not be
	// under them yet. They are pinned as it becomes head, and not kept here.
	Governed []Governed `json:"-"`
	// Back: all that its sources changed since its parent are edits of documents that
	// undo earlier ones; those in git give each asset back what it had.
	Back bool `json:"back,omitempty"`
	// Warnings are what was found of its candidate and did not stand against it, at most
	// MaxWarnings.
	Warnings []Finding `json:"warnings,omitempty"`
}

// MaxWarnings of an incarnation are kept.
const MaxWarnings = 50

// People names who is known to have made the incarnation: not Lehr itself.
func (i Incarnation) People() []string {
	var names []string
	for _, actor := range []Actor{i.Author, i.Acknowledger} {
		if actor.Name != "" && actor.Origin != ServerOrigin && !slices.Contains(names, actor.Name) {
			names = append(names, actor.Name)
		}
	}
	return names
}

// SourceRevision says which state of a source was read. What was read is the
// same when two of them are equal, but for Failing.
type SourceRevision struct {
	Source string `json:"source"`
	// Revision of a source in git is the commit; of others it is made from what
	// they hold.
	Revision string `json:"revision"`
	Commit   Commit `json:"commit,omitzero"`
	// Failing: this is what was read last. It is zero in what an incarnation was
	// built from.
	Failing Failing `json:"failing,omitzero"`
}

// Commit is who changed a source in git last, and why.
type Commit struct {
	Author  string `json:"author"`
	Subject string `json:"subject"`
	// Time of the commit, in UTC and whole seconds.
	Time time.Time `json:"time"`
}

// Failing is since when a source cannot be read, and why.
type Failing struct {
	Since  time.Time `json:"since"`
	Reason string    `json:"reason"`
}

// Text says it of a source to people.
func (f Failing) Text(source string) string {
	return "the source " + source + " is as it was read last; since " + f.Since.UTC().Format(time.RFC3339) + ": " + f.Reason
}

// Finding is what a source, generator or validator says about a candidate.
type Finding struct {
	// Rule is what found it: "source", "generate", "size", "shrink", ….
	Rule     string   `json:"rule"`
	Severity Severity `json:"severity"`
	Message  string   `json:"message"`
	// Hint says what to do.
	Hint string `json:"hint,omitempty"`
	// File, Line (from 1) and Column say where, in a source or a generator.
	File   string `json:"file,omitempty"`
	Line   int    `json:"line,omitempty"`
	Column int    `json:"column,omitempty"`
	// Field is the path within the file's document or the asset.
	Field string  `json:"field,omitempty"`
	Asset AssetID `json:"asset,omitempty"`
	// LeftOut: what would be an asset is left out, the one named or, where that is
	// empty, any of its generator.
	LeftOut bool `json:"left_out,omitempty"`
	// Alike is how many others with the same cause it stands for, and Examples are
	// some of them (GroupFindings).
	Alike    int      `json:"alike,omitempty"`
	Examples Examples `json:"examples,omitzero"`
}

// RuleQuarantine finds sources that end the process that works on them.
const RuleQuarantine = "quarantine"

// Severity of a finding.
type Severity string

const (
	// Error rejects the candidate: only another one can mend it.
	Error Severity = "error"
	// Holding keeps the candidate back until a person acknowledges it.
	Holding Severity = "hold"
	// Warning is recorded.
	Warning Severity = "warning"
)

// CandidateState is what became of a candidate.
type CandidateState string

const (
	// CandidateHeld: a guard waits for a person's acknowledgement.
	CandidateHeld CandidateState = "held"
	// CandidateRejected: it has errors, or could not be generated.
	CandidateRejected CandidateState = "rejected"
	// CandidatePublished: it became an incarnation.
	CandidatePublished CandidateState = "published"
	// CandidateSuperseded: a newer one took its place.
	CandidateSuperseded CandidateState = "superseded"
)

// Candidate is a snapshot under judgement, as a delta on a base.
type Candidate struct {
	ID    CandidateID    `json:"id"`
	Base  IncarnationID  `json:"base"`
	State CandidateState `json:"state"`
	// Schema of one that was generated to its end, as Incarnation's.
	Schema  Digest           `json:"schema,omitzero"`
	Sources []SourceRevision `json:"sources"`
	// Findings, errors first.
	Findings []Finding `json:"findings"`
	Count    int       `json:"count"`
	Added    int       `json:"added"`
	Changed  int       `json:"changed"`
	Removed  int       `json:"removed"`
	Created  time.Time `json:"created"`
}
