// Package validate judges a candidate before it is served: asset by asset, an
// asset and its references both ways, and guards over the whole; by Lehr's own
// rules and by those of the partition's policy. What it costs follows the
// change, not the size of the partition. Errors reject a candidate; holds keep
// it back until a person acknowledges that very candidate.
// It reads the base the candidate is a delta on and writes nothing. The
// pipeline calls it before it publishes, and lehr build and lehr plan to show
// findings.
package validate

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	intentpb "lehr.dev/gen/lehr/intent/v1"
	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/ground/rule"
	"lehr.dev/internal/ground/schema"
	"lehr.dev/internal/store"
)

// maxFindings is how many findings of a candidate are gathered before those with one
// cause are grouped.
const maxFindings = 1000

// Snapshots is what is read of the base. store.Snapshots satisfies it.
type Snapshots interface {
	Member(ctx context.Context, id intent.IncarnationID, asset intent.AssetID) (intent.Member, error)
	Body(ctx context.Context, digest intent.Digest) ([]byte, error)
	Members(ctx context.Context, id intent.IncarnationID, filter store.AssetFilter) ([]intent.Member, error)
	EdgesFrom(ctx context.Context, id intent.IncarnationID, asset intent.AssetID) ([]store.Edge, error)
	EdgesTo(ctx context.Context, id intent.IncarnationID, asset intent.AssetID) ([]store.Edge, error)
}

// History is what the guards compare with. store.All satisfies it.
type History interface {
	Incarnations(ctx context.Context, partition intent.PartitionID, before intent.Sequence, limit int) ([]intent.Incarnation, error)
	Changes(ctx context.Context, base, target intent.IncarnationID, cursor intent.AssetID, limit int) ([]store.Change, error)
	EnforcedPage(ctx context.Context, partition intent.PartitionID, cursor intent.AssetID, limit int) ([]store.Enforced, error)
}

// Origin says where an asset comes from, for people.
type Origin struct {
	Generator string
	// File and Line (from 1; 0: unknown) of the source or program that says it.
	File string
	Line int
	// Inputs are the files that the generator read for it.
	Inputs []string
	// Derived are the addons that it has from derivations.
	Derived []Derived
}

// Derived is an addon, or a part of it, and where it is said to be derived; or a
// field that a resolver changed.
type Derived struct {
	Derivation string
	Addon      intent.TypeName
	// From is the index of the first derived entry of a list.
	From int
	// Field that a resolver changed of a Payload, what it was, and the reason.
	Payload            intent.TypeName
	Field, Was, Reason string
	// Unknown: the field asks for an output that nobody told yet.
	Unknown bool
	File    string
	Line    int
}

// Input is a candidate and what it is compared with.
type Input struct {
	// Candidate; without a digest no server has it.
	Candidate intent.CandidateID
	// Base is the head that the delta applies to; zero: there is none, and
	// Snapshots and History are not asked.
	Base intent.IncarnationID
	// Delta has each asset once, in any order. Entries with a body carry their
	// references.
	Delta []store.Entry
	// HeadPolicy and CandidatePolicy are nil when there is none.
	HeadPolicy, CandidatePolicy *intentpb.Policy
	Snapshots                   Snapshots
	History                     History
	// Origin of an asset; nil: unknown.
	Origin func(intent.AssetID) Origin
	// Servers lists the assets of the candidate that serve one by an edge of
	// capacity, once for each edge; nil: there are none.
	Servers func(intent.AssetID) []intent.AssetID
	// Acknowledged: a person let exactly this candidate through its guards.
	Acknowledged bool
	Now          time.Time
	// Again reads the assets that the delta has no content of and whose types
	// have changed: they are judged by the types' rules as they are now. Nil:
	// the types are those of the base.
	Again Again
	// Elsewhere applies the rules of users' own types; nil: they are applied
	// here.
	Elsewhere Elsewhere
	// Rest reads those assets of the candidate that the delta has no content of
	// and that are wanted. Nil: there are none.
	Rest Rest
	// Rule says where a rule of the candidate's policy is written; nil: unknown.
	Rule func(id string) Origin
	// Rollout says where a rollout of the candidate's policy is written; nil:
	// unknown.
	Rollout func(name string) Origin
	// LeftOut is what generators left out, and Given says which of them gave an
	// asset of the base; empty: none that there is, or it is not known.
	LeftOut map[string][]intent.Finding
	Given   func(ctx context.Context, asset intent.AssetID) (generator string, err error)
	// Checked is what the checking programs of the candidate's policy found.
	Checked []Checked
	// Outside asks what external checks ask; nil: nobody does, and what they
	// are about is held.
	Outside Outside
}

