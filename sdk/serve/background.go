package serve

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"google.golang.org/protobuf/proto"

	"lehr.dev/internal/ground/loop"
)

// Background has production read in the background, one asset at a time, for a Resource
// whose Read takes longer than a look may. A look is answered from the last read that is
// recent enough; where there is none, the answer is pending, a read begins, and its end is
// hinted. What is asked about is read again each half of the Serving.Cadence, and hinted
// when it changed; what nobody asked about for three cadences is forgotten.
//
// A push reads production by itself, under its permit. A Read in the background cannot
// fetch blobs: no question is open then.
type Background struct {
	// Limit is how long one read may take, at most half of the cadence. Required. A read
	// that goes on although its context ended is given up, and its asset is not read
	// again before it ends.
	Limit time.Duration
	// AtOnce is how many reads are under way at most; default 4.
	AtOnce int
}

const (
	defaultReadsAtOnce = 4
	// readGrace is how long a read may take to heed the end of its context.
	readGrace = time.Second
	// mostGivenUp reads go on although they were given up; with more, none begins.
	mostGivenUp = 64
	// firstReadPause is the pause after a read that failed; it doubles up to half of the
	// cadence.
	firstReadPause = 5 * time.Second
	// pendingPause is the pause before a change that is pending is looked at again, where
	// the Resource gives none; leastPendingPause is the shortest.
	pendingPause, leastPendingPause = 10 * time.Second, time.Second
	// Reads go on for as many cadences after an asset was asked about last, and what they
	// found is kept for as many.
	refreshedFor, keptFor = 2, 3
)

// reader is a Kind that reads in the background.
type reader interface {
	beginReading(ctx context.Context)
}

// background keeps what was read, by asset. An asset has a reading for each content that a
// connection asks about it with: mostly one.
type background[T proto.Message] struct {
	limit   time.Duration
	atOnce  int
	cadence time.Duration
	read    func(context.Context, Asset[T]) State[T]

	mutex    sync.Mutex
	ctx      context.Context
	readings map[hinted][]*reading[T]
	// queue of those to be read, in the order in which they came.
	queue []*reading[T]
	// underWay counts reads, givenUp those that hold no place any more and go on.
	underWay, givenUp int
	hint              func(PartitionID, AssetID)
}

func newBackground[T proto.Message](options Background, cadence time.Duration, read func(context.Context, Asset[T]) State[T]) *background[T] {
	b := &background[T]{
		limit: options.Limit, atOnce: options.AtOnce, cadence: cadence, read: read,
		ctx: context.Background(), readings: map[hinted][]*reading[T]{},
		hint: func(PartitionID, AssetID) {},
	}
	if b.atOnce == 0 {
		b.atOnce = defaultReadsAtOnce
	}
	return b
}

// check says what is wrong with the options.
func (b *background[T]) check() error {
	switch {
	case b.cadence <= 0:
		return errors.New("it is read in the background, and Serving.Cadence does not say how old an answer may be")
	case b.limit <= 0 || b.limit > b.cadence/2:
		return fmt.Errorf("the limit of a read in the background is %s: it is more than 0, and at most half of the cadence of %s", b.limit, b.cadence)
	case b.atOnce < 0:
		return fmt.Errorf("%d reads in the background at once: at least 1", b.atOnce)
	}
	return nil
}

// begin has reads end with ctx.
func (b *background[T]) begin(ctx context.Context) {
	b.mutex.Lock()
	defer b.mutex.Unlock()
	b.ctx = ctx
}

// Watch implements Watcher: each read is looked at for what changed.
func (b *background[T]) Watch(ctx context.Context, hint func(PartitionID, AssetID)) error {
	b.mutex.Lock()
	b.hint = hint
	b.mutex.Unlock()
	<-ctx.Done()
	return ctx.Err()
}

