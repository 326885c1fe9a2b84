// Package dump reads SQL for PostgreSQL as pg_dump and people write it, and says
// what of it is managed: by the schemas that its statements are of, with the
// schema taken from their names, and with what is not managed left out and told
// of. It is pure; the renderer sql-schema calls it.
package dump

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"lehr.dev/internal/ground/statement"
)

// Dump is SQL, sorted by what is managed.
type Dump struct {
	sql string
	// schema of names without one.
	schema string
	pieces []*piece
	// relations are what is made or said of as a table or a view.
	relations map[object]bool
	// made are the objects of statements that were read.
	made map[object]bool
	// out is what is left out, with why, and whatever needs it is left out too: a declared
	// table is managed whole, so one of which a part cannot be declared would lose
	// that part.
	out map[object]string
}

// object is a name in a schema; of a trigger, its table and its name.
type object struct{ schema, name string }

func (o object) String() string { return o.schema + "." + o.name }

// piece is one statement.
type piece struct {
	tokens []statement.Token
	line   int
	// what is the kind of object in SQL's words, of its own name or, for what is
	// said of a table, that of the table.
	what  string
	about object
	own   string
	// text is the statement with its schema taken from its names.
	text     string
	declares statement.Statement
	// uses are the names with a schema in it.
	uses []object
	// left: it is not served. silent ones say nothing of objects, implied ones are
	// part of something else that is left out.
	left, silent, implied bool
	why                   string
}

// Read reads SQL; schema is that of names without one. It fails where SQL does not
// say where statements end, and with a MisspeltError for what PostgreSQL does not know.
func Read(sql, schema string) (*Dump, error) {
	tokens, err := statement.Scan(statement.PostgreSQL, sql)
	if err != nil {
		return nil, err
	}
	d := &Dump{sql: sql, schema: schema, relations: map[object]bool{}, made: map[object]bool{}, out: map[object]string{}}
	for _, part := range statement.Split(tokens) {
		p := &piece{tokens: part, line: part[0].Line}
		p.read(schema)
		if err := misspelt(part, p.what); err != nil {
			return nil, err
		}
		if p.what == "TABLE" || p.what == "VIEW" {
			d.relations[p.about] = true
		}
		d.pieces = append(d.pieces, p)
	}
	for _, p := range d.pieces {
		d.declare(p)
	}
	d.spread()
	return d, nil
}

// words that stand between CREATE and what is made.
var modifiers = []string{"or", "replace", "unique", "unlogged", "global", "local", "temp", "temporary", "recursive", "constraint", "trusted", "procedural", "default"}

// kindPairs are kinds of two words, by the first.
var kindPairs = map[string][]string{
	"materialized": {"view"}, "foreign": {"table", "data", "server"}, "event": {"trigger"}, "access": {"method"},
	"operator": {"class", "family"}, "text": {"search"}, "user": {"mapping"}, "large": {"object"},
}

// onTables are the kinds whose names are those of a table's parts.
var onTables = []string{"INDEX", "TRIGGER", "POLICY", "RULE"}

// read finds out what a statement is about.
func (p *piece) read(schema string) {
	at := 0
	is := func(word string) bool { return at < len(p.tokens) && p.tokens[at].Is(word) }
	skip := func(words ...string) {
		for at < len(p.tokens) && slices.ContainsFunc(words, is) {
			at++
		}
	}
	word := func() string {
		if at >= len(p.tokens) {
			return ""
		}
		at++
		return strings.ToLower(p.tokens[at-1].Value)
	}
	name := func() object {
		if at >= len(p.tokens) {
			return object{}
		}
		o := object{schema: schema, name: fold(p.tokens[at])}
		if at+2 < len(p.tokens) && p.tokens[at+1].Is(".") {
			o.schema, o.name = o.name, fold(p.tokens[at+2])
			at += 2
		}
		at++
		return o
	}
	first := word()
	p.what = strings.ToUpper(first)
	switch first {
	case "create", "alter", "drop":
		skip(modifiers...)
		kind := word()
		if second := kindPairs[kind]; slices.ContainsFunc(second, is) {
			kind += " " + word()
		}
		p.what = strings.ToUpper(kind)
		skip("if", "not", "exists", "only", "concurrently")
		if p.about = name(); slices.Contains(onTables, p.what) && first == "create" {
			p.own = p.about.name
			before := map[bool]string{false: "on", true: "to"}[p.what == "RULE"]
			for at < len(p.tokens) && !is(before) {
				at++
			}
			at++
			skip("only")
			p.about = name()
		}
	case "grant", "revoke":
		for at < len(p.tokens) && !is("on") {
			at++
		}
		at++
		skip("table", "function", "procedure", "routine", "sequence", "type", "domain", "schema")
		p.about = name()
	}
	for i, token := range p.tokens {
		switch {
		case token.Is(".") && i > 0 && i+1 < len(p.tokens) && isName(p.tokens[i-1]) && isName(p.tokens[i+1]):
			p.uses = append(p.uses, object{fold(p.tokens[i-1]), fold(p.tokens[i+1])})
		case regclass(p.tokens, i):
			if one, err := statement.Scan(statement.PostgreSQL, unquote(token)); err == nil && len(one) == 3 {
				p.uses = append(p.uses, object{fold(one[0]), fold(one[2])})
			}
		}
	}
}

