package conformance

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	pluginpb "lehr.dev/gen/lehr/plugin/v1"
	"lehr.dev/internal/ground/intent"
)

// shared is what all lines with a plugin have in common, over all its lives.
type shared struct {
	contents *contents
	memos    memos
	pendings pendings
	leaks    leaks
}

// line is Lehr's end of the two streams with an endpoint.
type line struct {
	*shared
	cancel context.CancelFunc
	diffs  pluginpb.PluginService_DiffClient
	pushes pluginpb.PluginService_PushClient
	// broken is closed when a stream is; why says how.
	broken chan struct{}

	sending sync.Mutex
	mutex   sync.Mutex
	cause   error
	last    uint64
	batches map[uint64]*batch
	// asked are the assets that any batch named.
	asked map[string]bool
	// strays are answers to what nobody asked.
	strays []string
	// pauses are those that it asked for.
	pauses []*durationpb.Duration
	// request is the newest permit request; newer is closed and replaced when
	// there is one.
	request uint64
	newer   chan struct{}
	open    map[string]*delivery
}

// batch collects the answers of one call.
type batch struct {
	missing map[string]bool
	answers map[string]*pluginpb.AssetDiff
	done    chan struct{}
}

// delivery is a push as it is delivered.
type delivery struct {
	start *pluginpb.PushStart
	// permit is asked for each request that names the push: whether to answer
	// at all, and how.
	permit func(ask *pluginpb.PermitAsk) (answer, grant bool)
	// results are all that the plugin says about how it ended.
	results chan *pluginpb.PushResult
	// startOnce is closed at the first sign that it is under way.
	startOnce sync.Once
	started   chan struct{}
}

func openLine(e *endpoint, shared *shared) (*line, error) {
	ctx, cancel := context.WithCancel(context.Background())
	l := &line{
		shared: shared, cancel: cancel, broken: make(chan struct{}),
		batches: map[uint64]*batch{}, asked: map[string]bool{}, newer: make(chan struct{}), open: map[string]*delivery{},
	}
	var err error
	if l.diffs, err = e.client.Diff(ctx); err == nil {
		l.pushes, err = e.client.Push(ctx)
	}
	if err != nil {
		cancel()
		return nil, err
	}
	go l.readDiffs()
	go l.readPushes()
	return l, nil
}

func (l *line) fail(err error) {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	if l.cause == nil {
		l.cause = err
		close(l.broken)
	}
}

func (l *line) isBroken() bool {
	select {
	case <-l.broken:
		return true
	default:
		return false
	}
}

func (l *line) readDiffs() {
	for {
		response, err := l.diffs.Recv()
		if err != nil {
			l.fail(fmt.Errorf("the stream of diffs broke: %w", err))
			return
		}
		l.leaks.lookIn("an answer to a diff", response)
		switch message := response.Message.(type) {
		case *pluginpb.DiffResponse_Need:
			if content := l.contents.answer(message.Need); content != nil {
				_ = l.sendDiff(&pluginpb.DiffRequest{Message: &pluginpb.DiffRequest_Content{Content: content}})
			}
		case *pluginpb.DiffResponse_Results:
			l.take(message.Results)
		}
	}
}

// take sorts answers by what was asked.
func (l *line) take(results *pluginpb.DiffResults) {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	b := l.batches[results.Batch]
	if b == nil {
		l.note(fmt.Sprintf("it answers batch %d, which nobody began", results.Batch))
		return
	}
	for _, diff := range results.Diffs {
		l.pause(diff.GetUnknown().GetRetryAfter())
		l.pendings.take(diff, time.Now())
		_, answered := b.answers[diff.Asset]
		switch {
		case answered:
			l.note(fmt.Sprintf("it answers the asset %.80q twice in one batch", diff.Asset))
		case !b.missing[diff.Asset]:
			l.note(fmt.Sprintf("it answers the asset %.80q, which was not asked about", diff.Asset))
		default:
			b.answers[diff.Asset] = diff
			if delete(b.missing, diff.Asset); len(b.missing) == 0 {
				close(b.done)
			}
		}
	}
}

