package postgres_test

import (
	"context"
	"errors"
	"net/url"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/ground/loop"
	"lehr.dev/internal/store"
	"lehr.dev/internal/store/postgres"
	"lehr.dev/internal/store/storetest"
	"lehr.dev/test/pgserver"
)

// place is a database, with a dump of it, and a machine's witness.
type place struct {
	server        *pgserver.Server
	url, witness  string
	schema, dumps string
}

func newPlace(t *testing.T, server *pgserver.Server) *place {
	t.Helper()
	address := server.Database()
	parsed, err := url.Parse(address)
	must(t, err)
	schema := parsed.Query().Get("search_path")
	return &place{
		server: server, url: address, schema: schema, witness: filepath.Join(t.TempDir(), "lehr.db.witness"),
		dumps: filepath.Join(server.Folder(), schema+".dump"),
	}
}

func (p *place) Open(t *testing.T) store.All {
	t.Helper()
	s, err := postgres.Open(t.Context(), postgres.Options{URL: p.url, Witness: p.witness})
	must(t, err)
	return storetest.ClosedOnce(t, s)
}

func (p *place) Keep(t *testing.T) {
	p.server.Tool("pg_dump", "-d", p.server.URL("postgres"), "-n", p.schema, "-Fc", "-f", p.dumps)
}

func (p *place) PutBack(t *testing.T) {
	p.server.Execute(p.server.URL("postgres"), "DROP SCHEMA "+p.schema+" CASCADE")
	p.server.Tool("pg_restore", "-d", p.server.URL("postgres"), p.dumps)
}

// TestHistories: a dump is restored by PostgreSQL's own tools.
func TestHistories(t *testing.T) {
	server := pgserver.New(t)
	server.Start()
	storetest.Histories(t, func(t *testing.T) storetest.Place { return newPlace(t, server) })
}

// TestRestoredDumpElsewhere: a restored dump is noticed by what the database
// says of itself, also by a machine that never saw it.
func TestRestoredDumpElsewhere(t *testing.T) {
	server := pgserver.New(t)
	server.Start()
	p := newPlace(t, server)
	s := p.Open(t)
	lease := storetest.Register(t, s)
	storetest.Publish(t, s, lease, []store.Entry{storetest.Text("a", "1"), storetest.Text("b", "1")})
	p.Keep(t)
	must(t, s.Close())
	p.PutBack(t)
	p.witness = filepath.Join(t.TempDir(), "another.witness")
	s = p.Open(t)
	if h, err := s.History(t.Context()); err != nil || h.Stop == nil || !h.Unsure {
		t.Fatalf("%+v, %v: nobody can tell that it is as new as it was", h, err)
	}
	beside, err := postgres.OpenBeside(t.Context(), postgres.Options{URL: p.url})
	must(t, err)
	defer beside.Close()
	adopted, err := beside.Adopt(t.Context(), store.Adoption{Reason: "a new machine", By: storetest.Tester})
	must(t, err)
	if h, err := s.History(t.Context()); err != nil || h.Stop != nil || adopted.Partitions[0].Epoch <= lease.Epoch {
		t.Errorf("%+v, %+v, %v", adopted, h, err)
	}
}

// TestFirstReplicasTogether: of those that begin a store at once, none takes it
// for another's. An ordinary user of the database is enough.
func TestFirstReplicasTogether(t *testing.T) {
	server := pgserver.New(t)
	server.Start()
	server.Execute(server.URL("postgres"), "CREATE ROLE lehr LOGIN")
	for range 5 {
		p := newPlace(t, server)
		server.Execute(p.url, "GRANT ALL ON SCHEMA "+p.schema+" TO lehr")
		address := strings.Replace(p.url, "owner@", "lehr@", 1)
		stores, errs := make([]*postgres.Store, 4), make([]error, 4)
		var opening sync.WaitGroup
		for n := range stores {
			witness := filepath.Join(t.TempDir(), "lehr.db.witness")
			opening.Go(func() {
				stores[n], errs[n] = postgres.Open(t.Context(), postgres.Options{URL: address, Witness: witness})
			})
		}
		opening.Wait()
		for n, s := range stores {
			must(t, errs[n])
			if h, err := s.History(t.Context()); err != nil || h.Stop != nil || h.Generation != 1 {
				t.Errorf("%+v, %v", h, err)
			}
			must(t, s.Close())
		}
	}
}

