//go:build cgo

package main

import (
	"errors"

	pgquery "github.com/pganalyze/pg_query_go/v6"
	"github.com/pganalyze/pg_query_go/v6/parser"
)

// semicolon is PostgreSQL's token for the end of a statement.
const semicolon = pgquery.Token_ASCII_59

// readPostgreSQL tells which statements PostgreSQL's grammar does not take. It goes on behind the
// statement that is wrong.
func readPostgreSQL(text string) (found []wrong, err error) {
	for from := 0; from < len(text) && len(found) < mostWrong; {
		rest := text[from:]
		_, err := pgquery.Parse(rest)
		if err == nil {
			return found, nil
		}
		refused, ok := errors.AsType[*parser.Error](err)
		if !ok {
			return nil, err
		}
		at := byteAt(rest, refused.Cursorpos-1)
		found = append(found, wrong{lineAt(text, from+at), refused.Message})
		end, ok := nextEnd(rest, at)
		if !ok {
			return found, nil
		}
		from += end
	}
	return found, nil
}

// byteAt is where a character of a text begins, which PostgreSQL counts.
func byteAt(text string, character int) int {
	count := 0
	for at := range text {
		if count == character {
			return at
		}
		count++
	}
	return len(text)
}

// nextEnd is the byte behind the first semicolon that does not come before a place.
func nextEnd(text string, at int) (end int, ok bool) {
	scanned, err := pgquery.Scan(text)
	if err != nil {
		return 0, false // No statement behind it can be told.
	}
	for _, token := range scanned.Tokens {
		if token.Token == semicolon && int(token.Start) >= at {
			return int(token.End), true
		}
	}
	return 0, false
}
