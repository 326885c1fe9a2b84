package enforcer

import (
	"time"

	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/ground/trace"
)

// lookTrace holds the times of the look that leads to a push. It is nil where traces
// are not collected.
type lookTrace struct {
	chosenAt, askedAt, answeredAt time.Time
	// judgingAt and judgedAt bound the decision.
	judgingAt, judgedAt time.Time
	// cause is the trace of the publication that the content came with.
	cause trace.ID
}

// pushTrace is the trace of a push, from the choice of the target until a look
// finds production in sync. It is nil where traces are not collected.
type pushTrace struct {
	trace.Span
	id trace.ID
	// effective is the content that was pushed; closed is when the journal closed the push.
	effective intent.Digest
	closed    time.Time
}

// The steps of a push's trace.
const (
	stepTarget    = "target"
	stepDiff      = "diff"
	stepChecks    = "checks"
	stepAdmission = "admission"
	stepPlugin    = "plugin push"
	stepClose     = "close"
	stepInSync    = "in sync"
)
