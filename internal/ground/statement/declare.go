package statement

import (
	"fmt"
	"strings"
)

// refusals say what to do instead of a statement that is no declaration.
var refusals = map[string]string{
	"drop":      "what should go is left out of the declaration of its table; whole tables go by a Turndown addon",
	"alter":     "write the end that you want in CREATE TABLE; the plugin finds the steps",
	"insert":    "data are not part of a schema; let the application or a task write them",
	"update":    "data are not part of a schema; let the application or a task change them",
	"delete":    "data are not part of a schema; let the application or a task remove them",
	"truncate":  "data are not part of a schema",
	"copy":      "data are not part of a schema; let a task load them",
	"select":    "a query declares nothing; use CREATE VIEW",
	"with":      "a query declares nothing; use CREATE VIEW",
	"set":       "settings are the plugin's; use lock_timeout and statement_timeout",
	"reset":     "settings are the plugin's; use lock_timeout and statement_timeout",
	"begin":     "every push is one transaction already",
	"start":     "every push is one transaction already",
	"commit":    "every push is one transaction already",
	"end":       "every push is one transaction already",
	"rollback":  "every push is one transaction already",
	"savepoint": "every push is one transaction already",
	"release":   "every push is one transaction already",
	"attach":    "an asset is about one database; give the other one an asset of its own",
	"detach":    "an asset is about one database",
	"pragma":    "settings of the file are its owner's",
	"vacuum":    "upkeep is not part of a schema",
	"analyze":   "upkeep is not part of a schema",
	"reindex":   "upkeep is not part of a schema",
	"revoke":    "only grants that are wanted are declared; revoke by hand what is not",
	"comment":   "comments on objects are not managed; write an SQL comment",
	"do":        "code that runs once is no declaration; let a task run it",
	"call":      "code that runs once is no declaration; let a task run it",
	"lock":      "the plugin takes the locks",
}

// notManaged are the objects of CREATE that are not managed, and what to do.
var notManaged = map[string]string{
	"extension":    "an extension is installed by the database's owner",
	"schema":       "the schema of the field `schema` must exist",
	"database":     "the database must exist",
	"sequence":     "SQLite has none; use INTEGER PRIMARY KEY",
	"type":         "of types only CREATE TYPE … AS ENUM is managed; make others by hand",
	"domain":       "SQLite has none; use a CHECK constraint",
	"materialized": "materialized views hold data; use CREATE VIEW",
	"temp":         "temporary objects end with the connection",
	"temporary":    "temporary objects end with the connection",
	"unlogged":     "unlogged tables lose their rows in a crash; use CREATE TABLE",
	"virtual":      "virtual tables are not managed; make them by hand",
	"recursive":    "write CREATE VIEW … AS WITH RECURSIVE …",
	"procedure":    "use CREATE FUNCTION",
	"foreign":      "foreign tables are not managed; make them by hand",
	"role":         "roles belong to the whole cluster; make them by hand",
	"user":         "roles belong to the whole cluster; make them by hand",
	"policy":       "row security is not managed",
	"rule":         "use a trigger or a view",
}

// reader goes through the tokens of one statement.
type reader struct {
	dialect Dialect
	tokens  []Token
	at      int
}

func (r *reader) peek() Token {
	if r.at < len(r.tokens) {
		return r.tokens[r.at]
	}
	return Token{Class: Symbol, Line: r.tokens[len(r.tokens)-1].Line}
}

// take goes past the words, if they come next.
func (r *reader) take(words ...string) bool {
	for i, word := range words {
		if r.at+i >= len(r.tokens) || !r.tokens[r.at+i].Is(word) {
			return false
		}
	}
	r.at += len(words)
	return true
}

// name reads a name without a schema.
func (r *reader) name(of string) (string, error) { return r.qualifier(of, false) }

// qualifier reads a name, behind which its column may come.
func (r *reader) qualifier(of string, column bool) (string, error) {
	token := r.peek()
	if token.Class != Word && token.Class != Name {
		return "", fail(token.Line, "the name of the %s is missing: write it after the keywords", of)
	}
	r.at++
	duplicate := column && r.at+2 < len(r.tokens) && r.tokens[r.at+2].Is(".")
	if r.peek().Is(".") && (!column || duplicate) {
		return "", fail(token.Line, "the %s %s.… is named with a schema: write its name alone; the field `schema` says where it goes", of, token.Value)
	}
	name := token.Value
	if r.dialect == PostgreSQL && token.Class == Word {
		name = strings.ToLower(name)
	}
	if strings.HasPrefix(strings.ToLower(name), Reserved) {
		return "", fail(token.Line, "names that begin with %s are the plugin's own: choose another than %s", Reserved, name)
	}
	return name, nil
}

