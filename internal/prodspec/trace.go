package prodspec

import (
	"fmt"
	"slices"
	"time"

	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/ground/loop"
	"lehr.dev/internal/ground/trace"
)

// timed notes the steps of one build. Nil: nobody is told of traces.
type timed struct {
	runtime loop.Runtime
	steps   []trace.Step
	// id is that of the incarnation that was made; zero: none was.
	id trace.ID
}

// step begins one; what is returned ends it.
func (t *timed) step(name string) (end func(failed bool)) {
	if t == nil {
		return func(bool) {}
	}
	begin, tried := t.runtime.Now(), name
	for i := 2; slices.ContainsFunc(t.steps, func(s trace.Step) bool { return s.Name == tried }); i++ {
		tried = fmt.Sprintf("%s, try %d", name, i)
	}
	at := len(t.steps)
	t.steps = append(t.steps, trace.Step{Name: tried, Begin: begin, End: begin})
	return func(failed bool) { t.steps[at].End, t.steps[at].Failed = t.runtime.Now(), failed }
}

// nameTrace names the trace after the incarnation that came of the build, as the pushes
// do that follow from it.
func (t *timed) nameTrace(incarnation intent.Incarnation) {
	if t != nil {
		t.id = trace.Of(incarnation.ID.String(), incarnation.Created)
	}
}

// trace tells of a build.
func (p *Pipeline) trace(status Status, outcome string, started, now time.Time) {
	t := p.builder.timed
	if t == nil {
		return
	}
	if t.id == (trace.ID{}) {
		t.id = trace.Of(fmt.Sprintf("build of %s under %d", p.lease.Partition, p.lease.Epoch), started)
	}
	attributes := []trace.Attribute{{Key: trace.Partition, Value: string(p.lease.Partition)}, {Key: trace.Outcome, Value: outcome}}
	if status.State == Serving {
		attributes = append(attributes, trace.Attribute{Key: trace.Incarnation, Value: status.Head.String()}, trace.Attribute{Key: trace.Assets, Value: p.builder.members.len()})
	}
	var sources []string
	for _, s := range status.Sources {
		sources = append(sources, s.Source+"@"+s.Revision)
	}
	attributes = append(attributes, trace.Attribute{Key: trace.Sources, Value: sources})
	failed := status.State != Serving && outcome != overtakenOutcome
	root := p.options.Trace.Begin(t.id, trace.ID{}, "build", started, attributes...)
	for _, step := range t.steps {
		root.Tell(step)
	}
	root.End(now, failed)
}
