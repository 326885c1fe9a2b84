package serve

import (
	"context"
	"time"

	"google.golang.org/protobuf/proto"

	"lehr.dev/internal/ground/intent"
	"lehr.dev/sdk/secret"
)

// Resource is one kind of thing. One differ serves all kinds (Keel's common
// delta). Its methods are called from many goroutines. A panic in one is that
// asset's failure only.
type Resource[T proto.Message] interface {
	// Read returns the state of each asset's real thing, in their order, in
	// the payload's type. It changes nothing (S21). An error means that
	// nothing is known of any of them.
	Read(ctx context.Context, assets []Asset[T]) ([]State[T], error)
	// Resolve fills in what intent leaves open, such as defaults, so that it
	// compares with what Read returns. It must not alter asset.Payload; it
	// may return it. It is a function of the asset only.
	Resolve(ctx context.Context, asset Asset[T]) (T, error)
	// Apply brings the real thing from change.State to change.Target. It
	// calls permit.Effect before each effect; an error from that ends the
	// push. ctx ends when the permit does.
	Apply(ctx context.Context, change Change[T], permit Permit) error
}

// Destroyer is a Resource that knows which changes destroy data or capacity.
type Destroyer[T proto.Message] interface {
	// Destructive returns the paths among change.Plan.Changes that destroy
	// something. It is called while looking: it changes nothing, and has no
	// push to speak of.
	Destructive(change Change[T]) []string
}

// Yielder is a Resource in which other fields follow from those that production
// may own, as the tasks of a job follow from its replicas.
type Yielder[T proto.Message] interface {
	// Yield alters target so that what follows from asset.Unmanaged is as in
	// current; those fields themselves are production's in it already. It is
	// called only when something is there.
	Yield(asset Asset[T], target, current T) error
}

// Remover is a Resource that can remove the real thing. Of one that is none,
// an asset with a Turndown addon is unknown: it cannot be turned down.
type Remover[T proto.Message] interface {
	// Remove removes the real thing that change.State shows. change.Target is
	// a message without content. It calls permit.Effect before each effect; an
	// error from that ends the push. Nothing there is a success.
	Remove(ctx context.Context, change Change[T], permit Permit) error
}

// Watcher is a Resource, or a Kind, that notices by itself when production changes.
type Watcher interface {
	// Watch calls hint with each asset that may have changed, until ctx ends. It is
	// called once the plugin serves, for all connections. Read tells what to watch; a
	// change between a Read and the moment from which its asset is watched must be
	// hinted too. While Watch runs, Lehr is told that production is watched; it returns
	// an error when it cannot be, and is called again after a pause.
	//
	// hint returns at once, and may be called from many goroutines. It keeps what a
	// connection asked about; anything else is dropped. A hint is never a fact, and one
	// too many costs a look: but what a Read from a cache answers after it must be no
	// older than the change.
	Watch(ctx context.Context, hint func(partition PartitionID, asset AssetID)) error
}

// Asset is an asset as of one incarnation.
type Asset[T proto.Message] struct {
	ID          AssetID
	Incarnation IncarnationID
	Payload     T
	Addons      []Message
	// Reads holds what the asset's read references name, where it exists.
	Reads map[AssetID]intent.Asset
	// ReadSince is the earliest time at which production may have begun to be read for
	// the State; zero: as long ago as the cadence of the type allows.
	ReadSince time.Time
	// Memos are what earlier pushes of the asset had Lehr keep, in the order of their keys.
	// Lehr may have lost them: an asset of which production shows that something is under
	// way, and no memo what, is Pending or has an error, and is not acted on.
	Memos []Memo
	asker *asker
	push  *secret.Push
}

// SecretRequest is that of Intent.
func (a Asset[T]) SecretRequest() secret.Request {
	return secret.Request{Partition: a.Incarnation.Partition, Asset: a.ID, Blob: a.Blob, Push: a.push}
}