func isName(token statement.Token) bool {
	return token.Class == statement.Word || token.Class == statement.Name
}

func fold(token statement.Token) string {
	if token.Class == statement.Word {
		return strings.ToLower(token.Value)
	}
	return token.Value
}

// regclass reports whether a token is a string that names an object.
func regclass(tokens []statement.Token, i int) bool {
	return tokens[i].Class == statement.Text && i+3 < len(tokens) && tokens[i+1].Is(":") && tokens[i+2].Is(":") && tokens[i+3].Is("regclass")
}

func unquote(token statement.Token) string { return strings.Trim(token.Value, "'") }

// declare reads a statement as the plugin will: without its own schema in names,
// for they are looked up in the field schema.
func (d *Dump) declare(p *piece) {
	text := strings.Builder{}
	start := p.tokens[0].Start
	for i, token := range p.tokens {
		switch {
		case i+2 < len(p.tokens) && p.tokens[i+1].Is(".") && isName(token) && fold(token) == p.about.schema && (i == 0 || !p.tokens[i-1].Is(".")):
			// A table may have the name of its schema.
			if target := (object{p.about.schema, fold(p.tokens[i+2])}); d.relations[object{p.about.schema, p.about.schema}] && !d.relations[target] {
				continue
			}
			text.WriteString(d.sql[start:token.Start])
			start = p.tokens[i+1].End
		case regclass(p.tokens, i):
			one, err := statement.Scan(statement.PostgreSQL, unquote(token))
			if err == nil && len(one) == 3 && one[1].Is(".") && fold(one[0]) == p.about.schema {
				text.WriteString(d.sql[start:token.Start] + "'" + unquote(token)[one[2].Start:] + "'")
				start = token.End
			}
		}
	}
	text.WriteString(d.sql[start:p.tokens[len(p.tokens)-1].End])
	p.text = text.String()
	tokens, err := statement.Scan(statement.PostgreSQL, p.text)
	if err == nil {
		p.declares, err = statement.Read(statement.PostgreSQL, p.text, tokens)
	}
	if p.tokens[0].Is("create") {
		d.made[p.about] = true
	}
	if err != nil {
		d.refuse(p, err)
	}
	if p.declares.Kind == statement.Constraint && err != nil {
		p.why = "it leads to another schema, or is none that is known"
	}
	if p.declares.Kind == statement.Constraint {
		p.what, p.own = "CONSTRAINT", p.declares.Name
	}
}

// refuse leaves out a statement that declares nothing that is managed, and what it
// says something of that is lost with it.
func (d *Dump) refuse(p *piece, err error) {
	p.left = true
	has := func(words ...string) bool { return holds(p.tokens, words...) }
	first := p.tokens[0]
	switch {
	case first.Class == statement.Command, isOneOf(first, "set", "reset", "begin", "start", "commit", "end"), has("select", "pg_catalog", ".", "set_config"):
		p.silent = true
	case strings.HasPrefix(p.about.name, statement.Reserved):
		p.silent = true // the plugin's own
	case isOneOf(first, "comment", "grant", "revoke", "insert", "copy", "select", "update", "delete", "analyze", "vacuum"):
	case !isOneOf(first, "create", "alter", "drop"):
		p.why = reason(err)
	case has("owner", "to"):
		p.what = "OWNER"
	case first.Is("create") && slices.Contains(apart, p.what):
	case first.Is("alter") && has("row", "level", "security"):
		p.what = "ROW SECURITY"
	case first.Is("alter") && (has("disable", "trigger") || has("enable", "trigger") || has("always", "trigger") || has("replica", "trigger")):
		p.what, p.own = "ALTER TRIGGER", fold(p.tokens[len(p.tokens)-1])
		d.out[object{p.about.String(), p.own}] = fmt.Sprintf("line %d has it enabled otherwise", p.line)
	case first.Is("alter") && (slices.Contains(apart, p.what) || p.what == "INDEX" || slices.ContainsFunc(harmless, func(words []string) bool { return has(words...) })):
		p.what = "ALTER " + p.what
	case first.Is("create"):
		p.why = reason(err)
		if p.what == "TABLE" && p.why == "" {
			p.why = "it is of no kind that is managed"
		}
		d.out[p.about] = p.why
	case !d.made[p.about]:
		p.silent = true // what a database is cleared of before all is made
	default:
		p.what = strings.ToUpper(first.Value) + " " + p.what
		reason := p.what + " in line " + fmt.Sprint(p.line)
		d.out[p.about] = reason
		if has("attach", "partition") {
			for _, partition := range p.uses {
				d.out[partition] = reason
			}
		}
	}
}

