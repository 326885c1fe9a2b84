package databases

import (
	"context"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"

	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/importer"
)

// postgres reads one schema.
type postgres struct {
	schema string
	secret secret
}

func (p *postgres) read(ctx context.Context, args []string) (importer.Import, error) {
	address, err := url.Parse(args[0])
	var config *pgx.ConnConfig
	if err == nil {
		config, err = pgx.ParseConfig(args[0])
	}
	if err != nil || address.Scheme != "postgres" || config.Database == "" {
		// What is wrong with it may hold a password.
		return importer.Import{}, fault.New(fault.Invalid, "that is not the URL of a PostgreSQL database").WithHint("write postgres://USER@HOST/DATABASE")
	}
	if _, hasPassword := address.User.Password(); hasPassword || address.Query().Has("password") {
		return importer.Import{}, fault.New(fault.Invalid, "the URL holds a password, which everybody on this machine can read").
			WithHint("leave it out, and name where it is: --password-env LEHR_NAME or --password-file FILE")
	}
	password, err := p.secret.password()
	if err != nil {
		return importer.Import{}, err
	}
	if password != "" {
		config.Password = password
	}
	source := fmt.Sprintf("schema %s of database %s at %s", p.schema, config.Database, config.Host)
	connection, err := pgx.ConnectConfig(ctx, config)
	if err != nil {
		return importer.Import{}, canceled(ctx, fault.New(fault.Unavailable, "reading %s: %w", source, err).WithHint("is it running, and may that user connect?"))
	}
	defer connection.Close(context.WithoutCancel(ctx))
	c := catalog{schema: p.schema, nodes: map[uint32]*node{}}
	if err := c.read(ctx, connection); err != nil {
		return importer.Import{}, canceled(ctx, fault.New(fault.KindOf(err), "reading %s: %w", source, err))
	}
	c.declare()
	fields := field("database", args[0])
	switch {
	case p.secret.env != "":
		fields += fmt.Sprintf("        password = lehr.intent.v1.SecretRef(env = %q),\n", p.secret.env)
	case p.secret.file != "":
		fields += fmt.Sprintf("        password = lehr.intent.v1.SecretRef(file = %q),\n", p.secret.file)
	}
	if p.schema != "public" {
		fields += field("schema", p.schema)
	}
	result, err := c.write(source, "schema/"+segment(config.Database), fields)
	result.Hints = append(result.Hints, "rights are left as they are: add GRANT statements to schema.sql for those that Lehr is to keep")
	return result, err
}

// node is a type, sequence, table, view or function, with what must be there before it.
type node struct {
	kind, name, text string
	prerequisites    []uint32
	// lines of a table: columns, then constraints.
	lines []string
	// wrong: why it is not taken over.
	wrong string
	state int
}

// catalog is what a schema's catalogs say.
type catalog struct {
	contents
	schema string
	nodes  map[uint32]*node
	// order of the nodes: types, sequences, tables, functions, views, each by name.
	order []uint32
	// later are indexes and triggers, by the node that they are of.
	later []part
}

type part struct {
	owner uint32
	statement
	wrong string
}

// read takes all from one moment, in a transaction that can only read.
func (c *catalog) read(ctx context.Context, connection *pgx.Conn) error {
	tx, err := connection.BeginTx(ctx, pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly})
	if err != nil {
		return err
	}
	defer tx.Rollback(context.WithoutCancel(ctx))
	var exists bool
	if err := tx.QueryRow(ctx, "SELECT exists (SELECT FROM pg_namespace WHERE nspname = $1)", c.schema).Scan(&exists); err != nil {
		return err
	}
	if !exists {
		return fault.New(fault.NotFound, "there is no schema %q", c.schema).WithHint("name another one: --schema NAME")
	}
	// Names of the schema stand alone in what PostgreSQL says.
	if _, err := tx.Exec(ctx, "SELECT set_config('search_path', $1, true)", pgx.Identifier{c.schema}.Sanitize()); err != nil {
		return err
	}
	for _, step := range []func(context.Context, pgx.Tx) error{
		c.readTypes, c.readRelations, c.readFunctions, c.readColumns, c.readConstraints, c.readParts, c.readOrder, c.readOthers,
	} {
		if err := step(ctx, tx); err != nil {
			return err
		}
	}
	return nil
}

// ofExtension says that an object belongs to an extension.
const ofExtension = "exists (SELECT FROM pg_depend e WHERE e.classid = '%s'::regclass AND e.objid = %s AND e.deptype = 'e')"