// State is what Read found.
type State[T proto.Message] struct {
	// Current is the state in the payload's type; nil: nothing is there.
	Current T
	// Err: the state could not be read. Nothing else is looked at then.
	Err error
	// ReadAt is when production began to be read; zero: for this call. A Resource that
	// answers from a cache sets it, and declares a Serving.Cadence.
	ReadAt time.Time
	// Pending: a change is under way that no push hastens. Then nothing is compared.
	Pending *PendingChange
	// Base is the provider's compare-and-set token of this state, or the
	// like; it changes when the real thing does.
	Base string
	// Key is the identity of the real thing, naming the provider's instance,
	// for example "process:web-7/shop/frontend"; at most 512 bytes.
	Key    ResourceKey
	Health Health
	// Impacts are capacities and the like, now and at the target.
	Impacts []Impact
	// Notes say why the field of a path differs.
	Notes map[string]string
	// Outputs are what other assets may need of the real thing, by name, for example the
	// name that a provider gave it: texts, numbers, bools, or lists and maps of them. They
	// become part of intent, so they are never secret, and are the same at each Read while
	// the real thing stays as it is. At most 64, 4 kB each, 16 kB together. They count while
	// the asset is in sync.
	Outputs map[string]any
	// difference is what a Kind found that is served InBackground; nil of a Resource.
	difference *Difference
}

// PendingChange is a change under way that no push hastens, such as a plan that is made,
// a task that runs, or a deletion that waits for a finalizer.
type PendingChange struct {
	// Reason says what is under way, for people. Required.
	Reason string
	// Since is when it began, as the provider tells; zero: it does not tell.
	Since time.Time
	// Ends says what ends it, for people. The conformance suite asks for it.
	Ends string
	// RetryAfter is the pause until the next look; 0: Lehr's own. A hint ends it too.
	RetryAfter time.Duration
}

// Change is what Apply is to bring about.
type Change[T proto.Message] struct {
	Asset Asset[T]
	// Target is the resolved payload.
	Target T
	// State is what Read found just before.
	State State[T]
	Plan  Plan
	// Push is the idempotency key towards the provider.
	Push PushID
	// Token is the fencing token. A target of class F refuses a lower one.
	Token uint64
	// Traceparent is what spans of the plugin are below, as W3C writes it; empty:
	// nobody is told of traces.
	Traceparent string
	// Progress tells people how far it is, in one line or several; Lehr shows the last 200.
	Progress func(text string)
	// SaveMemo has Lehr keep bytes, at most 16 kB, for the asset and one real thing, and
	// returns once they are durable: each later look and push of the asset is handed them,
	// whatever its plan. No bytes: what was kept is forgotten. An error says that they may
	// not be kept: ErrMemoRefused that Lehr refused them, any other that there was no
	// answer. What must happen at most once begins after it has returned nil.
	SaveMemo func(ctx context.Context, key ResourceKey, bytes []byte) error
}

// Serving says how the type of a Resource is served.
type Serving struct {
	// Guarantee bounds a late push; default Unguarded.
	Guarantee Guarantee
	// LongestEffect is the longest effect that cannot be cancelled; default
	// 1 s, at most 10 min. Longer ones delay settling and failover.
	LongestEffect time.Duration
	// Cadence is how old an answer may be that nobody asked for in particular; and, while
	// the plugin gives hints, the pause between two looks at what is in sync. Default 0:
	// each look reads production. At most 24 h.
	Cadence time.Duration
	// Background has production read in the background, for a Resource whose Read is
	// slow; nil: it is read for each question.
	Background *Background
	// Destructive lists fields whose change destroys data or capacity, for
	// example "disk" or "shards[*].size"; a path covers what is below it.
	Destructive []string
	// Replacing lists fields that cannot be changed in place: changing one
	// makes the plan a replacement, which is destructive.
	Replacing []string
}

// For serves a Resource.
func For[T proto.Message](r Resource[T], serving Serving) Kind {
	return newResourceKind(r, serving)
}
