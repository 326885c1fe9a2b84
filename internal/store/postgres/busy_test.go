package postgres

import (
	"context"
	"log/slog"
	"strings"
	"syscall"
	"testing"
	"time"

	"lehr.dev/internal/ground/fault"
	"lehr.dev/test/pgserver"
)

// TestAServerStartsOnceTheDatabaseAnswers: a database that answers nobody for a while, as
// one of an overloaded machine, delays the start of a server and does not end it. Whoever
// only looks is told what does not answer.
func TestAServerStartsOnceTheDatabaseAnswers(t *testing.T) {
	t.Parallel()
	server := pgserver.New(t)
	server.Start()
	url := server.Database()
	server.Signal(syscall.SIGSTOP)
	defer server.Signal(syscall.SIGCONT)

	var log strings.Builder
	type opening struct {
		store *Store
		err   error
	}
	opened := make(chan opening, 1)
	go func() {
		s, err := Open(context.Background(), Options{URL: url, Log: slog.New(slog.NewTextHandler(&log, nil))})
		opened <- opening{s, err}
	}()
	_, err := OpenBeside(t.Context(), Options{URL: url})
	if !fault.Is(err, fault.Unavailable) || !strings.Contains(err.Error(), "the database cannot be reached") || !strings.Contains(err.Error(), "is it running") {
		t.Errorf("beside a server it says: %v", err)
	}
	time.Sleep(startPause) // The server that starts has given up a connection by now, too.
	select {
	case o := <-opened:
		t.Fatalf("it opened with %v while the database stood still", o.err)
	default:
	}
	server.Signal(syscall.SIGCONT)
	o := <-opened
	if o.err != nil {
		t.Fatal(o.err)
	}
	if err := o.store.Close(); err != nil {
		t.Error(err)
	}
	if !strings.Contains(log.String(), "the database takes no connection yet") {
		t.Errorf("it did not say why it waits: %q", log.String())
	}
}
