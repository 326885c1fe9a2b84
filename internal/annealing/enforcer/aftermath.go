package enforcer

import (
	"slices"
	"time"

	"lehr.dev/internal/annealing/check"
	"lehr.dev/internal/ground/intent"
)

// aftermath is what protections are asked after the last push of an asset, which is in
// sync with what that pushed. It begins with the push's end in the journal; that it is
// not over, the asset's report says, so neither a restart nor a failover skips it.
type aftermath struct {
	watches []watch
	// sides are what was found at the last look.
	sides []side
}

// watch is one protection, asked from a time on until another one.
type watch struct {
	*check.Configured
	question        check.Question
	at              intent.IncarnationID
	startsAt, until time.Time
	// asking is it in those that are asked; nil: it is not yet.
	asking *question
	// since is when it began to say no; zero: it does not.
	since time.Time
}

// side of a watch: another look is worth it when that changes.
type side struct {
	check.Side
	finished bool
}

// hasQuestion reports whether a question is one of those that are asked after the push.
func (m *aftermath) hasQuestion(q *question) bool {
	return m != nil && slices.ContainsFunc(m.watches, func(w watch) bool { return w.asking == q })
}

// asksAfter reports whether a push is to be followed by a question.
func asksAfter(facts check.Facts) bool {
	return slices.ContainsFunc(facts.Checks, func(c check.Required) bool { return c.Protection != nil && c.Protection.After != nil })
}

// asksAfter reports whether any of a policy's checks asks after a push.
func (p *policy) asksAfter() bool {
	return p != nil && slices.ContainsFunc(p.checks, func(c policyCheck) bool { return c.GetProtection().GetAfter() != nil })
}
