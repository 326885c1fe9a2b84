package pgschema

import (
	"context"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"

	"lehr.dev/internal/ground/statement"
	"lehr.dev/plugins/sqlschema/database"
)

// part is an enum, a domain or a sequence.
type part struct {
	definition string
	// labels of an enum, quoted.
	labels []string
	// owner is the column that a sequence goes with, as OWNED BY has it, or NONE.
	owner string
}

func (p part) word() string {
	if p.owner != "" {
		return p.definition + ", owned by " + p.owner
	}
	return p.definition
}

// partKinds are the kinds of parts.
var partKinds = []statement.Kind{statement.Enum, statement.Domain, statement.Sequence}

// declaredParts are the names that the statements give to parts of one kind.
func (s *session) declaredParts(kind statement.Kind) []string {
	names := []string{}
	for _, one := range s.request.Statements {
		if one.Kind == kind {
			names = append(names, one.Name)
		}
	}
	return names
}

func (s *session) allParts() []string {
	names := []string{}
	for _, kind := range partKinds {
		names = append(names, s.declaredParts(kind)...)
	}
	return names
}

// partTexts read the parts of a schema with some names: name, definition, labels
// and owner.
var partTexts = map[statement.Kind]string{
	statement.Enum: `
		select t.typname::text, 'enum', array(select quote_literal(e.enumlabel) from pg_enum e where e.enumtypid = t.oid order by e.enumsortorder), ''
		from pg_type t join pg_namespace n on n.oid = t.typnamespace
		where n.nspname = $1 and t.typname = any($2) and t.typtype = 'e'`,
	statement.Domain: `
		select t.typname::text, format_type(t.typbasetype, t.typtypmod)
		       || coalesce((select ', collate ' || quote_ident(l.collname) from pg_collation l join pg_type b on b.oid = t.typbasetype where l.oid = t.typcollation and t.typcollation <> b.typcollation), '')
		       || case when t.typnotnull then ', not null' else '' end || coalesce(', default ' || pg_get_expr(t.typdefaultbin, 0), '')
		       || coalesce((select string_agg(', constraint ' || quote_ident(k.conname) || ' ' || pg_get_constraintdef(k.oid, true), '' order by k.conname) from pg_constraint k where k.contypid = t.oid and k.contype = 'c'), ''),
		       '{}'::text[], ''
		from pg_type t join pg_namespace n on n.oid = t.typnamespace
		where n.nspname = $1 and t.typname = any($2) and t.typtype = 'd'`,
	statement.Sequence: `
		select c.relname::text, 'as ' || format_type(q.seqtypid, null) || ' start with ' || q.seqstart || ' increment by ' || q.seqincrement || ' minvalue ' || q.seqmin
		       || ' maxvalue ' || q.seqmax || ' cache ' || q.seqcache || case when q.seqcycle then ' cycle' else ' no cycle' end, '{}'::text[],
		       coalesce((select quote_ident(r.relname) || '.' || quote_ident(a.attname) from pg_depend d join pg_class r on r.oid = d.refobjid join pg_attribute a on a.attrelid = d.refobjid and a.attnum = d.refobjsubid
		                 where d.classid = 'pg_class'::regclass and d.objid = c.oid and d.refclassid = 'pg_class'::regclass and d.deptype = 'a' and d.refobjsubid > 0), 'none')
		from pg_class c join pg_namespace n on n.oid = c.relnamespace join pg_sequence q on q.seqrelid = c.oid
		where n.nspname = $1 and c.relname = any($2) and c.relpersistence = 'p'`,
}

func (s *session) readParts(ctx context.Context, c *catalog, schema string) error {
	for _, kind := range partKinds {
		declared := s.declaredParts(kind)
		if len(declared) == 0 {
			continue
		}
		rows, err := s.tx.Query(ctx, partTexts[kind], schema, declared)
		if err != nil {
			return err
		}
		var name string
		var one part
		_, err = pgx.ForEachRow(rows, []any{&name, &one.definition, &one.labels, &one.owner}, func() error {
			if kind == statement.Enum {
				one.definition = strings.Join(one.labels, ", ")
			}
			c.parts[database.Key(kind, name)] = one
			return nil
		})
		if err != nil {
			return err
		}
	}
	// A column whose sequence is declared by itself is no serial one.
	for _, one := range c.parts {
		for _, r := range c.relations {
			for i := range r.columns {
				if r.columns[i].serial && one.owner == quoted(r.name)+"."+quoted(r.columns[i].name) {
					r.columns[i].serial = false
				}
			}
		}
	}
	return nil
}

// quoted writes a name as quote_ident does, but for keywords.
func quoted(name string) string {
	plain := name != "" && !('0' <= name[0] && name[0] <= '9') && !strings.ContainsFunc(name, func(r rune) bool {
		return r != '_' && !('a' <= r && r <= 'z') && !('0' <= r && r <= '9')
	})
	if plain {
		return name
	}
	return quote(name)
}

// part sees to it that an enum, a domain or a sequence is there, and is as
// declared where that can be had without making it anew. What is left of a
// difference fails the push, and is named.
func (w *walk) part(ctx context.Context, one statement.Statement) error {
	key := database.Key(one.Kind, one.Name)
	is, there := w.current.parts[key]
	want := w.wanted.parts[key]
	switch {
	case !there:
		w.current.parts[key] = want
		return w.do(ctx, one.Text)
	case one.Kind == statement.Sequence:
		text := ""
		if is.definition != want.definition {
			text += " " + want.definition
		}
		if is.owner != want.owner && want.owner == "none" {
			text += " owned by none"
		}
		if text == "" {
			return nil
		}
		return w.do(ctx, "alter sequence "+quote(one.Name)+text)
	case is.definition == want.definition:
		return nil
	case one.Kind == statement.Enum && without(want.labels, is.labels) != nil:
		return w.labels(ctx, one.Name, is.labels, want.labels)
	}
	return nil
}

// without are the labels that come before or behind others, nil where the others
// are not there in that order.
func without(labels, others []string) []string {
	more := []string{}
	for _, label := range labels {
		if len(others) > 0 && label == others[0] {
			others = others[1:]
			continue
		}
		more = append(more, label)
	}
	if len(others) > 0 {
		return nil
	}
	return more
}

// labels adds the values that an enum lacks.
func (w *walk) labels(ctx context.Context, name string, is, want []string) error {
	for i, label := range want {
		if slices.Contains(is, label) {
			continue
		}
		place := ""
		if i > 0 {
			place = " after " + want[i-1]
		} else if len(want) > 1 && len(is) > 0 {
			place = " before " + is[0]
		}
		if err := w.do(ctx, "alter type "+quote(name)+" add value "+label+place); err != nil {
			return err
		}
	}
	return nil
}

// owner ties a sequence to its column.
func (w *walk) owner(ctx context.Context, one statement.Statement) error {
	key := database.Key(statement.Sequence, one.Name)
	if w.fresh[one.Name] || w.current.parts[key].owner != w.wanted.parts[key].owner {
		return w.do(ctx, one.Text)
	}
	return nil
}
