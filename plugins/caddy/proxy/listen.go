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
	"golang.org/x/sys/unix"
)

// network is what balancers listen on here: "shared/127.0.0.1:8080". Caddy
// opens another socket for each configuration and closes the one before, and
// the kernel resets the connections that wait in it. Here all configurations
// share one socket, which is closed with the last of them. Nor does it share
// its port with another process, as Caddy's do.
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
	sockets.Lock()
	defer sockets.Unlock()
	s := sockets.open[address]
	if s == nil {
		if caddy.ListenerUsage("tcp", address) > 0 {
			// The configuration before has it by another socket, which allows
			// one more of this user beside it; a person wrote that one.
			config.Control = besideAnother
		}
		listener, err := config.Listen(ctx, "tcp", address)
		if err != nil {
			return nil, err
		}
		s = &socket{address: address, listener: listener, accepted: make(chan handed), unused: make(chan struct{})}
		sockets.open[address] = s
		go s.accept()
	}
	s.users++
	return &sharing{socket: s, closed: make(chan struct{})}, nil
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
