package conformance

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	pluginpb "lehr.dev/gen/lehr/plugin/v1"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/pluginhost/plugin"
)

// clockGrace is how far the clock of a provider may be ahead.
const clockGrace = time.Second

// pendings are the answers that said pending, of all lines.
type pendings struct {
	mutex sync.Mutex
	count int
	// problem is the first thing that is wrong with one.
	problem string
	// current are those of which nothing else was said since, by asset.
	current map[string]row
}

// row of answers that told one and the same change.
type row struct {
	reason string
	// firstTold is when the first of them came.
	firstTold, since time.Time
}

// take looks at an answer that came now.
func (p *pendings) take(diff *pluginpb.AssetDiff, now time.Time) {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	pending := diff.GetPending()
	if pending == nil {
		delete(p.current, diff.Asset)
		return
	}
	p.count++
	told := row{reason: pending.Reason, firstTold: now}
	if pending.Since != nil {
		told.since = pending.Since.AsTime()
	}
	last, isSame := p.current[diff.Asset]
	if isSame = isSame && last.reason == told.reason; isSame {
		told.firstTold = last.firstTold
	}
	var problem string
	switch {
	case pending.Reason == "":
		problem = "it says pending, and not what is under way"
	case pending.Ends == "":
		problem = fmt.Sprintf("it says pending (%.200q), and not what ends it", pending.Reason)
	case pending.Since.CheckValid() != nil && pending.Since != nil:
		problem = fmt.Sprintf("it says pending (%.200q) since a time that is none", pending.Reason)
	case told.since.After(now.Add(clockGrace)):
		problem = fmt.Sprintf("it says pending (%.200q) since %s, a time to come", pending.Reason, told.since.Format(time.RFC3339Nano))
	case isSame && told.since.After(last.since) && told.since.After(told.firstTold):
		problem = fmt.Sprintf("it says pending (%.200q) since %s, and had said so at %s already: the time since when stays", pending.Reason, told.since.Format(time.RFC3339Nano), told.firstTold.Format(time.RFC3339Nano))
	}
	if p.problem == "" {
		p.problem = problem
	}
	if p.current == nil {
		p.current = map[string]row{}
	}
	const most = 1000
	if len(p.current) < most {
		p.current[diff.Asset] = told
	}
}

// reset begins a new row for each asset: a push may have begun another change.
func (p *pendings) reset() {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	clear(p.current)
}

// judge returns what was wrong, and how many answers said pending.
func (p *pendings) judge() (count int, err error) {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	if p.problem != "" {
		err = errors.New(p.problem)
	}
	return p.count, err
}

// pending pushes, pushes the same plan again if a change is under way then, and waits
// until nothing is. It judges what was said to be pending under the rules before, too, such
// as a removal.
func (s *suite) pending(ctx context.Context) error {
	baseline, err := s.pendingDifference(ctx)
	if err != nil {
		return err
	}
	end, err := s.push(ctx, baseline, nil)
	if err == nil && end.Ending != plugin.Pushed {
		err = fmt.Errorf("the push ended as %s", end)
	}
	if err == nil {
		err = s.pushWhilePending(ctx, baseline)
	}
	if err != nil {
		return err
	}
	current, err := s.diff(ctx, baseline.Incarnation)
	switch {
	case err != nil:
		return err
	case current.Outcome != intent.InSync:
		return fmt.Errorf("when nothing was pending any more, it still differed: %s", fields(current))
	}
	count, err := s.pendings.judge()
	if err == nil && count == 0 {
		return skipped("it never said that something is under way (pending)")
	}
	return err
}

// pushWhilePending pushes the plan of before while, by what is said before and after, the
// change that it began is under way: what is pending has no plan, so the push is stale.
func (s *suite) pushWhilePending(ctx context.Context, baseline intent.Difference) error {
	one, err := s.look(ctx, s.line, baseline.Incarnation, time.Now())
	if err != nil || one.Outcome != intent.Pending {
		return err
	}
	end, err := s.push(ctx, baseline, nil)
	if err != nil {
		return err
	}
	other, err := s.look(ctx, s.line, baseline.Incarnation, time.Now())
	if err == nil && other.Outcome == intent.Pending && end.Ending == plugin.Pushed {
		err = fmt.Errorf("it carried out a push while a change was under way (%s): what is pending has no plan, so the push is stale", one.Reason)
	}
	return err
}
