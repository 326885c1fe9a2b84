package world

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	pluginpb "lehr.dev/gen/lehr/plugin/v1"
	"lehr.dev/internal/ground/intent"
)

// Plugins of a world with Options.Cadence keep what they read, answer from that while the
// call allows it, and take seconds for some reads, of which they say that they are
// pending. They tell honestly how old an answer is.

// reading is what a plugin's process last read of a resource.
type reading struct {
	state snapshot
	// began is when production began to be read, done when that has ended.
	began, done time.Time
	// slow: others than who asked first are told that it is pending.
	slow bool
}

// read returns a state of a resource that is as fresh as the call allows, and when it
// began to be read; or, in pending, what there is to say instead. arrived is when the
// call came.
func (l *life) read(call *diffCall, key intent.ResourceKey, arrived time.Time) (state snapshot, start time.Time, pending *pluginpb.Pending) {
	w := l.world
	if w.options.Cadence <= 0 {
		return w.snapshot(key), arrived, nil
	}
	if w.options.Owners {
		state, start = l.watched(call, key, arrived)
		return state, start, nil
	}
	oldest := arrived.Add(-w.options.Cadence)
	if !call.since.IsZero() {
		oldest = arrived.Add(-call.sent.Sub(call.since))
	}
	r := l.readings[key]
	now := w.now()
	switch {
	case r != nil && !now.Before(r.done) && !r.began.Before(oldest):
		return r.state, r.began, nil
	case r != nil && now.Before(r.done):
		return snapshot{}, now, pendingRead(r)
	}
	r = &reading{began: now, done: now, state: w.snapshot(key)}
	l.readings[key] = r
	if call.since.IsZero() || w.random.IntN(4) > 0 { // Of what is only swept the plugin read ahead.
		return r.state, r.began, nil
	}
	r.done = now.Add(time.Second + time.Duration(w.random.Int64N(int64(4*time.Second))))
	return snapshot{}, now, pendingRead(r)
}

// readAhead reads again, at half of the cadence, all that was asked about, and answers from
// what it read before until that has ended. So does the SDK.
func (l *life) readAhead() {
	w := l.world
	for {
		_ = l.process.Wait(context.Background(), w.options.Cadence/2, nil)
		read := map[intent.ResourceKey]*reading{}
		for key := range l.readings {
			read[key] = &reading{began: w.now(), state: w.snapshot(key)}
		}
		_ = l.process.Wait(context.Background(), time.Duration(w.random.Int64N(int64(3*time.Second))), nil)
		for _, key := range slices.Sorted(maps.Keys(read)) {
			if old := l.readings[key]; old != nil && !w.now().Before(old.done) && old.began.Before(read[key].began) {
				read[key].done = w.now()
				l.readings[key] = read[key]
			}
		}
	}
}

func pendingRead(r *reading) *pluginpb.Pending {
	return &pluginpb.Pending{
		Reason: "production is being read", Since: timestamppb.New(r.began), Ends: "the end of the read",
		RetryAfter: durationpb.New(time.Second),
	}
}

// pendingOf says that something is pending of an asset.
func pendingOf(asset intent.AssetID, pending *pluginpb.Pending) *pluginpb.AssetDiff {
	return &pluginpb.AssetDiff{Asset: string(asset), Outcome: &pluginpb.AssetDiff_Pending{Pending: pending}}
}

// waits is what a plugin says of a change that is under way, and that no push hastens.
func (a *armed) waits(now time.Time) *pluginpb.Pending {
	pending := &pluginpb.Pending{Reason: fmt.Sprintf("task %d runs", a.Seed%100), Ends: "its end"}
	switch a.random.IntN(3) {
	case 0:
		pending.Since = timestamppb.New(now.Add(-time.Minute))
	case 1:
		pending.Since = timestamppb.New(now.Add(24 * time.Hour)) // Its clock is wrong.
	}
	if a.random.IntN(2) == 0 {
		pending.RetryAfter = durationpb.New(time.Duration(1+a.random.IntN(20)) * time.Second)
	}
	return pending
}
