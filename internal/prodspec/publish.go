package prodspec

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"time"

	intentpb "lehr.dev/gen/lehr/intent/v1"
	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/ground/schema"
	"lehr.dev/internal/prodspec/generate/native"
	"lehr.dev/internal/prodspec/validate"
	"lehr.dev/internal/store"
)

// author of all incarnations: what a person did is in the sources.
var author = intent.Actor{Name: "lehr", Origin: intent.ServerOrigin}

// refuse keeps a build that gave no candidate, as one without a delta.
func (p *Pipeline) refuse(ctx context.Context, head intent.IncarnationID, r reading, now time.Time) (Status, error) {
	text, err := json.Marshal(r.findings)
	if err != nil {
		return Status{}, fault.New(fault.Internal, "cannot encode findings: %w", err)
	}
	revisions, err := json.Marshal(r.revisions)
	if err != nil {
		return Status{}, fault.New(fault.Internal, "cannot encode source revisions: %w", err)
	}
	// Why others fail varies, and makes no other candidate.
	r.findings = append(r.findings, r.remarks()...)
	candidate := intent.Candidate{
		ID:   intent.CandidateID{Partition: p.lease.Partition, Digest: intent.Sum("lehr.refused.v1", []byte(head.String()), text, revisions)},
		Base: head, State: intent.CandidateRejected, Sources: r.revisions, Findings: r.findings, Created: now,
	}
	status := Status{State: Rejected, Head: head, Candidate: candidate.ID, Sources: r.revisions, Findings: r.findings}
	if r.unavailable {
		status.State = Unavailable
	}
	return status, p.save(ctx, candidate, change{})
}

// cover: the sources say what head is already.
func (p *Pipeline) cover(ctx context.Context, partition store.Partition, r reading) (Status, error) {
	if covered := r.covered(); !slices.Equal(partition.Covered, covered) {
		if err := p.options.Store.Cover(ctx, p.lease, partition.Head, covered); err != nil {
			return Status{}, err
		}
	}
	p.builder.graph.Forget()
	p.builder.dirty = map[intent.AssetID]bool{}
	findings := append(slices.Clone(r.warnings), p.builder.graph.Warnings()...)
	findings = append(findings, r.common.named(validate.FoundOfServed(p.builder.checked))...)
	broken, err := p.judgeServed(ctx, partition.Head, r)
	if err != nil {
		return Status{}, err
	}
	findings = append(findings, broken...)
	return Status{State: Serving, Head: partition.Head, Sources: r.revisions, Findings: findings}, p.supersede(ctx)
}