// TestFailover: replicas on a standby that took over go on when everybody finds
// all of its commits there, and stop when somebody does not.
func TestFailover(t *testing.T) {
	for name, c := range map[string]struct {
		lose func(t *testing.T, a, b store.All)
		want string
	}{
		"nothing is lost": {nil, ""},
		"a commit is lost": {func(t *testing.T, a, b store.All) {
			must(t, a.SetHold(t.Context(), "shop", intent.Hold{Asset: "a", Owner: storetest.Tester}))
		}, "lost the last 1 commits"},
		"what only the other knows is lost": {func(t *testing.T, a, b store.All) {
			must(t, b.SetStop(t.Context(), intent.Stop{Owner: storetest.Tester, Reason: "it burns"}))
			must(t, b.Close())
		}, "not everybody who wrote"},
	} {
		t.Run(name, func(t *testing.T) {
			primary := pgserver.New(t)
			primary.Start()
			address := primary.Database()
			standby := primary.Standby()
			standby.Start()
			either := primary.Either(address, standby)
			first := storetest.ClosedOnce(t, openUnprompted(t, either))
			second := storetest.ClosedOnce(t, openUnprompted(t, either))
			lease := storetest.Register(t, first)
			storetest.Publish(t, first, lease, []store.Entry{storetest.Text("a", "1"), storetest.Text("b", "1")})
			must(t, first.SetHold(t.Context(), "shop", intent.Hold{Asset: "b", Owner: storetest.Tester}))
			must(t, second.SetHold(t.Context(), "shop", intent.Hold{Asset: "c", Owner: storetest.Tester}))
			push := admission(t, first, "a", "p1")
			refusals, err := first.Admit(t.Context(), lease, []store.Admission{push})
			if err != nil || refusals[0] != nil {
				t.Fatal(refusals, err)
			}
			primary.CatchUp(standby)
			standby.Sever()
			if c.lose != nil {
				c.lose(t, first, second)
			}
			primary.Crash()
			standby.Promote()

			// No permit before it is known, whoever asks first.
			permitted := first.Permit(t.Context(), lease, "p1", push.At)
			if permitted == nil {
				t.Error("a push went on at a standby that nobody had compared with what was committed")
			}
			for _, s := range []store.All{first, second} {
				err := s.SetHold(t.Context(), "shop", intent.Hold{Asset: "d", Owner: storetest.Tester})
				if err != nil && !fault.Is(err, fault.Unavailable) {
					t.Fatal(err)
				}
			}
			h, err := first.History(t.Context())
			must(t, err)
			if c.want == "" {
				if h.Stop != nil {
					t.Fatalf("stopped, though nothing was lost: %+v", h.Stop)
				}
				must(t, first.Permit(t.Context(), lease, "p1", push.At))
				return
			}
			if h.Stop == nil || !strings.Contains(h.Stop.Reason, c.want) {
				t.Fatalf("%+v, want %q", h, c.want)
			}
			refusals, err = first.Admit(t.Context(), lease, []store.Admission{admission(t, first, "b", "p2")})
			if err != nil || refusals[0] == nil || refusals[0].Waiting.Kind != intent.WaitStop {
				t.Errorf("admitted on a store that lost commits: %v, %v", refusals, err)
			}
			adopted, err := first.Adopt(t.Context(), store.Adoption{Reason: "looked", By: storetest.Tester})
			must(t, err)
			if adopted.Partitions[0].Epoch <= lease.Epoch {
				t.Errorf("%+v after epoch %d", adopted, lease.Epoch)
			}
			if h, err := first.History(t.Context()); err != nil || h.Stop != nil {
				t.Errorf("%+v, %v after the adoption", h, err)
			}
		})
	}
}

// TestQuietReplicaVouches: a replica that acts for nothing, and writes nothing
// but that it lives, finds its commits again by itself after a failover, or the
// others would wait for it until a person adopts the store (L7).
func TestQuietReplicaVouches(t *testing.T) {
	primary := pgserver.New(t)
	primary.Start()
	address := primary.Database()
	standby := primary.Standby()
	standby.Start()
	either := primary.Either(address, standby)
	acting, quiet := open(t, either), open(t, either)
	storetest.Register(t, acting)
	must(t, quiet.SetHold(t.Context(), "shop", intent.Hold{Asset: "a", Owner: storetest.Tester}))
	primary.CatchUp(standby)
	standby.Sever()
	primary.Crash()
	standby.Promote()
	const most = 20 * time.Second
	for end := time.Now().Add(most); ; time.Sleep(50 * time.Millisecond) {
		// Either may find that its connections are gone.
		renewed := errors.Join(acting.Renew(t.Context(), "acting", time.Minute), quiet.Renew(t.Context(), "quiet", time.Minute))
		written := acting.SetHold(t.Context(), "shop", intent.Hold{Asset: "b", Owner: storetest.Tester})
		h, err := acting.History(t.Context())
		if err == nil && h.Stop == nil && renewed == nil && written == nil {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("%s after the failover: %+v, %v; renewed: %v; written: %v", most, h.Stop, err, renewed, written)
		}
	}
}

// openUnprompted opens a store that looks at the database only when it is asked
// for something. One that looks several times a second finds its commits again
// by itself after a failover (TestQuietReplicaVouches), possibly before the
// test's first question.
func openUnprompted(t *testing.T, address string) *postgres.Store {
	t.Helper()
	s, err := postgres.Open(t.Context(), postgres.Options{URL: address, Runtime: unprompted{loop.Real()}})
	must(t, err)
	return s
}

// unprompted waits for a request, however long that takes.
type unprompted struct{ loop.Runtime }

func (u unprompted) Wait(ctx context.Context, d time.Duration, wake <-chan struct{}) error {
	if wake != nil {
		d = -1
	}
	return u.Runtime.Wait(ctx, d, wake)
}

func admission(t *testing.T, s store.All, asset, push string) store.Admission {
	t.Helper()
	p, err := s.Partition(t.Context(), "shop")
	must(t, err)
	a := storetest.Admission(asset, p.Head, p.Revision)
	a.Push = intent.PushID(push)
	return a
}
