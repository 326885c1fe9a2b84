package fetch

import (
	"database/sql"

	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"
)

func forbidAttaching(connection *sql.Conn) error {
	_, err := sqlite.Limit(connection, sqlite3.SQLITE_LIMIT_ATTACHED, 0)
	return err
}