// judge lets the validators decide, and does what they say.
func (p *Pipeline) judge(ctx context.Context, head intent.IncarnationID, r reading, delta change, again validate.Again, now time.Time) (_ Status, err error) {
	if r.findings, err = p.spill(ctx, delta); err != nil {
		return Status{}, err
	}
	if len(r.findings) > 0 {
		return p.refuse(ctx, head, r, now)
	}
	id := intent.CandidateID{Partition: p.lease.Partition, Digest: delta.digest(head, p.builder.set.Digest())}
	headPolicy, err := policyAt(ctx, p.options.Store, head)
	if err != nil {
		return Status{}, err
	}
	acknowledger, acknowledged, err := p.options.Store.Acknowledged(ctx, id)
	if err != nil && !fault.Is(err, fault.NotFound) {
		return Status{}, err
	}
	validator, err := p.validatorOf(p.builder.set)
	if err != nil {
		return Status{}, err
	}
	generating, validated := p.builder.generating, p.builder.timed.step("validate")
	verdict, err := validator.Run(generating, validate.Input{
		Candidate: id, Base: head, Delta: delta.entries,
		HeadPolicy: r.common.known(headPolicy, p.judgedUnder(head)), CandidatePolicy: r.common.judged(r.definition.Policy),
		Snapshots: p.options.Store, History: p.options.Store,
		Origin: p.builder.origin, Acknowledged: acknowledged, Now: now,
		Again: again, Elsewhere: p.builder.judgeElsewhere, Servers: p.builder.serving(),
		Rest: p.builder.rest(delta), Rule: p.builder.sources.rulePlace, Rollout: p.builder.sources.rolloutPlace, Outside: p.options.Outside,
		Checked: p.builder.checked, LeftOut: p.builder.graph.LeftOut(), Given: p.builder.given(p.options.Store, head, r.definition),
	})
	validated(err != nil || verdict.Rejected || verdict.Held)
	if err != nil && generating.Err() != nil {
		return Status{}, context.Cause(generating)
	}
	if err != nil {
		return Status{}, err
	}
	verdict.Findings = append(append(r.common.named(verdict.Findings), r.remarks()...), p.builder.graph.Warnings()...)
	candidate := intent.Candidate{
		ID: id, Base: head, Sources: r.revisions, Findings: verdict.Findings, Created: now,
		Count: p.builder.members.len(), Added: delta.added, Changed: delta.changed, Removed: delta.removed,
	}
	status := Status{Head: head, Candidate: id, Sources: r.revisions, Findings: verdict.Findings}
	if verdict.Rejected || verdict.Held {
		candidate.Schema = p.builder.set.Digest()
		if err := p.keepSchema(ctx); err != nil { // Whoever reads or plans it reads its types.
			return Status{}, err
		}
	}
	switch {
	case verdict.Rejected:
		candidate.State, status.State = intent.CandidateRejected, Rejected
	case verdict.Held:
		candidate.State, status.State = intent.CandidateHeld, Held
	default:
		governed, err := p.builder.governed(ctx, headPolicy, r.definition.Policy, delta, again != nil)
		if err != nil {
			return Status{}, err
		}
		goesBack, err := p.goesBack(ctx, r, delta)
		if err != nil {
			return Status{}, err
		}
		status, err := p.publish(ctx, candidate, verdict, acknowledger, delta, grants(p.lease.Partition, r.definition.Policy), governed, goesBack)
		if err == nil {
			p.judged, p.brokenRules = judgedUnder{status.Head, r.common.digest}, r.common.brokenBy(verdict.Findings)
		}
		if err == nil && len(r.failing) > 0 {
			err = p.options.Store.Cover(ctx, p.lease, status.Head, r.covered())
		}
		return status, err
	}
	return status, p.save(ctx, candidate, delta)
}

// policyAt an incarnation; nil when there is none.
func policyAt(ctx context.Context, snapshots store.Snapshots, head intent.IncarnationID) (*intentpb.Policy, error) {
	m, exists, err := memberAt(ctx, snapshots, head, intent.PolicyAsset)
	if err != nil || !exists {
		return nil, err
	}
	body, err := snapshots.Body(ctx, m.Digest)
	if err != nil {
		return nil, err
	}
	asset, err := schema.Decode(body)
	if err != nil {
		return nil, err
	}
	policy := &intentpb.Policy{}
	return policy, schema.Payload(asset, policy)
}

// stageSize is how many entries are staged at a time.
const stageSize = 5000

// publish makes the candidate the next incarnation. A moved base is a
// Conflict, and the round starts over.
func (p *Pipeline) publish(ctx context.Context, candidate intent.Candidate, verdict validate.Judgement, acknowledger intent.Actor, delta change, grants []intent.Grant, governed []store.Governed, goesBack bool) (Status, error) {
	s, head, published := p.options.Store, candidate.Base, p.builder.timed.step("publish")
	if err := p.keepSchema(ctx); err != nil {
		return Status{}, err
	}
	p.options.Runtime.Point("unstage")
	if err := s.Unstage(ctx, p.lease); err != nil {
		return Status{}, err
	}
	for slice := range slices.Chunk(delta.entries, stageSize) {
		p.options.Runtime.Point("stage")
		if err := s.Stage(ctx, p.lease, head, slice); err != nil {
			return Status{}, err
		}
	}
	next := intent.Incarnation{
		ID:     intent.IncarnationID{Partition: p.lease.Partition, Sequence: head.Sequence + 1},
		Parent: head, Schema: p.builder.set.Digest(), Back: goesBack,
		Policy:  p.builder.effective(intent.PolicyAsset),
		Sources: candidate.Sources, Count: candidate.Count,
		Added: candidate.Added, Changed: candidate.Changed, Removed: candidate.Removed,
		Created: candidate.Created, Author: author, Acknowledger: acknowledger, Labels: labelsOf(verdict),
		Grants: grants, Governed: governed,
		Warnings: warningsOf(verdict),
	}
	p.options.Runtime.Point("origins")
	parent, err := p.options.Store.Incarnation(ctx, head)
	if err != nil && !fault.Is(err, fault.NotFound) {
		return Status{}, err
	}
	if err := p.builder.keepOrigins(ctx, p.options.Runtime, s, p.lease, next, parent.Sources, delta); err != nil {
		return Status{}, err
	}
	if err := p.govern(ctx, next.ID, governed); err != nil {
		return Status{}, err
	}
	p.options.Runtime.Point("publish")
	incarnation, err := s.Publish(ctx, p.lease, next)
	published(err != nil)
	p.builder.timed.nameTrace(incarnation)
	if err != nil {
		return Status{}, err
	}
	p.compared = incarnation.ID
	p.published = publishedSchema{incarnation.ID, p.builder.set}
	p.builder.dirty = map[intent.AssetID]bool{}
	p.builder.graph.Forget()
	if p.saved.ID == candidate.ID {
		p.saved.State = intent.CandidatePublished
		err = s.SaveCandidate(ctx, p.lease, p.saved, nil)
		p.saved = intent.Candidate{}
		p.awaits.Store(nil)
	} else {
		err = p.supersede(ctx)
	}
	return Status{State: Serving, Head: incarnation.ID, Sources: incarnation.Sources, Findings: verdict.Findings}, err
}

