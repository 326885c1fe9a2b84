package quota

import (
	"net"
	"net/http"
	"sync"
	"time"
)

// Connections bounds how many there are at once, of one address and of all. A new one is
// never refused, for it may bring a stop: the one that has been idle for longest is
// closed, or else the oldest, of the address where that has too many.
type Connections struct {
	limits func() Limits

	mutex sync.Mutex
	open  map[net.Conn]*connection
}

type connection struct {
	address string
	// order in which they came, or became idle.
	since time.Time
	idle  bool
}

// NewConnections bounds connections by limits as they are at each moment.
func NewConnections(limits func() Limits) *Connections {
	return &Connections{limits: limits, open: map[net.Conn]*connection{}}
}

// Track is the ConnState of an http.Server.
func (c *Connections) Track(conn net.Conn, state http.ConnState) {
	limits := c.limits()
	c.mutex.Lock()
	var ending net.Conn
	switch state {
	case http.StateNew:
		c.open[conn] = &connection{address: hostOf(conn), since: time.Now()}
		ending = c.surplus(c.open[conn].address, conn, limits)
	case http.StateIdle, http.StateActive:
		if connection := c.open[conn]; connection != nil {
			if connection.idle = state == http.StateIdle; connection.idle {
				connection.since = time.Now()
			}
		}
	case http.StateClosed, http.StateHijacked:
		delete(c.open, conn)
	}
	if ending != nil {
		delete(c.open, ending)
	}
	c.mutex.Unlock()
	if ending != nil {
		ending.Close()
	}
}

// surplus is the connection that is to end so that a new one has its place; nil: none.
func (c *Connections) surplus(address string, fresh net.Conn, limits Limits) (ending net.Conn) {
	sameAddress := 0
	for _, connection := range c.open {
		if connection.address == address {
			sameAddress++
		}
	}
	tooMany, all := sameAddress > limits.Connections, len(c.open) > limits.AllConnections
	if !tooMany && !all {
		return nil
	}
	var worst *connection
	for conn, connection := range c.open {
		if conn == fresh || tooMany && connection.address != address {
			continue
		}
		if worst == nil || connection.idle && !worst.idle || connection.idle == worst.idle && connection.since.Before(worst.since) {
			ending, worst = conn, connection
		}
	}
	return ending
}

func hostOf(conn net.Conn) string {
	host, _, err := net.SplitHostPort(conn.RemoteAddr().String())
	if err != nil {
		return conn.RemoteAddr().String()
	}
	return host
}
