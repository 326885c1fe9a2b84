package pgschema

import (
	"context"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"

	"lehr.dev/internal/ground/statement"
	"lehr.dev/plugins/sqlschema/database"
	"lehr.dev/sdk/serve"
)

// relation is a table or a view.
type relation struct {
	oid     uint32
	name    string
	view    bool
	options string
	// definition of a view.
	definition string
	owner      string
	columns    []column
	// constraints and indexes by name.
	constraints map[string]constraint
	indexes     map[string]index
}

type column struct {
	name, kind, collation, preset string
	identity, generated           string
	notNull, serial               bool
}

type constraint struct{ kind, definition string }

type index struct {
	definition string
	valid      bool
}

// function by its name and the types of its arguments.
type function struct {
	oid        uint32
	definition string
}

// privilege is one right of one role to one object.
type privilege struct{ right, column, object, grantee string }

// catalog is what the catalogs of one schema say of some objects.
type catalog struct {
	relations map[string]*relation
	functions map[string]function
	// triggers by "table.trigger".
	triggers map[string]string
	// parts by kind and name.
	parts map[string]part
	// grants by privilege: true with the right to pass it on. Those of owners
	// are left out.
	grants map[privilege]bool
}

// names are what is read: of other objects nothing is looked at.
type names struct {
	relations []string
	// functions by name and arguments; nil: all.
	functions map[string]bool
}

// read reads the catalogs. Names of the schema are without it in all texts,
// for it must be the first of the search path.
func (s *session) read(ctx context.Context, schema string, of names) (*catalog, error) {
	c := &catalog{relations: map[string]*relation{}, functions: map[string]function{}, triggers: map[string]string{}, parts: map[string]part{}, grants: map[privilege]bool{}}
	steps := []func(context.Context, string, names) error{
		func(ctx context.Context, schema string, of names) error { return s.readRelations(ctx, c, schema, of) },
		func(ctx context.Context, schema string, of names) error { return s.readFunctions(ctx, c, schema, of) },
	}
	for _, step := range steps {
		if err := step(ctx, schema, of); err != nil {
			return nil, s.explain("reading the catalogs", err)
		}
	}
	byOID := map[uint32]*relation{}
	var oids []uint32
	for _, r := range c.relations {
		byOID[r.oid], oids = r, append(oids, r.oid)
	}
	for _, step := range []func(context.Context, *catalog, map[uint32]*relation, []uint32) error{s.readColumns, s.readConstraints, s.readIndexes, s.readTriggers, s.readGrants} {
		if err := step(ctx, c, byOID, oids); err != nil {
			return nil, s.explain("reading the catalogs", err)
		}
	}
	if err := s.readParts(ctx, c, schema); err != nil {
		return nil, s.explain("reading the catalogs", err)
	}
	return c, nil
}

func (s *session) readRelations(ctx context.Context, c *catalog, schema string, of names) error {
	rows, err := s.tx.Query(ctx, `
		select c.oid, c.relname, c.relkind::text || case when c.relpersistence <> 'p' or c.relispartition then '*' else '' end, coalesce(array_to_string(c.reloptions, ', '), ''),
		       case when c.relkind = 'v' then pg_get_viewdef(c.oid, true) else '' end, pg_get_userbyid(c.relowner)::text
		from pg_class c join pg_namespace n on n.oid = c.relnamespace
		where n.nspname = $1 and c.relname = any($2) and c.relkind not in ('i', 'I', 'c')`, schema, of.relations)
	if err != nil {
		return err
	}
	var r relation
	var kind string
	_, err = pgx.ForEachRow(rows, []any{&r.oid, &r.name, &kind, &r.options, &r.definition, &r.owner}, func() error {
		declared := statement.Table
		for _, one := range s.request.Statements {
			if one.Name == r.name && (one.Kind == statement.View || one.Kind == statement.Table) {
				declared = one.Kind
			}
		}
		r.view = kind == "v"
		if kind != "r" && kind != "v" || r.view != (declared == statement.View) {
			return serve.Errorf(serve.Conflict, "%s is there and is not an ordinary %s", r.name, declared).
				WithHint("rename it, or choose another name in the sql; nothing of another kind is ever replaced")
		}
		one := r
		one.definition = strings.TrimSuffix(strings.TrimSpace(one.definition), ";")
		one.constraints, one.indexes = map[string]constraint{}, map[string]index{}
		c.relations[r.name] = &one
		return nil
	})
	return err
}

