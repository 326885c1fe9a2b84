package postgres

import (
	"database/sql"
	"net"
	"strings"
	"testing"

	"lehr.dev/fault"
)

// A database that is not there is told of in one line, each address once.
func TestUnreachableInOneLine(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := listener.Addr().String()
	listener.Close() // Nobody listens there now.
	db, err := sql.Open("pgx", "postgres://lehr@"+address+"/lehr")
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	err = failure("looking", db.PingContext(t.Context()))
	if !fault.Is(err, fault.Unavailable) || !strings.Contains(err.Error(), "looking: the database cannot be reached: ") {
		t.Fatalf("it is %v", err)
	}
	if text := err.Error(); strings.ContainsAny(text, "\n\t") || strings.Count(text, "dial error") != 1 {
		t.Errorf("it says %q", text)
	}
}