// Rest calls each for every asset that is wanted, in the order of the ids.
type Rest func(ctx context.Context, wanted func(intent.AssetID, intent.TypeName) bool, each func(asset intent.AssetID, body []byte) error) error

// Again calls each for every asset that is to be judged again.
type Again func(ctx context.Context, each func(asset intent.AssetID, body []byte) error) error

// Judgement of a candidate.
type Judgement struct {
	// Findings, errors first and warnings last, those with one cause once.
	Findings []intent.Finding
	// Rejected: it has errors, which only another candidate can mend.
	Rejected bool
	// Held: it has no errors, but a guard or a rule waits for an acknowledgement.
	Held bool
	// Labels to publish the incarnation with. They tell later guards that a
	// person has acknowledged what happened up to here.
	Labels map[string]string
}

// Validator judges candidates whose payloads are of one set of types. It
// compiles rules when first needed, keeps them, and may be shared.
type Validator struct {
	types       *schema.Set
	rules       *Contents
	expressions *rule.Environment

	lock sync.Mutex
	// compiled are the policy's rules of the last run, and tallies what their
	// aggregates came to.
	compiled map[intent.Digest]*ownRule
	tallies  map[intent.Digest]*tally
}

// New returns a validator for the types. Keep one per schema digest.
func New(types *schema.Set) (*Validator, error) {
	rules, err := NewContents(types)
	return &Validator{types: types, rules: rules, expressions: rule.New(types)}, err
}

// Types that it judges.
func (v *Validator) Types() *schema.Set { return v.types }

// Run judges a candidate. An error means that it could not be judged, which
// is never a pass.
func (v *Validator) Run(ctx context.Context, input Input) (Judgement, error) {
	j := v.begin(input)
	for _, scope := range []func(context.Context) error{
		j.assets, j.leftOut, j.identities, j.policy, j.rollouts, j.references, j.turndowns, j.generations, j.versions, j.cycles,
		func(ctx context.Context) error { return v.ownRules(ctx, j) }, j.programs,
	} {
		if err := scope(ctx); err != nil {
			return Judgement{}, fault.New(fault.KindOf(err), "cannot validate candidate %s: %w", input.Candidate, err)
		}
	}
	if err := j.guards(ctx); err != nil {
		return Judgement{}, fault.New(fault.KindOf(err), "cannot compare candidate %s with what was enforced: %w", input.Candidate, err)
	}
	return j.judgement(), nil
}

// RunRules judges by the rules of the candidate's policy alone.
func (v *Validator) RunRules(ctx context.Context, input Input) ([]intent.Finding, error) {
	j := v.begin(input)
	if err := v.ownRules(ctx, j); err != nil {
		return nil, fault.New(fault.KindOf(err), "cannot judge what is served of %s: %w", input.Candidate.Partition, err)
	}
	return j.judgement().Findings, nil
}

// judging is one run.
type judging struct {
	Input
	types *schema.Set
	rules *Contents
	// expressions compiles those in addons.
	expressions *rule.Environment
	delta       []*store.Entry
	entries     map[intent.AssetID]*store.Entry
	baseMembers map[intent.AssetID]intent.Member // of the base, as far as read
	findings    []intent.Finding
	rejected    bool
	// held: a person must acknowledge the candidate; guarded: because of a guard.
	held, guarded bool
	// turndownAssets are the assets of the base with a Turndown, once asked for.
	turndownAssets map[intent.AssetID]bool
}

