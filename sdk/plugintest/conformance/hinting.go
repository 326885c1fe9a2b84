package conformance

import (
	"context"
	"errors"
	"fmt"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	pluginpb "lehr.dev/gen/lehr/plugin/v1"
)

const (
	// beatsWithin is how long a stream of hints may be silent: Lehr relies on no hints
	// of a plugin that was silent for three times as long.
	beatsWithin = 5 * time.Second
	// beatGrace is what a busy machine may take.
	beatGrace = 2 * time.Second
	// mostBeats are awaited.
	mostBeats = 2
)

// errNoHints: the plugin gives none.
var errNoHints = skipped("it gives no hints")

// hints opens a stream of hints on the line's connection; errNoHints where there are none.
func (s *suite) hints(ctx context.Context) (pluginpb.PluginService_HintsClient, *pluginpb.HintsResponse, error) {
	stream, err := s.endpoint.client.Hints(ctx, &pluginpb.HintsRequest{})
	if err != nil {
		return nil, nil, err
	}
	first, err := s.nextHints(stream)
	if status.Code(err) == codes.Unimplemented {
		return nil, nil, errNoHints
	}
	return stream, first, err
}

// nextHints waits for the next message, no longer than it may take.
func (s *suite) nextHints(stream pluginpb.PluginService_HintsClient) (*pluginpb.HintsResponse, error) {
	type received struct {
		message *pluginpb.HintsResponse
		err     error
	}
	next := make(chan received, 1)
	go func() {
		message, err := stream.Recv()
		next <- received{message, err}
	}()
	select {
	case r := <-next:
		return r.message, r.err
	case <-time.After(beatsWithin + beatGrace):
		return nil, fmt.Errorf("its stream of hints was silent for %s: it sends a message at least each %s", beatsWithin+beatGrace, beatsWithin)
	}
}

// beats holds a stream of hints to its beat.
func (s *suite) beats(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stream, _, err := s.hints(ctx)
	for range mostBeats {
		if err != nil {
			return err
		}
		_, err = s.nextHints(stream)
	}
	return err
}

// hintsNamed changes the example, and looks at what is hinted meanwhile: of what is there,
// the example alone was asked about.
func (s *suite) hintsNamed(ctx context.Context) error {
	hinting, cancel := context.WithCancel(ctx)
	defer cancel()
	stream, message, err := s.hints(hinting)
	if err != nil {
		return err
	}
	if _, err := s.diff(ctx, first); err != nil {
		return err
	}
	moved := make(chan error, 1)
	go func() { moved <- s.move(ctx) }()
	for over := false; ; {
		for _, hint := range message.Hints {
			if !s.line.wasAsked(hint.GetPartition(), hint.GetAsset()) {
				return fmt.Errorf("it hints the asset %.200q of the partition %.200q, about which this connection did not ask", hint.GetAsset(), hint.GetPartition())
			}
		}
		if over {
			return nil
		}
		if message, err = s.nextHints(stream); err != nil {
			return err
		}
		select {
		case err := <-moved:
			if err != nil {
				return err
			}
			over = true // One message more, of what the change led to.
		default:
		}
	}
}

// move brings the example to the other of its two intents.
func (s *suite) move(ctx context.Context) error {
	_, err := s.ensure(ctx, second)
	if err == nil {
		_, err = s.ensure(ctx, first)
	}
	if err == nil && ctx.Err() != nil {
		err = errors.New("there was no time to change the example")
	}
	return err
}
