package sqlite

import (
	"context"
	"errors"
)

// NewFile makes the file of an empty store, as Open does before it serves it.
func NewFile(ctx context.Context, path string) error {
	f, err := openFile(ctx, path, true)
	if err != nil {
		return err
	}
	return errors.Join(schema.Migrate(ctx, engine{shared: true}, f.db, path, true), f.close())
}
