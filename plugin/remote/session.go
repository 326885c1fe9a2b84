package remote

import (
	"context"
	"io"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"

	"lehr.dev/fault"
	pluginpb "lehr.dev/gen/lehr/plugin/v1"
	"lehr.dev/intent"
	"lehr.dev/plugin"
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

// session is the connection with one life of the child: a stream of diffs and
// one of pushes, each opened again when it breaks.
type session struct {
	options     Options
	answers     *answers
	process     *process
	conn        *grpc.ClientConn
	client      pluginpb.PluginServiceClient
	description plugin.Description
	// longest is E per type, settle the most that a push may outlive its
	// last permit.
	settle time.Duration

	diffs  atomic.Pointer[diffLink]
	pushes atomic.Pointer[pushLink]

	mutex sync.Mutex
	// bogus counts messages that answer nothing.
	bogus      int
	bogusSince time.Time
	// killed says why Lehr ended the child itself.
	killed error
}

func newSession(options Options, answers *answers, process *process, conn *grpc.ClientConn, description plugin.Description) *session {
	s := &session{
		options: options, answers: answers, process: process, conn: conn,
		client: pluginpb.NewPluginServiceClient(conn), description: description,
	}
	for _, served := range description.Types {
		s.settle = max(s.settle, served.LongestEffect)
	}
	s.settle += plugin.PermitPeriod + plugin.LockDelayMargin
	s.diffs.Store(newDiffLink(s))
	s.pushes.Store(newPushLink(s))
	return s
}

// run serves both streams until the process or ctx ends.
func (s *session) run(ctx context.Context) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go s.runDiffs(ctx)
	go s.runPushes(ctx)
	select {
	case <-ctx.Done():
	case <-s.process.gone:
	}
}

// close ends what is open; the process is gone.
func (s *session) close() {
	s.conn.Close()
	gone := s.ended()
	s.diffs.Load().end(gone)
	s.pushes.Load().end(gone)
}

// ended says why the child did; the process is gone.
func (s *session) ended() error {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	if s.killed != nil {
		return s.killed
	}
	return fault.New(fault.Unavailable, "plugin %s ended: %v; %s", s.options.Name, s.process.ended, s.process.log.last())
}

// kill ends a child that does not keep the protocol.
func (s *session) kill(why error) {
	s.mutex.Lock()
	first := s.killed == nil
	if first {
		s.killed = why
	}
	s.mutex.Unlock()
	if first {
		s.process.kill()
	}
}

// ignore notes a message that answers nothing. The first is logged; a flood
// of them ends the child.
func (s *session) ignore(what string, arguments ...any) {
	s.mutex.Lock()
	first := s.bogusSince.IsZero()
	if time.Since(s.bogusSince) > bogusPeriod {
		s.bogusSince, s.bogus = time.Now(), 0
	}
	s.bogus++
	flood := s.bogus > maxBogus
	s.mutex.Unlock()
	if first {
		s.options.Log.Warn("plugin said what nobody asked: "+what, append([]any{"plugin", s.options.Name}, arguments...)...)
	}
	if flood {
		s.kill(fault.New(fault.Unavailable, "plugin %s was ended: it sent %d messages that answer nothing, the last: %s", s.options.Name, maxBogus, what).
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
		why := s.broken("pushes", err)
		link.end(why)
		if ctx.Err() == nil && link.busy() {
			// What was under way is in doubt until the process is gone.
			s.kill(why)
		}
		pause(ctx, reopenAfter)
	}
	s.pushes.Load().end(s.broken("pushes", context.Cause(ctx)))
}

// broken says why a stream broke: mostly because the process has just ended,
// which is told better by its exit status and its last words.
func (s *session) broken(what string, err error) error {
	const reapedWithin = 200 * time.Millisecond
	select {
	case <-s.process.gone:
		return s.ended()
	case <-time.After(reapedWithin):
	}
	return fault.New(fault.Unavailable, "the stream of %s with plugin %s broke: %w", what, s.options.Name, err)
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
