package enforcer

import (
	"time"

	"lehr.dev/internal/annealing/check"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/ground/loop"
	"lehr.dev/internal/ground/trace"
)

// observation is one asset's part in a batch of diffs: what was asked and answered.
type observation struct {
	asset    *asset
	priority loop.Priority
	// since is the earliest time at which production may have begun to be read; zero: as
	// the plugin's cadence allows. asked is when the question was. old: production was read
	// before that, as the cadence allowed.
	since, asked time.Time
	old          bool
	target       intent.IncarnationID
	effective    intent.Digest
	// enforced is where it was enforced last, where that matters to what a
	// push asks for. runs: what it was enforced with then is there.
	enforced intent.IncarnationID
	runs     bool
	// horizon at that time.
	horizon []intent.Sequence
	// head is what was served, and heeds what it says of the asset.
	head  intent.IncarnationID
	heeds headPolicy
	// common is what the common policy asked then.
	common *commonAsked
	// prior is what the look before found that a push asks for; nil: nothing.
	prior *requirements
	// policy of head, when it was asked.
	policy intent.Digest
	// hinted: it is for a hint that it is looked at now.
	hinted bool
	// suspect: in a batch of suspects, of which a plugin has one at a time.
	suspect bool
	// contentKnown: in sync, it needs no reading of its content, unless a neighbour
	// wants to know how it stands.
	contentKnown, wanted bool
	// asksAfter: what is asked after its last push is to be looked up. unwell: it was not
	// over when it was known last.
	asksAfter, unwell bool

	// body is the content at the target, if it was read with the batch's.
	body []byte
	// read: the content was read, for mode, turndown and requirements.
	read, turndown bool
	mode           check.Mode
	// judge of its health, as far as that was known when it was asked, then as was read.
	judge        healthJudge
	standing     *neighbourFacts
	watches      []watch
	difference   intent.Difference
	requirements requirements
	// err: the intent could not be read. panicked: that ended in a panic.
	err, panicked error
	// reached: the plugin was up when it was asked.
	reached bool
	// trail is of the whole batch, and nil where nobody is told of traces.
	trail *lookTrace
	cause trace.ID
}

// batchKey is what all assets of one batch have in common.
type batchKey struct {
	target intent.IncarnationID
	since  time.Time
}

func (g *observation) key() batchKey { return batchKey{g.target, g.since} }

// needsContent reports whether the answer makes the asset's content worth reading.
func (g *observation) needsContent() bool {
	switch g.difference.Outcome {
	case intent.Unknown:
		return false
	case intent.Pending:
		return g.judge != judgePlugin && g.tellsHealth()
	case intent.InSync:
		return !g.contentKnown || g.judge != judgePlugin || g.wanted || g.asksAfter
	}
	return true
}

// tellsHealth reports whether the answer says how the asset is.
func (g *observation) tellsHealth() bool {
	return g.difference.Health.State == intent.Healthy || g.difference.Health.State == intent.Unhealthy || g.difference.Health.IsByAddon()
}

// isOther: its batch may not take the place that is kept for what is fresh.
func (g *observation) isOther() bool { return g.suspect || g.priority != loop.Fresh }

// asksForPause reports whether the plugin asks to come back later: the asset's target is
// too busy.
func (g *observation) asksForPause() bool {
	return g.difference.Outcome == intent.Unknown && g.difference.RetryAfter > 0
}
