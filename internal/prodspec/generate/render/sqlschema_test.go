package render

import (
	"strings"
	"testing"

	sqlschemapb "lehr.dev/gen/lehr/sqlschema/v1"
	"lehr.dev/internal/ground/schema"
)

// TestMisspeltSQLIsAnError: it was left out as what is not managed, and head lacked the table.
func TestMisspeltSQLIsAnError(t *testing.T) {
	result := render(t, "sql-schema", map[string]string{"a.sql": "CREATE TABLE a (i int);\n\nCRAETE TABLE t (i int);\n"}, "--database=postgres://a@b/c")
	if said := told(result); len(result.Assets) > 0 || len(result.Findings) != 1 || !strings.Contains(said, "a.sql:3") || !strings.Contains(said, "no statement of PostgreSQL begins with CRAETE (did you mean CREATE?)") {
		t.Errorf("%d assets, %d findings, %s", len(result.Assets), len(result.Findings), said)
	}
}

// TestSQLSchemaOfADump: each schema is an asset, and one warning tells of all that is
// not managed.
func TestSQLSchemaOfADump(t *testing.T) {
	files := map[string]string{
		"a.sql": "CREATE TABLE public.t (i integer);\nCOMMENT ON TABLE public.t IS 'x';\nALTER TABLE ONLY public.t ADD CONSTRAINT t_pkey PRIMARY KEY (i);\nCREATE TABLE \"Sales\".u (i integer);\nCREATE EXTENSION citext;\n",
		"b.sql": "\nCREATE MATERIALIZED VIEW public.m AS SELECT 1;\nCREATE TABLE public.v (i integer);\n",
	}
	served := func(arguments ...string) string {
		result := render(t, "sql-schema", files, append(arguments, "--database=postgres://a@b/c")...)
		var all []string
		for _, asset := range result.Assets {
			content, err := schema.Decode(asset.Body)
			s := &sqlschemapb.Schema{}
			if err == nil {
				err = schema.Payload(content, s)
			}
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, string(asset.ID)+" "+s.Schema+" "+strings.ReplaceAll(s.Sql, "\n", "|"))
		}
		if len(result.Findings) > 0 {
			t.Errorf("it has errors: %s", told(result))
		}
		return strings.Join(append(all, told(result)), "\n")
	}
	const hint = "(they stay in the database as they are; docs/use/sqlschema.md says what is managed)"
	if got, want := served(), `schema/a/sales Sales |||CREATE TABLE u (i integer);|
schema/a  CREATE TABLE t (i integer);||ALTER TABLE ONLY t ADD CONSTRAINT t_pkey PRIMARY KEY (i);|
schema/b  ||CREATE TABLE v (i integer);|
a.sql:2:0 : 2 of 5 statements are not served, for they are not managed or need what is not: 1 COMMENT: line 2; 1 EXTENSION: citext (line 5) `+hint+`
b.sql:2:0 : 1 of 2 statements are not served, for they are not managed or need what is not: 1 MATERIALIZED VIEW: m (line 2) `+hint; got != want {
		t.Errorf("it gives\n%s\nwant\n%s", got, want)
	}
	if got, want := served("--id=main", "--schema=Sales"), `main Sales |||CREATE TABLE u (i integer);|
main/public public CREATE TABLE t (i integer);||ALTER TABLE ONLY t ADD CONSTRAINT t_pkey PRIMARY KEY (i);||||||CREATE TABLE v (i integer);|
a.sql:2:0 : 3 of 7 statements are not served, for they are not managed or need what is not: 1 COMMENT: a.sql:2; 1 EXTENSION: citext (a.sql:5); 1 MATERIALIZED VIEW: m (b.sql:2) `+hint; got != want {
		t.Errorf("it gives\n%s\nwant\n%s", got, want)
	}
	for name, text := range map[string]string{"nothing": "COMMENT ON TABLE t IS 'x';", "no end": "CREATE TABLE t (i int);\n'"} {
		result := render(t, "sql-schema", map[string]string{"a.sql": text}, "--database=postgres://a@b/c")
		switch said := told(result); {
		case name == "nothing" && (len(result.Assets) > 0 || !strings.Contains(said, "it declares nothing that is managed")),
			name == "no end" && (len(result.Assets) != 1 || !strings.Contains(said, "line 2 of sql: a string begins here")):
			t.Errorf("%s: %d assets, %s", name, len(result.Assets), said)
		}
	}
}
