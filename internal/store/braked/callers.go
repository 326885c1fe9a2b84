package braked

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/store"
)

const (
	// remembered is for how long it is known what a caller may do, after the store said so
	// last.
	remembered = 24 * time.Hour
	// mostCallers are remembered; of more those who called last.
	mostCallers = 1000
)

// callers remembers what callers may do, by the ids of their tokens, so that a stop can be
// asked for while the store that has the tokens is lost (S18). Nothing else goes by it: the
// store asks again when it takes the stop (S24).
type callers struct {
	mu   sync.Mutex
	byID map[string]store.Authority
}

func (c *callers) remember(a store.Authority) {
	if a.Caller.Token == "" {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.byID == nil {
		c.byID = map[string]store.Authority{}
	}
	c.byID[a.Caller.Token] = a
	if len(c.byID) > mostCallers {
		oldest := slices.MinFunc(slices.Collect(maps.Values(c.byID)), func(a, b store.Authority) int {
			return cmp.Or(a.Now.Compare(b.Now), cmp.Compare(a.Caller.Token, b.Caller.Token))
		})
		delete(c.byID, oldest.Caller.Token)
	}
}

func (c *callers) forget(id string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.byID, id)
}

// find returns what was known of a caller, as of now.
func (c *callers) find(id string, now time.Time) (a store.Authority, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if a, ok = c.byID[id]; !ok || now.Sub(a.Now) > remembered {
		return store.Authority{}, false
	}
	a.Now = now
	return a, true
}

// ask asks the store about a caller, no longer than a stop can wait where an answer is
// remembered.
func ask[T any](ctx context.Context, isKnown bool, question func(context.Context) (T, error)) (T, error) {
	if isKnown {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, patience)
		defer cancel()
	}
	return question(ctx)
}

// TokenByID implements store.Access. While the store cannot say, a token is as it was when
// its bearer called last: that says who calls, and nothing else is done by it.
func (s *Store) TokenByID(ctx context.Context, id string) (store.Token, error) {
	known, ok := s.callers.find(id, s.runtime.Now())
	token, err := ask(ctx, ok, func(ctx context.Context) (store.Token, error) { return s.All.TokenByID(ctx, id) })
	switch {
	case err == nil:
		return token, nil
	case refused(err):
		s.callers.forget(id)
	case ok && ctx.Err() == nil:
		return known.Token, nil
	}
	return token, err
}

// Authorize implements store.Access, and remembers what the caller may do.
func (s *Store) Authorize(ctx context.Context, role intent.Role, partition intent.PartitionID) error {
	_, err := s.authorize(ctx, role, partition)
	return err
}

func (s *Store) authorize(ctx context.Context, role intent.Role, partition intent.PartitionID) (cannotTell bool, err error) {
	a, err := s.All.Authority(ctx)
	if err != nil {
		return !refused(err), err
	}
	s.callers.remember(a)
	_, err = a.Check(role, partition)
	return false, err
}

// AuthorizeStop is Authorize for a stop: while the store cannot say, what it said last of
// the caller counts. Where it said nothing for a day, the error says so.
func (s *Store) AuthorizeStop(ctx context.Context, role intent.Role, partition intent.PartitionID) error {
	caller, _ := store.CallerOf(ctx)
	known, ok := s.callers.find(caller.Token, s.runtime.Now())
	type answer struct{ cannotTell bool }
	asked, err := ask(ctx, ok, func(ctx context.Context) (answer, error) {
		cannotTell, err := s.authorize(ctx, role, partition)
		return answer{cannotTell}, err
	})
	switch {
	case err == nil || !asked.cannotTell || ctx.Err() != nil:
		return err
	case !ok:
		return fault.New(fault.Unavailable, "the store cannot say what %s may do, and nobody with that token called this server in the last day: %w", caller.Actor.Name, err).
			WithHint("stop on the server's machine, as the user that Lehr runs as: lehr stop --reason WHY")
	}
	_, err = known.Check(role, partition)
	return err
}

// RevokeToken implements store.Access.
func (s *Store) RevokeToken(ctx context.Context, id, reason string) (store.Token, error) {
	s.callers.forget(id)
	return s.All.RevokeToken(ctx, id, reason)
}