// answer returns what is known of an asset, and sees to it that more will be.
func (b *background[T]) answer(asset Asset[T]) State[T] {
	now := time.Now()
	fingerprint, err := fingerprintOf(asset)
	if err != nil {
		return State[T]{Err: err}
	}
	b.mutex.Lock()
	defer b.mutex.Unlock()
	r := b.reading(asset, fingerprint)
	r.asset, r.askedAt = asset, now
	oldest := asset.ReadSince
	if oldest.IsZero() {
		oldest = now.Add(-b.cadence)
	}
	b.schedule(r, now)
	if r.isFresh(oldest) {
		return r.state
	}
	if r.isIdle() && !r.retryAt.After(now) {
		b.enqueue(r, now)
	}
	if r.err != nil && (r.isIdle() || r.phase == givenUp || !r.failedAt.Before(oldest)) {
		return State[T]{Err: r.failure(now)}
	}
	r.awaited = true
	b.startReads()
	return State[T]{Pending: r.pending()}
}

// reading returns the one of the asset's content. Another one that the same connection
// asked about before is forgotten.
func (b *background[T]) reading(asset Asset[T], fingerprint Digest) *reading[T] {
	key, connection := hinted{asset.Incarnation.Partition, asset.ID}, connectionOf(asset)
	for _, r := range b.readings[key] {
		if r.fingerprint == fingerprint {
			r.connection = connection
			return r
		}
	}
	for _, r := range b.readings[key] {
		if r.connection == connection {
			b.forget(r)
		}
	}
	r := &reading[T]{key: key, fingerprint: fingerprint, connection: connection}
	r.timer = time.AfterFunc(keptFor*b.cadence, func() { b.tick(r) })
	b.readings[key] = append(b.readings[key], r)
	return r
}

// invalidate has what was read of an asset before now be an answer no more: a push may
// have changed it.
func (b *background[T]) invalidate(partition PartitionID, asset AssetID) {
	now := time.Now()
	b.mutex.Lock()
	defer b.mutex.Unlock()
	for _, r := range b.readings[hinted{partition, asset}] {
		r.notBefore = now
	}
}

// forget drops a reading, and stops its read.
func (b *background[T]) forget(r *reading[T]) {
	r.isForgotten = true
	r.timer.Stop()
	if r.cancel != nil {
		r.cancel()
	}
	if r.phase == queued {
		r.phase = idle
	}
	rest := b.readings[r.key][:0:0]
	for _, other := range b.readings[r.key] {
		if other != r {
			rest = append(rest, other)
		}
	}
	if b.readings[r.key] = rest; len(rest) == 0 {
		delete(b.readings, r.key)
	}
}

// tick does what is due for a reading: a read, or to forget it.
func (b *background[T]) tick(r *reading[T]) {
	b.mutex.Lock()
	defer b.mutex.Unlock()
	if r.isForgotten {
		return
	}
	now := time.Now()
	rest := now.Sub(r.askedAt)
	if rest >= keptFor*b.cadence && r.isIdle() {
		b.forget(r)
		return
	}
	if r.isIdle() && rest < refreshedFor*b.cadence && !b.dueAt(r).After(now) {
		b.enqueue(r, now)
		b.startReads()
	}
	b.schedule(r, now)
}

// dueAt is when a reading is to be read again.
func (b *background[T]) dueAt(r *reading[T]) time.Time {
	switch {
	case r.err != nil:
		return r.retryAt
	case r.state.Pending != nil:
		pause := r.state.Pending.RetryAfter
		if pause <= 0 {
			pause = pendingPause
		}
		return r.endedAt.Add(min(max(pause, leastPendingPause), b.cadence/2))
	}
	return r.beganAt.Add(b.cadence / 2)
}

// schedule sets when tick is to come for a reading next.
func (b *background[T]) schedule(r *reading[T], now time.Time) {
	next := r.askedAt.Add(keptFor * b.cadence)
	isKnown := r.err != nil || !r.beganAt.IsZero()
	switch due := b.dueAt(r); {
	case !r.isIdle():
		next = now.Add(b.cadence) // The end of its read comes here too.
	case isKnown && due.Before(next) && now.Sub(r.askedAt) < refreshedFor*b.cadence:
		next = due
	}
	r.timer.Reset(max(next.Sub(now), time.Millisecond))
}

// retryPace is that of reads that fail.
func (b *background[T]) retryPace() loop.Backoff {
	return loop.Backoff{First: min(firstReadPause, b.cadence/2), Most: b.cadence / 2}
}
