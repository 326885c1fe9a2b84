package enforcer

import (
	"context"
	"time"

	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/ground/trace"
	"lehr.dev/internal/pluginhost/plugin"
)

// lookTrace is what is remembered of the look that leads to a push, for its trace; nil
// where nobody is told of traces.
type lookTrace struct {
	chosenAt, askedAt, answeredAt time.Time
	// judgingAt and judged bound the decision.
	judgingAt, judgedAt time.Time
	// cause is the trace of the publication that the content came with.
	cause trace.ID
}

// pushTrace is the trace of a push: from the choice of the target until a look
// finds production in sync. Nil: nobody is told of it.
type pushTrace struct {
	trace.Span
	id trace.ID
	// content that was pushed, and when the journal let go of the push.
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

// cause is the trace of the publication with which an asset's content came; zero
// where that cannot be read, for no push is to wait for it.
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

// tracks remembers the look of which a push may come.
func (t *trouble) tracks(g *observation) {
	if g.trail != nil {
		found := *g.trail
		found.cause = g.cause
		t.lookTrace = &found
	}
}

// traceDecision marks when the decision about an asset begins.
func (e *Enforcer) traceDecision(a *asset) {
	if a.lookTrace != nil {
		a.lookTrace.judgingAt = e.Runtime.Now()
	}
}

// startTrace begins the trace of an admitted push.
func (e *Enforcer) startTrace(g admission) *pushTrace {
	if e.Trace == nil {
		return nil
	}
	a, now := g.asset, e.Runtime.Now()
	t := a.lookTrace
	if t == nil {
		t = &lookTrace{chosenAt: g.At, askedAt: g.At, answeredAt: g.At, judgingAt: g.At, judgedAt: g.At}
	}
	j := e.startPastTrace(a, g.Push, g.Target, g.At, t.chosenAt, t.cause)
	j.effective = g.Effective
	j.Tell(trace.Step{Name: stepTarget, Begin: t.chosenAt, End: t.askedAt, About: []trace.Attribute{{Key: trace.Incarnation, Value: g.Target.String()}}})
	j.Tell(trace.Step{Name: stepDiff, Begin: t.askedAt, End: t.answeredAt, About: []trace.Attribute{{Key: trace.Plan, Value: g.Plan.String()}, {Key: trace.Plugin, Value: g.served.name}}})
	j.Tell(trace.Step{Name: stepChecks, Begin: t.judgingAt, End: t.judgedAt, About: []trace.Attribute{{Key: trace.Checks, Value: g.Checks}}})
	j.Tell(trace.Step{Name: stepAdmission, Begin: t.judgedAt, End: now})
	return j
}

// startPastTrace begins the root. An earlier holder of the lease may have begun it, and
// then could not end it.
func (e *Enforcer) startPastTrace(a *asset, push intent.PushID, target intent.IncarnationID, admitted, startedAt time.Time, cause trace.ID) *pushTrace {
	id := trace.Of(string(push), admitted)
	return &pushTrace{id: id, Span: e.Trace.Begin(id, cause, "push", startedAt,
		trace.Attribute{Key: trace.Partition, Value: string(e.Partition)}, trace.Attribute{Key: trace.Asset, Value: string(a.id)},
		trace.Attribute{Key: trace.Type, Value: string(a.kind.name)}, trace.Attribute{Key: trace.Incarnation, Value: target.String()},
		trace.Attribute{Key: trace.Push, Value: string(push)})}
}

// parent is what the plugin's own spans are below.
func (e *Enforcer) parent(j *pushTrace) string {
	if j == nil {
		return ""
	}
	return j.id.Child(stepPlugin).Parent(e.Trace.Sampled(j.id))
}

// tracePush tells of the plugin's part.
func (j *pushTrace) tracePush(e *Enforcer, s *served, startedAt time.Time, result plugin.PushResult) {
	if j == nil {
		return
	}
	j.Tell(trace.Step{Name: stepPlugin, Begin: startedAt, End: e.Runtime.Now(), Failed: result.Ending != plugin.Pushed, About: []trace.Attribute{
		{Key: trace.Plugin, Value: s.name}, {Key: trace.Ending, Value: string(result.Ending)},
	}})
}

// traceClose takes up that the journal let go of a push. One that was carried out is
// traced until a look tells what became of it.
func (e *Enforcer) traceClose(a *asset, p *push, c closing, now time.Time) {
	if e.Trace == nil {
		return
	}
	j := p.pushTrace
	if j == nil {
		j = e.startPastTrace(a, p.id, p.target, p.admitted, p.admitted, trace.ID{})
	}
	j.Tell(trace.Step{Name: stepClose, Begin: c.At, End: now})
	ending := trace.Attribute{Key: trace.Ending, Value: c.Ending}
	if c.result.Ending != plugin.Pushed {
		j.End(now, true, ending, trace.Attribute{Key: trace.Plan, Value: p.plan.String()})
		return
	}
	j.closed = now
	a.pushTrace = j
}

// traceInSync ends the trace of a push that was carried out, once a look says what
// production is.
func (e *Enforcer) traceInSync(a *asset, g *observation, now time.Time) {
	if a.trouble == nil || a.pushTrace == nil || g.difference.Outcome == intent.Unknown {
		return
	}
	outcome := "in-sync"
	switch {
	case g.effective != a.pushTrace.effective:
		outcome = "overtaken"
	case g.difference.Outcome == intent.Differs:
		outcome = "differs"
	}
	e.endTrace(a, outcome, now)
}

func (e *Enforcer) endTrace(a *asset, outcome string, now time.Time) {
	if a.trouble == nil || a.pushTrace == nil {
		return
	}
	j := a.pushTrace
	a.pushTrace = nil
	vain := outcome == "differs"
	j.Tell(trace.Step{Name: stepInSync, Begin: j.closed, End: now, Failed: vain, About: []trace.Attribute{{Key: trace.Outcome, Value: outcome}}})
	j.End(now, vain, trace.Attribute{Key: trace.Ending, Value: string(plugin.Pushed)}, trace.Attribute{Key: trace.Outcome, Value: outcome})
}

// aboutPush is what log records of a push say.
func (e *Enforcer) aboutPush(a *asset, id intent.PushID, j *pushTrace) []any {
	attrs := []any{"partition", e.Partition, "asset", a.id, "push", id}
	if j != nil {
		attrs = append(attrs, "trace", j.id.String())
	}
	return attrs
}
