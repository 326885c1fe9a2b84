package enforcer

import (
	"context"
	"time"

	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/ground/loop"
	"lehr.dev/internal/pluginhost/plugin"
)

// try starts the one look that an open breaker lets through, when its pause is
// over. Until then all that is ready is told what it waits for.
func (o *observer) try(ctx context.Context, s *served, now time.Time) {
	if s.until.After(now) {
		for _, waiting := range []*loop.Queue[*asset]{&s.ready, &s.suspects} {
			for a, priority, ready := waiting.Pop(now); ready; a, priority, ready = waiting.Pop(now) {
				o.results.look(ctx, a, priority, now)
			}
		}
		return
	}
	// First what has not failed yet: a suspect might break the plugin again.
	for s.inFlight == 0 {
		priority, ready := s.ready.Turn(now)
		if !ready {
			o.startSuspects(ctx, s, now)
			return
		}
		o.startBatches(ctx, s, priority, 1, now)
	}
}

// startSuspects looks again at what was in a batch that failed, one batch of
// half the size at a time, until the asset that breaks its plugin is alone and
// delays the others no more.
func (o *observer) startSuspects(ctx context.Context, s *served, now time.Time) {
	for !s.suspecting && s.inFlight < o.looksOf(s) {
		var batch []*observation
		for most := plugin.MaxBatch; len(batch) < most; {
			a, priority, ready := s.suspects.Pop(now)
			if !ready {
				break
			}
			g := o.newObservation(s, a, priority, now)
			if g == nil {
				continue
			}
			share := 1
			if a.trouble != nil {
				share = max(1, a.share)
			}
			if len(batch) > 0 && (g.key() != batch[0].key() || share <= len(batch)) {
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
		o.startDiff(ctx, s, batch)
	}
}

// startDiffs hands what is ready to the plugin, in batches of one priority, one
// incarnation and one age each.
func (o *observer) startDiffs(ctx context.Context, s *served, now time.Time) {
	o.startSuspects(ctx, s, now)
	places := o.looksOf(s)
	for s.inFlight < places {
		priority, ready := s.turn(places, now)
		if !ready {
			return
		}
		o.startBatches(ctx, s, priority, places, now)
	}
}

// looksOf is how many batches a plugin may have at once.
func (o *observer) looksOf(s *served) int {
	if s.atOnce > 0 {
		return min(s.atOnce, o.limits.Diffs)
	}
	return o.limits.Diffs
}

// startBatches starts looks at what is ready of one priority, while there are
// places.
func (o *observer) startBatches(ctx context.Context, s *served, priority loop.Priority, places int, now time.Time) {
	var keys []batchKey
	batches := map[batchKey][]*observation{}
	for range plugin.MaxBatch {
		a, ready := s.ready.PopOf(now, priority)
		if !ready {
			break
		}
		o.measure.Delay.Took(s.ready.Late(now))
		g := o.newObservation(s, a, priority, now)
		if g == nil {
			continue
		}
		key := g.key()
		if batches[key] == nil {
			keys = append(keys, key)
		}
		batches[key] = append(batches[key], g)
	}
	for _, key := range keys {
		if s.inFlight < places {
			o.startDiff(ctx, s, batches[key])
			continue
		}
		for _, g := range batches[key] { // Each incarnation and age takes a place of its own.
			s.ready.Add(g.asset, now, priority)
		}
	}
}

// startDiff asks the plugin about one batch, away from the owner.
func (o *observer) startDiff(ctx context.Context, s *served, batch []*observation) {
	s.inFlight++
	request := plugin.DiffRequest{Incarnation: batch[0].target, Since: batch[0].since, Assets: make([]intent.AssetID, len(batch))}
	if batch[0].isOther() {
		s.otherBatches++
	}
	startedAt := o.runtime.Now()
	description, downErr := s.plugin.Describe()
	mayBeOld := batch[0].since.IsZero() && description.Cadence() > 0
	var way *lookTrace
	if o.isTraced {
		way = &lookTrace{chosenAt: startedAt}
	}
	for i, g := range batch {
		a := g.asset
		g.trail, g.asked = way, startedAt
		a.looking = true
		g.wanted, g.reached = o.facts.wanted[a], downErr == nil
		g.contentKnown, g.judge = a.isContentKnown(g.effective), a.judge
		g.asksAfter, g.unwell = !a.afterKnown && o.view.policy.asksAfter(), a.unwell
		request.Assets[i] = a.id
	}
	o.runtime.Go("diff", func() {
		o.runtime.Point("diff")
		askedAt := o.runtime.Now()
		differences, err := o.diff(ctx, s, request)
		answeredAt := o.runtime.Now()
		s.measure.Diffs.Took(answeredAt.Sub(askedAt))
		if way != nil {
			way.askedAt, way.answeredAt = askedAt, answeredAt
		}
		s.measure.Batches.Size(len(batch))
		byAsset := make(map[intent.AssetID]intent.Difference, len(differences))
		for _, difference := range differences {
			byAsset[difference.Asset] = difference
		}
		for _, g := range batch {
			g.difference = byAsset[g.asset.id]
			g.difference.Incarnation, g.difference.Effective = request.Incarnation, g.effective
			g.old = mayBeOld && g.difference.At.Before(askedAt)
		}
		if err == nil {
			o.preloadSafely(ctx, batch)
			for _, g := range batch {
				o.readSafely(ctx, g)
			}
		}
		o.inbox.Put(func() {
			s.pace.observe(o.runtime.Now().Sub(startedAt), o.runtime.Now())
			o.results.handleBatch(ctx, s, batch, err)
		})
	})
}

// newObservation says what to ask about an asset, unless the world has moved on since
// it became ready.
func (o *observer) newObservation(s *served, a *asset, priority loop.Priority, now time.Time) *observation {
	if o.find(a.id) != a {
		return nil
	}
	target, effective, _, exists := o.view.target(a, now)
	isServed := exists && a.kind.served == s
	if !isServed || a.open() || a.isBusy() || a.isLetBe(now) {
		o.queue.Add(a, now, priority)
		return nil
	}
	g := &observation{asset: a, priority: priority, target: target, effective: effective, policy: o.view.policy.digest, horizon: o.incarnations.list(o.view), head: o.view.head, heeds: o.view.policyAtHead(a, target, now), common: o.view.common}
	g.since = o.sinceOf(s, a, priority, now)
	g.hinted = s.hints.claimLook(a, now)
	g.runs = a.enforced > 0 && !a.absent
	if a.trouble != nil && a.requirements.err == nil {
		prior := a.requirements
		g.prior = &prior
	}
	if a.enforced > 0 && (!a.settled || a.enforcedAs() != effective) {
		g.enforced = intent.IncarnationID{Partition: o.partition, Sequence: a.enforced}
	}
	return g
}

// startReady starts looks at what is ready, of every plugin.
func (o *observer) startReady(ctx context.Context, now time.Time) {
	for _, s := range o.plugins.order {
		if s.open() {
			o.try(ctx, s, now)
		} else {
			o.startDiffs(ctx, s, now)
		}
	}
}

// diff asks the plugin about a batch. A panic is a failed batch, so that the
// asset at which it comes is found and kept apart.
func (o *observer) diff(ctx context.Context, s *served, request plugin.DiffRequest) (differences []intent.Difference, err error) {
	defer func() {
		if cause := recover(); cause != nil {
			err = panicked(o.log, cause, "plugin", s.name, "assets", len(request.Assets))
		}
	}()
	return o.memos.diff(ctx, s.plugin, request)
}

// preloadSafely reads the contents of a batch at once. After a panic each look reads its
// own, so that the asset at which it comes is found and kept apart.
func (o *observer) preloadSafely(ctx context.Context, batch []*observation) {
	defer func() {
		if cause := recover(); cause != nil {
			_ = panicked(o.log, cause, "assets", len(batch))
		}
	}()
	o.read.preload(ctx, batch)
}

// readSafely reads the content of what was looked at.
func (o *observer) readSafely(ctx context.Context, g *observation) {
	defer func() {
		if cause := recover(); cause != nil {
			g.panicked = panicked(o.log, cause, "asset", g.asset.id)
		}
	}()
	o.read.readContent(ctx, g)
}
