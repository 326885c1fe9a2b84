package testbed

import (
	"fmt"
	"math/rand/v2"
	"net"
	"sync"
	"testing"
)

// given are the addresses that tests of this process were given.
var given sync.Map

// FreeAddress is one of 127.0.0.1 at which nobody listens. Its port is below those that the
// kernel hands out by itself, so that it stays free for whoever is to listen there.
func FreeAddress(t testing.TB) string {
	t.Helper()
	for range 1000 {
		address := fmt.Sprintf("127.0.0.1:%d", 20_000+rand.IntN(10_000))
		if _, duplicate := given.LoadOrStore(address, true); duplicate {
			continue
		}
		if listener, err := net.Listen("tcp", address); err == nil {
			listener.Close()
			return address
		}
	}
	t.Fatal("there is no free port between 20000 and 30000")
	return ""
}