// readTypes reads enums, domains, and sequences that are of no column.
func (c *catalog) readTypes(ctx context.Context, tx pgx.Tx) error {
	rows, err := tx.Query(ctx, `SELECT t.oid, 'type' AS kind, t.typname::text AS name, 'CREATE TYPE ' || quote_ident(t.typname) || ' AS ENUM ('
			|| coalesce((SELECT string_agg(quote_literal(e.enumlabel), ', ' ORDER BY e.enumsortorder) FROM pg_enum e WHERE e.enumtypid = t.oid), '') || ')' AS definition
		FROM pg_type t JOIN pg_namespace n ON n.oid = t.typnamespace
		WHERE n.nspname = $1 AND t.typtype = 'e' AND t.typname NOT LIKE 'lehr\_%' AND NOT `+fmt.Sprintf(ofExtension, "pg_type", "t.oid")+`
		UNION ALL
		SELECT t.oid, 'domain', t.typname::text, 'CREATE DOMAIN ' || quote_ident(t.typname) || ' AS ' || format_type(t.typbasetype, t.typtypmod)
			|| coalesce((SELECT ' COLLATE ' || l.oid::regcollation FROM pg_collation l JOIN pg_type b ON b.oid = t.typbasetype WHERE l.oid = t.typcollation AND t.typcollation <> b.typcollation), '')
			|| coalesce(' DEFAULT ' || pg_get_expr(t.typdefaultbin, 0), '') || CASE WHEN t.typnotnull THEN ' NOT NULL' ELSE '' END
			|| coalesce((SELECT string_agg(' CONSTRAINT ' || quote_ident(k.conname) || ' ' || pg_get_constraintdef(k.oid, true), '' ORDER BY k.conname)
				FROM pg_constraint k WHERE k.contypid = t.oid AND k.contype = 'c'), '')
		FROM pg_type t JOIN pg_namespace n ON n.oid = t.typnamespace
		WHERE n.nspname = $1 AND t.typtype = 'd' AND t.typname NOT LIKE 'lehr\_%' AND NOT `+fmt.Sprintf(ofExtension, "pg_type", "t.oid")+`
		UNION ALL
		SELECT c.oid, 'sequence', c.relname::text, 'CREATE SEQUENCE ' || quote_ident(c.relname) || ' AS ' || format_type(q.seqtypid, NULL) || ' INCREMENT BY ' || q.seqincrement
			|| ' MINVALUE ' || q.seqmin || ' MAXVALUE ' || q.seqmax || ' START WITH ' || q.seqstart || ' CACHE ' || q.seqcache || CASE WHEN q.seqcycle THEN ' CYCLE' ELSE '' END
		FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace JOIN pg_sequence q ON q.seqrelid = c.oid
		WHERE n.nspname = $1 AND c.relpersistence = 'p' AND c.relname NOT LIKE 'lehr\_%' AND `+isSequenceOfItsOwn+`
		ORDER BY kind DESC, name`, c.schema)
	if err != nil {
		return err
	}
	var oid uint32
	var kind, name, text string
	_, err = pgx.ForEachRow(rows, []any{&oid, &kind, &name, &text}, func() error {
		c.nodes[oid] = &node{kind: kind, name: name, text: text}
		c.order = append(c.order, oid)
		return nil
	})
	return err
}

// isSequenceOfItsOwn says that the sequence c is no column's, and no extension's.
const isSequenceOfItsOwn = "NOT exists (SELECT FROM pg_depend d WHERE d.classid = 'pg_class'::regclass AND d.objid = c.oid AND d.deptype IN ('a', 'i', 'e'))"