// warningsOf is what an incarnation keeps of what was found of its candidate.
func warningsOf(verdict validate.Judgement) (warnings []intent.Finding) {
	for _, f := range verdict.Findings {
		if f.Severity == intent.Warning && len(warnings) < intent.MaxWarnings {
			warnings = append(warnings, f)
		}
	}
	return warnings
}

// nonHermeticLabel of an incarnation counts the generators whose assets may rest on
// more than the sources it names.
const nonHermeticLabel = "lehr/non-hermetic"

// labelsOf is the labels of an incarnation, with what is to be known of how it
// was made.
func labelsOf(verdict validate.Judgement) map[string]string {
	generators := 0
	for _, f := range verdict.Findings {
		if f.Rule == native.NonHermetic {
			generators += 1 + f.Alike
		}
	}
	if generators == 0 {
		return verdict.Labels
	}
	labels := map[string]string{nonHermeticLabel: fmt.Sprint(generators)}
	maps.Copy(labels, verdict.Labels)
	return labels
}

// grants are what a policy gives in its partition.
func grants(partition intent.PartitionID, policy *intentpb.Policy) (list []intent.Grant) {
	for _, binding := range policy.GetAccess() {
		for _, subject := range binding.GetTo() {
			list = append(list, intent.Grant{Subject: subject, Role: intent.Role(binding.GetRole()), Partition: partition})
		}
	}
	return list
}

// save stores a candidate that is not served, once.
func (p *Pipeline) save(ctx context.Context, candidate intent.Candidate, delta change) error {
	// What is found of the same candidate may change: what is outside does.
	stored := p.saved.ID == candidate.ID && p.saved.State == candidate.State && slices.Equal(p.saved.Findings, candidate.Findings)
	if p.saved.ID != candidate.ID {
		if err := p.supersede(ctx); err != nil {
			return err
		}
	}
	if candidate.State == intent.CandidateHeld {
		// Before it can be seen: an acknowledgement is not to be missed.
		p.awaits.Store(&candidate.ID)
	} else {
		p.awaits.Store(nil)
	}
	if stored {
		return nil
	}
	if err := p.options.Store.SaveCandidate(ctx, p.lease, candidate, delta.entries); err != nil {
		p.unsure = true
		return err
	}
	p.saved = candidate
	return nil
}

// recall finds the candidate that an earlier life left, or one whose saving was
// not answered.
func (p *Pipeline) recall(ctx context.Context) error {
	newest, err := p.options.Store.ListCandidates(ctx, p.lease.Partition, 1)
	if err != nil {
		return err
	}
	p.unsure = false
	if len(newest) == 0 {
		return nil
	}
	if newest[0].State == intent.CandidateRejected || newest[0].State == intent.CandidateHeld {
		p.saved = newest[0]
	}
	return nil
}

// supersede marks the last candidate as overtaken by what the sources say now.
func (p *Pipeline) supersede(ctx context.Context) error {
	p.awaits.Store(nil)
	if p.saved.ID.Digest.IsZero() {
		return nil
	}
	last := p.saved
	last.State = intent.CandidateSuperseded
	if err := p.options.Store.SaveCandidate(ctx, p.lease, last, nil); err != nil {
		return err
	}
	p.saved = intent.Candidate{}
	return nil
}
