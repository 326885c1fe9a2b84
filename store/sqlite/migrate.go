package sqlite

import (
	"context"
	"database/sql"
	"embed"
	"io/fs"

	"github.com/pressly/goose/v3"

	"lehr.dev/fault"
)

//go:embed migrations/*.sql
var migrationFiles embed.FS

// migrate brings the schema up to this program's version, only ever forward.
// A store that may not be migrated must already be there.
func migrate(ctx context.Context, db *sql.DB, path string, may bool) error {
	files, err := fs.Sub(migrationFiles, "migrations")
	if err != nil {
		return fault.New(fault.Internal, "opening the store %s: reading the migrations: %w", path, err)
	}
	provider, err := goose.NewProvider(goose.DialectSQLite3, db, files)
	if err != nil {
		return fault.New(fault.Internal, "opening the store %s: reading the migrations: %w", path, err)
	}
	sources := provider.ListSources()
	newest := sources[len(sources)-1].Version
	version, err := schemaVersion(ctx, db)
	switch {
	case err != nil:
		return failure("opening the store "+path, err)
	case version > newest:
		return fault.New(fault.Invalid, "the store %s has schema version %d, this program knows %d", path, version, newest).
			WithHint("run the newer lehr that wrote it, or restore the backup taken before the upgrade")
	case version == newest:
		return nil
	case !may:
		return fault.New(fault.Conflict, "the store %s has schema version %d, this program needs %d", path, version, newest).
			WithHint("start lehr serve on it once, it brings the store up to date")
	}
	if _, err := provider.Up(ctx); err != nil {
		return failure("bringing the store "+path+" up to date", err)
	}
	return nil
}

// schemaVersion is 0 for an empty database, and writes nothing.
func schemaVersion(ctx context.Context, db *sql.DB) (version int64, err error) {
	var tables int
	err = db.QueryRowContext(ctx, "SELECT count(*) FROM sqlite_master WHERE name = 'goose_db_version'").Scan(&tables)
	if err != nil || tables == 0 {
		return 0, err
	}
	err = db.QueryRowContext(ctx, "SELECT coalesce(max(version_id), 0) FROM goose_db_version WHERE is_applied").Scan(&version)
	return version, err
}
