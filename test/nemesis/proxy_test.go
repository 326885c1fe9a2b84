package nemesis

import (
	"io"
	"math/rand/v2"
	"net"
	"sync"
	"testing"
	"time"
)

// proxy is a link between a client and a server, which can be broken. What a
// cut holds back arrives when it ends, as TCP sends again what was lost; who
// does not wait so long sees a connection that says nothing.
type proxy struct {
	listener net.Listener
	dial     func() (net.Conn, error)

	mutex sync.Mutex
	// cut directions hold back what is sent.
	cut map[direction]bool
	// delay of each piece, at most; a part of them takes that long.
	delay   time.Duration
	changed chan struct{}
	conns   map[net.Conn]bool
	group   sync.WaitGroup
	closed  bool
}

type direction string

const (
	up   direction = "up"
	down direction = "down"
)

// newProxy takes connections of the listener to what dial reaches.
func newProxy(listener net.Listener, dial func() (net.Conn, error)) *proxy {
	p := &proxy{listener: listener, dial: dial, cut: map[direction]bool{}, changed: make(chan struct{}), conns: map[net.Conn]bool{}}
	p.group.Go(p.accept)
	return p
}

func (p *proxy) accept() {
	for {
		conn, err := p.listener.Accept()
		if err != nil {
			return
		}
		if !p.keep(conn) {
			return
		}
		p.group.Go(func() { p.link(conn) })
	}
}

// keep takes a connection, which ends with the proxy.
func (p *proxy) keep(conn net.Conn) bool {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	if p.closed {
		conn.Close()
		return false
	}
	p.conns[conn] = true
	return true
}

func (p *proxy) drop(conns ...net.Conn) {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	for _, conn := range conns {
		conn.Close()
		delete(p.conns, conn)
	}
}

func (p *proxy) link(client net.Conn) {
	if !p.passes(up) {
		return
	}
	server, err := p.dial()
	if err != nil || !p.keep(server) {
		p.drop(client)
		return
	}
	defer p.drop(client, server)
	var back sync.WaitGroup
	back.Go(func() {
		p.pump(client, server, down)
		p.drop(client, server)
	})
	p.pump(server, client, up)
	p.drop(client, server)
	back.Wait()
}

// pump carries what is said in one direction until either side ends.
func (p *proxy) pump(to, from net.Conn, way direction) {
	buffer := make([]byte, 32<<10)
	for {
		n, err := from.Read(buffer)
		if n > 0 {
			if !p.passes(way) {
				return
			}
			if _, err := to.Write(buffer[:n]); err != nil {
				return
			}
		}
		if err != nil {
			return
		}
	}
}

// passes waits while the way is cut or slow. False: the proxy ended.
func (p *proxy) passes(way direction) bool {
	const usual = 8 // of so many pieces all but one are not delayed
	p.mutex.Lock()
	delay := p.delay
	p.mutex.Unlock()
	if delay > 0 && rand.IntN(usual) == 0 {
		time.Sleep(rand.N(delay))
	}
	for {
		p.mutex.Lock()
		changed, waits, closed := p.changed, p.cut[way], p.closed
		p.mutex.Unlock()
		if closed || !waits {
			return !closed
		}
		<-changed
	}
}

// set cuts the directions named, and no others, and delays what passes.
func (p *proxy) set(delay time.Duration, cut ...direction) {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	p.delay = delay
	clear(p.cut)
	for _, way := range cut {
		p.cut[way] = true
	}
	close(p.changed)
	p.changed = make(chan struct{})
}

// reset ends all connections without a word of farewell.
func (p *proxy) reset() {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	for conn := range p.conns {
		if tcp, ok := conn.(*net.TCPConn); ok {
			_ = tcp.SetLinger(0)
		}
		conn.Close()
	}
	clear(p.conns)
}

func (p *proxy) close() {
	p.mutex.Lock()
	p.closed = true
	p.mutex.Unlock()
	p.set(0)
	p.listener.Close()
	p.reset()
	p.group.Wait()
}

// TestProxy: an echo passes, is held back while its way is cut, arrives after,
// and a reset is noticed.
func TestProxy(t *testing.T) {
	t.Parallel()
	server, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	go func() {
		for {
			conn, err := server.Accept()
			if err != nil {
				return
			}
			go func() {
				_, _ = io.Copy(conn, conn)
				conn.Close()
			}()
		}
	}()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := newProxy(listener, func() (net.Conn, error) { return net.Dial("tcp", server.Addr().String()) })
	defer p.close()
	conn, err := net.Dial("tcp", listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	say := func() {
		if _, err := conn.Write([]byte("x")); err != nil {
			t.Fatal(err)
		}
	}
	hear := func(within time.Duration) error {
		_ = conn.SetReadDeadline(time.Now().Add(within))
		_, err := io.ReadFull(conn, make([]byte, 1))
		return err
	}
	const soon, never = 10 * time.Second, 50 * time.Millisecond
	say()
	if err := hear(soon); err != nil {
		t.Fatal(err)
	}
	for _, way := range []direction{up, down} {
		p.set(0, way)
		say()
		if err := hear(never); err == nil {
			t.Fatalf("it passed though %s is cut", way)
		}
		p.set(0)
		if err := hear(soon); err != nil {
			t.Fatalf("what was held back by a cut %s is lost: %v", way, err)
		}
	}
	p.set(20 * time.Millisecond)
	say()
	if err := hear(soon); err != nil {
		t.Fatal(err)
	}
	p.reset()
	if err := hear(soon); err == nil {
		t.Fatal("the connection outlived its reset")
	}
}
