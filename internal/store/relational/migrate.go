package relational

import (
	"context"
	"database/sql"
	"io/fs"

	"github.com/pressly/goose/v3"

	"lehr.dev/internal/ground/fault"
)

// Schema is how an engine's tables come to be.
type Schema struct {
	Dialect goose.Dialect
	// Migrations are files of SQL, numbered, in a folder of that name.
	Migrations fs.FS
	// There is a query that counts the tables called goose_db_version.
	There string
	// Options of the migrations, as a lock against other processes.
	Options []goose.ProviderOption
}

// Migrate brings the schema up to this program's version, only ever forward. A
// store that may not be migrated must already be there. The name is the
// store's, for people.
func (s Schema) Migrate(ctx context.Context, engine Engine, db *sql.DB, name string, may bool) error {
	files, err := fs.Sub(s.Migrations, "migrations")
	if err != nil {
		return fault.New(fault.Internal, "opening the store %s: reading the migrations: %w", name, err)
	}
	provider, err := goose.NewProvider(s.Dialect, db, files, s.Options...)
	if err != nil {
		return fault.New(fault.Internal, "opening the store %s: reading the migrations: %w", name, err)
	}
	sources := provider.ListSources()
	newest := sources[len(sources)-1].Version
	version, err := s.version(ctx, db)
	switch {
	case err != nil:
		return engine.Failure("opening the store "+name, err)
	case version > newest:
		return fault.New(fault.Invalid, "the store %s has schema version %d, this program knows %d", name, version, newest).
			WithHint("run the newer lehr that wrote it, or restore the backup taken before the upgrade")
	case version == newest:
		return nil
	case !may:
		return fault.New(fault.Conflict, "the store %s has schema version %d, this program needs %d", name, version, newest).
			WithHint("start lehr serve on it once, it brings the store up to date")
	}
	if _, err := provider.Up(ctx); err != nil {
		return engine.Failure("bringing the store "+name+" up to date", err)
	}
	return nil
}

// version is 0 for an empty database, and writes nothing.
func (s Schema) version(ctx context.Context, db *sql.DB) (version int64, err error) {
	var tables int
	err = db.QueryRowContext(ctx, s.There).Scan(&tables)
	if err != nil || tables == 0 {
		return 0, err
	}
	err = db.QueryRowContext(ctx, "SELECT coalesce(max(version_id), 0) FROM goose_db_version WHERE is_applied").Scan(&version)
	return version, err
}
