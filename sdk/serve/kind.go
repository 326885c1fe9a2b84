package serve

import (
	"context"
	"errors"
	"fmt"
	"time"

	"lehr.dev/internal/ground/intent"
	"lehr.dev/sdk/secret"
)

// Kind serves one payload type by a differ of its own. Its methods are called
// from many goroutines. Most plugins use For and a Resource instead.
type Kind interface {
	// Served says which type, and what bounds a late push of it.
	Served() Served
	// Diff compares intent with production and changes nothing (S21). It
	// returns one difference for each asset, in their order; Asset and
	// Incarnation are filled in by the caller. At is when production began to
	// be read; zero: for this call. One that is older than ReadSince allows is
	// refused. An asset that is TurnedDown is compared with nothing.
	Diff(ctx context.Context, assets []Intent) []Difference
	// Push plans again and, when the plan is the admitted one, carries it
	// out. It calls permits.Effect before each effect, and permits.Cover
	// before the first when base moved. ctx ends when the permit does.
	Push(ctx context.Context, push Push, permits Permits) Outcome
}

// Intent is an asset as of one incarnation, with the assets it reads.
type Intent struct {
	intent.Asset
	Incarnation IncarnationID
	// Reads holds what the asset's read references name, where it exists.
	Reads map[AssetID]intent.Asset
	// ReadSince is the earliest time at which production may have begun to be read for
	// the answer; zero: as long ago as the cadence of the type allows.
	ReadSince time.Time
	// Memos are what earlier pushes of the asset had Lehr keep, in the order of their keys.
	// Lehr may have lost them.
	Memos []Memo
	asker *asker
	// push for which the asset came; nil: it came for a look.
	push *secret.Push
}

// SecretRequest is with what a resolver is asked for a secret that the asset names,
// while the call is open that the asset came with.
func (i Intent) SecretRequest() secret.Request {
	return secret.Request{Partition: i.Incarnation.Partition, Asset: i.ID, Blob: i.Blob, Push: i.push}
}

// Push is an admitted push.
type Push struct {
	// ID is unique for ever: the idempotency key towards the provider.
	ID    PushID
	Asset Intent
	// Plan is the digest of the plan that was admitted, Base the state it
	// was made for.
	Plan Digest
	Base string
	// Token is the fencing token. A target of class F refuses a lower one.
	Token uint64
	// Traceparent is what spans of the plugin are below, as W3C writes it; empty:
	// nobody is told of traces.
	Traceparent string
	// Progress tells people how far it is, in one line or several; Lehr shows the last 200. Never nil.
	Progress func(text string)
	// SaveMemo has Lehr keep bytes for the asset and one real thing, and returns once they
	// are durable: each later look and push of the asset is handed them. No bytes: what was
	// kept is forgotten. An error says that they may not be kept: ErrMemoRefused that Lehr
	// refused them, any other that there was no answer. Never nil.
	SaveMemo func(ctx context.Context, key ResourceKey, bytes []byte) error
}

// Outcome is how a push ended: Pushed, Failed, Stale or Stopped.
type Outcome struct {
	Ending Ending
	Reason string
	// Retryable: worth trying again soon.
	Retryable bool
	// RetryAfter: the target is too busy, and is to be asked again no sooner; 0: Lehr's
	// own pauses count.
	RetryAfter time.Duration
	// KnownToken is what a target of class F knows that refused the push's
	// token as lower; 0: it did not.
	KnownToken uint64
}

// Permit is asked before every effect.
type Permit interface {
	// Effect returns nil when an effect may start now; an error ends the push.
	Effect(ctx context.Context) error
}

// Permits is what a Kind holds while it pushes.
type Permits interface {
	Permit
	// Cover asks for a permit that names the base that production has moved
	// to, and waits for it.
	Cover(ctx context.Context, base string) error
}

// Retryable marks an error of Apply as worth trying again soon. Others back
// off for longer.
func Retryable(err error) error { return retryable{err} }

type retryable struct{ error }

func (r retryable) Unwrap() error { return r.error }

// Busy marks an error of Read or Apply: the target is too busy, as one that answered
// 429 with Retry-After. Lehr looks at the asset, and pushes it, no sooner than after
// that, and not much later; 5 min at most count.
func Busy(err error, pause time.Duration) error { return busy{err, pause} }

type busy struct {
	error
	pause time.Duration
}

func (b busy) Unwrap() error { return b.error }

// BusyPause is the pause of an error of Busy, or of one that wraps it.
func BusyPause(err error) (pause time.Duration, ok bool) {
	b, ok := errors.AsType[busy](err)
	return b.pause, ok
}

// Outranked is what Apply returns, wrapped or not, when a target of class F
// refused the push's token because it knows a higher one. Lehr pushes the asset
// no more until its store is adopted past that token.
func Outranked(token uint64) error { return outranked{token} }

type outranked struct{ token uint64 }

func (o outranked) Error() string {
	return fmt.Sprintf("the target knows the fencing token %d, and refuses lower ones", o.token)
}

// ErrStale is what Apply returns, wrapped, when the provider refused a
// compare-and-set and nothing was changed.
var ErrStale = errors.New("production moved")