// Reserved is how the plugin's own names begin.
const Reserved = "lehr_"

func read(dialect Dialect, tokens []Token) (Statement, error) {
	r := &reader{dialect: dialect, tokens: tokens}
	first := tokens[0]
	switch {
	case r.take("create"):
		return r.create()
	case r.take("grant") && dialect == PostgreSQL:
		return r.grant()
	case first.Class == Command:
		return Statement{}, fail(first.Line, `\ outside of a string: commands of psql are not SQL; remove it`)
	case dialect == PostgreSQL && unchecked(tokens):
		return Statement{Kind: Unchecked}, nil
	case dialect == PostgreSQL && first.Is("alter"):
		if s, ok, err := r.alter(); ok {
			return s, err
		}
	case first.Is("grant"):
		return Statement{}, fail(first.Line, "GRANT: SQLite has no roles; remove it")
	}
	word := strings.ToLower(first.Value)
	if hint := refusals[word]; hint != "" && first.Class == Word {
		return Statement{}, fail(first.Line, "%s is not a declaration: %s", strings.ToUpper(word), hint)
	}
	return Statement{}, fail(first.Line, "a statement begins with %.40q: only CREATE TABLE, INDEX, VIEW, FUNCTION, TRIGGER and GRANT are declarations", first.Value)
}

// unchecked recognises the setting with which pg_dump writes functions before the
// tables that they use.
func unchecked(tokens []Token) bool {
	return len(tokens) == 4 && tokens[0].Is("set") && tokens[1].Is("check_function_bodies") && (tokens[2].Is("=") || tokens[2].Is("to")) &&
		(tokens[3].Is("false") || tokens[3].Is("off"))
}

// alter reads what pg_dump adds to a table or a sequence after it is made.
func (r *reader) alter() (s Statement, ok bool, err error) {
	switch {
	case r.take("alter", "sequence"):
		if s.Name, err = r.name("sequence"); err != nil {
			return s, true, err
		}
		if !r.take("owned", "by") {
			return s, false, nil
		}
		s.Kind = Owner
	case r.take("alter", "table"):
		r.take("only")
	default:
		return s, false, nil
	}
	table, err := r.qualifier("table", s.Kind == Owner)
	if err != nil {
		return s, true, err
	}
	s.Tables = []string{table}
	if line := r.listed(); line > 0 {
		return s, true, fail(line, "ALTER TABLE %s does several things: write a statement for each", table)
	}
	switch {
	case s.Kind == Owner:
		return s, r.take("."), nil
	case r.take("add", "constraint"):
		s.Kind = Constraint
		if s.Name, err = r.name("constraint"); err != nil {
			return s, true, err
		}
		s.References, err = r.references()
		return s, true, err
	case r.take("alter", "column"):
		s.Kind = Preset
		r.at++ // the column
		return s, r.take("set", "default") || r.take("add", "generated"), nil
	}
	return s, false, nil
}

func (r *reader) create() (Statement, error) {
	orReplace := r.take("or", "replace")
	unique := r.take("unique")
	constraint := r.take("constraint")
	kind := r.peek()
	s := Statement{Kind: Kind(strings.ToLower(kind.Value))}
	r.at++
	var err error
	switch {
	case s.Kind == Table && !orReplace:
		err = r.table(&s)
	case s.Kind == Index && !orReplace:
		err = r.index(&s)
	case s.Kind == View && !unique && (!orReplace || r.dialect == PostgreSQL):
		r.take("if", "not", "exists")
		s.Name, err = r.name("view")
	case s.Kind == Function && r.dialect == PostgreSQL:
		s.Name, err = r.name("function")
	case r.dialect == PostgreSQL && s.Kind == "type" && !orReplace:
		s.Kind = Enum
		if s.Name, err = r.name("type"); err == nil && !r.take("as", "enum") {
			err = &Error{Line: kind.Line, Message: "CREATE TYPE is not managed: " + notManaged["type"], Kind: true}
		}
	case r.dialect == PostgreSQL && (s.Kind == Domain || s.Kind == Sequence) && !orReplace:
		r.take("if", "not", "exists")
		s.Name, err = r.name(string(s.Kind))
	case s.Kind == Trigger && (r.dialect == PostgreSQL || !orReplace && !constraint):
		err = r.trigger(&s)
	default:
		hint := notManaged[strings.ToLower(kind.Value)]
		if hint == "" {
			hint = "only CREATE TABLE, INDEX, VIEW, FUNCTION (PostgreSQL) and TRIGGER are"
		}
		err = &Error{Line: kind.Line, Message: fmt.Sprintf("CREATE %s is not managed: %s", strings.ToUpper(kind.Value), hint), Kind: true}
	}
	if err != nil {
		return s, err
	}
	return s, r.dangers(s)
}

