package app

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"os"
	"syscall"
	"time"

	"lehr.dev/access"
	"lehr.dev/fault"
)

const (
	headerTimeout = 5 * time.Second
	idleTimeout   = 2 * time.Minute
	// shutdownTimeout is what calls under way are given at the end; watches
	// do not end by themselves.
	shutdownTimeout = 300 * time.Millisecond
	maxHeaderBytes  = 32 << 10
)

// listener is the API on a loopback socket.
type listener struct {
	http       *http.Server
	routes     *access.Routes
	rendezvous access.Rendezvous
	// ending is cancelled to end calls that do not end by themselves.
	ending context.CancelFunc
}

// listen serves the API and the pages, guarded, and leaves word beside the store.
func (a *App) listen() error {
	if a.options.Listen == "" {
		return nil
	}
	socket, err := net.Listen("tcp", a.options.Listen)
	if errors.Is(err, syscall.EADDRINUSE) {
		return fault.New(fault.Conflict, "cannot listen on %s: the address is in use", a.options.Listen).
			WithHint("choose another with --listen, or 127.0.0.1:0 for a free port; another lehr serve may hold it")
	}
	if err != nil {
		return fault.New(fault.Unavailable, "cannot listen on %s: %w", a.options.Listen, err)
	}
	local := access.Local{Token: access.NewToken(), Tokens: a.store, Now: a.runtime.Now}
	calls, ending := context.WithCancel(context.Background())
	routes := a.site(local)
	l := &listener{
		ending: ending, routes: routes,
		http: &http.Server{
			Handler: routes, ReadHeaderTimeout: headerTimeout, IdleTimeout: idleTimeout,
			MaxHeaderBytes: maxHeaderBytes, BaseContext: func(net.Listener) context.Context { return calls },
			Protocols: new(http.Protocols), ErrorLog: slog.NewLogLogger(a.log.Handler(), slog.LevelWarn),
		},
		rendezvous: access.Rendezvous{URL: "http://" + socket.Addr().String(), Token: local.Token, PID: os.Getpid()},
	}
	l.http.Protocols.SetHTTP1(true)
	l.http.Protocols.SetUnencryptedHTTP2(true)
	a.listener = l
	if err := l.rendezvous.Write(a.options.Store); err != nil {
		return errors.Join(err, socket.Close())
	}
	go func() {
		if err := l.http.Serve(socket); !errors.Is(err, http.ErrServerClosed) {
			a.log.Error("the API is not served any more", "error", err)
		}
	}()
	return nil
}

// stopAnnouncing takes the word beside the store away.
func (l *listener) stopAnnouncing(store string) {
	if l != nil {
		l.rendezvous.Remove(store)
	}
}

// close ends calls, watches among them, and frees the socket.
func (l *listener) close(store string) {
	if l == nil {
		return
	}
	l.stopAnnouncing(store)
	l.ending()
	ctx, cancel := context.WithTimeout(context.Background(), shutdownTimeout)
	defer cancel()
	if l.http.Shutdown(ctx) != nil {
		l.http.Close()
	}
}
