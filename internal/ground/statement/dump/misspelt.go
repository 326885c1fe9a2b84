package dump

import (
	"fmt"
	"slices"
	"strings"

	"lehr.dev/internal/ground/spell"
	"lehr.dev/internal/ground/statement"
)

// MisspeltError is a statement that PostgreSQL does not know: what it was meant to declare would
// be lost, if it were left out as what is not managed is.
type MisspeltError struct {
	// Line in the SQL, from 1 on.
	Line    int
	Message string
	// Hint says what a person can do.
	Hint string
}

func (e *MisspeltError) Error() string { return e.Message }

// commands are the words with which statements of PostgreSQL begin.
var commands = strings.Fields(`abort alter analyze begin call checkpoint close cluster comment commit copy create deallocate declare delete discard do
	drop end execute explain fetch grant import insert listen load lock merge move notify prepare reassign refresh reindex release reset revoke
	rollback savepoint security select set show start table truncate unlisten update vacuum values with`)

// kinds are the words with which the kinds of objects begin that CREATE, ALTER and DROP know.
var kinds = strings.Fields(`access aggregate cast collation conversion database default domain event extension foreign function group index language large
	materialized operator owned policy privileges procedural procedure publication role routine rule schema sequence server statistics subscription
	system table tablespace text transform trigger trusted type user view`)

// misspelt returns what is wrong with the words with which a statement begins, or nil.
func misspelt(tokens []statement.Token, what string) error {
	first := tokens[0]
	if first.Class != statement.Word {
		return nil // It is no statement at all, which is told as what is left out is.
	}
	if !slices.ContainsFunc(commands, first.Is) {
		return misspeltError(first.Line, "no statement of PostgreSQL begins with "+shown(first.Value), spell.Nearest(first.Value, commands))
	}
	kind, _, _ := strings.Cut(strings.ToLower(what), " ")
	if isOneOf(first, "create", "alter", "drop") && kind != "" && !slices.Contains(kinds, kind) {
		return misspeltError(first.Line, fmt.Sprintf("%s %s: PostgreSQL has no such kind of object", strings.ToUpper(first.Value), shown(what)), spell.Nearest(kind, kinds))
	}
	return nil
}

func misspeltError(line int, message, meant string) error {
	hint := "mend the statement, or take it out of the file"
	if meant != "" {
		hint = "did you mean " + strings.ToUpper(meant) + "?"
	}
	return &MisspeltError{Line: line, Message: message, Hint: hint}
}

// shown is a word of the SQL, no longer than people read.
func shown(word string) string {
	const most = 40
	if len(word) > most {
		word = strings.ToValidUTF8(word[:most], "") + "…"
	}
	return word
}
