package generate

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"sort"
	"strings"

	_ "modernc.org/sqlite" // The engine that reads the SQL of its databases.

	sqlschemapb "lehr.dev/gen/lehr/sqlschema/v1"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/ground/schema"
	"lehr.dev/internal/ground/statement"
	"lehr.dev/internal/prodspec/generate/work"
)

// sqlRule is what findings of SQL have as their rule.
const sqlRule = "sql"

// sqlType is that of assets that declare the schema of a database.
var sqlType = intent.TypeName((&sqlschemapb.Schema{}).ProtoReflect().Descriptor().FullName())

// judgeSQL has a run fail whose assets have SQL that cannot be read: a plugin would find
// out only when it is served. It works on what a tenant wrote, so children do it. open
// returns what the run read, where a statement is looked for.
func judgeSQL(ctx context.Context, result work.Result, open func(work.Read) []byte) work.Result {
	var findings []intent.Finding
	for _, made := range result.Assets {
		if made.Type != sqlType {
			continue
		}
		// What is no such asset is refused where the run's answer is checked.
		declared := &sqlschemapb.Schema{}
		asset, err := schema.Decode(made.Body)
		if err != nil || schema.Payload(asset, declared) != nil || declared.Sql == "" {
			continue
		}
		wrong := readSQL(ctx, declared)
		if wrong == nil {
			continue
		}
		f := intent.Finding{Rule: sqlRule, Severity: intent.Error, Asset: made.ID, Field: "payload.sql", File: made.File, Line: max(made.Line, 1), Hint: wrong.hint}
		if file, line, ok := locate(wrong.text(declared.Sql), result.Reads, open); ok {
			f.File, f.Line, f.Column = file, line, wrong.column
			f.Message = wrong.message
		} else {
			f.Message = fmt.Sprintf("line %d, column %d of the SQL: %s", wrong.line, wrong.column, wrong.message)
		}
		findings = append(findings, f)
	}
	if len(findings) > 0 {
		result.Assets, result.Blobs, result.Warnings, result.Findings = nil, nil, nil, findings
	}
	return result
}

// wrongSQL is what cannot be read, and where.
type wrongSQL struct {
	line, column  int
	message, hint string
}

// text is the line, by which it is looked for in files.
func (w *wrongSQL) text(all string) string {
	lines := strings.Split(all, "\n")
	return lines[min(w.line, len(lines))-1]
}

// locate finds the only line of that text in what was read.
func locate(text string, reads []work.Read, open func(work.Read) []byte) (file string, line int, ok bool) {
	if strings.TrimSpace(text) == "" {
		return "", 0, false
	}
	for _, read := range reads {
		if read.Kind != work.ReadFile {
			continue
		}
		for i, one := range strings.Split(string(open(read)), "\n") {
			if strings.TrimRight(one, "\r") != strings.TrimRight(text, "\r") {
				continue
			}
			if ok {
				return "", 0, false
			}
			file, line, ok = read.Name, i+1, true
		}
	}
	return file, line, ok
}

// readSQL returns what is wrong with it; nil: nothing that can be seen without a database
// server. SQLite itself reads what is for it; of what is for PostgreSQL only where
// statements begin and end, and what they declare, is known here.
func readSQL(ctx context.Context, declared *sqlschemapb.Schema) *wrongSQL {
	dialect := statement.PostgreSQL
	if strings.HasPrefix(declared.Database, "sqlite:") {
		dialect = statement.SQLite
	}
	statements, err := statement.Parse(dialect, declared.Sql)
	if wrong, ok := errors.AsType[*statement.Error](err); ok {
		found := &wrongSQL{line: wrong.Line, message: wrong.Message, hint: "mend the SQL: docs/use/sqlschema.md says what it may hold"}
		// Only the line is known.
		text := found.text(declared.Sql)
		found.column = 1 + len(text) - len(strings.TrimLeft(text, " \t"))
		return found
	}
	if err != nil {
		return nil
	}
	if dialect == statement.PostgreSQL {
		for _, one := range statements {
			if at, message := unbalanced(one.Tokens); message != "" {
				return &wrongSQL{line: at.Line, column: columnOf(declared.Sql, at), message: message, hint: "mend the statement"}
			}
		}
		return nil
	}
	db, err := sql.Open("sqlite", ":memory:")
	if err != nil {
		return nil // The plugin has an engine of its own.
	}
	defer db.Close()
	db.SetMaxOpenConns(1) // Each has a memory of its own.
	for _, one := range statements {
		if _, err := db.ExecContext(ctx, one.Text); err != nil {
			at := failingToken(ctx, db, one, err)
			return &wrongSQL{line: at.Line, column: columnOf(declared.Sql, at), message: "SQLite cannot read the statement: " + err.Error(), hint: "mend the statement; sqlite3 :memory: '.read FILE' says the same"}
		}
	}
	return nil
}

// columnOf a token, in bytes from 1.
func columnOf(text string, at statement.Token) int {
	return at.Start - strings.LastIndexByte(text[:at.Start], '\n')
}

// unbalanced finds what is wrong in any dialect: brackets that do not match, and a comma
// with nothing before or behind it.
func unbalanced(tokens []statement.Token) (at statement.Token, message string) {
	var open []statement.Token
	for i, token := range tokens {
		switch {
		case token.Is("("):
			open = append(open, token)
		case token.Is(")") && len(open) == 0:
			return token, "this bracket closes none: there is no ( before it"
		case token.Is(")"):
			open = open[:len(open)-1]
		}
		if i > 0 && (tokens[i-1].Is(",") && (token.Is(",") || token.Is(")")) || tokens[i-1].Is("(") && token.Is(",")) {
			return token, fmt.Sprintf("%q comes where something must be listed: is there a comma too many?", token.Value)
		}
	}
	switch last := tokens[len(tokens)-1]; {
	case len(open) > 0:
		return open[len(open)-1], "this bracket is not closed: there is no ) for it"
	case last.Is(","):
		return last, "the statement ends with a comma"
	}
	return at, ""
}

// failingToken is the one that the engine stumbles over: the first up to which the
// statement fails as the whole does, for until there it only ends too early. What fails
// only as a whole fails by what it means, and is placed at its beginning.
func failingToken(ctx context.Context, db *sql.DB, one statement.Statement, whole error) statement.Token {
	tokens := one.Tokens
	found := sort.Search(len(tokens)-1, func(i int) bool {
		_, err := db.ExecContext(ctx, one.Text[:tokens[i].End-tokens[0].Start])
		return err != nil && err.Error() == whole.Error()
	})
	if found == len(tokens)-1 {
		return tokens[0]
	}
	return tokens[found]
}
