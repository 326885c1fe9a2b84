package dump

import (
	"errors"
	"testing"
)

// TestWhatIsMisspeltIsNotLeftOut: what it was meant to declare would be lost.
func TestWhatIsMisspeltIsNotLeftOut(t *testing.T) {
	for sql, want := range map[string]MisspeltError{
		"CREATE TABLE a (i int);\nCRAETE TABLE t (i int);":           {2, "no statement of PostgreSQL begins with CRAETE", "did you mean CREATE?"},
		"CREATE TABLE a (i int);\n\ncreate tabl t (i int);":          {3, "CREATE TABL: PostgreSQL has no such kind of object", "did you mean TABLE?"},
		"CREATE UNIQUE INDX t ON a (i);":                             {1, "CREATE INDX: PostgreSQL has no such kind of object", "did you mean INDEX?"},
		"CREATE TABLE a (i int);\nelephants;":                        {2, "no statement of PostgreSQL begins with elephants", "mend the statement, or take it out of the file"},
		"CREATE TABLE a (i int);\nALTER TABEL a ADD CONSTRAINT c x;": {2, "ALTER TABEL: PostgreSQL has no such kind of object", "did you mean TABLE?"},
	} {
		_, err := Read(sql, "public")
		if got, ok := errors.AsType[*MisspeltError](err); !ok || *got != want {
			t.Errorf("%s: %+v, want %+v", sql, err, want)
		}
	}
	for _, sql := range []string{
		"CREATE MATERIALIZED VIEW v AS SELECT 1;", "CREATE TEXT SEARCH CONFIGURATION c (COPY = simple);", "ALTER DEFAULT PRIVILEGES FOR ROLE r GRANT SELECT ON TABLES TO s;",
		"DROP OWNED BY r;", "CREATE OR REPLACE TRUSTED PROCEDURAL LANGUAGE plx;", "REASSIGN OWNED BY a TO b;", "IMPORT FOREIGN SCHEMA s FROM SERVER x INTO y;",
		"CREATE ACCESS METHOD m TYPE INDEX HANDLER h;", "CREATE USER MAPPING FOR u SERVER s;", "\\connect x\n", "CREATE UNLOGGED TABLE t (i int);", "SECURITY LABEL ON TABLE t IS 'x';",
		"COPY t FROM stdin;\ncraete\n\\.\n", "CREATE CONSTRAINT TRIGGER t AFTER INSERT ON a FOR EACH ROW EXECUTE FUNCTION f();",
	} {
		if _, err := Read(sql, "public"); err != nil {
			t.Errorf("%s: %v", sql, err)
		}
	}
}