func (v *Validator) begin(input Input) *judging {
	j := &judging{
		Input: input, types: v.types, rules: v.rules, expressions: v.expressions,
		delta:       make([]*store.Entry, 0, len(input.Delta)),
		entries:     make(map[intent.AssetID]*store.Entry, len(input.Delta)),
		baseMembers: map[intent.AssetID]intent.Member{},
	}
	for i := range input.Delta {
		entry := &input.Delta[i]
		j.delta = append(j.delta, entry)
		j.entries[entry.Asset] = entry
	}
	slices.SortFunc(j.delta, func(a, b *store.Entry) int { return cmp.Compare(a.Asset, b.Asset) })
	return j
}

// member finds an asset in the candidate; a zero digest says that it has none.
func (j *judging) member(ctx context.Context, asset intent.AssetID) (intent.Member, error) {
	if entry := j.entries[asset]; entry != nil {
		return entry.Member, nil
	}
	return j.baseMember(ctx, asset)
}

// baseMember finds an asset in the base; a zero digest says that it has none.
func (j *judging) baseMember(ctx context.Context, asset intent.AssetID) (intent.Member, error) {
	if j.Base.IsZero() {
		return intent.Member{}, nil
	}
	if member, ok := j.baseMembers[asset]; ok {
		return member, nil
	}
	member, err := j.Snapshots.Member(ctx, j.Base, asset)
	if err != nil && !fault.Is(err, fault.NotFound) {
		return intent.Member{}, err
	}
	if err != nil {
		member = intent.Member{}
	}
	j.baseMembers[asset] = member
	return member, nil
}

// add keeps a finding, with the place its asset comes from.
func (j *judging) add(finding intent.Finding) {
	if finding.Severity == intent.Error {
		j.rejected = true
	}
	if len(j.findings) >= maxFindings {
		// It is bounded: those of one cause are one.
		j.findings = intent.GroupFindings(j.findings)
	}
	if j.Origin != nil && finding.Asset != "" && finding.File == "" {
		origin := j.Origin(finding.Asset)
		finding.File, finding.Line = origin.File, origin.Line
		origin.derived(&finding)
	}
	j.findings = append(j.findings, finding)
}

// guard keeps what a guard found.
func (j *judging) guard(finding intent.Finding) {
	j.guarded = true
	j.hold(finding)
}

// hold keeps what a person must acknowledge: a warning once somebody did.
func (j *judging) hold(finding intent.Finding) {
	j.held = true
	finding.Severity = intent.Holding
	if finding.Hint != "" {
		finding.Hint += "; "
	}
	if j.Candidate.Digest.IsZero() {
		finding.Hint += "a server will hold it until a person acknowledges it"
	} else {
		finding.Hint += fmt.Sprintf("if this is meant, acknowledge exactly this candidate: lehr approve --candidate %s --reason WHY", j.Candidate)
	}
	if j.Acknowledged {
		finding.Severity = intent.Warning
		finding.Message += "; a person has acknowledged it"
		finding.Hint = ""
	}
	j.add(finding)
}

func (j *judging) judgement() Judgement {
	slices.SortStableFunc(j.findings, func(a, b intent.Finding) int {
		return cmp.Or(cmp.Compare(rank(a), rank(b)), strings.Compare(string(a.Asset), string(b.Asset)))
	})
	result := Judgement{Findings: intent.GroupFindings(j.findings), Rejected: j.rejected, Held: j.held && !j.Acknowledged && !j.rejected}
	if j.guarded && j.Acknowledged {
		result.Labels = map[string]string{AcknowledgedLabel: j.Candidate.Digest.String()}
	}
	return result
}

// rank puts errors first, and warnings last.
func rank(f intent.Finding) int {
	return slices.Index([]intent.Severity{intent.Error, intent.Holding, intent.Warning}, f.Severity)
}
