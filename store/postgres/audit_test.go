package postgres_test

import (
	"database/sql"
	"testing"

	"lehr.dev/store/storetest"
	"lehr.dev/test/pgserver"
)

func TestAudited(t *testing.T) {
	server := pgserver.New(t)
	server.Start()
	storetest.Audited(t, func(t *testing.T) storetest.Spoiled {
		url := server.Database()
		return storetest.Spoiled{
			All: open(t, url),
			Spoil: func() {
				server.Execute(url, `CREATE FUNCTION spoil() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'no more'; END $$;
					CREATE TRIGGER spoiled BEFORE INSERT ON audit FOR EACH ROW EXECUTE FUNCTION spoil()`)
			},
			Mend: func() { server.Execute(url, "DROP TRIGGER spoiled ON audit; DROP FUNCTION spoil()") },
		}
	})
}

func TestAdversary(t *testing.T) {
	server := pgserver.New(t)
	server.Start()
	url := server.Database()
	db, err := sql.Open("pgx", url)
	must(t, err)
	defer db.Close()
	storetest.Adversary(t, open(t, url), db)
}
