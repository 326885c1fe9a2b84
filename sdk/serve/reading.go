package serve

import (
	"context"
	"crypto/sha256"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"time"

	"google.golang.org/protobuf/proto"
)

// phase of a reading.
type phase uint8

const (
	idle phase = iota
	// queued: it waits for its turn to be read.
	queued
	// underRead: a read is under way.
	underRead
	// givenUp: its read goes on although it was given up, and holds no place.
	givenUp
)

// reading is what is known of one content of an asset. The background's mutex guards it.
type reading[T proto.Message] struct {
	key         hinted
	fingerprint Digest
	// connection that asked about it last, when, and what.
	connection uint64
	askedAt    time.Time
	asset      Asset[T]

	phase phase
	// since is when it was queued, or when its read began.
	since  time.Time
	cancel context.CancelFunc
	// awaited: somebody was answered pending, and its end is to be hinted.
	awaited bool

	// state of the last read that succeeded, when that began and ended. readAt is beganAt,
	// unless the Resource says that what it found is older.
	state                    State[T]
	readAt, beganAt, endedAt time.Time
	// err of the last read; nil: it succeeded. It began at failedAt, and is tried again
	// at retryAt.
	err               error
	failedAt, retryAt time.Time
	failures          int
	// notBefore: what was read earlier is no answer.
	notBefore   time.Time
	timer       *time.Timer
	isForgotten bool
}

func (r *reading[T]) isIdle() bool { return r.phase == idle }

// isFresh reports whether the last state may be an answer.
func (r *reading[T]) isFresh(start time.Time) bool {
	return !r.readAt.IsZero() && !r.readAt.Before(start) && !r.readAt.Before(r.notBefore)
}

// failure is the last error, with its age.
func (r *reading[T]) failure(now time.Time) error {
	again := "it is read again now"
	if pause := r.retryAt.Sub(now); pause > 0 {
		again = fmt.Sprintf("it is read again in %s", pause.Round(time.Second))
	}
	if r.phase == givenUp {
		again = "it is read again when that read ends"
	}
	return fmt.Errorf("the read in the background that began %s ago failed: %w; %s", now.Sub(r.failedAt).Round(time.Second), r.err, again)
}

// pending says for what an answer waits.
func (r *reading[T]) pending() *PendingChange {
	// The reason tells whole seconds, and so does Since: of two reads that began within one,
	// nobody could tell by the reason that they are two.
	pendingSince := r.since.Truncate(time.Second)
	startedAt := pendingSince.UTC().Format(time.RFC3339)
	if r.phase == queued {
		return &PendingChange{Reason: "waits for its turn to be read since " + startedAt, Since: pendingSince, Ends: "the end of the read"}
	}
	return &PendingChange{Reason: "reading since " + startedAt, Since: pendingSince, Ends: "the end of the read"}
}

// enqueue has a reading read when there is a place.
func (b *background[T]) enqueue(r *reading[T], now time.Time) {
	r.phase, r.since = queued, now
	b.queue = append(b.queue, r)
}

// startReads begins reads while there are places.
func (b *background[T]) startReads() {
	for b.underWay < b.atOnce && b.givenUp < mostGivenUp && b.ctx.Err() == nil {
		r := b.takeQueued()
		if r == nil {
			return
		}
		var ctx context.Context
		ctx, r.cancel = context.WithTimeoutCause(b.ctx, b.limit, fmt.Errorf("it took longer than %s", b.limit))
		r.phase, r.since = underRead, time.Now()
		b.underWay++
		go b.run(ctx, r, r.asset, r.since)
	}
}

// takeQueued takes the first out of the queue of those for which somebody waits, or of all;
// nil: there is none.
func (b *background[T]) takeQueued() *reading[T] {
	b.queue = slices.DeleteFunc(b.queue, func(r *reading[T]) bool { return r.phase != queued }) // Forgotten meanwhile.
	if len(b.queue) == 0 {
		return nil
	}
	place := max(0, slices.IndexFunc(b.queue, func(r *reading[T]) bool { return r.awaited }))
	r := b.queue[place]
	b.queue = slices.Delete(b.queue, place, place+1)
	return r
}

