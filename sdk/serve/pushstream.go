package serve

import (
	"context"
	"fmt"
	"sync"
	"time"

	pluginpb "lehr.dev/gen/lehr/plugin/v1"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/pluginhost/plugin"
	"lehr.dev/sdk/secret"
)

// pushStream carries out the pushes of one stream.
type pushStream struct {
	*service
	stream  pluginpb.PluginService_PushServer
	sending sync.Mutex
	asker   *asker
	// early asks for permits before the next interval.
	early chan struct{}

	mutex sync.Mutex
	// request is the number of the newest permit request, asked when each of
	// the last ones was sent.
	request      uint64
	requestTimes map[uint64]time.Duration
	open         map[PushID]*permits
	// memos wait for their answers.
	memos map[PushID]*memoAnswers
}

func (s *service) Push(stream pluginpb.PluginService_PushServer) error {
	p := &pushStream{
		service: s, stream: stream,
		early: make(chan struct{}, 1), requestTimes: map[uint64]time.Duration{}, open: map[PushID]*permits{}, memos: map[PushID]*memoAnswers{},
	}
	p.asker = newAsker(s.heldIntents, s.histories, connection(stream.Context()), func(need *pluginpb.Need) error {
		return p.send(&pluginpb.PushResponse{Message: &pluginpb.PushResponse_Need{Need: need}})
	})
	defer p.cancelAll()
	go p.keepPermits(stream.Context())
	for {
		request, err := stream.Recv()
		if err != nil {
			return nil
		}
		switch message := request.Message.(type) {
		case *pluginpb.PushRequest_Start:
			p.start(message.Start)
		case *pluginpb.PushRequest_Permit:
			p.permit(message.Permit)
		case *pluginpb.PushRequest_Content:
			p.asker.deliver(message.Content)
		case *pluginpb.PushRequest_MemoSaved:
			p.memoSaved(message.MemoSaved)
		}
	}
}

func (p *pushStream) send(response *pluginpb.PushResponse) error {
	p.sending.Lock()
	defer p.sending.Unlock()
	return p.stream.Send(response)
}

// keepPermits asks for permits each second, and ends pushes whose permit does.
func (p *pushStream) keepPermits(ctx context.Context) {
	p.askPermits()
	ticker := time.NewTicker(permitTick)
	defer ticker.Stop()
	last := sinceBoot()
	for {
		early := false
		select {
		case <-ctx.Done():
			return
		case <-p.early:
			early = true
		case <-ticker.C:
		}
		now := sinceBoot()
		for _, push := range p.pushes() {
			push.expire(now)
		}
		if early || now-last > permitInterval-permitTick/2 {
			last = now
			p.askPermits()
		}
	}
}

func (p *pushStream) pushes() map[PushID]*permits {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	open := make(map[PushID]*permits, len(p.open))
	for id, push := range p.open {
		open[id] = push
	}
	return open
}

// askPermits sends the next request. The time is taken before the sending, so
// that a permit is never held for longer than Lehr believes.
func (p *pushStream) askPermits() {
	request := &pluginpb.PermitRequest{}
	for id, push := range p.pushes() {
		request.Asks = append(request.Asks, &pluginpb.PermitAsk{Push: string(id), Base: push.base()})
	}
	now := sinceBoot()
	p.mutex.Lock()
	p.request++
	request.Request = p.request
	p.requestTimes[p.request] = now
	for number, at := range p.requestTimes {
		if now-at > plugin.PermitPeriod {
			delete(p.requestTimes, number)
		}
	}
	p.mutex.Unlock()
	_ = p.send(&pluginpb.PushResponse{Message: &pluginpb.PushResponse_PermitRequest{PermitRequest: request}})
}

// permit takes Lehr's answers.
func (p *pushStream) permit(permit *pluginpb.Permit) {
	p.mutex.Lock()
	requestedAt, ok := p.requestTimes[permit.Request]
	p.mutex.Unlock()
	for _, grant := range permit.Grants {
		p.mutex.Lock()
		push := p.open[PushID(grant.Push)]
		p.mutex.Unlock()
		switch {
		case push == nil:
		case !grant.Granted:
			push.cancel(fmt.Errorf("%w: %s", errNoPermit, grant.Reason))
		case ok:
			push.grant(grant.Base, requestedAt)
		}
	}
}

