package remote

import (
	"context"
	"errors"
	"strings"
	"sync"
	"time"

	pluginpb "lehr.dev/gen/lehr/plugin/v1"
	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/pluginhost/plugin"
)

const (
	// freshRequest is how old a permit request may be when a push starts
	// under it.
	freshRequest = 2 * time.Second
	// permitsAtOnce bounds the permits that are judged at once.
	permitsAtOnce = 64
	// recentGrant is how soon a second permit for the same base is not
	// worth another look.
	recentGrant = plugin.PermitPeriod / 16
	// progressPause is how long after progress the next is listened to: each
	// is stored.
	progressPause = 500 * time.Millisecond
)

// pushLink is one life of the stream of pushes.
type pushLink struct {
	session *session
	scope   *scope
	queue   chan *pluginpb.PushRequest
	dead    chan struct{}
	cause   error
	// judging holds a token for each permit that is being judged.
	judging chan struct{}

	mutex sync.Mutex
	open  map[intent.PushID]*openPush
	// request is the newest permit request, received when it came; newer is
	// closed and replaced when one comes.
	request  uint64
	received time.Time
	newer    chan struct{}
}

// openPush is one call of Push.
type openPush struct {
	ctx      context.Context
	push     plugin.Push
	result   chan *pluginpb.PushResult
	progress chan *pluginpb.PushProgress
	memos    memoQueue

	mutex   sync.Mutex
	judging bool
	refused bool
	// granted is when the last permit was given, base what it covers.
	granted time.Time
	base    string
}

func newPushLink(s *session) *pushLink {
	return &pushLink{
		session: s, scope: s.answers.newScope(),
		queue: make(chan *pluginpb.PushRequest, queueLength), dead: make(chan struct{}),
		judging: make(chan struct{}, permitsAtOnce),
		open:    map[intent.PushID]*openPush{}, newer: make(chan struct{}),
	}
}

// end breaks the link off, and reports whether pushes were open on it. That is counted
// before they hear of it: they leave the link at once.
func (l *pushLink) end(cause error) (wasBusy bool) {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	if l.cause == nil {
		l.cause = cause
		close(l.dead)
	}
	return len(l.open) > 0
}

func (s *session) push(ctx context.Context, push plugin.Push) plugin.PushResult {
	link := s.pushes.Load()
	request, err := link.permitRequest(ctx, push)
	if err != nil {
		return notStarted(err)
	}
	open := &openPush{
		ctx: ctx, push: push, granted: time.Now(), base: push.Base,
		result: make(chan *pluginpb.PushResult, 1), progress: make(chan *pluginpb.PushProgress, 1),
	}
	if err := link.begin(open); err != nil {
		return notStarted(err)
	}
	defer link.finish(open)
	start := &pluginpb.PushStart{
		Push: string(push.ID), Partition: string(push.Incarnation.Partition), Incarnation: push.Incarnation.String(),
		Asset: string(push.Asset), PlanDigest: push.Plan[:], Base: push.Base, FencingToken: push.Token,
		Permit: request, Traceparent: push.Traceparent, Memos: encodeMemos(push.Asset, push.Memos),
	}
	select {
	case link.queue <- &pluginpb.PushRequest{Message: &pluginpb.PushRequest_Start{Start: start}}:
		return link.await(ctx, open)
	case <-link.dead:
		return notStarted(link.cause)
	case <-ctx.Done():
		return notStarted(ctx.Err())
	}
}

func notStarted(err error) plugin.PushResult {
	if refused, ok := errors.AsType[refusal](err); ok {
		return plugin.PushResult{Ending: plugin.Stopped, Reason: refused.Error()}
	}
	return plugin.PushResult{Ending: plugin.Failed, Reason: "the push was not started: " + err.Error(), Retryable: true}
}

// refusal is a permit that was not given.
type refusal struct{ error }

// permitRequest returns the number of the request that the push starts under.
// It came before the owner knew that the push may run, or else lease, target
// and stop are looked at again after it: a permit must not outlive what
// justified it. One that lay in a buffer while this process was held up counts
// from when it was taken out.
func (l *pushLink) permitRequest(ctx context.Context, push plugin.Push) (uint64, error) {
	deadline := time.NewTimer(plugin.PermitPeriod)
	defer deadline.Stop()
	for waited := false; ; waited = true {
		l.mutex.Lock()
		request, fresh, newer := l.request, l.request > 0 && time.Since(l.received) < freshRequest, l.newer
		late := l.received.After(push.Checked)
		l.mutex.Unlock()
		if fresh && (waited || late) {
			if err := l.askOwner(ctx, push); err != nil {
				return 0, err
			}
		}
		if fresh {
			return request, nil
		}
		select {
		case <-newer:
		case <-l.dead:
			return 0, l.cause
		case <-ctx.Done():
			return 0, ctx.Err()
		case <-deadline.C:
			err := fault.New(fault.Unavailable, "plugin %s asked for no permit for %s; %s", l.session.options.Name, plugin.PermitPeriod, l.session.peer.cutting())
			l.session.kill(err)
			return 0, err
		}
	}
}

