package pgschema

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"

	"lehr.dev/sdk/serve"
)

// answer is what a person is told of an error of the server.
type answer struct {
	kind      serve.ErrorKind
	hint      string
	retryable bool
}

// answers by SQLSTATE, the longest prefix first.
var answers = map[string]answer{
	"28P01": {serve.Denied, "the password is wrong: see what the field password names", false},
	"28":    {serve.Denied, "the user may not connect: see the user, the password and pg_hba.conf", false},
	"3D000": {serve.NotFound, "the database does not exist: create it by hand, or mend the address", false},
	"42501": {serve.Denied, "grant the plugin's user what it needs: CREATE on the database (for looking) and on the schema, and ownership of the tables", false},
	"55P03": {serve.Unavailable, "a lock was not free within lock_timeout; nothing was changed, and it is tried again. pg_stat_activity shows who holds it", true},
	"57014": {serve.Unavailable, "a statement took longer than statement_timeout; nothing was changed. Raise it, or make the index by hand with CREATE INDEX CONCURRENTLY first", false},
	"25006": {serve.Unavailable, "the server is read-only: is the address that of a standby?", true},
	"40":    {serve.Unavailable, "it ran into another transaction; nothing was changed, and it is tried again", true},
	"53":    {serve.Unavailable, "the server is out of connections, memory or disk", true},
	"57P":   {serve.Unavailable, "the server is stopping or starting", true},
	"08":    {serve.Unavailable, "the connection was lost", true},
	"2BP01": {serve.Conflict, "something that this asset does not declare depends on it: change that first; nothing is ever dropped with CASCADE", false},
	"0A000": {serve.Conflict, "it is not possible as things are: if something that this asset does not declare uses it, change that first", false},
	"22":    {serve.Conflict, "a row holds a value that does not fit: mend the rows first", false},
	"23":    {serve.Conflict, "rows do not keep the constraint: mend the rows first", false},
	"42P07": {serve.Conflict, "an object of this name exists, and is not what the SQL declares: rename one of them", false},
	"42P06": {serve.Conflict, "", true},
	"42P01": {serve.Invalid, "a name is unknown in the field `schema`: declare it before it is used, or write its schema", false},
	"42P16": {serve.Conflict, "", false},
}

// explain makes an answer for people of an error. It never repeats what a
// row holds, nor a password.
func explain(attempted string, err error) error {
	if err == nil {
		return nil
	}
	server, ok := errors.AsType[*pgconn.PgError](err)
	if !ok {
		return unreachable(attempted, err)
	}
	said := answer{kind: serve.Invalid}
	for length := 5; length >= 2; length-- {
		if found, ok := answers[server.Code[:min(length, len(server.Code))]]; ok {
			said = found
			break
		}
	}
	result := &serve.Error{Kind: said.kind, Hint: said.hint, Cause: err, Message: fmt.Sprintf("%s: %s (SQLSTATE %s)", attempted, message(server), server.Code)}
	if said.retryable {
		return serve.Retryable(result)
	}
	return result
}

// message is what the server says, without what rows hold.
func message(server *pgconn.PgError) string {
	text := server.Message
	if strings.HasPrefix(server.Code, "22") {
		text, _, _ = strings.Cut(text, `"`)
		text = strings.TrimRight(text, ": ")
	}
	if (server.Code == "2BP01" || server.Code == "0A000") && server.Detail != "" {
		text += ": " + strings.ReplaceAll(server.Detail, "\n", "; ")
	}
	return text
}

func unreachable(attempted string, err error) error {
	if errors.Is(err, context.Canceled) {
		return err
	}
	// pgx's own errors do not hold the password; the wrapped ones of the
	// network are all that a person needs.
	cause := err.Error()
	if connecting, ok := errors.AsType[*pgconn.ConnectError](err); ok {
		cause = connecting.Unwrap().Error()
	}
	return serve.Retryable(&serve.Error{
		Kind: serve.Unavailable, Cause: err, Message: attempted + ": " + cause,
		Hint: "is the server running, and reachable from where the plugin runs?",
	})
}
