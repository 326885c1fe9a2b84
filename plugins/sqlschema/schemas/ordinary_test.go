package schemas

import (
	"strings"
	"testing"

	"lehr.dev/sdk/serve"
)

// TestAnOrdinaryUserIsEnough works as a user with only the documented rights.
func TestAnOrdinaryUserIsEnough(t *testing.T) {
	g := newPostgres(t)
	suffix := strings.ToLower(g.inSchema[5:])
	user := "app_" + suffix
	g.exec(t, "create role "+user+" login password '"+superPassword+"'; grant create on database postgres to "+user+`; alter schema "`+g.inSchema+`" owner to `+user)
	text := withRoles(t, g, accounts)
	g.url = theCluster.url(user, "postgres")
	g.push(t, g.schema(text))
	g.push(t, g.schema(strings.Replace(text, "SELECT id, owner FROM", "SELECT owner, cents FROM", 1)))
	g.exec(t, "revoke create on database postgres from "+user)
	if reason := g.refused(t, g.schema(text+"; CREATE TABLE more (id int)")); !strings.Contains(reason, "CREATE on the database") {
		t.Errorf("the answer is %q", reason)
	}
}

func TestOthersTriggersOnAViewStay(t *testing.T) {
	g := newPostgres(t)
	const view = "CREATE TABLE t (id int PRIMARY KEY, a text, b text); CREATE VIEW v AS SELECT id, a FROM t; CREATE FUNCTION add_v() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN INSERT INTO t (id) VALUES (new.id); RETURN new; END'; CREATE TRIGGER add INSTEAD OF INSERT ON v FOR EACH ROW EXECUTE FUNCTION add_v()"
	g.push(t, g.schema(view))
	g.exec(t, "create function foreign_drop() returns trigger language plpgsql as 'begin delete from t where id = old.id; return old; end'; create trigger foreign_drop instead of delete on v for each row execute function foreign_drop()")
	g.push(t, g.schema(strings.Replace(view, "SELECT id, a FROM", "SELECT id, b FROM", 1)))
	g.push(t, g.schema(strings.Replace(view, "a text", "a varchar", 1)))
	g.exec(t, "set search_path = \""+g.inSchema+"\"; insert into v (id) values (1), (2); delete from v where id = 1")
	if got := g.query(t, "select id from t"); got != "2" {
		t.Errorf("the rows are %q", got)
	}
}

func TestWhatIsOfAnotherKindIsNotReplaced(t *testing.T) {
	for engine, kinds := range map[string]map[string]string{
		"sqlite":   {"a view": "create view t as select 1 as id", "a virtual table": "create virtual table t using fts5(id)"},
		"postgres": {"a view": "create view t as select 1 as id", "a sequence": "create sequence t", "a partitioned table": "create table t (id int) partition by list (id)", "an unlogged table": "create unlogged table t (id int)"},
	} {
		for name, sql := range kinds {
			t.Run(engine+"/"+name, func(t *testing.T) {
				g := map[string]func(*testing.T) *ground{"sqlite": newLite, "postgres": newPostgres}[engine](t)
				g.exec(t, sql)
				if reason := g.refused(t, g.schema("CREATE TABLE t (id int)")); reason == "" {
					t.Error("there is no reason")
				}
			})
		}
	}
}

// TestForeignKeysOfOthersThatDoNotFit does not stop a change elsewhere.
func TestForeignKeysOfOthersThatDoNotFit(t *testing.T) {
	g := newLite(t)
	g.push(t, g.schema("CREATE TABLE t (a TEXT)"))
	g.exec(t, "PRAGMA foreign_keys = 0; CREATE TABLE x (p REFERENCES y (no_key)); CREATE TABLE y (no_key); INSERT INTO x VALUES (1)")
	g.push(t, g.schema("CREATE TABLE t (a TEXT NOT NULL)"))
	g.push(t, g.schema("CREATE TABLE p (id INTEGER, u INTEGER UNIQUE); CREATE TABLE c (u REFERENCES p (u)); CREATE TABLE t (a TEXT NOT NULL)"))
	schema := g.schema("CREATE TABLE p (id INTEGER, u INTEGER); CREATE TABLE c (u REFERENCES p (u)); CREATE TABLE t (a TEXT NOT NULL)")
	if outcome := g.try(t, schema, g.diff(t, schema), allowed{}); outcome.Ending != serve.Failed || !strings.Contains(outcome.Reason, "would not fit") {
		t.Errorf("the push ended as %+v", outcome)
	}
}