// apart are the kinds of objects of which no statement that is managed can hold
// a name, or without which what it says is still true.
var apart = []string{
	"SCHEMA", "EXTENSION", "PUBLICATION", "SUBSCRIPTION", "EVENT TRIGGER", "STATISTICS", "POLICY", "RULE", "ROLE", "USER", "USER MAPPING", "SERVER",
	"FOREIGN DATA", "LANGUAGE", "CAST", "DATABASE", "PRIVILEGES", "LARGE OBJECT", "ACCESS METHOD", "TRANSFORM", "CONVERSION", "TABLESPACE",
}

// harmless are what ALTER may change of a table without which it is what it is
// declared to be.
var harmless = [][]string{{"replica", "identity"}, {"cluster", "on"}, {"set", "statistics"}, {"set", "storage"}, {"set", "compression"}, {"set", "without", "cluster"}}

// reason is why the plugin would refuse a statement, without the line.
func reason(err error) string {
	one, ok := errors.AsType[*statement.Error](err)
	if !ok || one.Kind {
		return "" // the kind is told
	}
	// What people can do about it is said for all together.
	message, _, _ := strings.Cut(one.Message, ";")
	return message
}

func isOneOf(token statement.Token, words ...string) bool {
	return slices.ContainsFunc(words, token.Is)
}

func holds(tokens []statement.Token, words ...string) bool {
	for i := range len(tokens) - len(words) + 1 {
		if isEach(tokens[i:i+len(words)], words) {
			return true
		}
	}
	return false
}

func isEach(tokens []statement.Token, words []string) bool {
	for i, word := range words {
		if !tokens[i].Is(word) {
			return false
		}
	}
	return true
}

// spread leaves out what needs something that is left out, until nothing more is.
func (d *Dump) spread() {
	for again := true; again; {
		again = false
		for _, p := range d.pieces {
			if p.left {
				continue
			}
			if needs, ok := d.needs(p); ok {
				again = true
				p.left = true
				switch {
				case needs.schema == p.about.String(): // a trigger
					p.why = d.out[needs]
				case needs != p.about:
					p.why = "needs " + needs.String()
				case p.what == "TABLE" && p.tokens[0].Is("create"), p.what != "TABLE" && p.own == "" && p.declares.Kind != statement.Owner && p.declares.Kind != statement.Grant:
					p.why = d.out[needs]
				default:
					p.implied = true
				}
				d.lose(p)
			}
		}
	}
}

// needs finds something that a statement needs and that is left out.
func (d *Dump) needs(p *piece) (object, bool) {
	needs := append([]object{p.about}, p.uses...)
	for _, name := range slices.Concat(p.declares.References, p.declares.Tables) {
		needs = append(needs, object{p.about.schema, name})
	}
	if p.declares.Kind == statement.Trigger {
		needs = append(needs, object{p.about.String(), p.own})
	}
	for _, one := range needs {
		if _, out := d.out[one]; out {
			return one, true
		}
	}
	return object{}, false
}

// lose notes what is not as it is in the database when a statement is left out.
func (d *Dump) lose(p *piece) {
	switch p.declares.Kind {
	case statement.Trigger, statement.Grant, statement.Unchecked:
	default:
		if _, out := d.out[p.about]; out {
			return
		}
		d.out[p.about] = cmp.Or(p.why, "its kind is not managed")
		if p.own != "" || p.declares.Kind == statement.Owner {
			d.out[p.about] = fmt.Sprintf("line %d of it %s", p.line, p.why)
		}
	}
}

// leave leaves out the statement of a line, and what needs it.
func (d *Dump) leave(schema string, line int, reason string) bool {
	for _, p := range slices.Backward(d.pieces) {
		if p.line <= line && !p.left && p.about.schema == schema {
			p.left, p.why = true, strings.Split(reason, ";")[0]
			d.lose(p)
			d.spread()
			return true
		}
	}
	return false
}