func (l *line) sendDiff(request *pluginpb.DiffRequest) error {
	l.sending.Lock()
	defer l.sending.Unlock()
	return l.diffs.Send(request)
}

func (l *line) sendPush(request *pluginpb.PushRequest) error {
	l.sending.Lock()
	defer l.sending.Unlock()
	return l.pushes.Send(request)
}

// ask begins a batch of which the answers may be as old as the cadence of their type.
func (l *line) ask(incarnation intent.IncarnationID, assets ...string) (*batch, error) {
	return l.askWithin(incarnation, nil, assets...)
}

// askWithin begins a batch of which the answers may be that old; nil: as old as the cadence.
func (l *line) askWithin(incarnation intent.IncarnationID, maxAge *durationpb.Duration, assets ...string) (*batch, error) {
	b := &batch{missing: map[string]bool{}, answers: map[string]*pluginpb.AssetDiff{}, done: make(chan struct{})}
	for _, asset := range assets {
		b.missing[asset] = true
	}
	l.mutex.Lock()
	l.last++
	number := l.last
	l.batches[number] = b
	for _, asset := range assets {
		l.asked[asset] = true
	}
	l.mutex.Unlock()
	return b, l.sendDiff(&pluginpb.DiffRequest{Message: &pluginpb.DiffRequest_Batch{Batch: &pluginpb.DiffBatch{
		Batch: number, Partition: string(incarnation.Partition), Incarnation: incarnation.String(), Assets: assets,
		Memos: l.memos.handed(assets...), MaxAge: maxAge,
	}}})
}

// wasAsked reports whether a batch named the asset.
func (l *line) wasAsked(partition, asset string) bool {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	return partition == string(first.Partition) && l.asked[asset]
}

// await waits until all assets of a batch are answered.
func (l *line) await(ctx context.Context, b *batch) error {
	ctx, cancel := context.WithTimeoutCause(ctx, answersWithin, fmt.Errorf("a diff was not answered within %s", answersWithin))
	defer cancel()
	select {
	case <-b.done:
		return nil
	case <-l.broken:
		return l.cause
	case <-ctx.Done():
		l.mutex.Lock()
		defer l.mutex.Unlock()
		var missing []string
		for asset := range b.missing {
			missing = append(missing, asset)
		}
		slices.Sort(missing)
		return fmt.Errorf("%w: no answer about %q", context.Cause(ctx), missing)
	}
}

func (l *line) readPushes() {
	for {
		response, err := l.pushes.Recv()
		if err != nil {
			l.fail(fmt.Errorf("the stream of pushes broke: %w", err))
			return
		}
		l.leaks.lookIn("a message of a push", response)
		switch message := response.Message.(type) {
		case *pluginpb.PushResponse_Need:
			if content := l.contents.answer(message.Need); content != nil {
				_ = l.sendPush(&pluginpb.PushRequest{Message: &pluginpb.PushRequest_Content{Content: content}})
			}
		case *pluginpb.PushResponse_PermitRequest:
			l.permits(message.PermitRequest)
		case *pluginpb.PushResponse_Progress:
			if d := l.find(message.Progress.Push); d != nil {
				d.startOnce.Do(func() { close(d.started) })
				l.keepMemo(d, message.Progress.Memo)
			}
		case *pluginpb.PushResponse_Result:
			l.recordResult(message.Result)
		}
	}
}

// keepMemo keeps what a push sets, if it does, and says so.
func (l *line) keepMemo(d *delivery, memo *pluginpb.SetMemo) {
	if memo == nil {
		return
	}
	saved := l.memos.keep(d.start.Asset, d.start.Push, memo)
	if saved.Refused != "" {
		l.mutex.Lock()
		l.note("it sets a memo that is never kept: " + saved.Refused)
		l.mutex.Unlock()
	}
	_ = l.sendPush(&pluginpb.PushRequest{Message: &pluginpb.PushRequest_MemoSaved{MemoSaved: saved}})
}

