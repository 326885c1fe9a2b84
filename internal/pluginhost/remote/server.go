package remote

import (
	"context"
	"errors"
	"io"
	"net"
	"sync"

	"lehr.dev/internal/ground/fault"
)

// Server is a plugin that runs as a server of its own, on this machine or
// another. It outlives Lehr and every connection with it, so that a lost
// connection proves nothing: it is never known to be alone, and a push in doubt
// is settled by time. Other Lehrs may be connected beside this one.
type Server struct {
	caller
	address Address
	// instance is what the server called itself last.
	instance string
}

// Dial connects with a plugin server, again and again, until ctx ends or it is
// closed. It returns at once: Describe says whether it is up. Run and LockDir
// of the options are not used.
func Dial(ctx context.Context, address Address, options Options) *Server {
	if options.Name == "" {
		options.Name = address.HostPort
	}
	options = options.withDefaults()
	ctx, cancel := context.WithCancel(ctx)
	s := &Server{
		caller: caller{
			options: options, cancel: cancel, done: make(chan struct{}),
			outage: fault.New(fault.Unavailable, "plugin server %s is being dialled", address.HostPort),
		},
		address: address,
	}
	invalid := address.Validate()
	if invalid == nil && options.Contents == nil {
		invalid = fault.New(fault.Internal, "plugin %s was given no Contents", options.Name)
	}
	s.begin(ctx, invalid, s.live)
	return s
}

// live is one connection with the server. It returns why it ended.
func (s *Server) live(ctx context.Context) error {
	dialling, cancel := context.WithTimeout(ctx, s.options.StartTimeout)
	defer cancel()
	secured, err := s.address.Dial(dialling)
	if err != nil {
		return err
	}
	c := &connection{Conn: secured, address: s.address, closed: make(chan struct{})}
	defer c.Close()
	session, err := s.connect(ctx, c, c.handOver)
	if err != nil {
		return s.explain(c, err)
	}
	instance := session.description.Instance
	s.options.Log.Info("plugin server is up", "plugin", s.options.Name, "version", session.description.Version,
		"instance", instance, "restarted", s.instance != "" && s.instance != instance)
	s.instance = instance
	s.setSession(session, nil)
	session.run(ctx)
	s.setSession(nil, fault.New(fault.Unavailable, "plugin server %s is being dialled again", s.options.Name))
	c.Close()
	session.close()
	return session.endCause()
}

// explain says why a server that was reached did not come to serve.
func (s *Server) explain(c *connection, err error) error {
	if failed := c.failed(); isAlert(failed) {
		return s.address.refusedUs(failed)
	}
	if fault.Is(err, fault.Invalid) {
		return err
	}
	return fault.New(fault.Unavailable, "plugin server %s did not say within %s what it serves: %w", s.address.HostPort, s.options.StartTimeout, err)
}

// connection with a server is the peer of a session: with it the session ends,
// so that whoever answers next is asked anew what it is.
type connection struct {
	net.Conn
	address Address
	closed  chan struct{}

	mutex sync.Mutex
	// isTaken: gRPC has it.
	isTaken, isClosed bool
	// failure is the first error of the connection itself.
	failure error
}

// handOver hands it to gRPC. When gRPC asks for another, this one is of no use any
// more.
func (c *connection) handOver(context.Context) (net.Conn, error) {
	c.mutex.Lock()
	again := c.isTaken
	c.isTaken = true
	c.mutex.Unlock()
	if again {
		c.Close()
		return nil, errors.New("the connection has ended")
	}
	return c, nil
}

func (c *connection) Read(buffer []byte) (int, error) {
	n, err := c.Conn.Read(buffer)
	c.note(err)
	return n, err
}

func (c *connection) Write(buffer []byte) (int, error) {
	n, err := c.Conn.Write(buffer)
	c.note(err)
	return n, err
}

// note keeps the first error. What the other end said comes before all else.
func (c *connection) note(err error) {
	if err == nil {
		return
	}
	c.mutex.Lock()
	defer c.mutex.Unlock()
	if !c.isClosed && (c.failure == nil || isAlert(err) && !isAlert(c.failure)) {
		c.failure = err
	}
}

func (c *connection) failed() error {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	return c.failure
}

func (c *connection) Close() error {
	c.mutex.Lock()
	first := !c.isClosed
	c.isClosed = true
	c.mutex.Unlock()
	if !first {
		return nil
	}
	err := c.Conn.Close()
	close(c.closed)
	return err
}

func (c *connection) done() <-chan struct{} { return c.closed }

// proof is none: the server goes on without us.
func (c *connection) proof() <-chan struct{} { return nil }

func (c *connection) ending(plugin string) error {
	cause := c.failed()
	switch {
	case isAlert(cause):
		return c.address.refusedUs(cause)
	case cause == nil || errors.Is(cause, io.EOF):
		cause = errors.New("it was closed")
	}
	return fault.New(fault.Unavailable, "the connection with plugin server %s ended: %w; it is dialled again", plugin, cause)
}

func (c *connection) cut() { c.Close() }

func (c *connection) cutting() string { return "the connection was cut" }
