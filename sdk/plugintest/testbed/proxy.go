package testbed

import (
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"testing"
	"time"
)

// Trouble is what a proxy does to what passes it. Nothing is none. It counts for connections
// that are open, too.
type Trouble struct {
	// Refuse: nobody listens, and connections that there are, are reset.
	Refuse bool
	// Hang: connections are taken, and nothing passes in any direction until it is over.
	Hang bool
	// Delay each piece of an answer by so much.
	Delay time.Duration
	// BytesPerSecond of each connection's answers; 0: as they come.
	BytesPerSecond int
	// Cut resets a connection when After bytes of answers have passed it since the trouble
	// began; Garble turns all bits of the bytes that follow those.
	Cut, Garble bool
	After       int64
}

// Proxy is between a client and a component. Its methods may be called from any goroutine.
type Proxy struct {
	t               testing.TB
	address         string
	network, target string

	mutex sync.Mutex
	// trouble there is since it was changed for the nth time; changed is closed at the next.
	trouble  Trouble
	nth      int
	changed  chan struct{}
	listener net.Listener
	open     map[net.Conn]bool
	taken    int
	running  sync.WaitGroup
}

// NewProxy listens at an address of its own and leads to the target: HOST:PORT, or the path
// of a socket. It ends with the test.
func NewProxy(t testing.TB, target string) *Proxy {
	t.Helper()
	p := &Proxy{t: t, address: FreeAddress(t), network: "tcp", target: target, changed: make(chan struct{}), open: map[net.Conn]bool{}}
	if strings.HasPrefix(target, "/") {
		p.network = "unix"
	}
	p.listen()
	t.Cleanup(func() {
		p.Hurt(Trouble{Refuse: true})
		p.running.Wait()
	})
	return p
}

// Address is where it listens, as 127.0.0.1:PORT.
func (p *Proxy) Address() string { return p.address }

// Connections is how many it has taken.
func (p *Proxy) Connections() int {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	return p.taken
}

// Heal ends all trouble.
func (p *Proxy) Heal() { p.Hurt(Trouble{}) }

// Hurt makes trouble from now on, instead of what there was.
func (p *Proxy) Hurt(trouble Trouble) {
	p.t.Helper()
	p.mutex.Lock()
	p.trouble = trouble
	p.nth++
	close(p.changed)
	p.changed = make(chan struct{})
	listener := p.listener
	if trouble.Refuse {
		p.listener = nil
		for connection := range p.open {
			reset(connection)
		}
	}
	p.mutex.Unlock()
	switch {
	case trouble.Refuse && listener != nil:
		listener.Close()
	case !trouble.Refuse && listener == nil:
		p.listen()
	}
}

func (p *Proxy) listen() {
	p.t.Helper()
	listener, err := net.Listen("tcp", p.address)
	for deadline := time.Now().Add(10 * time.Second); err != nil && time.Now().Before(deadline); time.Sleep(time.Millisecond) {
		listener, err = net.Listen("tcp", p.address)
	}
	if err != nil {
		p.t.Fatalf("listening for %s: %v", p.target, err)
	}
	p.mutex.Lock()
	p.listener = listener
	p.mutex.Unlock()
	p.running.Go(func() {
		for {
			client, err := listener.Accept()
			if err != nil {
				return
			}
			p.running.Go(func() { p.carry(client) })
		}
	})
}

// carry passes on what both ends of a connection say, until one has said all.
func (p *Proxy) carry(client net.Conn) {
	if !p.keep(client) {
		return
	}
	defer p.drop(client)
	server, err := net.Dial(p.network, p.target)
	if err != nil {
		reset(client)
		return
	}
	if !p.keep(server) {
		return
	}
	defer p.drop(server)
	p.mutex.Lock()
	p.taken++
	p.mutex.Unlock()
	asked := make(chan struct{})
	go func() {
		defer close(asked)
		p.pass(server, client, false)
	}()
	p.pass(client, server, true)
	<-asked
}

// keep notes a connection; it resets one that comes when all are refused.
func (p *Proxy) keep(connection net.Conn) bool {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	if p.trouble.Refuse {
		reset(connection)
		return false
	}
	p.open[connection] = true
	return true
}

func (p *Proxy) drop(connection net.Conn) {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	delete(p.open, connection)
	connection.Close()
}

// pass copies one direction of a connection. Answers have all of the trouble.
func (p *Proxy) pass(to, from net.Conn, isAnswer bool) {
	piece := make([]byte, 4<<10)
	var passed int64
	countedTrouble := -1
	for {
		n, err := from.Read(piece)
		for rest := piece[:n]; len(rest) > 0; {
			trouble, nth := p.awaitPassage()
			if nth != countedTrouble {
				countedTrouble, passed = nth, 0
			}
			if !isAnswer {
				trouble = Trouble{}
			}
			sent, ok := p.send(to, rest, passed, trouble)
			if !ok {
				reset(to)
				reset(from)
				return
			}
			rest, passed = rest[sent:], passed+int64(sent)
		}
		if err != nil {
			p.awaitPassage()
			if half, ok := to.(interface{ CloseWrite() error }); ok && errors.Is(err, io.EOF) {
				_ = half.CloseWrite()
			} else {
				to.Close()
			}
			return
		}
	}
}

// awaitPassage returns the trouble there is, once that is none that lets nothing pass.
func (p *Proxy) awaitPassage() (Trouble, int) {
	for {
		p.mutex.Lock()
		trouble, nth, changed := p.trouble, p.nth, p.changed
		p.mutex.Unlock()
		if !trouble.Hang {
			return trouble, nth
		}
		<-changed
	}
}

// send passes on some of a piece; not ok: the connection ends here.
func (p *Proxy) send(to net.Conn, piece []byte, passed int64, trouble Trouble) (sent int, ok bool) {
	pause := trouble.Delay
	if trouble.BytesPerSecond > 0 {
		piece = piece[:min(len(piece), max(1, trouble.BytesPerSecond/20))]
		pause += time.Duration(len(piece)) * time.Second / time.Duration(trouble.BytesPerSecond)
	}
	if room := trouble.After - passed; (trouble.Cut || trouble.Garble) && room > 0 {
		piece = piece[:min(int64(len(piece)), room)]
	} else if trouble.Cut {
		return 0, false
	} else if trouble.Garble {
		piece = garbled(piece)
	}
	time.Sleep(pause)
	n, err := to.Write(piece)
	return n, err == nil
}

func garbled(piece []byte) []byte {
	other := make([]byte, len(piece))
	for i, b := range piece {
		other[i] = ^b
	}
	return other
}

// reset closes a connection so that its other end is told of an error, and not of an end.
func reset(connection net.Conn) {
	if tcp, ok := connection.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0)
	}
	connection.Close()
}

// String tells of the trouble, for messages of tests.
func (t Trouble) String() string {
	type plain Trouble
	return fmt.Sprintf("%+v", plain(t))
}
