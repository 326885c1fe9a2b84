package pgschema

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/jackc/pgx/v5"

	"lehr.dev/internal/ground/statement"
	"lehr.dev/sdk/serve"
)

// wanted runs the statements in a scratch schema, reads what came of them, and
// rolls it back: nothing of it is ever seen outside of this transaction (S21).
func (s *session) wanted(ctx context.Context) (*catalog, error) {
	random := make([]byte, 8)
	if _, err := rand.Read(random); err != nil {
		return nil, fmt.Errorf("naming a scratch schema: %w", err)
	}
	scratch := statement.Reserved + "scratch_" + hex.EncodeToString(random)
	if _, err := s.tx.Exec(ctx, "savepoint lehr_scratch; create schema "+scratch); err != nil {
		return nil, s.explain("making a scratch schema, which is always rolled back,", err)
	}
	c, err := s.declare(ctx, scratch)
	if err != nil {
		return nil, err
	}
	_, err = s.tx.Exec(ctx, "rollback to savepoint lehr_scratch; release savepoint lehr_scratch")
	if err != nil {
		return nil, s.explain("rolling the scratch schema back", err)
	}
	return c, s.path(ctx, s.request.Schema)
}

func (s *session) declare(ctx context.Context, scratch string) (*catalog, error) {
	if err := s.path(ctx, scratch, s.request.Schema); err != nil {
		return nil, err
	}
	if err := s.standIns(ctx, scratch); err != nil {
		return nil, err
	}
	for _, one := range s.request.Statements {
		if one.Kind == statement.Grant || one.Kind == statement.Unchecked {
			continue
		}
		if err := s.run(ctx, one.Text); err != nil {
			return nil, s.explain(fmt.Sprintf("line %d of sql, %s,", one.Line, one.Label()), err)
		}
	}
	if err := s.declareGrants(ctx, scratch); err != nil {
		return nil, err
	}
	c, err := s.read(ctx, scratch, s.declared())
	if err != nil {
		return nil, err
	}
	for p := range c.grants {
		if p.grantee == s.conn.Config().User {
			delete(c.grants, p)
		}
	}
	return c, c.unscratch(scratch, s.request.Schema)
}

// declared are the names that the statements give to tables and views.
func (s *session) declared() names {
	of := names{relations: []string{}}
	for _, one := range s.request.Statements {
		if one.Kind == statement.Table || one.Kind == statement.View {
			of.relations = append(of.relations, one.Name)
		}
	}
	return of
}

// standIns makes empty copies of the tables that foreign keys name and the
// statements do not declare: a foreign key to the real one would lock it.
func (s *session) standIns(ctx context.Context, scratch string) error {
	made := map[string]bool{}
	for _, one := range s.request.Statements {
		for _, name := range one.References {
			if made[name] || statement.Declares(statement.PostgreSQL, s.request.Statements, name) {
				continue
			}
			made[name] = true
			like := fmt.Sprintf("create table %s.%s (like %s.%s including indexes)", quote(scratch), quote(name), quote(s.request.Schema), quote(name))
			if _, err := s.tx.Exec(ctx, like); err != nil {
				return s.explain(fmt.Sprintf("line %d of sql: the foreign key to %s, which the sql does not declare,", one.Line, name), err)
			}
		}
	}
	return nil
}

// declareGrants runs the grants with nothing granted before, so that what is
// there then is what they say. Only what is declared is found.
func (s *session) declareGrants(ctx context.Context, scratch string) error {
	if err := s.path(ctx, scratch); err != nil {
		return err
	}
	c, err := s.read(ctx, scratch, s.declared())
	if err != nil {
		return err
	}
	for p := range c.grants {
		if p.grantee != s.conn.Config().User {
			if err := s.run(ctx, p.revoke()); err != nil {
				return s.explain("preparing the grants", err)
			}
		}
	}
	for _, one := range s.request.Statements {
		if one.Kind != statement.Grant {
			continue
		}
		if err := s.run(ctx, one.Text); err != nil {
			return s.explain(fmt.Sprintf("line %d of sql, GRANT on what the sql declares,", one.Line), err)
		}
	}
	return s.path(ctx, scratch, s.request.Schema)
}

// unscratch refuses what names the scratch schema itself, or by its schema
// what is declared: it would not mean the same elsewhere.
func (c *catalog) unscratch(scratch, schema string) error {
	for key, word := range c.words() {
		if strings.Contains(word, scratch) {
			return serve.Errorf(serve.Invalid, "the %s comes out with the name of the schema that it was tried in", key).
				WithHint("it depends on the current schema or the search path: write it without")
		}
		if strings.HasPrefix(key, "function ") { // its body is not looked into
			continue
		}
		for _, name := range c.declares() {
			for _, prefix := range []string{schema + ".", quote(schema) + "."} {
				if uses(word+" ", prefix+name) {
					return serve.Errorf(serve.Invalid, "the %s uses %s%s, which is there already, instead of the one that the sql declares", key, prefix, name).
						WithHint("declare it before it is used, and name it without the schema")
				}
			}
		}
	}
	return nil
}

