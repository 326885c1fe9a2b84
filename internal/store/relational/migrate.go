package relational

import (
	"context"
	"database/sql"
	"fmt"
	"io/fs"

	"github.com/pressly/goose/v3"
	"github.com/pressly/goose/v3/database"

	"lehr.dev/internal/ground/fault"
)

// Schema is how an engine's tables come to be.
type Schema struct {
	Dialect goose.Dialect
	// Migrations are files of SQL, numbered, in a folder of that name.
	Migrations fs.FS
	// There is a query that counts the tables called goose_db_version.
	There string
	// Lock keeps other processes from making the tables at the same time, until
	// the transaction that executes it ends; "" where none can.
	Lock string
	// Options of the migrations, as a lock against other processes.
	Options []goose.ProviderOption
}

// Migrate brings the schema up to this program's version, only ever forward. A
// store that may not be migrated must already be there. The name is the
// store's, for people. An empty database gets all tables in one transaction: it waits for
// the disk once, not once a migration, and a crash leaves it empty.
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
	if version == 0 {
		made, err := s.create(ctx, db, files, sources)
		if err != nil || made {
			return engine.Failure("making the tables of the store "+name, err)
		}
	}
	if _, err := provider.Up(ctx); err != nil {
		return engine.Failure("bringing the store "+name+" up to date", err)
	}
	return nil
}

// create makes the tables by all migrations in one transaction, unless another process
// makes or has made them.
func (s Schema) create(ctx context.Context, db *sql.DB, files fs.FS, sources []*goose.Source) (made bool, err error) {
	versions, err := database.NewStore(s.Dialect, goose.DefaultTablename)
	if err != nil {
		return false, err
	}
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return false, err
	}
	defer func() { _ = tx.Rollback() }() // of what was not committed
	if _, err := tx.ExecContext(ctx, s.Lock); err != nil {
		return false, err
	}
	var tables int
	if err := tx.QueryRowContext(ctx, s.There).Scan(&tables); err != nil || tables != 0 {
		return false, err
	}
	if err := versions.CreateVersionTable(ctx, tx); err != nil {
		return false, err
	}
	// Goose begins with a version that has no migration.
	if err := versions.Insert(ctx, tx, database.InsertRequest{}); err != nil {
		return false, err
	}
	for _, source := range sources {
		statements, err := fs.ReadFile(files, source.Path)
		if err != nil {
			return false, err
		}
		if _, err := tx.ExecContext(ctx, string(statements)); err != nil {
			return false, fmt.Errorf("%s: %w", source.Path, err)
		}
		if err := versions.Insert(ctx, tx, database.InsertRequest{Version: source.Version}); err != nil {
			return false, err
		}
	}
	return true, tx.Commit()
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
