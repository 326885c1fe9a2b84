package enforcer

import (
	"context"

	intentpb "lehr.dev/gen/lehr/intent/v1"
	"lehr.dev/internal/annealing/check"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/ground/schema"
	"lehr.dev/internal/ground/trace"
)

// readContent reads what the outcome makes worth knowing: the asset's mode and
// Turndown before anything is pushed or recorded, what a push asks for, and
// how the asset stands.
func (r *reader) readContent(ctx context.Context, g *observation) {
	if !g.needsContent() {
		return
	}
	var loaded contents
	if loaded, g.err = r.contents(ctx, g); g.err != nil {
		return
	}
	g.read = true
	if g.mode, g.err = modeIn(loaded.target); g.err == nil && loaded.head != nil {
		var headMode check.Mode
		if headMode, g.err = modeIn(*loaded.head); headMode != "" {
			g.mode = stricter(g.mode, headMode)
		}
	}
	if g.err != nil {
		return
	}
	if g.turndown, g.err = schema.Addon(loaded.target, &intentpb.Turndown{}); g.err != nil {
		return
	}
	if g.err = r.judgeHealth(ctx, g, loaded.target); g.err != nil {
		return
	}
	switch {
	case g.difference.Outcome == intent.Differs:
		g.requirements = r.requirements(ctx, g, loaded)
		g.standing = g.requirements.standing
		if g.trail != nil {
			g.cause = r.cause(ctx, g)
		}
	case g.wanted:
		g.standing, g.err = r.readFacts(ctx, loaded.target, nil, g.difference)
	}
	if g.err == nil && g.asksAfter && g.difference.Outcome == intent.InSync {
		g.watches, g.err = r.aftermath(ctx, g, loaded.target)
	}
}

// cause returns the trace of the publication that brought an asset's content. It is
// zero where that cannot be read, because no push waits for it.
func (r *reader) cause(ctx context.Context, g *observation) trace.ID {
	member, err := r.store.Member(ctx, g.target, g.asset.id)
	if err != nil {
		return trace.ID{}
	}
	firstID := intent.IncarnationID{Partition: g.target.Partition, Sequence: member.Since}
	published, err := r.incarnation(ctx, firstID)
	if err != nil {
		return trace.ID{}
	}
	return trace.Of(firstID.String(), published.Created)
}
