package prodspec

import (
	"context"
	"errors"
	"fmt"
	"time"

	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/prodspec/source"
)

// quarantine keeps sources that are not worked on as a held candidate: people
// find it where they look for what is not served, and let it through as they do
// with others. Released: somebody did.
func (p *Pipeline) quarantine(ctx context.Context, head intent.IncarnationID, q *quarantined, now time.Time) (status Status, released bool, err error) {
	id := intent.CandidateID{Partition: p.lease.Partition, Digest: q.name()}
	if _, released, err = p.options.Store.Acknowledged(ctx, id); err != nil || released {
		return status, released, err
	}
	findings := []intent.Finding{{
		Rule: intent.RuleQuarantine, Severity: intent.Error, File: p.builder.sources.file, Line: 1, Field: "sources." + q.Sources[len(q.Sources)-1].Source,
		Message: fmt.Sprintf("these sources end the process that works on them, and are quarantined since %s (%s): a child that was given them %s",
			q.Began.UTC().Format(time.RFC3339), q.text(), q.death),
		Hint: "change the sources, and they are tried in a child again; or have the server itself work on them as they are: lehr approve --candidate " + id.Digest.Short() + " --reason WHY",
	}}
	candidate := intent.Candidate{ID: id, Base: head, State: intent.CandidateHeld, Sources: q.Sources, Findings: findings, Created: now}
	status = Status{State: Held, Head: head, Candidate: id, Sources: q.Sources, Findings: findings}
	return status, false, p.save(ctx, candidate, change{})
}

// build reads and generates, unless the sources are quarantined: then the
// status says so.
func (p *Pipeline) build(ctx context.Context, head intent.IncarnationID, now time.Time, changes source.Changes) (reading, *Status, error) {
	p.builder.stored = stored{p.options.Store, p.options.Store, head}
	r, err := p.builder.build(ctx, now, changes)
	p.hasGenerations.Store(len(r.definition.Policy.GetGenerations())+len(r.definition.Policy.GetPreviews()) > 0)
	q, ok := errors.AsType[*quarantined](err)
	if !ok {
		return r, nil, err
	}
	status, released, err := p.quarantine(ctx, head, q, now)
	if err != nil || !released {
		return r, &status, err
	}
	p.attempts.release()
	r, err = p.builder.build(ctx, now, source.Changes{All: true})
	return r, nil, err
}
