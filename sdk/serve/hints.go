package serve

import (
	"sync"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	pluginpb "lehr.dev/gen/lehr/plugin/v1"
)

const (
	// hintBeat is the longest pause between two messages of a stream of hints. Lehr
	// gives a stream up that is silent for 15 s.
	hintBeat = 4 * time.Second
	// hintGather is how long hints are gathered for one message.
	hintGather = 50 * time.Millisecond
	// mostHints are in one message.
	mostHints = 1000
)

// hinted is an asset that may have changed.
type hinted struct {
	partition PartitionID
	asset     AssetID
}

// hintStream is one connection's stream of hints.
type hintStream struct {
	connection uint64
	// wake is readable when there are hints, ended closed when the stream is over.
	wake  chan struct{}
	ended chan struct{}

	mutex sync.Mutex
	// waiting to be sent, each once; bounded, as they are of what was asked about.
	waiting map[hinted]bool
	cause   error
}

// Hints sends what the plugin's watchers hint, and beats while they run.
func (s *service) Hints(_ *pluginpb.HintsRequest, server pluginpb.PluginService_HintsServer) error {
	if s.watching == nil {
		return status.Errorf(codes.Unimplemented, "plugin %s does not watch production", s.plugin.Name)
	}
	ctx := server.Context()
	stream := &hintStream{connection: connection(ctx), wake: make(chan struct{}, 1), ended: make(chan struct{}), waiting: map[hinted]bool{}}
	if err := s.watching.join(stream); err != nil {
		return status.Errorf(codes.Unavailable, "production is not watched: %v", err)
	}
	defer s.watching.leave(stream)
	beat := time.NewTicker(hintBeat)
	defer beat.Stop()
	for message := (&pluginpb.HintsResponse{}); ; {
		if err := server.Send(message); err != nil {
			return err
		}
		if message = stream.next(); len(message.Hints) > 0 {
			continue
		}
		select {
		case <-ctx.Done():
			return nil
		case <-stream.ended:
			return status.Errorf(codes.Unavailable, "production is not watched any more: %v", stream.cause)
		case <-beat.C:
		case <-stream.wake:
			select {
			case <-ctx.Done():
			case <-time.After(hintGather):
			}
			message = stream.next()
		}
	}
}

// next returns the next message: hints, at most mostHints, or none.
func (h *hintStream) next() *pluginpb.HintsResponse {
	h.mutex.Lock()
	defer h.mutex.Unlock()
	message := &pluginpb.HintsResponse{}
	for one := range h.waiting {
		if len(message.Hints) == mostHints {
			break
		}
		message.Hints = append(message.Hints, &pluginpb.Hint{Partition: string(one.partition), Asset: string(one.asset)})
		delete(h.waiting, one)
	}
	return message
}

// add has an asset hinted soon.
func (h *hintStream) add(one hinted) {
	h.mutex.Lock()
	h.waiting[one] = true
	h.mutex.Unlock()
	select {
	case h.wake <- struct{}{}:
	default:
	}
}

// end ends the stream, once.
func (h *hintStream) end(cause error) {
	h.mutex.Lock()
	defer h.mutex.Unlock()
	if h.cause == nil {
		h.cause = cause
		close(h.ended)
	}
}
