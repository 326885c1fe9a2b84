package enforcer

import (
	"context"
	"fmt"
	"slices"
	"time"

	intentpb "lehr.dev/gen/lehr/intent/v1"
	"lehr.dev/internal/annealing/check"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/ground/loop"
	"lehr.dev/internal/ground/schema"
	"lehr.dev/internal/ground/trace"
	"lehr.dev/internal/pluginhost/plugin"
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

// dispatch takes what is due from the queue and starts diffs.
func (e *Enforcer) dispatch(ctx context.Context) {
	now := e.now()
	for {
		a, priority, due := e.queue.Pop(now)
		if !due {
			break
		}
		e.contain(a, func() { e.look(ctx, a, priority, now) })
	}
	for _, s := range e.pluginOrder {
		if s.open() {
			e.try(ctx, s, now)
		} else {
			e.startDiffs(ctx, s, now)
		}
	}
}

// look decides whether an asset needs a diff, a pass over facts that still
// hold, or nothing.
func (e *Enforcer) look(ctx context.Context, a *asset, priority loop.Priority, now time.Time) {
	if pinned := e.view.pinnedNow(a, now); a.pinned != pinned {
		a.pinned = pinned
		e.renew(a)
		e.relag(a, now)
	}
	e.queueEnds(a, now)
	if a.trouble != nil && len(e.orphans.byID) > 0 {
		e.recheckOrphans(ctx, slices.Values(a.awaits))
	}
	target, effective, pin, exists := e.view.target(a, now)
	switch {
	case a.looking || a.recording || a.trouble != nil && a.admitting:
		a.again = true
	case a.open():
		e.reportOpen(a, target, effective)
	case !exists && pin == nil:
		e.forget(a)
	case pin != nil && pin.Waits():
		e.wait(a, target, effective, intent.WaitingOn{Kind: intent.WaitNotSelected, Owner: pin.Holder.Name, Reason: fmt.Sprintf("the rollout %s has not let it go on yet; lehr rollout status %[1]s says what it waits for", pin.Rollout())})
	case !exists:
		e.wait(a, target, effective, intent.WaitingOn{Kind: intent.WaitTarget, Reason: fmt.Sprintf("the pin asks for %s, which does not have the asset; unpin it", target)})
	case a.kind.served == nil && a.enforced > 0:
		e.wait(a, target, effective, intent.WaitingOn{Kind: intent.WaitPluginMissing, Reason: fmt.Sprintf("it was enforced before, and no plugin is bound to %s any more; bind one under \"plugins\" in the partition's definition", a.kind.name)})
	case a.kind.served == nil:
		e.report(a, intent.Report{State: e.unservedState(a), Target: target, Effective: effective})
		e.readModel(ctx, a, target, effective)
	case e.view.modeNow(a) == check.Off:
		e.afterPushes.forget(a)
		a.unwell = false
		e.pushLimits.health.set(a, healthNeverReported, now)
		e.report(a, intent.Report{State: intent.StateOff, Target: target, Effective: effective})
	case a.kind.served.until.After(now):
		e.wait(a, target, effective, intent.WaitingOn{Kind: intent.WaitPlugin, Reason: a.kind.served.reason, Until: a.kind.served.until})
		e.queue.Add(a, a.kind.served.until, loop.Retry)
	case a.madeWay(now):
		e.wait(a, target, effective, *a.busy)
		e.queue.Add(a, a.busy.Until, loop.Retry)
	case a.trouble != nil && a.apart.After(now):
		e.queue.Add(a, a.apart, loop.Retry)
	case priority == loop.Fresh && !a.kind.served.open() && !e.neighbours.facts.wanted[a] && e.holds(a, target, effective, now):
		e.pass(a, now)
	case a.trouble != nil && a.share > 0:
		a.kind.served.suspects.Add(a, now, priority)
	default:
		a.kind.served.ready.Add(a, now, priority)
	}
}

// holds reports whether the last difference may still be relied on.
func (e *Enforcer) holds(a *asset, target intent.IncarnationID, effective intent.Digest, now time.Time) bool {
	return a.trouble != nil && a.push == nil && a.difference.Outcome == intent.Differs &&
		a.difference.Incarnation == target && a.difference.Effective == effective && a.requirements.heeds == e.view.policyAtHead(a, target, now) &&
		a.requirements.inward.covers(e.incarnations.list(&e.view)) && !a.difference.At.After(now) && now.Sub(a.difference.At) < e.Limits.FactHold
}

// startSuspects looks again at what was in a batch that failed, one batch of
// half the size at a time, until the asset that breaks its plugin is alone and
// delays the others no more.
func (e *Enforcer) startSuspects(ctx context.Context, s *served, now time.Time) {
	for !s.suspecting && s.inFlight < e.looksOf(s) {
		var batch []*observation
		for most := plugin.MaxBatch; len(batch) < most; {
			a, priority, ready := s.suspects.Pop(now)
			if !ready {
				break
			}
			g := e.newObservation(s, a, priority, now)
			if g == nil {
				continue
			}
			share := 1
			if a.trouble != nil {
				share = max(1, a.share)
			}
			if len(batch) > 0 && (g.target != batch[0].target || share <= len(batch)) {
				s.suspects.Add(a, now, priority)
				break
			}
			g.suspect = true
			most, batch = min(most, share), append(batch, g)
		}
		if len(batch) == 0 {
			return
		}
		s.suspecting = true
		e.startDiff(ctx, s, batch[0].target, batch)
	}
}

// startDiffs hands what is ready to the plugin, in batches of one priority and
// one incarnation each.
func (e *Enforcer) startDiffs(ctx context.Context, s *served, now time.Time) {
	e.startSuspects(ctx, s, now)
	places := e.looksOf(s)
	for s.inFlight < places {
		priority, ready := s.turn(places, now)
		if !ready {
			return
		}
		e.startBatches(ctx, s, priority, places, now)
	}
}

// looksOf is how many batches a plugin may have at once.
func (e *Enforcer) looksOf(s *served) int {
	if s.atOnce > 0 {
		return min(s.atOnce, e.Limits.Diffs)
	}
	return e.Limits.Diffs
}

// startBatches starts looks at what is ready of one priority, while there are
// places.
func (e *Enforcer) startBatches(ctx context.Context, s *served, priority loop.Priority, places int, now time.Time) {
	var targets []intent.IncarnationID
	batches := map[intent.IncarnationID][]*observation{}
	for range plugin.MaxBatch {
		a, ready := s.ready.PopOf(now, priority)
		if !ready {
			break
		}
		e.Measure.Delay.Took(s.ready.Late(now))
		g := e.newObservation(s, a, priority, now)
		if g == nil {
			continue
		}
		if batches[g.target] == nil {
			targets = append(targets, g.target)
		}
		batches[g.target] = append(batches[g.target], g)
	}
	for _, target := range targets {
		if s.inFlight < places {
			e.startDiff(ctx, s, target, batches[target])
			continue
		}
		for _, g := range batches[target] { // Each incarnation takes a place of its own.
			s.ready.Add(g.asset, now, priority)
		}
	}
}

// isOther: its batch may not take the place that is kept for what is fresh.
func (g *observation) isOther() bool { return g.suspect || g.priority != loop.Fresh }

// turn says of which priority the next batch is. Of several places the last is
// kept for what is fresh: it never waits for sweeps that take long.
func (s *served) turn(places int, now time.Time) (loop.Priority, bool) {
	priority, ready := s.ready.Turn(now)
	if ready && priority != loop.Fresh && places > 1 && s.otherBatches >= places-1 {
		return loop.Fresh, s.ready.Has(loop.Fresh)
	}
	return priority, ready
}

// newObservation says what to ask about an asset, unless the world has moved on since
// it became ready.
func (e *Enforcer) newObservation(s *served, a *asset, priority loop.Priority, now time.Time) *observation {
	if e.assets[a.id] != a {
		return nil
	}
	target, effective, _, exists := e.view.target(a, now)
	if !exists || a.kind.served != s || a.open() || a.looking || a.recording || a.trouble != nil && a.admitting || a.madeWay(now) {
		e.queue.Add(a, now, priority)
		return nil
	}
	g := &observation{asset: a, priority: priority, target: target, effective: effective, policy: e.view.policy.digest, horizon: e.incarnations.list(&e.view), head: e.view.head, heeds: e.view.policyAtHead(a, target, now)}
	g.runs = a.enforced > 0 && !a.absent
	if a.trouble != nil && a.requirements.err == nil {
		prior := a.requirements
		g.prior = &prior
	}
	if a.enforced > 0 && (!a.settled || a.enforcedAs() != effective) {
		g.enforced = intent.IncarnationID{Partition: e.Partition, Sequence: a.enforced}
	}
	return g
}

// startDiff asks the plugin about one batch, away from the owner.
func (e *Enforcer) startDiff(ctx context.Context, s *served, target intent.IncarnationID, batch []*observation) {
	s.inFlight++
	if batch[0].isOther() {
		s.otherBatches++
	}
	startedAt := e.Runtime.Now()
	_, downErr := s.plugin.Describe()
	ids := make([]intent.AssetID, len(batch))
	var way *lookTrace
	if e.Trace != nil {
		way = &lookTrace{chosenAt: startedAt}
	}
	for i, g := range batch {
		a := g.asset
		g.trail = way
		a.looking = true
		g.wanted, g.reached = e.neighbours.facts.wanted[a], downErr == nil
		g.contentKnown = a.isContentKnown(g.effective)
		g.asksAfter, g.unwell = !a.afterKnown && e.view.policy.asksAfter(), a.unwell
		ids[i] = a.id
	}
	e.Runtime.Go("diff", func() {
		e.Runtime.Point("diff")
		askedAt := e.Runtime.Now()
		differences, err := e.diff(ctx, s, target, ids)
		answeredAt := e.Runtime.Now()
		s.measure.Diffs.Took(answeredAt.Sub(askedAt))
		if way != nil {
			way.askedAt, way.answeredAt = askedAt, answeredAt
		}
		s.measure.Batches.Size(len(ids))
		byAsset := make(map[intent.AssetID]intent.Difference, len(differences))
		for _, difference := range differences {
			byAsset[difference.Asset] = difference
		}
		for _, g := range batch {
			g.difference = byAsset[g.asset.id]
			g.difference.Incarnation, g.difference.Effective = target, g.effective
			if err == nil {
				e.readSafely(ctx, g)
			}
		}
		e.inbox.Put(func() {
			s.pace.observe(e.now().Sub(startedAt), e.now())
			e.handleBatch(ctx, s, batch, err)
		})
	})
}

// readContent reads what the outcome makes worth knowing: the asset's mode and
// Turndown before anything is pushed or recorded, what a push asks for, and
// how the asset stands.
func (e *Enforcer) readContent(ctx context.Context, g *observation) {
	if g.difference.Outcome == intent.Unknown || g.difference.Outcome == intent.InSync && g.contentKnown && !g.wanted && !g.asksAfter {
		return
	}
	var loaded contents
	if loaded, g.err = e.read.contents(ctx, g); g.err != nil {
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
		g.requirements = e.read.requirements(ctx, g, loaded)
		g.standing = g.requirements.standing
		if g.trail != nil {
			g.cause = e.read.cause(ctx, g)
		}
	case g.wanted:
		g.standing, g.err = e.read.readFacts(ctx, loaded.target, nil, g.difference)
	}
	if g.err == nil && g.asksAfter && g.difference.Outcome == intent.InSync {
		g.watches, g.err = e.read.aftermath(ctx, g, loaded.target)
	}
}
