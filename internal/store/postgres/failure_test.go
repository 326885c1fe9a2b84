package postgres

import (
	"database/sql"
	"io"
	"net"
	"strings"
	"testing"

	"lehr.dev/internal/ground/fault"
	"lehr.dev/test/freeport"
)

// What goes to another machine is encrypted, and its certificate verified.
func TestTLSToOtherMachines(t *testing.T) {
	for url, want := range map[string]bool{
		"postgres://lehr@db.example/lehr":                     true,
		"postgres://lehr@127.0.0.1:5433,db.example:5432/lehr": true,
		"postgres://lehr@127.0.0.1/lehr":                      false,
		"postgres://lehr@[::1]/lehr":                          false,
		"postgres://lehr@localhost:5432,127.0.0.1:5433/lehr":  false,
		"postgres:///lehr?host=/run/postgresql":               false,
		"postgres://lehr@db.example/lehr?sslmode=disable":     false,
	} {
		config, err := configure(url)
		if err != nil {
			t.Fatal(err)
		}
		if got := config.TLSConfig != nil && !config.TLSConfig.InsecureSkipVerify; got != want {
			t.Errorf("%s is verified: %v, want %v", url, got, want)
		}
		for _, fallback := range config.Fallbacks {
			if want && (fallback.TLSConfig == nil || fallback.TLSConfig.InsecureSkipVerify) {
				t.Errorf("%s falls back to %+v", url, fallback)
			}
		}
	}
}

// A database that is not there is told of in one line, each address once.
func TestUnreachableInOneLine(t *testing.T) {
	address := freeport.Address(t) // Nobody listens there.
	db, err := sql.Open("pgx", "postgres://lehr@"+address+"/lehr")
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	err = failure("looking", db.PingContext(t.Context()))
	if !fault.Is(err, fault.Unavailable) || !strings.Contains(err.Error(), "looking: the database cannot be reached: ") {
		t.Fatalf("it is %v", err)
	}
	if !strings.Contains(err.Error(), "is it running, and reachable") {
		t.Errorf("it is %v", err)
	}
	if text := err.Error(); strings.ContainsAny(text, "\n\t") || strings.Count(text, "dial error") != 1 {
		t.Errorf("it says %q", text)
	}
}

// A database that has no TLS is told from one that is not there.
func TestWithoutTLS(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			_, _ = io.ReadFull(conn, make([]byte, 8)) // It asks for TLS.
			_, _ = conn.Write([]byte("N"))
			conn.Close()
		}
	}()
	_, err = Open(t.Context(), Options{URL: "postgres://lehr@" + listener.Addr().String() + "/lehr?sslmode=verify-full"})
	if !fault.Is(err, fault.Unavailable) || !strings.Contains(err.Error(), "have the database take TLS") {
		t.Errorf("it is %v", err)
	}
}