func (c *catalog) readRelations(ctx context.Context, tx pgx.Tx) error {
	rows, err := tx.Query(ctx, `SELECT c.oid, c.relkind::text, c.relname::text, quote_ident(c.relname), c.relpersistence::text, c.relispartition,
			exists (SELECT FROM pg_inherits i WHERE c.oid IN (i.inhrelid, i.inhparent)), c.relrowsecurity,
			exists (SELECT FROM pg_rewrite r WHERE r.ev_class = c.oid AND r.rulename <> '_RETURN'),
			coalesce(array_to_string(c.reloptions, ', '), ''), CASE WHEN c.relkind = 'v' THEN pg_get_viewdef(c.oid, true) ELSE '' END
		FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
		WHERE n.nspname = $1 AND c.relkind IN ('r', 'v', 'p', 'm', 'f') AND c.relname NOT LIKE 'lehr\_%' AND NOT `+fmt.Sprintf(ofExtension, "pg_class", "c.oid")+`
		ORDER BY c.relkind = 'v', c.relname`, c.schema)
	if err != nil {
		return err
	}
	var oid uint32
	var kind, name, quoted, persistence, options, view string
	var partition, inherits, secured, rules bool
	_, err = pgx.ForEachRow(rows, []any{&oid, &kind, &name, &quoted, &persistence, &partition, &inherits, &secured, &rules, &options, &view}, func() error {
		n := &node{kind: "table", name: name}
		switch {
		case kind == "p" || partition:
			n.wrong = "partitions are not managed"
		case kind == "m":
			n.kind, n.wrong = "materialized view", "it holds data, and is not managed"
		case kind == "f":
			n.kind, n.wrong = "foreign table", "it is not managed"
		case inherits:
			n.wrong = "inheritance is not managed"
		case persistence != "p":
			n.wrong = "it is not logged, and only ordinary tables are managed"
		}
		withClause := ""
		if options != "" {
			withClause = " WITH (" + options + ")"
		}
		n.text = "CREATE TABLE " + quoted + " (%s)" + withClause
		if kind == "v" {
			n.kind, n.text = "view", "CREATE VIEW "+quoted+withClause+" AS\n"+view
		}
		if n.wrong == "" && secured {
			c.leave("row security of "+name, "policies are not managed; they stay as they are")
		}
		if n.wrong == "" && rules {
			c.leave("rules of "+name, "rules are not managed; they stay as they are")
		}
		c.nodes[oid] = n
		c.order = append(c.order, oid)
		return nil
	})
	return err
}

func (c *catalog) readFunctions(ctx context.Context, tx pgx.Tx) error {
	rows, err := tx.Query(ctx, `SELECT p.oid, p.prokind::text, p.proname || '(' || pg_get_function_identity_arguments(p.oid) || ')',
			CASE WHEN p.prokind IN ('f', 'w') THEN 'CREATE OR REPLACE FUNCTION ' || substr(pg_get_functiondef(p.oid), length('CREATE OR REPLACE FUNCTION ' || quote_ident(n.nspname) || '.') + 1) ELSE '' END
		FROM pg_proc p JOIN pg_namespace n ON n.oid = p.pronamespace
		WHERE n.nspname = $1 AND p.proname NOT LIKE 'lehr\_%' AND NOT `+fmt.Sprintf(ofExtension, "pg_proc", "p.oid")+` ORDER BY 3`, c.schema)
	if err != nil {
		return err
	}
	var functions []uint32
	var oid uint32
	var kind, name, text string
	_, err = pgx.ForEachRow(rows, []any{&oid, &kind, &name, &text}, func() error {
		if text == "" {
			c.leave(map[string]string{"p": "procedure ", "a": "aggregate "}[kind]+name, "it is not managed; it stays as it is")
			return nil
		}
		c.nodes[oid] = &node{kind: "function", name: name, text: text}
		functions = append(functions, oid)
		return nil
	})
	// A function written in SQL is read when it is made, and says not what it rests on.
	views := slices.IndexFunc(c.order, func(oid uint32) bool { return c.nodes[oid].kind == "view" })
	if views < 0 {
		views = len(c.order)
	}
	c.order = slices.Insert(c.order, views, functions...)
	return err
}

func (c *catalog) readColumns(ctx context.Context, tx pgx.Tx) error {
	rows, err := tx.Query(ctx, `SELECT a.attrelid, quote_ident(a.attname) || ' ' || CASE
			WHEN s.owned AND d.adbin IS NOT NULL AND t.typname IN ('int2', 'int4', 'int8')
				THEN CASE t.typname WHEN 'int2' THEN 'smallserial' WHEN 'int4' THEN 'serial' ELSE 'bigserial' END
			ELSE format_type(a.atttypid, a.atttypmod)
				|| coalesce((SELECT ' COLLATE ' || l.oid::regcollation FROM pg_collation l WHERE l.oid = a.attcollation AND a.attcollation <> t.typcollation), '')
				|| CASE a.attidentity WHEN 'a' THEN ' GENERATED ALWAYS AS IDENTITY' WHEN 'd' THEN ' GENERATED BY DEFAULT AS IDENTITY' ELSE
					CASE WHEN a.attgenerated = 's' THEN ' GENERATED ALWAYS AS (' || pg_get_expr(d.adbin, d.adrelid, true) || ') STORED'
						WHEN d.adbin IS NOT NULL THEN ' DEFAULT ' || pg_get_expr(d.adbin, d.adrelid, true) ELSE '' END END
			END || CASE WHEN a.attnotnull THEN ' NOT NULL' ELSE '' END
		FROM pg_attribute a JOIN pg_class c ON c.oid = a.attrelid AND c.relkind = 'r' JOIN pg_type t ON t.oid = a.atttypid
			LEFT JOIN pg_attrdef d ON d.adrelid = a.attrelid AND d.adnum = a.attnum,
			LATERAL (SELECT exists (SELECT FROM pg_depend p JOIN pg_class q ON q.oid = p.objid AND q.relkind = 'S'
				WHERE p.classid = 'pg_class'::regclass AND p.refclassid = 'pg_class'::regclass
				AND p.refobjid = a.attrelid AND p.refobjsubid = a.attnum AND p.deptype = 'a') AS owned) s
		WHERE a.attrelid = any($1) AND a.attnum > 0 AND NOT a.attisdropped ORDER BY a.attrelid, a.attnum`, c.oids())
	return c.lines(rows, err)
}

