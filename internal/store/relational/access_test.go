package relational_test

import (
	"context"
	"crypto/sha256"
	"runtime"
	"testing"
	"time"

	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/store"
	"lehr.dev/internal/store/sqlite"
)

// TestSessionsThatEndedMakePlace: once the ID token that it was exchanged for is too old to
// be one again.
func TestSessionsThatEndedMakePlace(t *testing.T) {
	memory, err := sqlite.Memory()
	if err != nil {
		t.Fatal(err)
	}
	defer memory.Close()
	s, err := sqlite.Open(t.Context(), sqlite.Options{DB: memory})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	login := func(id string) error {
		_, err := s.CreateToken(t.Context(), store.Token{ID: id, Hash: sha256.Sum256([]byte(id)), Owner: "ann", Kind: store.TokenByLogin}, 1)
		return err
	}
	if err := login("first"); err != nil {
		t.Fatal(err)
	}
	long := time.Now().Add(-2 * time.Hour).UnixNano()
	if _, err := memory.Exec("UPDATE token SET created = ?", long); err != nil {
		t.Fatal(err)
	}
	if err := login("second"); !fault.Is(err, fault.Exhausted) {
		t.Errorf("beside one that is in force: %v", err)
	}
	if _, err := s.RevokeToken(t.Context(), "first", "logged out"); err != nil {
		t.Fatal(err)
	}
	if err := login("second"); err != nil {
		t.Error(err)
	}
	if _, err := s.TokenByID(t.Context(), "first"); !fault.Is(err, fault.NotFound) {
		t.Errorf("the one that ended: %v", err)
	}
}

// TestAuthorityIsThatOfTheTransaction: a write that was asked for while its
// caller still might, and that waits its turn, is refused when what let them
// has gone before it, and not when it goes after it (S24).
func TestAuthorityIsThatOfTheTransaction(t *testing.T) {
	operator := intent.Grant{Subject: "user:ann", Role: intent.Operator, Partition: "shop"}
	by := intent.Actor{Name: "tester"}
	for name, take := range map[string]func(ctx context.Context, s *sqlite.Store) error{
		"the token is revoked": func(ctx context.Context, s *sqlite.Store) error {
			_, err := s.RevokeToken(ctx, "t", "")
			return err
		},
		"the grant is taken back": func(ctx context.Context, s *sqlite.Store) error { return s.SetPolicy(ctx, nil, by) },
		"the token it was made with is revoked": func(ctx context.Context, s *sqlite.Store) error {
			_, err := s.RevokeToken(ctx, "parent", "")
			return err
		},
	} {
		for _, before := range []bool{true, false} {
			t.Run(name, func(t *testing.T) {
				must := func(err error) {
					t.Helper()
					if err != nil {
						t.Fatal(err)
					}
				}
				memory, err := sqlite.Memory()
				must(err)
				defer memory.Close()
				s, err := sqlite.Open(t.Context(), sqlite.Options{DB: memory})
				must(err)
				defer s.Close()
				must(s.AddPartition(t.Context(), "shop", "/shop/lehr.yaml", "", by))
				must(s.SetPolicy(t.Context(), []intent.Grant{operator}, by))
				_, err = s.CreateToken(t.Context(), store.Token{ID: "parent", Hash: sha256.Sum256([]byte("p")), Owner: "ann"}, 0)
				must(err)
				parent := store.WithCaller(t.Context(), store.Caller{Token: "parent"})
				_, err = s.CreateToken(parent, store.Token{ID: "t", Hash: sha256.Sum256([]byte("t"))}, 0)
				must(err)
				ann := store.WithCaller(t.Context(), store.Caller{Actor: intent.Actor{Name: "ann"}, Token: "t"})
				must(s.Authorize(ann, intent.Operator, "shop"))

				stop := func() error { return s.SetStop(ann, intent.Stop{Partition: "shop", Owner: by}) }
				taken := func() error { return take(t.Context(), s) }
				first, second := stop, taken
				if before {
					first, second = taken, stop
				}
				goOn := s.Halt()
				outcomes := [2]chan error{make(chan error, 1), make(chan error, 1)}
				for i, work := range []func() error{first, second} {
					go func() { outcomes[i] <- work() }()
					for s.Queued() <= i {
						runtime.Gosched()
					}
				}
				goOn()
				stopped, went := <-outcomes[0], <-outcomes[1]
				if before {
					stopped, went = went, stopped
				}
				must(went)
				if before != fault.Is(stopped, fault.Denied) || !before && stopped != nil {
					t.Errorf("taken before: %v; the write said %v", before, stopped)
				}
				stops, err := s.Stops(t.Context())
				must(err)
				if (len(stops) == 0) != before {
					t.Errorf("taken before: %v; stops in force: %v", before, stops)
				}
			})
		}
	}
}
