package web

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"lehr.dev/internal/ground/fault"
)

// live keeps open pages up to date. For each partition, and all who may see the
// same, one goroutine looks, once for each page of it that is open, however many
// browsers have it open; it ends when none has. What a look costs is bounded by
// what a page shows.
type live struct {
	options Options
	load    func(context.Context, address, *reader) (page, error)

	mutex   sync.Mutex
	watches map[watchKey]*watch
	streams int
}

// watchKey is a partition, or the list of all if it is empty, as who may see the
// same sees it.
type watchKey struct{ partition, viewer string }

// watch is the goroutine of one of them. Its fields belong to live's mutex.
type watch struct {
	key    watchKey
	views  map[string]*view
	cancel context.CancelFunc
	// joined wakes the goroutine for a page that was just opened.
	joined chan struct{}
}

// view is a page that is open somewhere. Its fields belong to live's mutex.
type view struct {
	at      address
	streams int
	now     moment
}

// moment is what is known of a page.
type moment struct {
	// snapshot is nil before the first look.
	snapshot *snapshot
	// problem of the last look; what was shown before stays.
	problem error
	// superseded is closed when the next moment is there.
	superseded chan struct{}
}

// restful: a watch rests so many times as long as it looked.
const restful = 20

func newLive(options Options, load func(context.Context, address, *reader) (page, error)) *live {
	return &live{options: options, load: load, watches: map[watchKey]*watch{}}
}

// join follows a page, as the viewer of the context sees it, until leave is
// called. The context may end before.
func (l *live) join(ctx context.Context, viewer string, at address) (_ *view, leave func(), err error) {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	if l.streams >= l.options.MaxStreams {
		return nil, nil, fault.New(fault.Unavailable, "%d pages are followed already", l.streams).WithHint("close some; this one shows what is so when it is loaded")
	}
	key := watchKey{at.partition, viewer}
	w := l.watches[key]
	if w == nil {
		ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
		w = &watch{key: key, views: map[string]*view{}, cancel: cancel, joined: make(chan struct{}, 1)}
		l.watches[key] = w
		go l.run(ctx, w)
	}
	v := w.views[at.String()]
	if v == nil {
		v = &view{at: at, now: moment{superseded: make(chan struct{})}}
		w.views[at.String()] = v
		select {
		case w.joined <- struct{}{}:
		default:
		}
	}
	l.streams++
	v.streams++
	return v, sync.OnceFunc(func() { l.leave(w, v) }), nil
}

func (l *live) leave(w *watch, v *view) {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	l.streams--
	if v.streams--; v.streams > 0 {
		return
	}
	delete(w.views, v.at.String())
	if len(w.views) == 0 {
		w.cancel()
		delete(l.watches, w.key)
	}
}

// moment is what is known of the page now.
func (l *live) moment(v *view) moment {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	return v.now
}

// run looks again and again until nobody follows the partition.
func (l *live) run(ctx context.Context, w *watch) {
	cached := map[string]keptCauses{}
	for ctx.Err() == nil {
		startedAt := time.Now()
		reader := newReader(l.options.Client)
		reader.cached, reader.reread = cached, map[string]keptCauses{}
		for _, v := range l.open(w) {
			l.look(ctx, v, reader)
		}
		cached = reader.reread
		select {
		case <-ctx.Done():
		case <-w.joined:
		case <-time.After(max(l.options.Period, restful*(time.Since(startedAt)-reader.apart))):
		}
	}
}

func (l *live) open(w *watch) []*view {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	return slices.Collect(maps.Values(w.views))
}

// look reads one page, and tells those who follow it when it differs.
func (l *live) look(ctx context.Context, v *view, r *reader) {
	next := moment{}
	ctx, cancel := context.WithTimeout(ctx, l.options.Patience)
	defer cancel()
	pageData, err := l.contained(ctx, v.at, r)
	if ctx.Err() == context.Canceled {
		return // Nobody follows it any more.
	}
	l.mutex.Lock()
	defer l.mutex.Unlock()
	if err != nil {
		next.snapshot, next.problem = v.now.snapshot, err
	} else if next.snapshot = take(pageData.Parts); v.now.snapshot != nil && v.now.snapshot.version == next.snapshot.version {
		next.snapshot = v.now.snapshot
	}
	if next.snapshot == v.now.snapshot && text(next.problem) == text(v.now.problem) {
		return
	}
	next.superseded = make(chan struct{})
	close(v.now.superseded)
	v.now = next
}

// contained keeps a page that panics from taking the server down (S12).
func (l *live) contained(ctx context.Context, at address, r *reader) (_ page, err error) {
	defer func() {
		if broken := recover(); broken != nil {
			err = fault.New(fault.Internal, "reading page %s panicked: %v", at, broken)
		}
	}()
	return l.load(ctx, at, r)
}

func text(err error) string {
	if err == nil {
		return ""
	}
	return fmt.Sprint(err)
}
