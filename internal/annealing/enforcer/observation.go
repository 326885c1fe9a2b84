package enforcer

import (
	"context"

	intentpb "lehr.dev/gen/lehr/intent/v1"
	"lehr.dev/internal/annealing/check"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/ground/loop"
	"lehr.dev/internal/ground/schema"
	"lehr.dev/internal/ground/trace"
)

// observation is one asset's part in a batch of diffs: what was asked and answered.
type observation struct {
	asset     *asset
	priority  loop.Priority
	target    intent.IncarnationID
	effective intent.Digest
	// enforced is where it was enforced last, where that matters to what a
	// push asks for. runs: what it was enforced with then is there.
	enforced intent.IncarnationID
	runs     bool
	// horizon at that time.
	horizon []intent.Sequence
	// head is what was served, and heeds what it says of the asset.
	head  intent.IncarnationID
	heeds headPolicy
	// prior is what the look before found that a push asks for; nil: nothing.
	prior *requirements
	// policy of head, when it was asked.
	policy intent.Digest
	// suspect: in a batch of suspects, of which a plugin has one at a time.
	suspect bool
	// contentKnown: in sync, it needs no reading of its content, unless a neighbour
	// wants to know how it stands.
	contentKnown, wanted bool
	// asksAfter: what is asked after its last push is to be looked up. unwell: it was not
	// over when it was known last.
	asksAfter, unwell bool

	// read: the content was read, for mode, turndown and requirements.
	read, turndown bool
	mode           check.Mode
	standing       *neighbourFacts
	watches        []watch
	difference     intent.Difference
	requirements   requirements
	// err: the intent could not be read. panicked: that ended in a panic.
	err, panicked error
	// reached: the plugin was up when it was asked.
	reached bool
	// trail is of the whole batch, and nil where nobody is told of traces.
	trail *lookTrace
	cause trace.ID
}

// isOther: its batch may not take the place that is kept for what is fresh.
func (g *observation) isOther() bool { return g.suspect || g.priority != loop.Fresh }

// readContent reads what the outcome makes worth knowing: the asset's mode and
// Turndown before anything is pushed or recorded, what a push asks for, and
// how the asset stands.
func (r *reader) readContent(ctx context.Context, g *observation) {
	if g.difference.Outcome == intent.Unknown || g.difference.Outcome == intent.InSync && g.contentKnown && !g.wanted && !g.asksAfter {
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