// schemas are those of which something is declared, that of names without one
// first.
func (d *Dump) schemas() []string {
	found := map[string]bool{}
	for _, p := range d.pieces {
		if !p.left && p.declares.Kind != statement.Unchecked {
			found[p.about.schema] = true
		}
	}
	delete(found, d.schema)
	return append([]string{d.schema}, slices.Sorted(maps.Keys(found))...)
}

// text is what is declared of a schema, each statement in its line. What would be
// refused together, such as a name declared twice, is left out.
func (d *Dump) text(schema string) string {
	for {
		text, count := d.write(schema)
		if count == 0 {
			return ""
		}
		if count > statement.MaxStatements || len(text) > statement.MaxBytes {
			return text
		}
		_, err := statement.Parse(statement.PostgreSQL, text)
		one, ok := errors.AsType[*statement.Error](err)
		if !ok || !d.leave(schema, one.Line, one.Message) {
			return text
		}
	}
}

func (d *Dump) write(schema string) (string, int) {
	text, line, count := strings.Builder{}, 1, 0
	for _, p := range d.pieces {
		always := p.declares.Kind == statement.Unchecked
		if p.left || p.about.schema != schema && !always {
			continue
		}
		if !always {
			count++
		}
		text.WriteString(strings.Repeat("\n", max(0, p.line-line)) + p.text + ";")
		line = max(line, p.line) + strings.Count(p.text, "\n")
	}
	return text.String() + "\n", count
}

// Changed reports whether something is to be served otherwise than it is written.
func (d *Dump) Changed() bool {
	return slices.ContainsFunc(d.pieces, func(p *piece) bool {
		return p.left || p.about.schema != d.schema && p.declares.Kind != statement.Unchecked || p.text != d.sql[p.tokens[0].Start:p.tokens[len(p.tokens)-1].End]
	})
}

// mostNamed bounds how many of a kind are named; the others are counted.
const mostNamed = 20

// LeftOut tells of all that is left out, by kind, and the line of the first; place
// writes a line. It is told after Schemas.
func (d *Dump) LeftOut(place func(int) string) (message string, line int) {
	kinds := map[string][]string{}
	count, implied := 0, 0
	for _, p := range d.pieces {
		if !p.left || p.silent {
			continue
		}
		if count++; line == 0 {
			line = p.line
		}
		if p.implied {
			implied++
			continue
		}
		where := place(p.line)
		switch {
		case p.why != "":
			kinds[p.what] = append(kinds[p.what], fmt.Sprintf("%s (%s: %s)", p.name(), where, p.why))
		case p.own != "" || p.declares.Kind != "":
			kinds[p.what] = append(kinds[p.what], fmt.Sprintf("%s (%s)", p.name(), where))
		default:
			kinds[p.what] = append(kinds[p.what], where)
		}
	}
	if count == 0 {
		return "", 0
	}
	var parts []string
	for _, kind := range slices.Sorted(maps.Keys(kinds)) {
		all := kinds[kind]
		text := fmt.Sprintf("%d %s: %s", len(all), kind, strings.Join(all[:min(len(all), mostNamed)], ", "))
		if more := len(all) - mostNamed; more > 0 {
			text += fmt.Sprintf(" and %d more", more)
		}
		parts = append(parts, text)
	}
	if implied > 0 {
		parts = append(parts, fmt.Sprintf("%d that are parts of these", implied))
	}
	return fmt.Sprintf("%d of %d statements are not served, for they are not managed or need what is not: %s", count, len(d.pieces), strings.Join(parts, "; ")), line
}

func (p *piece) name() string {
	if p.own != "" {
		return p.own + " on " + p.about.name
	}
	return p.about.name
}

// Schemas are what is managed, by schema: each statement in its line.
func (d *Dump) Schemas() map[string]string {
	for {
		before, texts := d.count(), map[string]string{}
		for _, schema := range d.schemas() {
			if text := d.text(schema); text != "" {
				texts[schema] = text
			}
		}
		if d.count() == before {
			return texts
		}
	}
}

// count counts what is left out.
func (d *Dump) count() (remaining int) {
	for _, p := range d.pieces {
		if p.left {
			remaining++
		}
	}
	return remaining
}

// Segment is a schema's name as a part of an id.
func Segment(schema string) string {
	text := strings.Map(func(r rune) rune {
		if 'a' <= r && r <= 'z' || '0' <= r && r <= '9' || r == '.' || r == '_' || r == '-' {
			return r
		}
		return '-'
	}, strings.ToLower(schema))
	return strings.Trim(text, "._-")
}
