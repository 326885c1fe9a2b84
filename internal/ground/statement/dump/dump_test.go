package dump

import (
	"fmt"
	"strings"
	"testing"
)

func TestWhatIsManagedOfSQL(t *testing.T) {
	for name, test := range map[string]struct {
		sql string
		// want are the statements that are served, by schema, and what is told.
		want map[string]string
		told string
	}{
		"nothing to do": {"CREATE TABLE t (i integer)", map[string]string{"public": "CREATE TABLE t (i integer);"}, ""},
		"a key behind its table": {
			"CREATE TABLE public.t (i integer NOT NULL);\nALTER TABLE ONLY public.t ADD CONSTRAINT t_pkey PRIMARY KEY (i);",
			map[string]string{"public": "CREATE TABLE t (i integer NOT NULL);\nALTER TABLE ONLY t ADD CONSTRAINT t_pkey PRIMARY KEY (i);"}, "",
		},
		"what psql and sessions are told": {
			"\\restrict abc'd\nSET statement_timeout = 0;\nSELECT pg_catalog.set_config('search_path', '', false);\nCREATE TABLE public.t (i int);\n\\unrestrict abc'd\n",
			map[string]string{"public": "CREATE TABLE t (i int);"}, "",
		},
		"functions before tables": {
			"SET check_function_bodies = false;\nCREATE TABLE b.t (i b.x, j a.x);CREATE TABLE a.t (i int DEFAULT nextval('a.s'::regclass));",
			map[string]string{"b": "SET check_function_bodies = false;\nCREATE TABLE t (i x, j a.x);", "a": "SET check_function_bodies = false;\nCREATE TABLE t (i int DEFAULT nextval('s'::regclass));"}, "",
		},
		"a table with its schema's name": {
			"CREATE TABLE public.public (id int); CREATE VIEW public.v AS SELECT public.id FROM public.public;",
			map[string]string{"public": "CREATE TABLE public (id int);CREATE VIEW v AS SELECT public.id FROM public;"}, "",
		},
		"rows": {
			"CREATE TABLE t (i text);\nCOPY public.t (i) FROM stdin;\n'\n$$ ; \"\n\\.\nCREATE TABLE u (i int);INSERT INTO t VALUES ('x');",
			map[string]string{"public": "CREATE TABLE t (i text);\n\n\n\n\nCREATE TABLE u (i int);"}, "2 of 4 statements are not served, for they are not managed or need what is not: 1 COPY: line 2; 1 INSERT: line 6",
		},
		"a column that a migration adds": {
			"CREATE TABLE t (i int);\nALTER TABLE t ADD COLUMN j int;\nCREATE INDEX k ON t (j);\nCREATE VIEW v AS SELECT 1;",
			map[string]string{"public": "CREATE VIEW v AS SELECT 1;"},
			"3 of 4 statements are not served, for they are not managed or need what is not: 1 ALTER TABLE: line 2; 1 TABLE: t (line 1: ALTER TABLE in line 2); 1 that are parts of these",
		},
		"a name twice": {
			"CREATE TABLE t (i int);\nCREATE VIEW v AS SELECT 1;\nCREATE VIEW v AS SELECT 2;",
			map[string]string{"public": "CREATE TABLE t (i int);"},
			"2 of 3 statements are not served, for they are not managed or need what is not: 2 VIEW: v (line 2: v is declared in line 2 already: keep one of them), v (line 3: v is declared in line 2 already: keep one of them)",
		},
		"an index that needs what is not managed": {
			"CREATE TABLE public.t (i int);\nCREATE TYPE public.pair AS (a int, b int);\nCREATE INDEX k ON public.t ((i::public.pair));\nCREATE TABLE public.u (i int);",
			map[string]string{"public": "\n\n\nCREATE TABLE u (i int);"}, "",
		},
		"a key to another schema": {
			"CREATE TABLE a.t (i int);\nCREATE TABLE b.u (i int);\nALTER TABLE ONLY a.t ADD CONSTRAINT k FOREIGN KEY (i) REFERENCES b.u(i);",
			map[string]string{"b": "\nCREATE TABLE u (i int);"}, "",
		},
		"an extension's types stay": {
			"CREATE EXTENSION IF NOT EXISTS citext WITH SCHEMA public;\nCREATE TABLE public.t (c public.citext);",
			map[string]string{"public": "\nCREATE TABLE t (c citext);"}, "1 of 2 statements are not served, for they are not managed or need what is not: 1 EXTENSION: citext (line 1)",
		},
		"what is cleared before": {
			"DROP TABLE IF EXISTS public.t;\nALTER TABLE ONLY public.t DROP CONSTRAINT k;\nCREATE TABLE public.t (c int);",
			map[string]string{"public": "\n\nCREATE TABLE t (c int);"}, "",
		},
		"what is dropped after": {
			"CREATE TABLE public.t (c int);\nDROP TABLE public.t;", map[string]string{}, "",
		},
	} {
		t.Run(name, func(t *testing.T) {
			d, err := Read(test.sql, "public")
			if err != nil {
				t.Fatal(err)
			}
			got := d.Schemas()
			for schema := range got {
				got[schema] = strings.TrimSuffix(got[schema], "\n")
			}
			want := map[string]string{}
			for schema, text := range test.want {
				want[schema] = text
			}
			if len(got) != len(want) {
				t.Errorf("it serves %q, want %q", got, want)
			}
			for schema, text := range want {
				if strings.Trim(got[schema], "\n") != strings.Trim(text, "\n") {
					t.Errorf("schema %s is %q, want %q", schema, got[schema], text)
				}
			}
			told, _ := d.LeftOut(func(line int) string { return fmt.Sprint("line ", line) })
			if test.told != "" && told != test.told {
				t.Errorf("it tells %s\nwant %s", told, test.told)
			}
		})
	}
}

// FuzzRead: no text keeps or crashes the reader.
func FuzzRead(f *testing.F) {
	f.Add("CREATE TABLE a.b (c d.e REFERENCES f.g); ALTER TABLE a.b ATTACH PARTITION c.d; ALTER")
	f.Add("\\x\nCREATE INDEX i ON")
	f.Add("CREATE VIEW a.v AS SELECT 'a.b'::regclass; GRANT; COMMENT ON")
	f.Fuzz(func(t *testing.T, sql string) {
		d, err := Read(sql, "public")
		if err != nil {
			return
		}
		d.Schemas()
		d.LeftOut(func(line int) string { return fmt.Sprint(line) })
		d.Changed()
	})
}
