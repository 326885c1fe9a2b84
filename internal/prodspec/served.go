package prodspec

import (
	"context"

	intentpb "lehr.dev/gen/lehr/intent/v1"
	"lehr.dev/internal/ground/commonpolicy"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/prodspec/validate"
	"lehr.dev/internal/store"
)

// judgedUnder says by which common rules a head was judged.
type judgedUnder struct {
	head   intent.IncarnationID
	digest intent.Digest
}

// judgedUnder is the digest of the common rules by which head was judged; zero: by none.
func (p *Pipeline) judgedUnder(head intent.IncarnationID) intent.Digest {
	if p.judged.head != head {
		return intent.Digest{}
	}
	return p.judged.digest
}

// commonPolicy is the server's, decoded once for each change of it.
func (p *Pipeline) commonPolicy(ctx context.Context) (*intentpb.CommonPolicy, error) {
	stored, err := p.options.Store.CommonPolicy(ctx)
	if err != nil {
		return nil, err
	}
	if p.common == nil || p.commonDigest != stored.Digest {
		decoded, err := commonpolicy.Decode(stored.Body)
		if err != nil {
			return nil, err
		}
		p.common, p.commonDigest = decoded, stored.Digest
	}
	return p.common, nil
}

// readServedOwner notes the owner that head names: no definition leaves a common rule by
// another one.
func (p *Pipeline) readServedOwner(ctx context.Context, head intent.IncarnationID) error {
	if p.ownerHead == head {
		return nil
	}
	served, err := policyAt(ctx, p.options.Store, head)
	if err != nil {
		return err
	}
	p.ownerHead, p.builder.sources.servedOwner = head, ownerOf(served)
	return nil
}

// ownerOf a policy; nil: there is none.
func ownerOf(policy *intentpb.Policy) *string {
	if policy == nil {
		return nil
	}
	owner := policy.GetOwner()
	return &owner
}

// judgeServed says what of that which is served breaks common rules that were not there when it
// was published. It is a warning: what is served stays, and the next change that is built must
// keep the rules.
func (p *Pipeline) judgeServed(ctx context.Context, head intent.IncarnationID, r reading) ([]intent.Finding, error) {
	if r.common.digest == p.judgedUnder(head) {
		return p.brokenRules, nil
	}
	broken, err := servedFindings(ctx, p.builder, p.options.Store, head, r)
	if err == nil {
		p.judged, p.brokenRules = judgedUnder{head, r.common.digest}, broken
	}
	return broken, err
}

// servedFindings judges what is served by the common rules alone.
func servedFindings(ctx context.Context, b *builder, snapshots interface {
	store.Snapshots
	validate.History
}, head intent.IncarnationID, r reading) ([]intent.Finding, error) {
	common := r.common.judged(&intentpb.Policy{})
	if len(common.GetRules()) == 0 || head.IsZero() {
		return nil, nil
	}
	validator, err := validate.New(b.set)
	if err != nil {
		return nil, err
	}
	findings, err := validator.RunRules(ctx, validate.Input{
		Candidate: intent.CandidateID{Partition: head.Partition}, Base: head, Snapshots: snapshots, History: snapshots,
		CandidatePolicy: common, Origin: b.origin, Rest: b.rest(change{}), Rule: b.sources.rulePlace, Acknowledged: true,
	})
	findings = r.common.named(findings)
	for i := range findings {
		findings[i].Severity = intent.Warning
		findings[i].Message = "what is served: " + findings[i].Message
	}
	return findings, err
}
