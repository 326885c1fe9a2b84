package fetch

import (
	"bytes"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"

	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/files"
	"lehr.dev/internal/ground/files/lite"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/prodspec/source"
)

// table is what a query finds, in a transaction that only reads.
type table struct {
	inMemory
	remote source.SQL
	guard  guard
	limits source.Limits
}

const (
	// mostRows of a query, and queryPatience for it.
	mostRows      = 100_000
	queryPatience = 30 * time.Second
)

// rows gathers what was found, within the limits.
type rows struct {
	table *table
	texts []json.RawMessage
	names []string
	bytes int64
}

func (r *rows) add(text []byte, name string) error {
	r.bytes += int64(len(text))
	if len(r.texts) == mostRows {
		return fault.New(fault.Invalid, "the query of %s finds more than %d rows", r.table, mostRows).WithHint("ask for less")
	}
	if r.bytes > r.table.limits.FileBytes {
		return tooLarge("what the query of "+r.table.String()+" finds", r.table.limits.FileBytes)
	}
	r.texts, r.names = append(r.texts, json.RawMessage(text)), append(r.names, name)
	return nil
}

func (t *table) String() string {
	if t.remote.SQLite != "" {
		return t.remote.SQLite
	}
	return "the database of " + t.remote.DSN.String()
}

func (t *table) fetch(ctx context.Context, last *State) (*State, error) {
	if several(t.remote.Query) {
		return nil, fault.New(fault.Invalid, "the query of %s is more than one statement", t).WithHint("write one SELECT")
	}
	ctx, cancel := context.WithTimeout(ctx, queryPatience)
	defer cancel()
	result := &rows{table: t}
	var err error
	if t.remote.SQLite != "" {
		err = t.sqlite(ctx, result)
	} else {
		err = t.postgres(ctx, result)
	}
	if err != nil {
		if _, ok := errors.AsType[*fault.Error](err); ok {
			return nil, err
		}
		if ctx.Err() != nil {
			err = fmt.Errorf("it did not answer within %s", queryPatience)
		}
		return nil, unreadable(t.String(), err)
	}
	if len(result.texts) == 0 && !t.remote.Empty {
		return nil, fault.New(fault.Unavailable, "the query of %s finds no rows", t).
			WithHint("an empty answer is never taken for intent, for a right may have been revoked: restore the rows, or write empty: true if none are an answer too")
	}
	state, err := result.state()
	if err == nil && last != nil && source.Revision(last.Files) == source.Revision(state.Files) {
		return last, nil
	}
	return state, err
}

func (r *rows) state() (*State, error) {
	if r.table.remote.Rows == "" {
		if r.texts == nil {
			r.texts = []json.RawMessage{}
		}
		content, err := indented(r.texts)
		if err != nil {
			return nil, err
		}
		return newState(map[string][]byte{r.table.remote.File: content}), nil
	}
	contents := make(map[string][]byte, len(r.texts))
	for i, text := range r.texts {
		file := r.names[i] + ".json"
		if !nameable(r.names[i]) {
			return nil, fault.New(fault.Invalid, "the query of %s finds a row whose %s is %s, which names no file", r.table, r.table.remote.Rows, quoted(r.names[i])).
				WithHint("let rows name a column of texts without slashes that begin with a letter or a digit")
		}
		if _, duplicate := contents[file]; duplicate {
			return nil, fault.New(fault.Invalid, "the query of %s finds two rows whose %s is %s", r.table, r.table.remote.Rows, quoted(r.names[i])).
				WithHint("let rows name a column whose values differ")
		}
		content, err := indented(text)
		if err != nil {
			return nil, err
		}
		contents[file] = content
	}
	return newState(contents), nil
}

func indented(value any) ([]byte, error) {
	var text bytes.Buffer
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", "  ")
	if err := encoder.Encode(value); err != nil {
		return nil, fault.New(fault.Invalid, "a row cannot be written as JSON: %w", err)
	}
	return text.Bytes(), nil
}

// nameable reports whether a row's file can be named after it.
func nameable(name string) bool {
	const most = 200
	return name != "" && len(name) <= most && utf8.ValidString(name) && intent.Shown(name) == name && !strings.ContainsAny(name, `/\`) && name[0] != '.' && name[0] != '-'
}

// several reports whether a text is more than one statement: a semicolon
// outside quotes and comments has something after it.
func several(query string) bool {
	end := ""
	for i := 0; i < len(query); i++ {
		rest := query[i:]
		if end != "" {
			if strings.HasPrefix(rest, end) {
				i += len(end) - 1
				end = ""
			}
			continue
		}
		switch {
		case rest[0] == '\'' || rest[0] == '"' || rest[0] == '`':
			end = rest[:1]
		case rest[0] == '[':
			end = "]"
		case strings.HasPrefix(rest, "--"):
			end = "\n"
		case strings.HasPrefix(rest, "/*"):
			end = "*/"
		case rest[0] == ';':
			return strings.TrimSpace(rest[1:]) != ""
		}
	}
	return false
}

// trimmed is a query without its end.
func trimmed(query string) string { return strings.TrimRight(strings.TrimSpace(query), "; \t\r\n") }

// syntaxOrAccess is the class of PostgreSQL's codes of statements that it does not take.
const syntaxOrAccess = "42"

// refused is the error of a query that the database does not take, as it is.
func (t *table) refused(reason string) error {
	return fault.New(fault.Invalid, "the database refuses the query of %s: %s", t, reason).
		WithHint("write one SELECT over tables and columns that are there, and that its user may read; it is asked as SELECT … FROM (QUERY)")
}

