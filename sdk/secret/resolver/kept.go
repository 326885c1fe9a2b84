package resolver

import (
	"bytes"
	"context"
	"sync"
	"time"

	"lehr.dev/internal/ground/fault"
	"lehr.dev/sdk/secret"
)

// result of one reading.
type result struct {
	content []byte
	digest  secret.Digest
	err     error
}

// reading is one that is under way: done is closed when it has ended.
type reading struct {
	begun time.Time
	done  chan struct{}
}

// kept is what is kept of one reference: the value for the cadence, the digest for as
// long as the reference is kept.
type kept struct {
	mutex sync.Mutex
	// underway is the one reader that there may be; nil: none.
	underway *reading
	// last result, of a reading that began at that time; zero: there is none.
	last      result
	lastBegun time.Time
	lastEnded time.Time
	// looked is the digest that the last look took.
	looked    secret.Digest
	hasLooked bool
	// wiping empties last.content when the cadence is over.
	wiping *time.Timer
}

// get returns what was read recently enough, or has it read. The content is a copy.
func (k *kept) get(ctx context.Context, push *secret.Push, name string, read func(context.Context) result) (result, error) {
	for {
		k.mutex.Lock()
		if k.counts(push) {
			defer k.mutex.Unlock()
			return k.take(push, name)
		}
		if k.underway == nil {
			k.begin(read)
		}
		underway := k.underway
		k.mutex.Unlock()
		if err := wait(ctx, underway, push, name); err != nil {
			return result{}, err
		}
	}
}

// counts reports whether the last result will do.
func (k *kept) counts(push *secret.Push) bool {
	switch {
	case k.lastBegun.IsZero():
		return false
	case push != nil:
		// What was wiped is read again; Bind sees whether it is the same.
		return !k.lastBegun.Before(push.Since) && (k.last.err != nil || k.last.content != nil)
	case k.last.err != nil:
		return time.Since(k.lastEnded) < failurePause
	}
	return k.last.content != nil
}

// take copies the last result, which counts.
func (k *kept) take(push *secret.Push, name string) (result, error) {
	if k.last.err != nil {
		return result{}, k.last.err
	}
	switch {
	case push == nil:
		k.looked, k.hasLooked = k.last.digest, true
	case k.hasLooked && k.looked != k.last.digest:
		push.NoteRotation(name)
	}
	return result{content: bytes.Clone(k.last.content), digest: k.last.digest}, nil
}

// begin starts the one reader, which goes on when whoever asked gives up.
func (k *kept) begin(read func(context.Context) result) {
	underway := &reading{begun: time.Now(), done: make(chan struct{})}
	k.underway = underway
	go func() {
		ctx, cancel := context.WithTimeout(context.Background(), readWithin)
		defer cancel()
		found := read(ctx)
		k.mutex.Lock()
		defer k.mutex.Unlock()
		defer close(underway.done)
		if k.underway != underway { // It was dropped.
			clear(found.content)
			return
		}
		k.underway = nil
		k.forget()
		k.last, k.lastBegun, k.lastEnded = found, underway.begun, time.Now()
		if found.err == nil {
			k.wiping = time.AfterFunc(max(cadence-time.Since(underway.begun), 0), func() { k.expire(underway.begun) })
		}
	}()
}

// expire wipes the value of a reading, if it is still the last.
func (k *kept) expire(begun time.Time) {
	k.mutex.Lock()
	defer k.mutex.Unlock()
	if k.lastBegun.Equal(begun) {
		k.forget()
	}
}

// forget wipes the value.
func (k *kept) forget() {
	if k.wiping != nil {
		k.wiping.Stop()
		k.wiping = nil
	}
	clear(k.last.content)
	k.last.content = nil
}

// drop ends all that is kept. A reading under way comes to nothing.
func (k *kept) drop() {
	k.mutex.Lock()
	defer k.mutex.Unlock()
	k.forget()
	k.underway, k.last, k.lastBegun = nil, result{}, time.Time{}
}

// wait waits for a reading: a push to its end, a look for a short while since it began.
func wait(ctx context.Context, underway *reading, push *secret.Push, name string) error {
	var over <-chan time.Time
	if push == nil {
		timer := time.NewTimer(max(patience-time.Since(underway.begun), 0))
		defer timer.Stop()
		over = timer.C
	}
	select {
	case <-underway.done:
		return nil
	case <-ctx.Done():
	case <-over:
	}
	return fault.New(fault.Unavailable, "%s is being read, since %s ago", name, time.Since(underway.begun).Round(100*time.Millisecond)).
		WithHint("the next look has it, or says why it cannot be read")
}
