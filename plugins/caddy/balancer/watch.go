package balancer

import (
	"context"
	"net"
	"net/http"
	"sync"
	"time"

	"lehr.dev/sdk/serve"
)

const (
	// mostWatched is how many Caddies are watched at once; a balancer in any other is
	// found changed by the next look at it.
	mostWatched = 256
	// watchedFor is how long a Caddy is watched after a balancer in it was asked about last.
	watchedFor = 5 * time.Minute
	// leastPause and mostPause bound the pause before a Caddy is asked again. It doubles
	// while connections last no longer than calmAfter: such a Caddy is changed all the
	// time, does not answer, or keeps no connections.
	leastPause, mostPause = 100 * time.Millisecond, 15 * time.Second
	calmAfter             = 20 * time.Second
)

// watch notices when somebody changes the configuration of a Caddy, and when one ends or
// is back. Caddy tells nobody of changes, but serves its admin endpoint anew with each:
// so a connection that is kept there without a request ends with any change, and with
// Caddy. When it ends, the configuration is read, and compared with what was there
// before. Caddy ends such a connection each minute anyway.
//
// It does not see what Caddy's health checks find, so the type declares no cadence.
type watch struct {
	mutex   sync.Mutex
	caddies map[string]*watchedCaddy
	// running while hints are wanted: then each Caddy has a goroutine, until ctx ends.
	ctx     context.Context
	hint    func(serve.PartitionID, serve.AssetID)
	running sync.WaitGroup
}

// watchedCaddy is a Caddy by its admin address. The mutex of watch guards it.
type watchedCaddy struct {
	endpoint admin
	// owners are the assets in it, each with the time at which it was asked about last.
	owners map[owner]time.Time
	// seen is the digest of the configuration that was read last; empty: it could not be.
	seen string
	// watched: it has a goroutine.
	watched bool
}

// owner is the asset of a balancer.
type owner struct {
	partition serve.PartitionID
	asset     serve.AssetID
}

func newWatch() *watch { return &watch{caddies: map[string]*watchedCaddy{}} }

// Watch implements serve.Watcher.
func (b Balancers) Watch(ctx context.Context, hint func(serve.PartitionID, serve.AssetID)) error {
	w := b.watch
	w.mutex.Lock()
	w.ctx, w.hint = ctx, hint
	for address, caddy := range w.caddies {
		w.start(address, caddy)
	}
	w.mutex.Unlock()
	<-ctx.Done()
	w.running.Wait()
	return ctx.Err()
}

// note keeps which balancers were looked at in a Caddy, and the configuration that was
// found; empty: it could not be read.
func (w *watch) note(endpoint admin, assets []asset, places []int, digest string) {
	if w == nil {
		return
	}
	w.mutex.Lock()
	defer w.mutex.Unlock()
	caddy := w.caddies[endpoint.address]
	if caddy == nil {
		if len(w.caddies) >= mostWatched {
			return
		}
		caddy = &watchedCaddy{endpoint: endpoint, owners: map[owner]time.Time{}}
		w.caddies[endpoint.address] = caddy
	}
	now := time.Now()
	for _, i := range places {
		caddy.owners[owner{assets[i].Incarnation.Partition, assets[i].ID}] = now
	}
	if !caddy.watched {
		caddy.seen = digest
		w.start(endpoint.address, caddy)
	}
}

// start begins to watch a Caddy, if hints are wanted.
func (w *watch) start(address string, caddy *watchedCaddy) {
	if w.ctx == nil || w.ctx.Err() != nil || caddy.watched {
		return
	}
	caddy.watched = true
	ctx := w.ctx
	w.running.Go(func() {
		defer func() {
			w.mutex.Lock()
			defer w.mutex.Unlock()
			caddy.watched = false
			delete(w.caddies, address)
		}()
		w.follow(ctx, caddy)
	})
}

// follow watches a Caddy until nobody asks about what is in it, or ctx ends.
func (w *watch) follow(ctx context.Context, caddy *watchedCaddy) {
	for pause := leastPause; w.isAsked(caddy) && ctx.Err() == nil; pause = min(2*pause, mostPause) {
		startedAt := time.Now()
		digest, ended, leave := caddy.endpoint.stay(ctx)
		w.found(caddy, digest)
		if digest != "" {
			select {
			case <-ctx.Done():
			case <-ended:
			}
		}
		leave()
		if time.Since(startedAt) > calmAfter {
			pause = leastPause
		}
		select {
		case <-ctx.Done():
		case <-time.After(pause):
		}
	}
}

// isAsked forgets the assets that nobody asks about any more, and reports whether any is
// left.
func (w *watch) isAsked(caddy *watchedCaddy) bool {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	for o, at := range caddy.owners {
		if time.Since(at) > watchedFor {
			delete(caddy.owners, o)
		}
	}
	return len(caddy.owners) > 0
}

// found hints what is in a Caddy when its configuration is another one than before.
func (w *watch) found(caddy *watchedCaddy, digest string) {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	if caddy.seen == digest {
		return
	}
	caddy.seen = digest
	for o := range caddy.owners {
		w.hint(o.partition, o.asset)
	}
}

// stay reads the configuration and keeps the connection, until leave is called; ended is
// closed when Caddy ends it. The digest is empty when it cannot be read.
func (a admin) stay(ctx context.Context) (digestOfAll string, ended <-chan struct{}, leave func()) {
	kept := make(chan struct{})
	var once sync.Once
	transport := &http.Transport{
		DisableCompression: true, MaxConnsPerHost: 1,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			conn, err := (&net.Dialer{}).DialContext(ctx, a.network, a.dial)
			if err != nil {
				return nil, err
			}
			return &keptConn{Conn: conn, closed: func() { once.Do(func() { close(kept) }) }}, nil
		},
	}
	a.client = &http.Client{Transport: transport, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	body, _, err := a.get(ctx, rootPath)
	if err == nil {
		digestOfAll = digest(body)
	}
	return digestOfAll, kept, transport.CloseIdleConnections
}

// keptConn tells when it is closed, by either end.
type keptConn struct {
	net.Conn
	closed func()
}

func (c *keptConn) Close() error {
	c.closed()
	return c.Conn.Close()
}
