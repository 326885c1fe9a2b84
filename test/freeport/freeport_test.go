package freeport

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"strings"
	"testing"
)

// Two processes are never given the same port, and what one reserved is free after its end.
func TestPortsAreReservedAcrossProcesses(t *testing.T) {
	if os.Getenv("RESERVED_BY_ANOTHER") != "" {
		var port int
		_, err := fmt.Sscan(os.Getenv("RESERVED_BY_ANOTHER"), &port)
		mutex.Lock()
		defer mutex.Unlock()
		fmt.Println("taken:", err == nil && reserveOne(port) == nil)
		return
	}
	taken := func(port int) bool {
		t.Helper()
		other := exec.Command(os.Args[0], "-test.run", "TestPortsAreReservedAcrossProcesses")
		other.Env = append(os.Environ(), fmt.Sprintf("RESERVED_BY_ANOTHER=%d", port))
		said, err := other.Output()
		if err != nil {
			t.Fatal(err)
		}
		return strings.Contains(string(said), "taken: true")
	}
	port, release, err := Reserve(3)
	if err != nil {
		t.Fatal(err)
	}
	if !taken(port) || !taken(port+2) {
		t.Error("another process would be given a port that is reserved")
	}
	release()
	if taken(port) || taken(port+2) {
		t.Error("a port is reserved after its release")
	}
}

// A port that somebody listens on, at whatever address, is given to nobody.
func TestPortsInUseAreNotGiven(t *testing.T) {
	for _, host := range []string{"127.0.0.1", ""} {
		port, release, err := Reserve(1)
		if err != nil {
			t.Fatal(err)
		}
		release()
		listener, err := net.Listen("tcp", fmt.Sprintf("%s:%d", host, port))
		if err != nil {
			t.Fatal(err)
		}
		mutex.Lock()
		if row := reserveRow(port-1, 3); row != nil {
			t.Errorf("a row with port %d, which %q listens on, is given", port, host)
		}
		if len(reserved) != 0 {
			t.Errorf("%d ports of a row that is not free stay reserved", len(reserved))
		}
		mutex.Unlock()
		listener.Close()
	}
}
