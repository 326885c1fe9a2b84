package remote

import (
	"time"

	pluginpb "lehr.dev/gen/lehr/plugin/v1"
)

// permits notes a request and has each push that it names judged.
func (l *pushLink) permits(request *pluginpb.PermitRequest) {
	received := time.Now()
	l.mutex.Lock()
	if request.Request <= l.request {
		l.mutex.Unlock()
		l.session.ignore("a permit request out of order", "request", request.Request)
		return
	}
	l.request, l.received = request.Request, received
	close(l.newer)
	l.newer = make(chan struct{})
	l.mutex.Unlock()
	for _, ask := range request.Asks {
		// A push that has just ended may still be asked for.
		open := l.find(ask.Push)
		if open == nil || len(ask.Base) > maxBase || !open.judge(ask.Base, received) {
			continue
		}
		// No more than one for each open push waits here.
		go func() {
			l.judging <- struct{}{}
			l.permit(open, request.Request, ask.Base)
			<-l.judging
		}()
	}
}

// judge reports whether a permit for the base is to be looked at now: one at
// a time, and not again at once.
func (o *openPush) judge(base string, now time.Time) bool {
	o.mutex.Lock()
	defer o.mutex.Unlock()
	if o.judging || o.refused || base == o.base && now.Sub(o.granted) < recentGrant {
		return false
	}
	o.judging = true
	return true
}

// permit asks the push's owner, and tells the plugin. What counts as given is
// noted before it is sent.
func (l *pushLink) permit(open *openPush, request uint64, base string) {
	err := open.push.Permit(open.ctx, base)
	open.mutex.Lock()
	open.judging = false
	if open.refused {
		open.mutex.Unlock()
		return
	}
	grant := &pluginpb.PermitGrant{Push: string(open.push.ID), Granted: err == nil, Base: base}
	if err != nil {
		open.refused, grant.Reason = true, err.Error()
	} else {
		open.granted, open.base = time.Now(), base
	}
	open.mutex.Unlock()
	l.reply(request, grant)
}

// reply sends a permit or a refusal.
func (l *pushLink) reply(request uint64, grant *pluginpb.PermitGrant) {
	permit := &pluginpb.Permit{Request: request, Grants: []*pluginpb.PermitGrant{grant}}
	select {
	case l.queue <- &pluginpb.PushRequest{Message: &pluginpb.PushRequest_Permit{Permit: permit}}:
	case <-l.dead:
	case <-time.After(time.Second):
		// The plugin does not read; its permit runs out by itself.
	}
}
