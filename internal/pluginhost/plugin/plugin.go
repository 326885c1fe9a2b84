// Package plugin is what Lehr asks of an asset plugin, however it is reached:
// internal/pluginhost/remote speaks the wire protocol to a process, a simulator answers in
// process. It holds contracts only. Replies are claims: whoever implements
// Plugin has checked them against the call (S26), and callers may rely on the
// contracts below.
package plugin

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"time"

	pluginpb "lehr.dev/gen/lehr/plugin/v1"
	"lehr.dev/internal/ground/intent"
)

// Protocol is the version of the wire protocol spoken here.
const Protocol = 1

// ErrStarting is within what a plugin answers that was begun and was not reached yet. That
// it starts is no failure.
var ErrStarting = errors.New("is starting")

// PermitPeriod is D: how long a permit holds from the sending of the request
// that it answers.
const PermitPeriod = 4 * time.Second

// LockDelayMargin is added to D + E before a push in doubt may be followed by
// another, unless its plugin is known to be gone: then E alone is waited for.
const LockDelayMargin = 500 * time.Millisecond

// What a child finds in its environment.
const (
	// SocketVariable names the unix socket that it must listen on.
	SocketVariable = "LEHR_PLUGIN_SOCKET"
	// LockVariable names the descriptor of a locked file. It stays open as
	// long as the plugin lives, and no longer: programs that the plugin
	// starts must not inherit it.
	LockVariable = "LEHR_PLUGIN_LOCK"
	// StoresVariable names, as a JSON list of paths, the stores of the Lehr that started
	// it: neither they nor what lies beside them is anything that a plugin looks after.
	StoresVariable = "LEHR_PLUGIN_STORES"
	// SecretsVariable is the path of the program that reads secrets for plugins that are
	// no programs of Go; not set: it is looked for in PATH.
	SecretsVariable = "LEHR_PLUGIN_SECRETS"
	// SecretsProgram is its name.
	SecretsProgram = "lehr-secrets"
)

// Guarantee is what bounds a late push at the target.
type Guarantee string

const (
	// Fenced (class F): the target stores and compares the highest token.
	Fenced Guarantee = "F"
	// CompareAndSet (class C): the target compares base inside the call.
	CompareAndSet Guarantee = "C"
	// Unguarded (class N): only D and the lock delay bound it.
	Unguarded Guarantee = "N"
)

// Served is what a plugin says of one payload type.
type Served struct {
	Type      intent.TypeName
	Guarantee Guarantee
	// LongestEffect is E: the longest effect that cannot be cancelled.
	LongestEffect time.Duration
	// Cadence is how old an answer may be that nobody asked for in particular.
	Cadence time.Duration
}

// Description is what a plugin is.
type Description struct {
	Name    string
	Version string
	// Instance tells one run of the program from another, for people; empty:
	// it does not say.
	Instance string
	Types    []Served
}

// Cadence is the longest of those of its types: an answer does not name its type.
func (d Description) Cadence() (longest time.Duration) {
	for _, served := range d.Types {
		longest = max(longest, served.Cadence)
	}
	return longest
}

// Contents answers what a plugin asks about the assets of a call.
type Contents interface {
	// Content returns the canonical bytes and digest of an asset as of an
	// incarnation. A fault.NotFound says that it has none.
	Content(ctx context.Context, incarnation intent.IncarnationID, asset intent.AssetID) ([]byte, intent.Digest, error)
	// Reads lists the assets that the asset reads, by its read references.
	Reads(ctx context.Context, incarnation intent.IncarnationID, asset intent.AssetID) ([]intent.AssetID, error)
}

// BlobContents is a Contents that has the blobs which assets name.
type BlobContents interface {
	Contents
	// Blob returns a blob, verified. A fault.NotFound says that there is none, or
	// that the asset as of the incarnation does not name it.
	Blob(ctx context.Context, incarnation intent.IncarnationID, asset intent.AssetID, digest intent.Digest) ([]byte, error)
}

// ChangedContents is a Contents that knows what changed between two incarnations, so
// that plugins need not ask for all that they hold after each new one.
type ChangedContents interface {
	Contents
	// Identity returns the digest of all contents of an incarnation. A store that lost
	// commits, by a restore or a failover, gives the id of a lost incarnation to
	// another: what a plugin holds as of the lost one is then not what the id names.
	Identity(ctx context.Context, incarnation intent.IncarnationID) (intent.Digest, error)
	// Changed lists the assets whose content as of the newer incarnation is not what it
	// is as of the older, in any order; those that only one of them has too. A
	// fault.Invalid says that there are more than the most, a fault.NotFound that the
	// older is kept no more, any other error that there is no telling now, or of an
	// incarnation that is only supposed.
	Changed(ctx context.Context, older, newer intent.IncarnationID, most int) ([]intent.AssetID, error)
}

// NumberOf is what pluginpb.Changes names an asset by.
func NumberOf(asset intent.AssetID) uint64 {
	sum := sha256.Sum256([]byte(asset))
	return binary.BigEndian.Uint64(sum[:])
}

