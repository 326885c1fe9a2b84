package remote

import (
	"context"
	"errors"
	"hash/maphash"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	pluginpb "lehr.dev/gen/lehr/plugin/v1"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/ground/recent"
)

const (
	// hintSilence is how long a stream of hints may be silent before it is given up.
	hintSilence = 15 * time.Second
	// hintRest is the pause after a message of which a hint was dropped: a plugin that
	// floods Lehr with hints takes little of its time.
	hintRest = 10 * time.Millisecond
	// leastHintPause and mostHintPause bound the pause before a broken stream of hints
	// is opened again.
	leastHintPause, mostHintPause = time.Second, time.Minute
	// mostAsked is how many assets a session remembers that it asked about.
	mostAsked = 1 << 22
)

var errSilent = errors.New("the plugin was silent for " + hintSilence.String())

// runHints keeps the stream of hints open, unless the plugin has none. While there is no
// stream nobody relies on hints.
func (s *session) runHints(ctx context.Context) {
	for failures := 0; ctx.Err() == nil; failures++ {
		startedAt := time.Now()
		err := s.followHints(ctx)
		s.hints.lose()
		if status.Code(err) == codes.Unimplemented {
			s.asked.stop()
			return
		}
		if ctx.Err() == nil && s.hints.serves() {
			s.options.Log.Warn("the hints of a plugin broke off; its assets are looked at each sweep until they come again", "plugin", s.options.Name, "error", err)
		}
		if time.Since(startedAt) > mostHintPause {
			failures = 0
		}
		pause(ctx, backoff(failures, leastHintPause, mostHintPause, rand.Float64()))
	}
}

// followHints is one life of the stream. It returns why it ended.
func (s *session) followHints(ctx context.Context) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	stream, err := s.client.Hints(ctx, &pluginpb.HintsRequest{})
	if err != nil {
		return err
	}
	silence := time.AfterFunc(hintSilence, func() { cancel(errSilent) })
	defer silence.Stop()
	for {
		response, err := stream.Recv()
		if errors.Is(context.Cause(ctx), errSilent) {
			return errSilent
		}
		if err != nil {
			return err
		}
		silence.Reset(hintSilence)
		byPartition, foreign := s.asked.sort(response.Hints)
		if s.hints.take(byPartition, foreign, time.Now()) {
			pause(ctx, hintRest)
		}
	}
}

// sort sorts hints by partition, without those about what this session did not ask.
func (a *askedAssets) sort(hints []*pluginpb.Hint) (byPartition map[intent.PartitionID][]intent.AssetID, foreign int) {
	byPartition = map[intent.PartitionID][]intent.AssetID{}
	for _, hint := range hints {
		partition, asset := intent.PartitionID(hint.GetPartition()), intent.AssetID(hint.GetAsset())
		if !a.has(partition, asset) {
			foreign++
			continue
		}
		byPartition[partition] = append(byPartition[partition], asset)
	}
	return byPartition, foreign
}

// askedAssets are those that a session asked about lately, by a number of each: a million
// take some 50 MB. Two with the same number count as one, which costs a look at most.
type askedAssets struct {
	seed    maphash.Seed
	numbers *recent.Map[uint64, struct{}]
	// stopped: the plugin has no hints, so nothing is remembered.
	stopped *atomic.Bool
}

func newAskedAssets() askedAssets {
	return askedAssets{seed: maphash.MakeSeed(), numbers: recent.New[uint64, struct{}](mostAsked), stopped: &atomic.Bool{}}
}

func (a *askedAssets) number(partition intent.PartitionID, asset intent.AssetID) uint64 {
	var h maphash.Hash
	h.SetSeed(a.seed)
	h.WriteString(string(partition))
	h.WriteByte(0)
	h.WriteString(string(asset))
	return h.Sum64()
}

func (a *askedAssets) add(partition intent.PartitionID, assets []intent.AssetID) {
	if a.stopped.Load() {
		return
	}
	for _, asset := range assets {
		a.numbers.Put(a.number(partition, asset), struct{}{}, 1)
	}
}

func (a *askedAssets) has(partition intent.PartitionID, asset intent.AssetID) bool {
	_, ok := a.numbers.Get(a.number(partition, asset))
	return ok
}

// stop forgets all, and remembers nothing more.
func (a *askedAssets) stop() {
	a.stopped.Store(true)
	a.numbers.Clear()
}