func (s *session) readFunctions(ctx context.Context, c *catalog, schema string, of names) error {
	rows, err := s.tx.Query(ctx, `
		select p.oid, p.proname || '(' || pg_get_function_identity_arguments(p.oid) || ')',
		       'CREATE OR REPLACE FUNCTION ' || substr(pg_get_functiondef(p.oid), length('CREATE OR REPLACE FUNCTION ' || quote_ident(n.nspname) || '.') + 1)
		from pg_proc p join pg_namespace n on n.oid = p.pronamespace
		where n.nspname = $1 and p.prokind in ('f', 'w')
		  and (n.nspname || '.' || p.proname || '(' || pg_get_function_identity_arguments(p.oid) || ')' = any($2) or $3)`,
		schema, functionNames(schema, of), of.functions == nil)
	if err != nil {
		return err
	}
	var f function
	var name string
	_, err = pgx.ForEachRow(rows, []any{&f.oid, &name, &f.definition}, func() error {
		f.definition = strings.TrimSpace(f.definition)
		c.functions[name] = f
		return nil
	})
	return err
}

func functionNames(schema string, of names) []string {
	all := make([]string, 0, len(of.functions))
	for name := range of.functions {
		all = append(all, schema+"."+name)
	}
	return all
}

func (s *session) readColumns(ctx context.Context, _ *catalog, byOID map[uint32]*relation, oids []uint32) error {
	rows, err := s.tx.Query(ctx, `
		select a.attrelid, a.attname, format_type(a.atttypid, a.atttypmod),
		       coalesce((select quote_ident(l.collname) from pg_collation l where l.oid = a.attcollation and a.attcollation <> t.typcollation), ''),
		       coalesce(pg_get_expr(d.adbin, d.adrelid, true), ''), a.attidentity::text, a.attgenerated::text, a.attnotnull,
		       exists (select from pg_depend p join pg_class q on q.oid = p.objid and q.relkind = 'S'
		               where p.classid = 'pg_class'::regclass and p.refclassid = 'pg_class'::regclass
		                 and p.refobjid = a.attrelid and p.refobjsubid = a.attnum and p.deptype = 'a')
		from pg_attribute a join pg_class r on r.oid = a.attrelid and r.relkind = 'r' join pg_type t on t.oid = a.atttypid
		     left join pg_attrdef d on d.adrelid = a.attrelid and d.adnum = a.attnum
		where a.attrelid = any($1) and a.attnum > 0 and not a.attisdropped order by a.attrelid, a.attnum`, oids)
	if err != nil {
		return err
	}
	var oid uint32
	var one column
	read := 0
	_, err = pgx.ForEachRow(rows, []any{&oid, &one.name, &one.kind, &one.collation, &one.preset, &one.identity, &one.generated, &one.notNull, &one.serial}, func() error {
		if read++; read > database.MaxObjects {
			return fmt.Errorf("the tables have more than %d columns: divide them among several assets", database.MaxObjects)
		}
		byOID[oid].columns = append(byOID[oid].columns, one)
		return nil
	})
	return err
}

