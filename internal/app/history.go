package app

import (
	"cmp"
	"context"
	"time"

	"lehr.dev/internal/store"
	"lehr.dev/internal/store/sqlite"
)

// Place says which store is meant: a file, unless a database is named.
type Place struct {
	Store, Database string
}

// open opens a store that is there, with or without servers beside.
func (p Place) open(ctx context.Context) (store.All, error) {
	return openBeside(ctx, cmp.Or(p.Database, p.Store))
}

// Adopt lets a store be served in spite of what it lost.
func Adopt(ctx context.Context, place Place, adoption store.Adoption) (adopted store.Adopted, err error) {
	opened, err := place.open(ctx)
	if err != nil {
		return adopted, err
	}
	defer opened.Close()
	return opened.Adopt(ctx, adoption)
}

// Verify reads a whole store and recomputes its digests.
func Verify(ctx context.Context, place Place) (verified store.Verified, err error) {
	opened, err := place.open(ctx)
	if err != nil {
		return verified, err
	}
	defer opened.Close()
	return opened.Verify(ctx)
}

// Backup copies the file of a store while it is served, or not.
func Backup(ctx context.Context, path, target string) (store.Verified, error) {
	if err := checkStoreExists(path); err != nil {
		return store.Verified{}, err
	}
	return sqlite.Backup(ctx, path, target)
}

// Restore puts a backup in a file's place.
func Restore(ctx context.Context, backup, path string) (aside string, verified store.Verified, err error) {
	return sqlite.Restore(ctx, backup, path, time.Now())
}