// DiffRequest asks how assets compare with production.
type DiffRequest struct {
	Incarnation intent.IncarnationID
	// Assets, each once, at most MaxBatch.
	Assets []intent.AssetID
	// Since is the earliest time at which production may have begun to be read for an
	// answer; zero: as long ago as the cadence of the type allows. Who asks again after
	// an answer that was pending asks since the first time: else a look that takes
	// longer than the pause between two questions would never answer one.
	Since time.Time
	// Memos of the assets, as the store has them.
	Memos map[intent.AssetID][]intent.Memo
}

// Plugin is one asset plugin. Its methods may be called from many goroutines.
type Plugin interface {
	// Describe returns what the plugin said when it was connected last.
	// fault.Unavailable while it is down, fault.Invalid when it speaks
	// another protocol or does not serve what it should.
	Describe() (Description, error)
	// Diff compares up to MaxBatch assets as of one incarnation with
	// production, and changes nothing (S21). It returns exactly one
	// difference for each asset asked for, in any order; an asset that the
	// plugin left out or lied about is intent.Unknown with the reason.
	// A difference whose At is before request.Since is one of these. An error means
	// that nothing is known of any of them.
	Diff(ctx context.Context, request DiffRequest) ([]intent.Difference, error)
	// Push carries out one admitted push and returns when the plugin's part
	// of it is over for certain, or is in doubt. It never returns Pushed
	// unless the plugin said so for that very push.
	Push(ctx context.Context, push Push) PushResult
}

// MaxBatch is the largest number of assets in one call of Diff.
const MaxBatch = 512

// Push is an admitted push.
type Push struct {
	ID          intent.PushID
	Incarnation intent.IncarnationID
	Asset       intent.AssetID
	Plan        intent.Digest
	Base        string
	// Token is the epoch of the lease under which it was admitted.
	Token uint64
	// Memos of the asset, as the store has them.
	Memos []intent.Memo
	// Traceparent is what spans of it are below, as W3C writes it; empty: nobody is
	// told of traces.
	Traceparent string
	// Checked is when its owner knew last that it may run, with the monotonic
	// reading. Zero: never.
	Checked time.Time
	// Permit is asked before the first permit runs out and again for every
	// further period, whenever production's base moved, and at the start if
	// the first permit would count from after Checked. An error ends the push:
	// lease, target or stop changed.
	Permit func(ctx context.Context, base string) error
	// Progress is told what the plugin reported last, printable, now and then. May be nil.
	Progress func(text string)
	// Log is told all that the plugin reports, as it comes: of any length, and maybe not printable. It must
	// not wait. May be nil.
	Log func(text string)
	// SaveMemo is nil once the memo of the push's asset is durable, written under the
	// lease of the push; a memo without bytes is forgotten. It is called for one memo of
	// a push at a time. Nil: no memo is kept, and the plugin is told so.
	SaveMemo func(ctx context.Context, memo intent.Memo) error
}

// Ending is how a push ended.
type Ending string

const (
	// Pushed: the plugin says it is done. Believed only after the next diff.
	Pushed Ending = "pushed"
	// Failed: the plugin tried and failed, and is not running it any more.
	Failed Ending = "failed"
	// Stale: plan or base moved; the plugin changed nothing.
	Stale Ending = "stale"
	// Stopped: no permit; the plugin is not running it any more.
	Stopped Ending = "stopped"
	// InDoubt: reply lost. It may still be running until SettledAfter.
	InDoubt Ending = "in-doubt"
)

// PushResult is how a push ended.
type PushResult struct {
	Ending    Ending
	Reason    string
	Retryable bool
	// RetryAfter: its target is too busy, and is not to be asked sooner; 0: it is not.
	RetryAfter time.Duration
	// KnownToken is what a target of class F knows that refused the push's
	// token as lower; 0: it did not.
	KnownToken uint64
	// Gone is closed when a push in doubt can no longer be running, because
	// its plugin process is gone: it begins nothing any more, and what it
	// asked of a target before may land for another E. Nil for other endings,
	// and when the plugin is not a child: then only time settles it.
	Gone <-chan struct{}
}

// Judge is a plugin of checks. Its methods may be called from many goroutines.
type Judge interface {
	// Judge asks whether a push may be. The answer is about what was asked, and a
	// pass or a no. Invalid or Denied: it cannot be asked so, until somebody mends
	// that; any other error may end by itself.
	Judge(ctx context.Context, request *pluginpb.JudgeRequest) (*pluginpb.JudgeResponse, error)
	// Select asks which assets of a rollout's stage go on. The answer is about what was
	// asked, and names assets of it only. Errors are as of Judge.
	Select(ctx context.Context, request *pluginpb.SelectRequest) (*pluginpb.SelectResponse, error)
	// Measure asks for samples of a metric. The answer is about what was asked, and its
	// times are none outside of that. Errors are as of Judge.
	Measure(ctx context.Context, request *pluginpb.MeasureRequest) (*pluginpb.MeasureResponse, error)
}