func (s *session) readConstraints(ctx context.Context, _ *catalog, byOID map[uint32]*relation, oids []uint32) error {
	rows, err := s.tx.Query(ctx, `
		select conrelid, conname, contype::text, pg_get_constraintdef(oid, true)
		from pg_constraint where conrelid = any($1) and contype in ('p', 'u', 'f', 'c', 'x') limit $2`, oids, database.MaxObjects)
	if err != nil {
		return err
	}
	var oid uint32
	var name string
	var one constraint
	_, err = pgx.ForEachRow(rows, []any{&oid, &name, &one.kind, &one.definition}, func() error {
		byOID[oid].constraints[name] = one
		return nil
	})
	return err
}

// readIndexes leaves out those that are part of a constraint.
func (s *session) readIndexes(ctx context.Context, _ *catalog, byOID map[uint32]*relation, oids []uint32) error {
	rows, err := s.tx.Query(ctx, `
		select i.indrelid, c.relname, pg_get_indexdef(i.indexrelid, 0, true), i.indisvalid
		from pg_index i join pg_class c on c.oid = i.indexrelid
		where i.indrelid = any($1) and not exists (select from pg_constraint k where k.conindid = i.indexrelid and k.conrelid = i.indrelid and k.contype in ('p', 'u', 'x'))
		limit $2`, oids, database.MaxObjects)
	if err != nil {
		return err
	}
	var oid uint32
	var name string
	var one index
	_, err = pgx.ForEachRow(rows, []any{&oid, &name, &one.definition, &one.valid}, func() error {
		byOID[oid].indexes[name] = one
		return nil
	})
	return err
}

func (s *session) readTriggers(ctx context.Context, c *catalog, byOID map[uint32]*relation, oids []uint32) error {
	rows, err := s.tx.Query(ctx, `
		select tgrelid, tgname, pg_get_triggerdef(oid, true), tgenabled::text
		from pg_trigger where tgrelid = any($1) and not tgisinternal limit $2`, oids, database.MaxObjects)
	if err != nil {
		return err
	}
	var oid uint32
	var name, definition, enabled string
	_, err = pgx.ForEachRow(rows, []any{&oid, &name, &definition, &enabled}, func() error {
		if enabled != "O" {
			definition += enabledNote + enabled + ")"
		}
		c.triggers[byOID[oid].name+"."+name] = definition
		return nil
	})
	return err
}

// enabledNote begins what is said of a trigger that is not simply enabled.
const enabledNote = " (enabled: "

func (s *session) readGrants(ctx context.Context, c *catalog, byOID map[uint32]*relation, oids []uint32) error {
	functions := map[uint32]string{}
	var functionOIDs []uint32
	for name, f := range c.functions {
		functions[f.oid], functionOIDs = name, append(functionOIDs, f.oid)
	}
	rows, err := s.tx.Query(ctx, `
		select g.kind, g.oid, g.attname, coalesce(r.rolname::text, case when x.grantee = 0 then 'PUBLIC' else '?' end), x.privilege_type, x.is_grantable, x.grantee = g.owner
		from (select 'relation' as kind, oid, '' as attname, relowner as owner, coalesce(relacl, acldefault('r', relowner)) as acl from pg_class where oid = any($1)
		      union all
		      select 'relation', a.attrelid, a.attname::text, c.relowner, a.attacl from pg_attribute a join pg_class c on c.oid = a.attrelid
		      where a.attrelid = any($1) and a.attacl is not null and not a.attisdropped
		      union all
		      select 'function', oid, '', proowner, coalesce(proacl, acldefault('f', proowner)) from pg_proc where oid = any($2)) g,
		     lateral aclexplode(g.acl) x left join pg_roles r on r.oid = x.grantee`, oids, functionOIDs)
	if err != nil {
		return err
	}
	var kind string
	var oid uint32
	var p privilege
	var passOn, owner bool
	_, err = pgx.ForEachRow(rows, []any{&kind, &oid, &p.column, &p.grantee, &p.right, &passOn, &owner}, func() error {
		p.object = "function " + functions[oid]
		if kind == "relation" {
			p.object = byOID[oid].name
		}
		c.grants[p] = c.grants[p] || passOn || owner
		return nil
	})
	return err
}
