package postgres_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/store/postgres"
	"lehr.dev/internal/store/storetest"
	"lehr.dev/test/pgserver"
)

// TestStandby: one that follows another server takes no writes and says so; once
// it was promoted it takes them, over the same connections.
func TestStandby(t *testing.T) {
	server := pgserver.New(t)
	server.Start()
	url := server.Database()
	first := open(t, url)
	storetest.Register(t, first)
	must(t, hold(t, first, "before"))
	standby := server.Standby()
	standby.Start()
	server.CatchUp(standby)
	url = strings.Replace(url, fmt.Sprintf(":%d/", server.Port()), fmt.Sprintf(":%d/", standby.Port()), 1)

	refused := func(what string, err error) {
		t.Helper()
		if !fault.Is(err, fault.Unavailable) || !strings.Contains(err.Error(), "the database is a standby") {
			t.Errorf("%s: %v", what, err)
		}
	}
	_, err := postgres.Open(t.Context(), postgres.Options{URL: url})
	refused("serving", err)
	s, err := postgres.OpenBeside(t.Context(), postgres.Options{URL: url})
	must(t, err)
	t.Cleanup(func() { must(t, s.Close()) })
	refused("a write", hold(t, s, "refused"))
	_, err = s.Stops(t.Context())
	refused("what rests on where the log is", err)
	wantHolds(t, s, 1)
	standby.Promote()
	must(t, hold(t, s, "after"))
	wantHolds(t, s, 2)
	must(t, s.VerifyAudit(t.Context(), "shop"))
}

// TestFullDatabase: without room on its disk what is there is read, what was
// accepted stays, and space is all that it takes to go on.
func TestFullDatabase(t *testing.T) {
	server := pgserver.New(t)
	small := filepath.Join(server.Folder(), "small")
	must(t, os.Mkdir(small, 0o700))
	err := syscall.Mount("lehr-postgres", small, "tmpfs", 0, "size=24m")
	if errors.Is(err, syscall.EPERM) && os.Getenv("CI") == "" {
		t.Skip("SKIPPED: mounting a small file system needs root; run the tests as root")
	}
	must(t, err)
	t.Cleanup(func() { must(t, syscall.Unmount(small, syscall.MNT_DETACH)) })
	owner, err := os.Stat(server.Folder())
	must(t, err)
	who := owner.Sys().(*syscall.Stat_t)
	must(t, os.Chown(small, int(who.Uid), int(who.Gid)))
	server.Start()
	server.Execute(server.URL("postgres"), "CREATE TABLESPACE small LOCATION '"+small+"'")
	server.Execute(server.URL("postgres"), "CREATE DATABASE shop TABLESPACE small")
	s := open(t, server.URL("shop"))
	storetest.Register(t, s)

	ballast := filepath.Join(small, "ballast")
	file, err := os.Create(ballast)
	must(t, err)
	for err == nil {
		_, err = file.Write(make([]byte, 64<<10))
	}
	file.Close()
	if !errors.Is(err, syscall.ENOSPC) {
		t.Fatal(err)
	}
	// Pages that are there already still take some.
	accepted := 0
	for err = nil; err == nil && accepted < 10_000; accepted++ {
		err = hold(t, s, intent.AssetID(fmt.Sprint("asset-", accepted)))
	}
	accepted--
	if !fault.Is(err, fault.Unavailable) || !strings.Contains(err.Error(), "the database's disk is full") {
		t.Fatalf("after %d writes: %v", accepted, err)
	}
	wantHolds(t, s, accepted)
	must(t, os.Remove(ballast))
	must(t, hold(t, s, "after"))
	wantHolds(t, s, accepted+1)
	must(t, s.VerifyAudit(t.Context(), "shop"))
}

func hold(t *testing.T, s *postgres.Store, asset intent.AssetID) error {
	return s.SetHold(t.Context(), "shop", intent.Hold{Asset: asset, Owner: storetest.Tester, Reason: "a try"})
}

func wantHolds(t *testing.T, s *postgres.Store, want int) {
	t.Helper()
	if holds, err := s.Holds(t.Context(), "shop"); err != nil || len(holds) != want {
		t.Errorf("there are %d holds, want %d; %v", len(holds), want, err)
	}
}