func (c *catalog) oids() []uint32 { return slices.Sorted(maps.Keys(c.nodes)) }

// lines adds what rows say of tables.
func (c *catalog) lines(rows pgx.Rows, err error) error {
	if err != nil {
		return err
	}
	var oid uint32
	var line string
	_, err = pgx.ForEachRow(rows, []any{&oid, &line}, func() error {
		c.nodes[oid].lines = append(c.nodes[oid].lines, line)
		return nil
	})
	return err
}

func (c *catalog) readConstraints(ctx context.Context, tx pgx.Tx) error {
	const condition = "k.conrelid = any($1) AND k.contype IN ('p', 'u', 'f', 'c', 'x')"
	rows, err := tx.Query(ctx, `SELECT k.conrelid, k.conname::text, k.convalidated, coalesce(n.nspname::text, '')
		FROM pg_constraint k LEFT JOIN pg_class f ON f.oid = k.confrelid LEFT JOIN pg_namespace n ON n.oid = f.relnamespace
		WHERE `+condition, c.oids())
	if err != nil {
		return err
	}
	var oid uint32
	var name, foreignSchema string
	var valid bool
	_, err = pgx.ForEachRow(rows, []any{&oid, &name, &valid, &foreignSchema}, func() error {
		switch n := c.nodes[oid]; {
		case n.wrong != "":
		case !valid:
			n.wrong = fmt.Sprintf("its constraint %s is NOT VALID: ALTER TABLE … VALIDATE CONSTRAINT ends that", name)
		case foreignSchema != "" && foreignSchema != c.schema:
			n.wrong = fmt.Sprintf("its foreign key %s leads to the schema %s, and those are not managed", name, foreignSchema)
		}
		return nil
	})
	if err != nil {
		return err
	}
	rows, err = tx.Query(ctx, `SELECT k.conrelid, 'CONSTRAINT ' || quote_ident(k.conname) || ' ' || pg_get_constraintdef(k.oid, true)
		FROM pg_constraint k WHERE `+condition+` ORDER BY k.conrelid, position(k.contype::text in 'pucxf'), k.conname`, c.oids())
	return c.lines(rows, err)
}

// readParts reads indexes that are of no constraint, and triggers.
func (c *catalog) readParts(ctx context.Context, tx pgx.Tx) error {
	rows, err := tx.Query(ctx, `SELECT i.indrelid AS of, 'index' AS kind, x.relname::text AS name, pg_get_indexdef(i.indexrelid, 0, true) AS definition,
			CASE WHEN i.indisvalid THEN '' ELSE 'it is not valid: make it again, or drop it' END
		FROM pg_index i JOIN pg_class x ON x.oid = i.indexrelid
		WHERE i.indrelid = any($1) AND NOT exists (SELECT FROM pg_constraint k WHERE k.conindid = i.indexrelid AND k.conrelid = i.indrelid AND k.contype IN ('p', 'u', 'x'))
		UNION ALL
		SELECT t.tgrelid, 'trigger', t.tgname::text, pg_get_triggerdef(t.oid, true),
			CASE WHEN t.tgenabled = 'O' THEN '' ELSE 'it is not simply enabled; it stays as it is' END
		FROM pg_trigger t WHERE t.tgrelid = any($1) AND NOT t.tgisinternal ORDER BY kind, name`, c.oids())
	if err != nil {
		return err
	}
	var p part
	_, err = pgx.ForEachRow(rows, []any{&p.owner, &p.kind, &p.name, &p.text, &p.wrong}, func() error {
		c.later = append(c.later, p)
		return nil
	})
	return err
}

