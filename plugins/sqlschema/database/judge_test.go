package database

import (
	"strings"
	"testing"
)

func TestWidening(t *testing.T) {
	for _, test := range []struct {
		before, after string
		widens        bool
	}{
		{"integer", "bigint", true}, {"bigint", "integer", false}, {"smallint", "numeric", true},
		{"integer", "text", false}, {"character varying(10)", "character varying(20)", true},
		{"character varying(20)", "character varying(10)", false}, {"character varying(20)", "character varying", true},
		{"character varying", "character varying(20)", false}, {"character varying(20)", "text", true},
		{"text", "character varying", false}, {"numeric(10,2)", "numeric(12,2)", true}, {"numeric(10,2)", "numeric(10,3)", false},
		{"numeric(10,2)", "numeric(11,3)", true}, {"numeric(10,2)", "numeric", true}, {"numeric", "numeric(10,2)", false},
		{"real", "double precision", true}, {"timestamp with time zone", "timestamp without time zone", false},
		{"timestamp(3) with time zone", "timestamp(6) with time zone", false}, {"VARCHAR(5)", "varchar(6)", true},
	} {
		if got := widens(test.before, test.after); got != test.widens {
			t.Errorf("from %s to %s widens: %t", test.before, test.after, got)
		}
	}
}

func TestHarms(t *testing.T) {
	table := Objects{"table t": "table", "column t.a": "text", "column t.n": "integer, not null, default 1", "column t.g": "integer, generated always as (a) stored", "column t.u": "text, unique", "column t.c": "integer, not null check (c > 0)"}
	for name, test := range map[string]struct {
		key, word string
		rows      bool
		harm      string
	}{
		"a column":                   {"column t.b", "text", true, ""},
		"not null":                   {"column t.b", "text, not null", false, ""},
		"not null with rows":         {"column t.b", "text, not null", true, "the table has rows"},
		"not null with a default":    {"column t.b", "text, not null, default ''", true, ""},
		"an identity with rows":      {"column t.b", "integer, not null, generated always as identity", true, ""},
		"a new table's":              {"column u.b", "text, not null", true, ""},
		"dropped":                    {"column t.a", "", false, "drops the column"},
		"null no more":               {"column t.a", "text, not null", true, "it fails if"},
		"another type":               {"column t.a", "bytea", false, "changes the type"},
		"computed otherwise":         {"column t.g", "integer, generated always as (b) stored", false, "computed"},
		"another default":            {"column t.n", "integer, not null, default 2", true, ""},
		"unique no more":             {"column t.u", "text", false, "drops a constraint"},
		"unique and more":            {"column t.u", "text, not null unique", false, ""},
		"another check":              {"column t.c", "integer, not null check (c > 1)", false, "drops a constraint"},
		"a check as before":          {"column t.c", "integer, check (c > 0)", false, ""},
		"a wider type":               {"column t.n", "bigint, not null, default 1", true, ""},
		"null again":                 {"column t.n", "integer, default 1", true, ""},
		"a constraint":               {"constraint t.c", "CHECK (a)", true, ""},
		"an index":                   {"index i", "CREATE UNIQUE INDEX i ON t (a)", true, ""},
		"a column of a dotted table": {"column t.u.b", "text, not null", true, "the table has rows"},
	} {
		wanted := Objects{}
		for key, word := range table {
			wanted[key] = word
		}
		if wanted[test.key] = test.word; test.word == "" {
			delete(wanted, test.key)
		}
		harms := Judge(table, wanted, map[string]bool{"t": test.rows})
		if got := harms[test.key]; (got == "") != (test.harm == "") || !strings.Contains(got, test.harm) || len(harms) > 1 {
			t.Errorf("%s: %q, want %q", name, harms, test.harm)
		}
	}
	dropped := Judge(Objects{"constraint t.c": "CHECK (a)", "index u": "CREATE UNIQUE INDEX u ON t (a)", "index i": "CREATE INDEX i ON t (a)", "view v": "SELECT 1"}, Objects{}, nil)
	if len(dropped) != 2 || dropped["constraint t.c"] == "" || dropped["index u"] == "" {
		t.Errorf("dropping guards: %q", dropped)
	}
}

func TestLongWordsAreToldApart(t *testing.T) {
	long := strings.Repeat("é", 3000)
	one, claims := Told(Objects{"view v": long + "a", "table " + strings.Repeat("t", 400): "table"})
	two, _ := Told(Objects{"view v": long + "b"})
	if one["view v"] == two["view v"] || len(one["view v"]) > maxWord || !strings.Contains(claims, strings.Repeat("t", 400)) {
		t.Errorf("%q and %q, claims of %d bytes", one["view v"], two["view v"], len(claims))
	}
	if Fits(one) != nil || Fits(Objects{"x": strings.Repeat("x", maxTold)}) == nil {
		t.Error("what fits is refused, or what does not is taken")
	}
}
