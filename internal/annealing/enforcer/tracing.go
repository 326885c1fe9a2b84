package enforcer

import (
	"time"

	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/ground/loop"
	"lehr.dev/internal/ground/trace"
	"lehr.dev/internal/pluginhost/plugin"
)

// tracing writes the trace of each push. It changes nothing that a pass decides by.
type tracing struct {
	// tracer is nil where traces are not collected; then no method does anything.
	tracer    trace.Tracer
	runtime   loop.Runtime
	partition intent.PartitionID
}

// keepLook keeps the times of the look that may lead to a push.
func (t *trouble) keepLook(g *observation) {
	if g.trail != nil {
		found := *g.trail
		found.cause = g.cause
		t.lookTrace = &found
	}
}

// markDecision records when the decision about an asset begins.
func (t *tracing) markDecision(a *asset) {
	if a.lookTrace != nil {
		a.lookTrace.judgingAt = t.runtime.Now()
	}
}

// markDecided records when the decision about an asset ends in an admission.
func (t *tracing) markDecided(a *asset) {
	if a.lookTrace != nil {
		a.lookTrace.judgedAt = t.runtime.Now()
	}
}

// begin begins the trace of an admitted push.
func (t *tracing) begin(g admission) *pushTrace {
	if t.tracer == nil {
		return nil
	}
	a, now := g.asset, t.runtime.Now()
	look := a.lookTrace
	if look == nil {
		look = &lookTrace{chosenAt: g.At, askedAt: g.At, answeredAt: g.At, judgingAt: g.At, judgedAt: g.At}
	}
	j := t.beginRoot(a, g.Push, g.Target, g.At, look.chosenAt, look.cause)
	j.effective = g.Effective
	j.Tell(trace.Step{Name: stepTarget, Begin: look.chosenAt, End: look.askedAt, About: []trace.Attribute{{Key: trace.Incarnation, Value: g.Target.String()}}})
	j.Tell(trace.Step{Name: stepDiff, Begin: look.askedAt, End: look.answeredAt, About: []trace.Attribute{{Key: trace.Plan, Value: g.Plan.String()}, {Key: trace.Plugin, Value: g.served.name}}})
	j.Tell(trace.Step{Name: stepChecks, Begin: look.judgingAt, End: look.judgedAt, About: []trace.Attribute{{Key: trace.Checks, Value: g.Checks}}})
	j.Tell(trace.Step{Name: stepAdmission, Begin: look.judgedAt, End: now})
	return j
}

// beginRoot begins the root span of a push. An earlier holder of the lease may have
// begun the same root, and then could not end it.
func (t *tracing) beginRoot(a *asset, push intent.PushID, target intent.IncarnationID, admitted, startedAt time.Time, cause trace.ID) *pushTrace {
	id := trace.Of(string(push), admitted)
	return &pushTrace{id: id, Span: t.tracer.Begin(id, cause, "push", startedAt,
		trace.Attribute{Key: trace.Partition, Value: string(t.partition)}, trace.Attribute{Key: trace.Asset, Value: string(a.id)},
		trace.Attribute{Key: trace.Type, Value: string(a.kind.name)}, trace.Attribute{Key: trace.Incarnation, Value: target.String()},
		trace.Attribute{Key: trace.Push, Value: string(push)})}
}

// parent returns the traceparent of the plugin's own spans.
func (t *tracing) parent(j *pushTrace) string {
	if j == nil {
		return ""
	}
	return j.id.Child(stepPlugin).Parent(t.tracer.Sampled(j.id))
}

// addPluginStep adds the plugin's part. It runs away from the owner of the state.
func (t *tracing) addPluginStep(j *pushTrace, s *served, startedAt time.Time, result plugin.PushResult) {
	if j == nil {
		return
	}
	j.Tell(trace.Step{Name: stepPlugin, Begin: startedAt, End: t.runtime.Now(), Failed: result.Ending != plugin.Pushed, About: []trace.Attribute{
		{Key: trace.Plugin, Value: s.name}, {Key: trace.Ending, Value: string(result.Ending)},
	}})
}

// closePush records that the journal closed a push. The trace of one that was carried
// out goes on until a look shows what became of it.
func (t *tracing) closePush(a *asset, p *push, c closing, now time.Time) {
	if t.tracer == nil {
		return
	}
	j := p.pushTrace
	if j == nil {
		j = t.beginRoot(a, p.id, p.target, p.admitted, p.admitted, trace.ID{})
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

// endByLook ends the trace of a push that was carried out, once a look shows what
// production is.
func (t *tracing) endByLook(a *asset, g *observation, now time.Time) {
	if a.trouble == nil || a.pushTrace == nil || g.difference.Outcome == intent.Unknown || g.difference.Outcome == intent.Pending {
		return
	}
	outcome := "in-sync"
	switch {
	case g.effective != a.pushTrace.effective:
		outcome = "overtaken"
	case g.difference.Outcome == intent.Differs:
		outcome = "differs"
	}
	t.end(a, outcome, now)
}

// end ends the trace of an asset's last push, if there is one.
func (t *tracing) end(a *asset, outcome string, now time.Time) {
	if a.trouble == nil || a.pushTrace == nil {
		return
	}
	j := a.pushTrace
	a.pushTrace = nil
	vain := outcome == "differs"
	j.Tell(trace.Step{Name: stepInSync, Begin: j.closed, End: now, Failed: vain, About: []trace.Attribute{{Key: trace.Outcome, Value: outcome}}})
	j.End(now, vain, trace.Attribute{Key: trace.Ending, Value: string(plugin.Pushed)}, trace.Attribute{Key: trace.Outcome, Value: outcome})
}

// logAttributes are what log records of a push say.
func (t *tracing) logAttributes(a *asset, id intent.PushID, j *pushTrace) []any {
	attrs := []any{"partition", t.partition, "asset", a.id, "push", id}
	if j != nil {
		attrs = append(attrs, "trace", j.id.String())
	}
	return attrs
}