// readOrder reads what must be there before what.
func (c *catalog) readOrder(ctx context.Context, tx pgx.Tx) error {
	// An array of a type rests on the type, and a table that is used as a type is the table.
	rows, err := tx.Query(ctx, `SELECT DISTINCT coalesce(r.ev_class, a.adrelid, nullif(k.conrelid, 0), nullif(k.contypid, 0), d.objid),
			coalesce(nullif(t.typrelid, 0), CASE WHEN t.typcategory = 'A' THEN nullif(t.typelem, 0) END, d.refobjid)
		FROM pg_depend d
			LEFT JOIN pg_rewrite r ON d.classid = 'pg_rewrite'::regclass AND r.oid = d.objid
			LEFT JOIN pg_attrdef a ON d.classid = 'pg_attrdef'::regclass AND a.oid = d.objid
			LEFT JOIN pg_constraint k ON d.classid = 'pg_constraint'::regclass AND k.oid = d.objid
			LEFT JOIN pg_type t ON d.refclassid = 'pg_type'::regclass AND t.oid = d.refobjid
		WHERE d.classid IN ('pg_class'::regclass, 'pg_type'::regclass, 'pg_proc'::regclass, 'pg_rewrite'::regclass, 'pg_attrdef'::regclass, 'pg_constraint'::regclass)
			AND d.refclassid IN ('pg_class'::regclass, 'pg_proc'::regclass, 'pg_type'::regclass) ORDER BY 1, 2`)
	if err != nil {
		return err
	}
	var dependent, dependency uint32
	_, err = pgx.ForEachRow(rows, []any{&dependent, &dependency}, func() error {
		if n := c.nodes[dependent]; n != nil && c.nodes[dependency] != nil && dependent != dependency {
			n.prerequisites = append(n.prerequisites, dependency)
		}
		return nil
	})
	return err
}

// readOthers names what is in the schema beside.
func (c *catalog) readOthers(ctx context.Context, tx pgx.Tx) error {
	rows, err := tx.Query(ctx, `SELECT CASE t.typtype WHEN 'r' THEN 'range type ' ELSE 'type ' END || t.typname
		FROM pg_type t JOIN pg_namespace n ON n.oid = t.typnamespace LEFT JOIN pg_class c ON c.oid = t.typrelid
		WHERE n.nspname = $1 AND (t.typtype = 'r' OR c.relkind = 'c') AND NOT `+fmt.Sprintf(ofExtension, "pg_type", "t.oid")+`
		UNION ALL
		SELECT 'sequence ' || c.relname FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
		WHERE n.nspname = $1 AND c.relkind = 'S' AND c.relpersistence <> 'p' AND `+isSequenceOfItsOwn+`
		ORDER BY 1`, c.schema)
	if err != nil {
		return err
	}
	var subject string
	_, err = pgx.ForEachRow(rows, []any{&subject}, func() error {
		c.leave(subject, "it is not managed; it stays as it is, and what uses it finds it there")
		return nil
	})
	return err
}

// declare puts all into an order in which the statements can be run.
func (c *catalog) declare() {
	for _, oid := range c.order {
		c.visit(oid)
	}
	for _, p := range c.later {
		switch n := c.nodes[p.owner]; {
		case n == nil || n.wrong != "":
		case p.wrong != "":
			c.leave(fmt.Sprintf("%s %s of %s", p.kind, p.name, n.name), "%s", p.wrong)
		default:
			c.statements = append(c.statements, p.statement)
		}
	}
}

const (
	visiting = iota + 1
	visited
)

// visit declares a node behind what must be there before it.
func (c *catalog) visit(oid uint32) {
	n := c.nodes[oid]
	if n.state != 0 {
		return
	}
	n.state = visiting
	for _, prerequisite := range n.prerequisites {
		c.visit(prerequisite)
		if required := c.nodes[prerequisite]; required.state == visiting && required.wrong == "" && n.wrong == "" {
			// The other one's own reference finds it in the database.
			n.wrong = fmt.Sprintf("it and %s %s need each other, and statements are run one by one", required.kind, required.name)
		}
	}
	n.state = visited
	if n.wrong != "" {
		c.leave(n.kind+" "+n.name, "%s; it stays as it is", n.wrong)
		return
	}
	text := n.text
	if n.kind == "table" {
		body := ""
		if len(n.lines) > 0 {
			body = "\n  " + strings.Join(n.lines, ",\n  ") + "\n"
		}
		text = strings.Replace(text, "(%s)", "("+body+")", 1)
	}
	c.statements = append(c.statements, statement{n.kind, n.name, text})
}
