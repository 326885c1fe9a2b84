package postgres_test

import (
	"database/sql"
	"testing"

	"lehr.dev/internal/store/storetest"
	"lehr.dev/test/pgserver"
)

func TestDamagedBlobs(t *testing.T) {
	server := pgserver.New(t)
	server.Start()
	url := server.Database()
	db, err := sql.Open("pgx", url)
	must(t, err)
	defer db.Close()
	storetest.DamagedBlobs(t, open(t, url), db)
}