// start begins a push under the permit that it names. Under one that is not
// known any more it waits for another before its first effect.
func (p *pushStream) start(start *pluginpb.PushStart) {
	ctx, cancel := context.WithCancelCause(p.stream.Context())
	id := PushID(start.Push)
	permit := &permits{cancel: cancel, wanted: start.Base, changed: make(chan struct{}), renew: p.renew}
	p.mutex.Lock()
	if p.open[id] != nil {
		p.mutex.Unlock()
		cancel(nil)
		return
	}
	requestedAt, ok := p.requestTimes[start.Permit]
	if ok {
		permit.grant(start.Base, requestedAt)
	} else {
		permit.until = sinceBoot() + plugin.PermitPeriod
	}
	p.open[id] = permit
	memos := newMemoAnswers(p, start.Push)
	p.memos[id] = memos
	p.mutex.Unlock()
	p.applying.Add(1)
	go func() {
		defer p.applying.Done()
		outcome := p.carryOut(ctx, start, permit, memos)
		p.mutex.Lock()
		delete(p.open, id)
		delete(p.memos, id)
		p.mutex.Unlock()
		cancel(nil)
		_ = p.send(&pluginpb.PushResponse{Message: &pluginpb.PushResponse_Result{Result: encodeOutcome(start.Push, outcome)}})
	}()
}

func (p *pushStream) renew() {
	select {
	case p.early <- struct{}{}:
	default:
	}
}

func (p *pushStream) carryOut(ctx context.Context, start *pluginpb.PushStart, permit *permits, memos *memoAnswers) Outcome {
	incarnation, err := intent.ParseIncarnationID(start.Incarnation)
	if err != nil || len(start.PlanDigest) != len(Digest{}) {
		return Outcome{Ending: Failed, Reason: fmt.Sprintf("the push of %s names the incarnation %q and a plan of %d bytes", start.Asset, start.Incarnation, len(start.PlanDigest))}
	}
	assets, failures := p.asker.intents(ctx, incarnation, []AssetID{AssetID(start.Asset)})
	if failures[0] == nil {
		failures[0] = p.unserved(assets[0].Payload.Type)
	}
	if failures[0] == nil {
		assets[0].Memos, failures[0] = decodeMemos(assets[0].ID, start.Memos)
	}
	if failures[0] != nil {
		return outcomeOf(ctx, Retryable(failures[0]))
	}
	assets[0].push = secret.NewPush(time.Now())
	push := Push{
		ID:          PushID(start.Push),
		Asset:       assets[0],
		Plan:        Digest(start.PlanDigest),
		Base:        start.Base,
		Token:       start.FencingToken,
		Traceparent: start.Traceparent,
		Progress: func(words string) {
			progress := &pluginpb.PushProgress{Push: start.Push, Text: progressText(words)}
			_ = p.send(&pluginpb.PushResponse{Message: &pluginpb.PushResponse_Progress{Progress: progress}})
		},
		SaveMemo: func(call context.Context, key ResourceKey, bytes []byte) error {
			return memos.save(call, ctx, Memo{Key: key, Bytes: bytes})
		},
	}
	outcome := Outcome{}
	err = protect("Push", assets[0].ID, func() error {
		outcome = p.kinds[assets[0].Payload.Type].Push(ctx, push, permit)
		return nil
	})
	if err != nil {
		return failure(err)
	}
	return outcome
}

func (p *pushStream) cancelAll() {
	for _, push := range p.pushes() {
		push.cancel(fmt.Errorf("%w: the connection to Lehr ended", errNoPermit))
	}
}

func encodeOutcome(push string, outcome Outcome) *pluginpb.PushResult {
	result := &pluginpb.PushResult{Push: push}
	reason := text(outcome.Reason)
	switch outcome.Ending {
	case Pushed:
		result.Outcome = &pluginpb.PushResult_Pushed{Pushed: &pluginpb.Pushed{}}
	case Stale:
		result.Outcome = &pluginpb.PushResult_Stale{Stale: &pluginpb.Stale{Reason: reason}}
	case Stopped:
		result.Outcome = &pluginpb.PushResult_Stopped{Stopped: &pluginpb.Stopped{Reason: reason}}
	default:
		result.Outcome = &pluginpb.PushResult_Failed{Failed: &pluginpb.PushFailed{Reason: reason, Retryable: outcome.Retryable, RetryAfter: pauseOf(outcome.RetryAfter), KnownToken: outcome.KnownToken}}
	}
	return result
}