// askOwner asks whether the push may start, and returns a refusal where it may not. An
// owner that does not answer within a permit's period is no refusal: the push may be
// tried again.
func (l *pushLink) askOwner(ctx context.Context, push plugin.Push) error {
	limited, cancel := context.WithTimeout(ctx, plugin.PermitPeriod)
	defer cancel()
	err := push.Permit(limited, push.Base)
	if err == nil {
		return nil
	}
	if limited.Err() != nil && ctx.Err() == nil {
		return fault.New(fault.Unavailable, "whether the push may start was not known within %s: %w", plugin.PermitPeriod, err)
	}
	return refusal{err}
}

func (l *pushLink) begin(open *openPush) error {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	if l.cause != nil {
		return l.cause
	}
	if l.open[open.push.ID] != nil {
		return fault.New(fault.Internal, "push %s is open already", open.push.ID)
	}
	l.open[open.push.ID] = open
	l.scope.open(open.push.Incarnation, open.push.Asset)
	return nil
}

func (l *pushLink) finish(open *openPush) {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	delete(l.open, open.push.ID)
	l.scope.close(open.push.Incarnation, open.push.Asset)
}

// await returns when the push has ended, or when nothing more can be known.
// One that neither ends nor keeps asking for permits is in doubt when its
// last permit and longest effect are over, and its life is ended: it may not
// be keeping the protocol.
func (l *pushLink) await(ctx context.Context, open *openPush) plugin.PushResult {
	timer := time.NewTimer(l.session.settle)
	defer timer.Stop()
	progress, rested := open.progress, (<-chan time.Time)(nil)
	for {
		select {
		case result := <-open.result:
			select {
			case last := <-open.progress:
				open.tell(last)
			default:
			}
			return outcome(result)
		case newest := <-progress:
			open.tell(newest)
			progress, rested = nil, time.After(progressPause)
		case <-rested:
			progress = open.progress
		case <-timer.C:
			if remaining := l.session.settle - time.Since(open.lastGrant()); remaining > 0 {
				timer.Reset(remaining)
				continue
			}
			err := fault.New(fault.Unavailable, "plugin %s neither ended the push of %s nor had a permit for %s; %s", l.session.options.Name, open.push.Asset, l.session.settle, l.session.peer.cutting())
			l.session.kill(err)
			return l.inDoubt(err)
		case <-l.dead:
			select {
			case result := <-open.result:
				return outcome(result)
			default:
				return l.inDoubt(l.cause)
			}
		case <-ctx.Done():
			open.refuse()
			l.reply(0, &pluginpb.PermitGrant{Push: string(open.push.ID), Reason: "lehr ended the push"})
			return l.inDoubt(ctx.Err())
		}
	}
}

func (l *pushLink) inDoubt(cause error) plugin.PushResult {
	return plugin.PushResult{Ending: plugin.InDoubt, Reason: cause.Error(), Gone: l.session.peer.proof()}
}

func (o *openPush) tell(progress *pluginpb.PushProgress) {
	if o.push.Progress != nil {
		o.push.Progress(printable(lastLine(progress.Text), maxReason))
	}
}

// lastLine is that of a text which has several.
func lastLine(text string) string {
	text = strings.TrimRight(text, "\r\n")
	return text[strings.LastIndexByte(text, '\n')+1:]
}

func (o *openPush) lastGrant() time.Time {
	o.mutex.Lock()
	defer o.mutex.Unlock()
	return o.granted
}

func (o *openPush) refuse() {
	o.mutex.Lock()
	defer o.mutex.Unlock()
	o.refused = true
}

// handle takes one message of the plugin.
func (l *pushLink) handle(ctx context.Context, response *pluginpb.PushResponse) {
	switch message := response.Message.(type) {
	case *pluginpb.PushResponse_PermitRequest:
		l.permits(message.PermitRequest)
	case *pluginpb.PushResponse_Need:
		if len(message.Need.GetAssets()) > maxNeed {
			l.session.ignore("a question for too many assets", "assets", len(message.Need.Assets))
			return
		}
		l.scope.answer(ctx, message.Need, func(content *pluginpb.Content) {
			select {
			case l.queue <- &pluginpb.PushRequest{Message: &pluginpb.PushRequest_Content{Content: content}}:
			case <-ctx.Done():
			}
		})
	case *pluginpb.PushResponse_Progress:
		open := l.find(message.Progress.Push)
		if open == nil {
			l.session.ignore("progress of no open push")
			return
		}
		l.report(open, message.Progress)
	case *pluginpb.PushResponse_Result:
		open := l.find(message.Result.Push)
		if open == nil {
			l.session.ignore("the result of no open push", "push", printable(message.Result.Push, maxName))
			return
		}
		select {
		case open.result <- message.Result:
		default:
			l.session.ignore("a second result of a push")
		}
	default:
		l.session.ignore("an empty message")
	}
}

// report takes progress: each text is logged, only the newest is told of, and each memo counts.
func (l *pushLink) report(open *openPush, progress *pluginpb.PushProgress) {
	if progress.Memo != nil {
		l.takeMemo(open, progress.Memo)
		if progress.Text == "" {
			return
		}
	}
	if open.push.Log != nil {
		open.push.Log(progress.Text)
	}
	select {
	case <-open.progress:
	default:
	}
	open.progress <- progress
}

func (l *pushLink) find(push string) *openPush {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	return l.open[intent.PushID(push)]
}
