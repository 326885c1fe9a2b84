package sqlite

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"fmt"
	"sync"
	"sync/atomic"

	"modernc.org/sqlite"
)

// memories numbers the databases in memory of this process.
var memories atomic.Uint64

// Memory returns a new database in memory, to be given as Options.DB. It is
// gone when it is closed.
func Memory() (*sql.DB, error) {
	empty, err := emptyStore()
	if err != nil {
		return nil, err
	}
	db, name, err := memory()
	if err == nil {
		err = copyTo(empty, name)
	}
	if err != nil {
		if db != nil {
			db.Close()
		}
		return nil, failure("opening a store in memory", err)
	}
	return db, nil
}

// emptyStore is an empty store: to copy it takes a tenth of the time that it takes to make
// one, and simulations and tests need thousands. It is a connection alone, which has no
// goroutine.
var emptyStore = sync.OnceValues(func() (driver.Conn, error) {
	db, name, err := memory()
	if err != nil {
		return nil, failure("opening a store in memory", err)
	}
	defer db.Close()
	if err := schema.Migrate(context.Background(), engine{}, db, "in memory", true); err != nil {
		return nil, err
	}
	return new(sqlite.Driver).Open(name)
})

// copying: a connection does one thing at a time.
var copying sync.Mutex

// memory is a database without a schema.
func memory() (db *sql.DB, name string, err error) {
	// A database in memory has no write-ahead log: a commit waits for whoever reads, and on a busy machine a reader may
	// be kept from going on for seconds.
	name = fmt.Sprintf("file:/lehr-%d?vfs=memdb&_pragma=busy_timeout(60000)", memories.Add(1))
	if db, err = sql.Open("sqlite", name); err != nil {
		return nil, "", err
	}
	db.SetMaxIdleConns(connections) // the last connection holds the data
	return db, name, db.Ping()
}

// copyTo copies a database into another in memory, which has a connection.
func copyTo(source driver.Conn, name string) error {
	copying.Lock()
	defer copying.Unlock()
	backup, err := source.(interface {
		NewBackup(name string) (*sqlite.Backup, error)
	}).NewBackup(name)
	if err != nil {
		return err
	}
	_, err = backup.Step(-1)
	if failed := backup.Finish(); err == nil {
		err = failed
	}
	return err
}
