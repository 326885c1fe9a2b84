package app

import (
	"context"
	"crypto/tls"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"os"
	"syscall"
	"time"

	"lehr.dev/internal/access"
	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/quota"
	"lehr.dev/internal/web"
)

const (
	headerTimeout = 5 * time.Second
	idleTimeout   = 2 * time.Minute
	// shutdownTimeout is what calls under way are given at the end; watches
	// do not end by themselves.
	shutdownTimeout = 300 * time.Millisecond
	maxHeaderBytes  = 32 << 10
	// anyLoopback is where this machine's user is served beside a network.
	anyLoopback = "127.0.0.1:0"
)

// listener is the API and the pages on sockets: one for this machine, by which
// its user is known, and perhaps one by TLS, where nobody is.
type listener struct {
	servers []*http.Server
	// routes of the socket for this machine.
	routes     *access.Routes
	rendezvous access.Rendezvous
	// remote is the address that is served by TLS, if one is.
	remote string
	// monitoring is the address of metrics and health, if they have one.
	monitoring string
	// calls is the context of all requests. It ends those that do not end by
	// themselves.
	calls  context.Context
	ending context.CancelFunc
}

// listen serves the API and the pages, guarded, and leaves word beside the store.
func (a *App) listen() error {
	if a.options.Listen == "" {
		return nil
	}
	l := &listener{}
	a.connections = quota.NewConnections(a.quotas.Limits)
	l.calls, l.ending = context.WithCancel(context.Background())
	a.listener = l
	address := a.options.Listen
	if a.options.TLS.Certificate != "" {
		if err := a.listenRemote(l); err != nil {
			return err
		}
		address = anyLoopback
	}
	socket, err := open(address)
	if err != nil {
		return err
	}
	local := access.Local{Token: access.NewToken(), Tokens: a.store, Now: a.runtime.Now, Patience: a.bodyPatience}
	l.rendezvous = access.Rendezvous{URL: "http://" + socket.Addr().String(), Token: local.Token, PID: os.Getpid()}
	l.routes = a.site(local.Routes(), func(ctx context.Context) web.Viewer {
		return web.Viewer{Base: access.PagePath(local.Token), FormToken: access.FormToken(ctx)}
	})
	served := a.newServer(l, l.routes)
	served.Protocols.SetUnencryptedHTTP2(true)
	go a.serve(func() error { return served.Serve(socket) })
	if err := a.listenMonitoring(l); err != nil {
		return err
	}
	return l.rendezvous.Write(a.options.Store)
}

// listenRemote serves whoever reaches this machine, by TLS alone.
func (a *App) listenRemote(l *listener) error {
	cert, err := readCertificate(a.options.TLS.Certificate, a.options.TLS.Key, a.log, time.Now)
	if err != nil {
		return err
	}
	socket, err := open(a.options.Listen)
	if err != nil {
		return err
	}
	l.remote = socket.Addr().String()
	served := a.newServer(l, a.remoteSite())
	served.Protocols.SetHTTP2(true)
	served.TLSConfig = &tls.Config{MinVersion: tls.VersionTLS12, GetCertificate: cert.get}
	go a.serve(func() error { return served.ServeTLS(socket, "", "") })
	return nil
}

// listenMonitoring serves metrics and health where whoever reaches the address may
// read them.
func (a *App) listenMonitoring(l *listener) error {
	if a.options.Metrics == "" {
		return nil
	}
	loopback, err := access.IsLoopback(a.options.Metrics)
	if err != nil {
		return err
	}
	socket, err := open(a.options.Metrics)
	if err != nil {
		return err
	}
	l.monitoring = socket.Addr().String()
	routes := access.Monitoring(loopback)
	a.probes(routes)
	routes.Handle("GET /metrics", access.NeedsNothing, a.metricsHandler())
	served := a.newServer(l, routes)
	served.Protocols.SetUnencryptedHTTP2(true)
	go a.serve(func() error { return served.Serve(socket) })
	return nil
}

func open(address string) (net.Listener, error) {
	socket, err := net.Listen("tcp", address)
	if errors.Is(err, syscall.EADDRINUSE) {
		return nil, fault.New(fault.Conflict, "cannot listen on %s: the address is in use", address).
			WithHint("choose another with --listen (or --metrics), or 127.0.0.1:0 for a free port; another lehr serve may hold it")
	}
	if err != nil {
		return nil, fault.New(fault.Unavailable, "cannot listen on %s: %w", address, err)
	}
	return socket, nil
}

func (a *App) newServer(l *listener, handler http.Handler) *http.Server {
	served := &http.Server{
		Handler: handler, ReadHeaderTimeout: headerTimeout, IdleTimeout: idleTimeout,
		MaxHeaderBytes: maxHeaderBytes, BaseContext: func(net.Listener) context.Context { return l.calls },
		ConnState: a.connections.Track,
		Protocols: new(http.Protocols), ErrorLog: slog.NewLogLogger(a.log.Handler(), slog.LevelWarn),
	}
	served.Protocols.SetHTTP1(true)
	l.servers = append(l.servers, served)
	return served
}

// serve runs until the server is closed.
func (a *App) serve(run func() error) {
	if err := run(); !errors.Is(err, http.ErrServerClosed) {
		a.log.Error("the API is not served any more", "error", err)
	}
}

// stopAnnouncing takes the word beside the store away.
func (l *listener) stopAnnouncing(store string) {
	if l != nil && l.rendezvous.URL != "" {
		l.rendezvous.Remove(store)
	}
}

// close ends calls, watches among them, and frees the sockets.
func (l *listener) close(store string) {
	if l == nil {
		return
	}
	l.stopAnnouncing(store)
	l.ending()
	ctx, cancel := context.WithTimeout(context.Background(), shutdownTimeout)
	defer cancel()
	for _, served := range l.servers {
		if served.Shutdown(ctx) != nil {
			served.Close()
		}
	}
}
