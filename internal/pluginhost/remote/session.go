package remote

import (
	"context"
	"io"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"

	pluginpb "lehr.dev/gen/lehr/plugin/v1"
	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/pluginhost/plugin"
)

const (
	// queueLength is how many messages wait to be sent on a stream.
	queueLength = 256
	// reopenAfter is the pause before a broken stream is opened again.
	reopenAfter = 50 * time.Millisecond
	// maxBogus messages that answer nothing within bogusPeriod are a flood.
	maxBogus    = 10_000
	bogusPeriod = 10 * time.Second
)

// peer is one life of a plugin, as a session sees it: a process of ours, or a
// connection with a server.
type peer interface {
	// done is closed when the life has ended; ending then says how.
	done() <-chan struct{}
	ending(plugin string) error
	// proof is closed when no process of this life can be at work; nil when
	// there is no telling.
	proof() <-chan struct{}
	// cut ends it at once, and does not wait; cutting says what that was.
	cut()
	cutting() string
}

// session is the connection with one life of the plugin: a stream of diffs, one of
// pushes, and one of hints where the plugin has them, each opened again when it breaks.
type session struct {
	options     Options
	answers     *answers
	peer        peer
	conn        *grpc.ClientConn
	client      pluginpb.PluginServiceClient
	description plugin.Description
	hints       *hintHub
	asked       askedAssets
	// longest is E per type, settle the most that a push may outlive its
	// last permit.
	settle time.Duration

	diffs  atomic.Pointer[diffLink]
	pushes atomic.Pointer[pushLink]

	mutex sync.Mutex
	// bogus counts messages that answer nothing.
	bogus      int
	bogusSince time.Time
	// killed says why Lehr ended the life itself.
	killed error
}

func newSession(options Options, answers *answers, hints *hintHub, peer peer, conn *grpc.ClientConn, description plugin.Description) *session {
	s := &session{
		options: options, answers: answers, hints: hints, peer: peer, conn: conn,
		client: pluginpb.NewPluginServiceClient(conn), description: description, asked: newAskedAssets(),
	}
	for _, served := range description.Types {
		s.settle = max(s.settle, served.LongestEffect)
	}
	s.settle += plugin.PermitPeriod + plugin.LockDelayMargin
	s.diffs.Store(newDiffLink(s))
	s.pushes.Store(newPushLink(s))
	return s
}

// run serves the streams until the life or ctx ends.
func (s *session) run(ctx context.Context) {
	ctx, cancel := context.WithCancel(ctx)
	go s.runDiffs(ctx)
	go s.runPushes(ctx)
	hinting := make(chan struct{})
	go func() {
		defer close(hinting)
		s.runHints(ctx)
	}()
	defer func() { <-hinting }() // So that the next session's hints come after this one's end.
	defer cancel()
	select {
	case <-ctx.Done():
	case <-s.peer.done():
	}
}

// close ends what is open; the life is over.
func (s *session) close() {
	s.conn.Close()
	cause := s.endCause()
	s.diffs.Load().end(cause)
	s.pushes.Load().end(cause)
}

// endCause says why the life did; it is over.
func (s *session) endCause() error {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	if s.killed != nil {
		return s.killed
	}
	return s.peer.ending(s.options.Name)
}

// kill ends the life of a plugin that does not keep the protocol.
func (s *session) kill(cause error) {
	s.mutex.Lock()
	first := s.killed == nil
	if first {
		s.killed = cause
	}
	s.mutex.Unlock()
	if first {
		s.peer.cut()
	}
}

// ignore notes a message that answers nothing. The first is logged; a flood
// of them ends the life.
func (s *session) ignore(message string, arguments ...any) {
	s.mutex.Lock()
	first := s.bogusSince.IsZero()
	if time.Since(s.bogusSince) > bogusPeriod {
		s.bogusSince, s.bogus = time.Now(), 0
	}
	s.bogus++
	flood := s.bogus > maxBogus
	s.mutex.Unlock()
	if first {
		s.options.Log.Warn("plugin said what nobody asked: "+message, append([]any{"plugin", s.options.Name}, arguments...)...)
	}
	if flood {
		s.kill(fault.New(fault.Unavailable, "plugin %s sent %d messages that answer nothing, the last: %s; %s", s.options.Name, maxBogus, message, s.peer.cutting()).
			WithHint("report this to the plugin's authors; \"lehr plugin test\" shows it"))
	}
}

func (s *session) runDiffs(ctx context.Context) {
	for ctx.Err() == nil {
		link := s.diffs.Load()
		err := pump(ctx, s.client.Diff, link.queue, link.handle)
		s.diffs.Store(newDiffLink(s))
		link.end(s.broken("diffs", err))
		pause(ctx, reopenAfter)
	}
	s.diffs.Load().end(s.broken("diffs", context.Cause(ctx)))
}

func (s *session) runPushes(ctx context.Context) {
	for ctx.Err() == nil {
		link := s.pushes.Load()
		err := pump(ctx, s.client.Push, link.queue, link.handle)
		s.pushes.Store(newPushLink(s))
		cause := s.broken("pushes", err)
		wasBusy := link.end(cause)
		if ctx.Err() == nil && wasBusy {
			// What was under way is in doubt; that of a child until it is gone.
			s.kill(cause)
		}
		pause(ctx, reopenAfter)
	}
	s.pushes.Load().end(s.broken("pushes", context.Cause(ctx)))
}

// broken says why a stream broke: mostly because the life has just ended,
// which its peer tells better: a process by its exit status and last words.
func (s *session) broken(stream string, err error) error {
	const reapedWithin = 200 * time.Millisecond
	select {
	case <-s.peer.done():
		return s.endCause()
	case <-time.After(reapedWithin):
	}
	return fault.New(fault.Unavailable, "the stream of %s with plugin %s broke: %w", stream, s.options.Name, err)
}

func pause(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

// pump is one life of a stream: it sends what is queued and hands over what
// arrives.
func pump[Request, Response any](
	ctx context.Context,
	open func(context.Context, ...grpc.CallOption) (grpc.BidiStreamingClient[Request, Response], error),
	queue <-chan *Request,
	handle func(context.Context, *Response),
) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stream, err := open(ctx)
	if err != nil {
		return err
	}
	go func() {
		for {
			select {
			case <-ctx.Done():
				return
			case request := <-queue:
				if stream.Send(request) != nil {
					return
				}
			}
		}
	}()
	for {
		response, err := stream.Recv()
		if err == io.EOF {
			return io.ErrUnexpectedEOF
		}
		if err != nil {
			return err
		}
		handle(ctx, response)
	}
}

// scoped names an asset as of an incarnation.
type scoped struct {
	incarnation intent.IncarnationID
	asset       intent.AssetID
}