func (t *table) postgres(ctx context.Context, result *rows) error {
	address, err := t.guard.secret(t.remote.DSN, "")
	if err != nil {
		return err
	}
	if parsed, err := url.Parse(address); err == nil {
		if err := files.CheckDatabase(parsed); err != nil {
			return err
		}
	}
	config, err := pgx.ParseConfig(address)
	if err != nil {
		return fault.New(fault.Invalid, "%s holds no address of a PostgreSQL database", t.remote.DSN).WithHint("put postgres://user:password@host/database there")
	}
	clean := func(err error) error {
		if e, ok := errors.AsType[*pgconn.PgError](err); ok && strings.HasPrefix(e.Code, syntaxOrAccess) {
			return t.refused(scrub(e.Message, address, config.Password))
		}
		if e, ok := errors.AsType[*pgconn.PgError](err); ok {
			return errors.New(scrub(e.Message, address, config.Password))
		}
		if e, ok := errors.AsType[*pgconn.ConnectError](err); ok {
			if inner := errors.Unwrap(e); inner != nil {
				err = reason(inner)
			}
			return errors.New("no connection: " + scrub(err.Error(), address, config.Password))
		}
		if _, ok := errors.AsType[*fault.Error](err); ok {
			return err
		}
		return errors.New(scrub(err.Error(), address, config.Password))
	}
	config.RuntimeParams["default_transaction_read_only"] = "on"
	config.RuntimeParams["statement_timeout"] = fmt.Sprint(queryPatience.Milliseconds())
	config.RuntimeParams["application_name"] = "lehr source"
	connection, err := pgx.ConnectConfig(ctx, config)
	if err != nil {
		return clean(err)
	}
	defer func() { _ = connection.Close(context.WithoutCancel(ctx)) }()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	reading, err := connection.BeginTx(ctx, pgx.TxOptions{AccessMode: pgx.ReadOnly, IsoLevel: pgx.RepeatableRead})
	if err != nil {
		return clean(err)
	}
	name := "''"
	if t.remote.Rows != "" {
		name = "coalesce(q." + pgx.Identifier{t.remote.Rows}.Sanitize() + "::text, '')"
	}
	answer, err := reading.Query(ctx, "SELECT row_to_json(q)::text, "+name+" FROM ("+trimmed(t.remote.Query)+"\n) AS q")
	if err != nil {
		return clean(err)
	}
	defer answer.Close()
	for answer.Next() {
		var text, name string
		if err := answer.Scan(&text, &name); err != nil {
			return clean(err)
		}
		if err := result.add([]byte(text), name); err != nil {
			cancel() // Else what is left would be read first.
			return err
		}
	}
	if err := answer.Err(); err != nil {
		return clean(err)
	}
	return nil
}

// sqlite reads a file that is never made or written.
func (t *table) sqlite(ctx context.Context, result *rows) error {
	db, err := lite.Open(t.remote.SQLite, t.guard.folders(), "busy_timeout(5000)")
	if _, ok := errors.AsType[*fault.Error](err); ok {
		return err
	}
	if err != nil {
		return reason(err)
	}
	defer db.Close()
	connection, err := db.Conn(ctx)
	if err != nil {
		return err
	}
	defer connection.Close()
	// Nothing is attached: that would reach other files, and make them.
	if err := forbidAttaching(connection); err != nil {
		return err
	}
	reading, err := connection.BeginTx(ctx, &sql.TxOptions{ReadOnly: true})
	if err != nil {
		return err
	}
	defer func() { _ = reading.Rollback() }()
	answer, err := reading.QueryContext(ctx, "SELECT * FROM ("+trimmed(t.remote.Query)+"\n)")
	if e, ok := errors.AsType[*sqlite.Error](err); ok && e.Code()&0xff == sqlite3.SQLITE_ERROR {
		return t.refused(e.Error())
	}
	if err != nil {
		return err
	}
	defer answer.Close()
	columns, err := answer.Columns()
	if err != nil {
		return err
	}
	at := -1
	for i, column := range columns {
		if column == t.remote.Rows {
			at = i
		}
	}
	if t.remote.Rows != "" && at < 0 {
		return fault.New(fault.Invalid, "the query of %s has no column %s: it has %s", t, quoted(t.remote.Rows), strings.Join(columns, ", ")).
			WithHint("let rows: name one of them, or select it AS %s", t.remote.Rows)
	}
	values, targets := make([]any, len(columns)), make([]any, len(columns))
	for i := range values {
		targets[i] = &values[i]
	}
	for answer.Next() {
		if err := answer.Scan(targets...); err != nil {
			return err
		}
		text, err := object(columns, values)
		if err != nil {
			return fault.New(fault.Invalid, "the query of %s: %w", t, err)
		}
		name := ""
		if at >= 0 && values[at] != nil {
			name = fmt.Sprint(values[at])
		}
		if err := result.add(text, name); err != nil {
			return err
		}
	}
	return answer.Err()
}

// object writes a row as JSON, in the order of its columns.
func object(columns []string, values []any) ([]byte, error) {
	encoded := []byte{'{'}
	for i, value := range values {
		if b, ok := value.([]byte); ok {
			if !utf8.Valid(b) {
				return nil, fmt.Errorf("the column %s holds bytes that are no text: use hex(%s)", quoted(columns[i]), columns[i])
			}
			value = string(b)
		}
		key, err := json.Marshal(columns[i])
		if err != nil {
			return nil, err
		}
		text, err := json.Marshal(value)
		if err != nil {
			return nil, fmt.Errorf("the column %s: %w", quoted(columns[i]), err)
		}
		if i > 0 {
			encoded = append(encoded, ',')
		}
		encoded = append(append(append(encoded, key...), ':'), text...)
	}
	return append(encoded, '}'), nil
}