// run reads once, and gives a read up that does not heed its context.
func (b *background[T]) run(ctx context.Context, r *reading[T], asset Asset[T], start time.Time) {
	done := make(chan State[T], 1)
	go func() { done <- b.read(ctx, asset) }()
	late := time.NewTimer(b.limit + readGrace)
	defer late.Stop()
	select {
	case state := <-done:
		if cause := context.Cause(ctx); state.Err != nil && cause != nil {
			state.Err = fmt.Errorf("%w: %w", cause, state.Err)
		}
		b.finish(r, state, start, idle)
		return
	case <-late.C:
	}
	b.finish(r, State[T]{Err: fmt.Errorf("it took longer than %s, and does not end: a defect of the plugin", b.limit)}, start, givenUp)
	<-done
	b.mutex.Lock()
	defer b.mutex.Unlock()
	b.givenUp--
	r.phase = idle
	b.schedule(r, time.Now())
	b.startReads()
}

// finish takes over what a read found.
func (b *background[T]) finish(r *reading[T], state State[T], start time.Time, next phase) {
	b.mutex.Lock()
	defer b.mutex.Unlock()
	now := time.Now()
	r.cancel()
	r.cancel = nil
	b.underWay--
	r.phase = next
	if next == givenUp {
		b.givenUp++
	}
	defer b.startReads()
	if r.isForgotten {
		return
	}
	changed := false
	if state.Err != nil {
		r.failures++
		r.err, r.failedAt, r.retryAt = state.Err, start, now.Add(b.retryPace().After(r.failures))
	} else {
		if state.ReadAt.IsZero() || state.ReadAt.After(start) {
			state.ReadAt = start
		}
		changed = r.err != nil || !r.readAt.IsZero() && !isSame(r.state, state)
		r.state, r.readAt, r.beganAt, r.endedAt = state, state.ReadAt, start, now
		r.err, r.retryAt, r.failures = nil, time.Time{}, 0
	}
	if start.Before(r.notBefore) && r.isIdle() && r.awaited {
		b.enqueue(r, now) // A push came in between: whoever waits is answered by the next read.
		return
	}
	if r.awaited || changed {
		b.hint(r.key.partition, r.key.asset)
	}
	r.awaited = false
	b.schedule(r, now)
}

// isSame reports whether two reads found the same.
func isSame[T proto.Message](a, b State[T]) bool {
	if present(a.Current) != present(b.Current) || present(a.Current) && !proto.Equal(a.Current, b.Current) {
		return false
	}
	var none T
	a.Current, b.Current = none, none
	a.ReadAt, b.ReadAt = time.Time{}, time.Time{}
	return reflect.DeepEqual(a, b)
}

// fingerprintOf tells contents apart: what Read may depend on.
func fingerprintOf[T proto.Message](asset Asset[T]) (Digest, error) {
	payload, err := proto.MarshalOptions{Deterministic: true}.Marshal(asset.Payload)
	if err != nil {
		return Digest{}, err
	}
	h := sha256.New()
	add := func(name string, content []byte) {
		fmt.Fprintf(h, "%d %d ", len(name), len(content))
		h.Write([]byte(name))
		h.Write(content)
	}
	add("", payload)
	for _, addon := range asset.Addons {
		add(string(addon.Type), addon.Bytes)
	}
	for _, id := range slices.Sorted(maps.Keys(asset.Reads)) {
		add(string(id), asset.Reads[id].Payload.Bytes)
	}
	for _, memo := range asset.Memos {
		add("memo "+string(memo.Key), memo.Bytes)
	}
	return Digest(h.Sum(nil)), nil
}

// connectionOf an asset's question.
func connectionOf[T proto.Message](asset Asset[T]) uint64 {
	if asset.asker == nil {
		return 0
	}
	return asset.asker.connection
}
