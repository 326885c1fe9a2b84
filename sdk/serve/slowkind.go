package serve

import (
	"context"
	"errors"
	"time"

	"google.golang.org/protobuf/types/known/anypb"
)

// Preparer is a Kind that does something at each look before it is answered by what was found
// in the background, while the question is open.
type Preparer interface {
	// Prepare is called for each asset that is asked about. It fetches blobs for the read in
	// the background, which cannot; and it may answer at once, for instance that a change is
	// under way: then nothing is read. It is quick, and changes nothing (S21).
	Prepare(ctx context.Context, asset Intent) (answer Difference, isAnswered bool)
}

// InBackground has the differences of a Kind found in the background, one asset at a time, as
// Serving.Background does for a Resource. The cadence is that of Kind.Served. Diff is then
// called with one asset, and Intent.Blob of it fails. A Kind may be a Preparer, and a Watcher.
func InBackground(kind Kind, options Background) Kind {
	k := &slowKind{Kind: kind}
	k.background = newBackground(options, kind.Served().Cadence, k.read)
	return k
}

// slowKind is a Kind whose differences are found in the background. What background takes for
// the payload is the payload's bytes, and for the state the whole difference.
type slowKind struct {
	Kind
	background *background[*anypb.Any]
}

func (k *slowKind) check() error                     { return k.background.check() }
func (k *slowKind) beginReading(ctx context.Context) { k.background.begin(ctx) }

func (k *slowKind) watchers() (all []Watcher) {
	if watcher, ok := k.Kind.(Watcher); ok {
		all = append(all, watcher)
	}
	return append(all, k.background)
}

// Diff answers from what was found.
func (k *slowKind) Diff(ctx context.Context, assets []Intent) []Difference {
	differences := make([]Difference, len(assets))
	preparer, prepares := k.Kind.(Preparer)
	for i, asset := range assets {
		if prepares {
			isAnswered := false
			err := protect("Prepare", asset.ID, func() error {
				differences[i], isAnswered = preparer.Prepare(ctx, asset)
				return nil
			})
			if err != nil {
				differences[i] = unknown(err)
				continue
			}
			if isAnswered {
				continue
			}
		}
		differences[i] = k.answered(k.background.answer(slowAsset(asset)))
	}
	return differences
}

// Push pushes, and has nothing that was found before count any more.
func (k *slowKind) Push(ctx context.Context, push Push, permits Permits) Outcome {
	defer k.background.invalidate(push.Asset.Incarnation.Partition, push.Asset.ID)
	return k.Kind.Push(ctx, push, permits)
}

func slowAsset(asset Intent) Asset[*anypb.Any] {
	return Asset[*anypb.Any]{
		ID: asset.ID, Incarnation: asset.Incarnation, Payload: &anypb.Any{TypeUrl: string(asset.Payload.Type), Value: asset.Payload.Bytes},
		Addons: asset.Addons, Reads: asset.Reads, ReadSince: asset.ReadSince, Memos: asset.Memos, asker: asset.asker, push: asset.push,
	}
}

// read finds the difference of one asset.
func (k *slowKind) read(ctx context.Context, asset Asset[*anypb.Any]) (state State[*anypb.Any]) {
	intended := Intent{Incarnation: asset.Incarnation, Reads: asset.Reads, ReadSince: asset.ReadSince, Memos: asset.Memos, asker: asset.asker, push: asset.push}
	intended.ID, intended.Addons = asset.ID, asset.Addons
	intended.Payload = Message{Type: TypeName(asset.Payload.TypeUrl), Bytes: asset.Payload.Value}
	err := protect("Diff", asset.ID, func() error {
		found := k.Kind.Diff(ctx, []Intent{intended})
		if len(found) != 1 {
			return errors.New("Diff returned no difference for one asset: a defect of the plugin")
		}
		d := found[0]
		// When it was read is no part of what was found.
		state.ReadAt, d.At = d.At, time.Time{}
		switch d.Outcome {
		case Unknown:
			state.Err = errors.New(d.Reason)
			if d.RetryAfter > 0 {
				state.Err = Busy(state.Err, d.RetryAfter)
			}
		case Pending:
			state.Pending = &PendingChange{Reason: d.Reason, Since: d.PendingSince, Ends: d.PendingEnd, RetryAfter: d.RetryAfter}
			fallthrough
		default:
			state.difference = &d
		}
		return nil
	})
	if err != nil {
		state.Err = err
	}
	return state
}

// answered is the answer that a state stands for.
func (k *slowKind) answered(state State[*anypb.Any]) Difference {
	switch {
	case state.Err != nil:
		return unknown(state.Err)
	case state.difference != nil:
		answer := *state.difference
		answer.At = state.ReadAt
		return answer
	case state.Pending != nil: // It is read for the first time.
		return Difference{
			Outcome: Pending, Reason: state.Pending.Reason, PendingSince: state.Pending.Since, PendingEnd: state.Pending.Ends,
			RetryAfter: state.Pending.RetryAfter,
		}
	}
	return unknown(errors.New("nothing was read: a defect of the SDK"))
}