func (l *line) find(push string) *delivery {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	return l.open[push]
}

// pause keeps one that was asked for; a flood of them is told by its first part.
func (l *line) pause(requested *durationpb.Duration) {
	const most = 1000
	if requested != nil && len(l.pauses) < most {
		l.pauses = append(l.pauses, requested)
	}
}

// listPauses lists the pauses so far.
func (l *line) listPauses() []*durationpb.Duration {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	return slices.Clone(l.pauses)
}

func (l *line) recordResult(result *pluginpb.PushResult) {
	l.pendings.reset()
	l.mutex.Lock()
	l.pause(result.GetFailed().GetRetryAfter())
	l.mutex.Unlock()
	d := l.find(result.Push)
	if d == nil {
		l.mutex.Lock()
		defer l.mutex.Unlock()
		l.note(fmt.Sprintf("it ends the push %.80q, which nobody began", result.Push))
		return
	}
	select {
	case d.results <- result:
	default:
	}
}

func (l *line) permits(request *pluginpb.PermitRequest) {
	l.mutex.Lock()
	l.request = max(l.request, request.Request)
	close(l.newer)
	l.newer = make(chan struct{})
	l.mutex.Unlock()
	permit := &pluginpb.Permit{Request: request.Request}
	for _, ask := range request.Asks {
		d := l.find(ask.Push)
		if d == nil {
			continue
		}
		d.startOnce.Do(func() { close(d.started) })
		if answer, grant := d.permit(ask); answer {
			permit.Grants = append(permit.Grants, &pluginpb.PermitGrant{Push: ask.Push, Granted: grant, Base: ask.Base, Reason: "the conformance suite says so"})
		}
	}
	if len(permit.Grants) > 0 {
		_ = l.sendPush(&pluginpb.PushRequest{Message: &pluginpb.PushRequest_Permit{Permit: permit}})
	}
}

// newest is the number of the newest permit request, once there is one that
// is newer than the given.
func (l *line) newest(ctx context.Context, previous uint64) (uint64, error) {
	for {
		l.mutex.Lock()
		request, newer := l.request, l.newer
		l.mutex.Unlock()
		if request > previous {
			return request, nil
		}
		select {
		case <-newer:
		case <-l.broken:
			return 0, l.cause
		case <-ctx.Done():
			return 0, context.Cause(ctx)
		case <-time.After(asksWithin):
			return 0, fmt.Errorf("it asked for no permit within %s: the first request is sent at once, and another each second", asksWithin)
		}
	}
}

// deliver begins a push.
func (l *line) deliver(d *delivery) error {
	d.results, d.started = make(chan *pluginpb.PushResult, 8), make(chan struct{})
	l.mutex.Lock()
	l.open[d.start.Push] = d
	l.mutex.Unlock()
	return l.again(d)
}

// again delivers the same push once more.
func (l *line) again(d *delivery) error {
	return l.sendPush(&pluginpb.PushRequest{Message: &pluginpb.PushRequest_Start{Start: d.start}})
}

// end waits for the push's result.
func (l *line) end(ctx context.Context, d *delivery) (*pluginpb.PushResult, error) {
	select {
	case result := <-d.results:
		return result, nil
	case <-l.broken:
		return nil, l.cause
	case <-ctx.Done():
		return nil, fmt.Errorf("%w: the push of %s did not end", context.Cause(ctx), d.start.Asset)
	}
}

// note keeps what nobody asked for; a flood of it is told by its first part.
// The caller holds the mutex.
func (l *line) note(stray string) {
	const most = 100
	if len(l.strays) < most {
		l.strays = append(l.strays, stray)
	}
}

// stray returns what nobody asked for, if there was anything.
func (l *line) stray() error {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	if len(l.strays) == 0 {
		return nil
	}
	return fmt.Errorf("%s (%d such answers at least)", l.strays[0], len(l.strays))
}

const (
	answersWithin = 10 * time.Second
	asksWithin    = 3 * time.Second
)