func (r *reader) table(s *Statement) (err error) {
	r.take("if", "not", "exists")
	if s.Name, err = r.name("table"); err != nil {
		return err
	}
	if !r.peek().Is("(") {
		return fail(r.peek().Line, "table %s has no list of columns: write CREATE TABLE %s (…); a table made by a query, or part of another one, is not managed", s.Name, s.Name)
	}
	if s.References, err = r.references(); err != nil {
		return err
	}
	depth := 0
	for _, token := range r.tokens[r.at:] {
		switch {
		case token.Is("("):
			depth++
		case token.Is(")"):
			depth--
		case depth == 0 && (token.Is("inherits") || token.Is("partition")):
			return fail(token.Line, "table %s uses %s: partitions and inheritance are not managed; make such tables by hand", s.Name, strings.ToUpper(token.Value))
		case depth == 0 && token.Is("as"):
			return fail(token.Line, "table %s is made by a query: list its columns", s.Name)
		}
	}
	return nil
}

// references are the tables that foreign keys name.
func (r *reader) references() ([]string, error) {
	var tables []string
	for i, token := range r.tokens[r.at:] {
		if !token.Is("references") {
			continue
		}
		at := reader{dialect: r.dialect, tokens: r.tokens, at: r.at + i + 1}
		name, err := at.name("table that a foreign key names,")
		if err != nil {
			return nil, err
		}
		tables = append(tables, name)
	}
	return tables, nil
}

// listed is the line of a comma outside of brackets, or 0.
func (r *reader) listed() int {
	depth := 0
	for _, token := range r.tokens[r.at:] {
		switch {
		case token.Is("("), token.Is("["):
			depth++
		case token.Is(")"), token.Is("]"):
			depth--
		case depth == 0 && token.Is(","):
			return token.Line
		}
	}
	return 0
}

func (r *reader) index(s *Statement) (err error) {
	if r.peek().Is("concurrently") {
		return fail(r.peek().Line, "CREATE INDEX CONCURRENTLY cannot be part of a transaction: leave CONCURRENTLY out, or make the index by hand first, with this name; then nothing differs")
	}
	r.take("if", "not", "exists")
	if r.peek().Is("on") {
		return fail(r.peek().Line, "an index without a name: give it one, so that it is found again")
	}
	if s.Name, err = r.name("index"); err != nil {
		return err
	}
	if !r.take("on") {
		return fail(r.peek().Line, "index %s: ON and a table are missing", s.Name)
	}
	r.take("only")
	table, err := r.name("table")
	s.Tables = []string{table}
	return err
}

func (r *reader) trigger(s *Statement) (err error) {
	r.take("if", "not", "exists")
	if s.Name, err = r.name("trigger"); err != nil {
		return err
	}
	for ; r.at < len(r.tokens); r.at++ {
		if !r.take("on") {
			continue
		}
		table, err := r.name("table")
		s.Tables = []string{table}
		return err
	}
	return fail(r.peek().Line, "trigger %s: ON and a table are missing", s.Name)
}

// grant reads who may do what to which tables. One on functions names them
// itself: the engine refuses those that are not declared.
func (r *reader) grant() (Statement, error) {
	s := Statement{Kind: Grant}
	line := r.peek().Line
	for ; ; r.at++ {
		if r.at >= len(r.tokens) || r.peek().Is("to") {
			return s, fail(line, "this GRANT is not about a table or function: membership of roles is granted by hand")
		}
		if r.take("on") {
			break
		}
	}
	for _, token := range r.tokens[r.at:] {
		if token.Is(".") {
			return s, fail(token.Line, "this GRANT names a schema: write names alone; the field `schema` says where they are")
		}
	}
	if r.take("function") {
		return s, nil
	}
	for _, word := range []string{"all", "schema", "database", "sequence", "language", "tablespace", "type", "domain", "parameter", "large", "foreign", "procedure", "routine"} {
		if r.peek().Is(word) {
			return s, fail(r.peek().Line, "GRANT … ON %s is not managed: grant on tables and functions that are declared here, each by its name", strings.ToUpper(word))
		}
	}
	r.take("table")
	for {
		table, err := r.name("table")
		if err != nil {
			return s, err
		}
		s.Tables = append(s.Tables, table)
		if !r.take(",") {
			return s, nil
		}
	}
}

// dangers refuses clauses that a declaration must not have.
func (r *reader) dangers(s Statement) error {
	for i, token := range r.tokens {
		if token.Is("tablespace") && s.Kind != Function && i > 0 {
			return fail(token.Line, "TABLESPACE is not managed: leave it out")
		}
	}
	return nil
}
