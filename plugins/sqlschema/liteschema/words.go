package liteschema

import (
	"fmt"
	"slices"
	"strings"

	"lehr.dev/internal/ground/statement"
	"lehr.dev/plugins/sqlschema/database"
)

// object is a row of sqlite_schema that has a text.
type object struct{ kind, name, table, text string }

// table is a CREATE TABLE as SQLite keeps it, in its parts.
type table struct {
	object
	columns []part
	// constraints by their key.
	constraints map[string]string
	options     string
	// nameEnd is where the text goes on behind the table's name.
	nameEnd int
}

// part is the definition of a column: its words, and as it is written.
type part struct{ name, word, text string }

// catalog is the declared part of sqlite_schema, by folded names.
type catalog struct {
	tables   map[string]*table
	views    map[string]object
	indexes  map[string]object
	triggers map[string]object
}

func fold(name string) string { return strings.ToLower(name) }

// newCatalog reads the texts. Of the given names only, if there are any: of
// other tables nothing is looked at.
func newCatalog(objects []object) (*catalog, error) {
	c := &catalog{tables: map[string]*table{}, views: map[string]object{}, indexes: map[string]object{}, triggers: map[string]object{}}
	for _, one := range objects {
		switch one.kind {
		case "table":
			parsed, err := readTable(one)
			if err != nil {
				return nil, fmt.Errorf("reading the definition of table %s: %w", one.name, err)
			}
			c.tables[fold(one.name)] = parsed
		case "view":
			c.views[fold(one.name)] = one
		case "index":
			c.indexes[fold(one.name)] = one
		case "trigger":
			c.triggers[fold(one.table)+"."+fold(one.name)] = one
		}
	}
	return c, nil
}

func (c *catalog) words() (database.Objects, error) {
	objects := database.Objects{}
	for name, t := range c.tables {
		objects["table "+name] = strings.TrimSpace("table " + t.options)
		for _, column := range t.columns {
			objects["column "+name+"."+fold(column.name)] = column.word
		}
		for key, word := range t.constraints {
			objects["constraint "+name+"."+key] = word
		}
	}
	for kind, some := range map[string]map[string]object{"view": c.views, "index": c.indexes, "trigger": c.triggers} {
		for name, one := range some {
			tokens, err := statement.Scan(statement.SQLite, one.text)
			if err != nil {
				return nil, fmt.Errorf("reading the definition of %s %s: %w", kind, name, err)
			}
			objects[kind+" "+name] = write(tokens)
		}
	}
	if len(objects) > database.MaxObjects {
		return nil, fmt.Errorf("there are %d objects, and %d is the most: divide them among several assets", len(objects), database.MaxObjects)
	}
	return objects, nil
}

// readTable takes the text that SQLite keeps of a table apart at its commas.
func readTable(one object) (*table, error) {
	tokens, err := statement.Scan(statement.SQLite, one.text)
	if err != nil {
		return nil, err
	}
	t := &table{object: one, constraints: map[string]string{}}
	open := slices.IndexFunc(tokens, func(token statement.Token) bool { return token.Is("(") })
	if open < 1 || isWord(tokens[1], "virtual") {
		return nil, fmt.Errorf("it is a virtual table, which is not managed: rename it, or choose another name in the sql")
	}
	t.nameEnd = tokens[open-1].End
	depth, from := 0, open+1
	for i := open; i < len(tokens); i++ {
		switch {
		case tokens[i].Is("("):
			depth++
			continue
		case tokens[i].Is(")"):
			depth--
		}
		if depth == 0 || depth == 1 && tokens[i].Is(",") {
			t.add(tokens[from:i])
			from = i + 1
		}
		if depth == 0 {
			t.options = write(tokens[i+1:])
			return t, nil
		}
	}
	return nil, fmt.Errorf("its definition does not end")
}

// columnClauses are the keywords that end a column's type.
var columnClauses = []string{"constraint", "primary", "not", "null", "unique", "check", "default", "collate", "references", "generated", "as"}

// add reads one entry of the list: a column or a constraint.
func (t *table) add(entry []statement.Token) {
	if len(entry) == 0 {
		return
	}
	switch {
	case isWord(entry[0], "constraint") && len(entry) > 2:
		t.constraints[fold(entry[1].Value)] = write(entry[2:])
		return
	case isWord(entry[0], "primary", "unique", "check", "foreign"):
		t.constraints[write(entry)] = "declared"
		return
	}
	end := slices.IndexFunc(entry[1:], func(token statement.Token) bool { return isWord(token, columnClauses...) })
	if end < 0 {
		end = len(entry) - 1
	}
	kind, rest := write(entry[1:end+1]), write(entry[end+1:])
	if kind == "" {
		kind = "any type"
	}
	if rest != "" {
		kind += ", " + rest
	}
	name := entry[0].Value
	if entry[0].Class == statement.Text { // 'name' is taken for a name here
		name = strings.ReplaceAll(strings.Trim(name, "'"), "''", "'")
	}
	t.columns = append(t.columns, part{name: name, word: kind, text: t.text[entry[0].Start:entry[len(entry)-1].End]})
}

func isWord(token statement.Token, words ...string) bool {
	return token.Class == statement.Word && slices.Contains(words, strings.ToLower(token.Value))
}

// write joins tokens so that spellings that mean the same are the same:
// without comments, with one space, with keywords and plain names in lower
// case and without quotes.
func write(tokens []statement.Token) string {
	text := strings.Builder{}
	for i, token := range tokens {
		value := token.Value
		switch token.Class {
		case statement.Word:
			value = strings.ToLower(value)
		case statement.Name:
			if !plain(value) {
				value = `"` + strings.ReplaceAll(value, `"`, `""`) + `"`
			}
		}
		if i > 0 && spaced(tokens[i-1], token) {
			text.WriteByte(' ')
		}
		text.WriteString(value)
	}
	return text.String()
}

func spaced(before, token statement.Token) bool {
	switch {
	case before.Is("(") || before.Is(".") || token.Is(")") || token.Is(",") || token.Is(".") || token.Is(";"):
		return false
	case before.Class == statement.Symbol && token.Class == statement.Symbol:
		return before.Is(")") || before.Is(",") || before.End != token.Start
	}
	return true
}

func plain(name string) bool {
	for i := range len(name) {
		c := name[i]
		if !(c == '_' || 'a' <= c && c <= 'z' || i > 0 && '0' <= c && c <= '9') {
			return false
		}
	}
	return name != ""
}

func quote(name string) string { return `"` + strings.ReplaceAll(name, `"`, `""`) + `"` }
