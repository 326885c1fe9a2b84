// Package freeport reserves TCP ports for programs that tests start and that cannot take a port
// by themselves.
//
// A port that a test takes from the system and closes again is anybody's until the program
// listens on it: with many tests at a time, another one is given it now and then. The ports of
// this package lie below those that systems give away (32768 and above on Linux), and each is
// reserved, for all processes of the machine, until the test ends.
package freeport

import (
	"fmt"
	"math/rand/v2"
	"net"
	"strconv"
	"sync"
)

// The range of ports, and how often one is tried.
const (
	first = 12000
	last  = 32000
	tries = 500
)

// reserved are the ports that this process holds. A socket that has a name and no file tells
// other processes: it ends with the process, however that ends.
var (
	mutex    sync.Mutex
	reserved = map[int]*net.UnixListener{}
)

// Reserve returns the first of n ports in a row that nobody listens on and that no other test
// has reserved. It ends the reservation by release, which may be called once.
func Reserve(n int) (port int, release func(), err error) {
	mutex.Lock()
	defer mutex.Unlock()
	for range tries {
		port := first + rand.IntN(last-first-n)
		if row := reserveRow(port, n); row != nil {
			return port, func() { releaseRow(row) }, nil
		}
	}
	return 0, nil, fmt.Errorf("found no %d free ports in a row between %d and %d", n, first, last)
}

// reserveRow reserves n ports, or none and returns nil.
func reserveRow(port, n int) (row []int) {
	for i := port; i < port+n; i++ {
		socket := reserveOne(i)
		if socket == nil {
			for _, other := range row {
				reserved[other].Close()
				delete(reserved, other)
			}
			return nil
		}
		reserved[i], row = socket, append(row, i)
	}
	return row
}

// reserveOne returns the socket that reserves a port; nil if it is taken.
func reserveOne(port int) *net.UnixListener {
	socket, err := net.ListenUnix("unix", &net.UnixAddr{Name: "@lehr-test-port-" + strconv.Itoa(port), Net: "unix"})
	if err != nil {
		return nil
	}
	for _, host := range []string{"127.0.0.1", ""} {
		listener, err := net.Listen("tcp", net.JoinHostPort(host, strconv.Itoa(port)))
		if err != nil {
			socket.Close()
			return nil
		}
		listener.Close()
	}
	return socket
}

func releaseRow(row []int) {
	mutex.Lock()
	defer mutex.Unlock()
	for _, port := range row {
		reserved[port].Close()
		delete(reserved, port)
	}
}

// Test is what this package needs of a test; *testing.T is one.
type Test interface {
	Helper()
	Fatal(arguments ...any)
	Cleanup(end func())
}

// Row returns the first of n ports in a row, which are the test's until it ends.
func Row(t Test, n int) int {
	t.Helper()
	port, release, err := Reserve(n)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(release)
	return port
}

// Address returns an address of this machine, as 127.0.0.1:12345, whose port is the test's
// until it ends.
func Address(t Test) string {
	t.Helper()
	return net.JoinHostPort("127.0.0.1", strconv.Itoa(Row(t, 1)))
}
