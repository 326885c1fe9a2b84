package proxy

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"sync"
	"syscall"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"golang.org/x/sys/unix"
)

// network is what balancers listen on here: "shared/127.0.0.1:8080". Caddy
// opens another socket for each configuration and closes the one before, and
// the kernel resets the connections that wait in it. Here all configurations
// share one socket, which is closed with the last of them. Nor does it take a
// port that another process has, as Caddy's do.
const network = "shared"

func init() { caddy.RegisterNetwork(network, listenShared) }

var sockets = struct {
	sync.Mutex
	open map[string]*socket
}{open: map[string]*socket{}}

// socket is an open socket, and how many listeners share it.
type socket struct {
	address  string
	listener net.Listener
	users    int
	// accepted hands connections to whichever listener takes one.
	accepted chan handed
	// unused is closed when nobody shares it any more.
	unused chan struct{}
}

func listenShared(ctx context.Context, _, host, portRange string, portOffset uint, config net.ListenConfig) (any, error) {
	port, err := strconv.ParseUint(portRange, 10, 16)
	if err != nil {
		return nil, fmt.Errorf("%s/%s:%s is not one port", network, host, portRange)
	}
	address := net.JoinHostPort(host, strconv.FormatUint(port+uint64(portOffset), 10))
	if other := claimant(ctx, address); other != "" {
		return nil, fmt.Errorf("listen tcp %s: address already in use by server %s of the same configuration", address, other)
	}
	sockets.Lock()
	defer sockets.Unlock()
	s := sockets.open[address]
	if s == nil {
		if s, err = open(ctx, address, config); err != nil {
			return nil, err
		}
		sockets.open[address] = s
		go s.accept()
	}
	s.users++
	return &sharing{socket: s, closed: make(chan struct{})}, nil
}

// claimant names the server of the configuration being loaded that has the
// address by a socket of Caddy's: the kernel would give each some of the
// connections.
func claimant(ctx context.Context, address string) string {
	configuration, _ := ctx.(caddy.Context)
	if configuration.Context == nil {
		return ""
	}
	app, err := configuration.AppIfConfigured("http")
	servers, isHTTP := app.(*caddyhttp.App)
	if err != nil || !isHTTP {
		return ""
	}
	for name, server := range servers.Servers {
		for _, listen := range server.Listen {
			other, err := caddy.ParseNetworkAddress(listen)
			if err == nil && other.Network != network && other.JoinHostPort(0) == address {
				return name
			}
		}
	}
	return ""
}

// open takes an address that no other process has. Sockets of the
// configuration before, which is about to end, may overlap with it.
func open(ctx context.Context, address string, config net.ListenConfig) (*socket, error) {
	if !overlaps(address) {
		alone, err := config.Listen(ctx, "tcp", address)
		if err != nil {
			return nil, err
		}
		alone.Close()
	}
	config.Control = besideAnother
	listener, err := config.Listen(ctx, "tcp", address)
	if err != nil {
		return nil, err
	}
	return &socket{address: address, listener: listener, accepted: make(chan handed), unused: make(chan struct{})}, nil
}

// overlaps reports whether this process has a socket on the address or, for
// another host, on its port.
func overlaps(address string) bool {
	_, port, _ := net.SplitHostPort(address)
	for open := range sockets.open {
		if _, other, _ := net.SplitHostPort(open); other == port {
			return true
		}
	}
	return caddy.ListenerUsage("tcp", address) > 0
}

func besideAnother(_, _ string, connection syscall.RawConn) error {
	var failure error
	err := connection.Control(func(descriptor uintptr) {
		failure = unix.SetsockoptInt(int(descriptor), unix.SOL_SOCKET, unix.SO_REUSEPORT, 1)
	})
	return errors.Join(err, failure)
}

// acceptPause is how long a socket rests after an error, such as too many open
// files.
const acceptPause = 20 * time.Millisecond

// accept takes connections until the socket is closed.
func (s *socket) accept() {
	for {
		connection, err := s.listener.Accept()
		switch {
		case err == nil:
			s.hand(connection, nil)
		case errors.Is(err, net.ErrClosed):
			return
		default:
			caddy.Log().Error("accepting a connection: " + err.Error())
			time.Sleep(acceptPause)
		}
	}
}

// handed is a connection, and what was read of it.
type handed struct {
	connection net.Conn
	read       []byte
}

// hand gives a connection to whichever configuration takes it. When none is
// left, it ends.
func (s *socket) hand(connection net.Conn, read []byte) {
	select {
	case s.accepted <- handed{connection, read}:
	case <-s.unused:
		connection.Close()
	}
}

// sharing is one configuration's share of a socket.
type sharing struct {
	socket *socket
	once   sync.Once
	closed chan struct{}
}

func (l *sharing) Accept() (net.Conn, error) {
	if l.isClosed() {
		return nil, net.ErrClosed
	}
	select {
	case one := <-l.socket.accepted:
		return &carried{Conn: one.connection, share: l, before: one.read}, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

func (l *sharing) isClosed() bool {
	select {
	case <-l.closed:
		return true
	default:
		return false
	}
}

// Close gives up this share; the last one closes the socket.
func (l *sharing) Close() error {
	var err error
	l.once.Do(func() {
		close(l.closed)
		sockets.Lock()
		defer sockets.Unlock()
		if l.socket.users--; l.socket.users == 0 {
			delete(sockets.open, l.socket.address)
			err = l.socket.listener.Close()
			close(l.socket.unused)
		}
	})
	return err
}

func (l *sharing) Addr() net.Addr { return l.socket.listener.Addr() }
