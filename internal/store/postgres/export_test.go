package postgres

import "context"

// OpenWeakly opens a store whose transactions are not serializable.
func OpenWeakly(ctx context.Context, options Options) (*Store, error) {
	return openStore(ctx, options, weak{}, true)
}

// weak is the slip of leaving the level of isolation to the server.
type weak struct{ engine }

func (weak) Begin() string { return "BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE" }
