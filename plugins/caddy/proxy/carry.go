package proxy

import (
	"bytes"
	"net"
	"sync"
	"time"
)

// maxCarried is how much of a request is kept to hand it over.
const maxCarried = 64 << 10

// passWithin is how long a server that shuts down may take to close its
// listener.
const passWithin = 100 * time.Millisecond

// carried is a connection that may pass to the next configuration. Go's server
// drops a connection whose first request it reads while it shuts down, which
// each change of the configuration makes the server before do. Such a request
// was answered by nobody: it goes to the server after.
type carried struct {
	net.Conn
	share *sharing

	mutex sync.Mutex
	// before is what an earlier server read of the request; seen is all that
	// this one did.
	before, seen []byte
	// reading counts calls of Read under way. One is while a handler runs.
	reading int
	// settled: it was answered, broke off, or is too long to be kept.
	settled bool
	gone    bool
}

func (c *carried) Read(into []byte) (int, error) {
	c.mutex.Lock()
	if c.gone {
		c.mutex.Unlock()
		return 0, net.ErrClosed
	}
	if len(c.before) > 0 {
		defer c.mutex.Unlock()
		n := copy(into, c.before)
		c.before = c.before[n:]
		c.keep(into[:n])
		return n, nil
	}
	c.reading++
	c.mutex.Unlock()
	n, err := c.Conn.Read(into)
	c.mutex.Lock()
	defer c.mutex.Unlock()
	c.reading--
	c.keep(into[:n])
	if err != nil {
		c.settled, c.seen = true, nil
	}
	return n, err
}

func (c *carried) keep(read []byte) {
	if c.settled {
		return
	}
	if c.seen = append(c.seen, read...); len(c.seen) > maxCarried {
		c.settled, c.seen = true, nil
	}
}

func (c *carried) Write(content []byte) (int, error) {
	c.mutex.Lock()
	c.settled, c.seen = true, nil
	c.mutex.Unlock()
	return c.Conn.Write(content)
}

// Close ends the connection, or passes it on.
func (c *carried) Close() error {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	if c.gone {
		return net.ErrClosed
	}
	c.gone = true
	if c.settled || c.reading > 0 || !repeatable(c.seen) || c.Conn.SetDeadline(time.Time{}) != nil {
		return c.Conn.Close()
	}
	go c.pass(append(c.seen, c.before...))
	return nil
}

// pass hands the connection over if the server that closed it shuts down. It
// does so a moment before it closes its listener.
func (c *carried) pass(read []byte) {
	timer := time.NewTimer(passWithin)
	defer timer.Stop()
	select {
	case <-c.share.closed:
		c.share.socket.hand(c.Conn, read)
	case <-timer.C:
		c.Conn.Close()
	}
}

// repeatable reports whether a request may be handed over although it cannot
// be told whether its handler began: it has no effects, or nothing of it was
// read.
func repeatable(request []byte) bool {
	for _, method := range []string{"GET ", "HEAD ", "OPTIONS "} {
		if n := min(len(request), len(method)); bytes.Equal(request[:n], []byte(method)[:n]) {
			return true
		}
	}
	return false
}