// uses reports whether a text holds the name, and not as the end of another.
func uses(text, name string) bool {
	for at := strings.Index(text, name); at >= 0; {
		before, _ := utf8.DecodeLastRuneInString(text[:at])
		if at == 0 || before != '_' && !unicode.IsLetter(before) && !unicode.IsDigit(before) {
			return true
		}
		next := strings.Index(text[at+1:], name)
		if next < 0 {
			return false
		}
		at += 1 + next
	}
	return false
}

// declares are the names of relations and functions as they are used.
func (c *catalog) declares() []string {
	var names []string
	for name := range c.relations {
		for _, end := range []string{" ", ".", ")", ",", ";", "("} {
			names = append(names, name+end, quote(name)+end)
		}
		names = append(names, name+"\n", quote(name)+"\n")
	}
	for name := range c.functions {
		plain, _, _ := strings.Cut(name, "(")
		names = append(names, plain+"(", quote(plain)+"(")
	}
	return names
}

// readReal reads what is there of what is wanted.
func (s *session) readReal(ctx context.Context, wanted *catalog) (*catalog, error) {
	of := s.declared()
	of.functions = map[string]bool{}
	for name := range wanted.functions {
		of.functions[name] = true
	}
	c, err := s.read(ctx, s.request.Schema, of)
	if err != nil {
		return nil, err
	}
	c.only(wanted)
	return c, nil
}

// base changes with every change of the objects, even one there and back: it
// covers who wrote each row of theirs in the catalogs, and the last push among
// all that are remembered.
func (s *session) base(ctx context.Context, wanted *catalog, all []record) (string, error) {
	functions := names{functions: map[string]bool{}}
	for name := range wanted.functions {
		functions.functions[name] = true
	}
	rows, err := s.tx.Query(ctx, `
		with r as (select c.oid, c.xmin from pg_class c join pg_namespace n on n.oid = c.relnamespace where n.nspname = $1 and c.relname = any($2))
		select coalesce(string_agg(v, ' ' order by v), '') from (
			select 'r ' || oid || ' ' || xmin from r
			union all select 'a ' || attrelid || '.' || attnum || ' ' || xmin from pg_attribute where attrelid in (select oid from r) and attnum > 0
			union all select 'd ' || oid || ' ' || xmin from pg_attrdef where adrelid in (select oid from r)
			union all select 'c ' || oid || ' ' || xmin from pg_constraint where conrelid in (select oid from r)
			union all select 'i ' || indexrelid || ' ' || xmin from pg_index where indrelid in (select oid from r)
			union all select 'n ' || oid || ' ' || xmin from pg_class where oid in (select indexrelid from pg_index where indrelid in (select oid from r))
			union all select 'e ' || t.oid || ' ' || t.xmin from pg_type t join pg_namespace n on n.oid = t.typnamespace where n.nspname = $1 and t.typname = any($4)
			union all select 'l ' || e.oid || ' ' || e.xmin from pg_enum e join pg_type t on t.oid = e.enumtypid join pg_namespace n on n.oid = t.typnamespace where n.nspname = $1 and t.typname = any($4)
			union all select 'k ' || k.oid || ' ' || k.xmin from pg_constraint k join pg_type t on t.oid = k.contypid join pg_namespace n on n.oid = t.typnamespace where n.nspname = $1 and t.typname = any($4)
			union all select 's ' || q.seqrelid || ' ' || q.xmin from pg_sequence q join pg_class c on c.oid = q.seqrelid join pg_namespace n on n.oid = c.relnamespace where n.nspname = $1 and c.relname = any($4)
			union all select 't ' || oid || ' ' || xmin from pg_trigger where tgrelid in (select oid from r) and not tgisinternal
			union all select 'v ' || oid || ' ' || xmin from pg_rewrite where ev_class in (select oid from r)
			union all select 'f ' || p.oid || ' ' || p.xmin from pg_proc p join pg_namespace n on n.oid = p.pronamespace
				where n.nspname || '.' || p.proname || '(' || pg_get_function_identity_arguments(p.oid) || ')' = any($3)) all_rows(v)`,
		s.request.Schema, s.declared().relations, functionNames(s.request.Schema, functions), s.allParts())
	if err != nil {
		return "", s.explain("reading the versions of the catalogs", err)
	}
	text, err := pgx.CollectExactlyOneRow(rows, pgx.RowTo[string])
	if err != nil {
		return "", s.explain("reading the versions of the catalogs", err)
	}
	return "push " + pushOf(own(all, s.request.Asset)) + ", catalogs " + digest(text), nil
}

func pushOf(r *record) string {
	if r == nil {
		return "none"
	}
	return r.push
}
