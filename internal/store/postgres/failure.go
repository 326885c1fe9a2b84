package postgres

import (
	"context"
	"crypto/tls"
	"database/sql"
	"database/sql/driver"
	"errors"
	"io"
	"net"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"

	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/store"
)

// inTheWay: the transaction was undone for what others did at the same time.
// Two that insert one key are told of the key first.
func inTheWay(err error) bool {
	pgErr, ok := errors.AsType[*pgconn.PgError](err)
	if !ok {
		return false
	}
	switch pgErr.Code {
	case "40001", "40P01", "23505", "55P03": // serialization failure, deadlock, unique violation, lock not available
		return true
	}
	return false
}

// lost: the connection is of no use any more.
func connectionLost(err error) bool {
	if err == nil {
		return false
	}
	if _, ok := errors.AsType[*fault.Error](err); ok {
		return false
	}
	if pgErr, ok := errors.AsType[*pgconn.PgError](err); ok {
		return pgErr.Severity == "FATAL" || pgErr.Severity == "PANIC" || strings.HasPrefix(pgErr.Code, "08")
	}
	if isConnecting(err) {
		return true
	}
	if _, ok := errors.AsType[net.Error](err); ok {
		return true
	}
	for _, sentinel := range []error{driver.ErrBadConn, sql.ErrConnDone, io.EOF, io.ErrUnexpectedEOF, net.ErrClosed} {
		if errors.Is(err, sentinel) {
			return true
		}
	}
	return pgconn.SafeToRetry(err)
}

// isConnecting reports whether no connection was made.
func isConnecting(err error) bool {
	_, ok := errors.AsType[*pgconn.ConnectError](err)
	return ok
}

// isBusy reports whether the database is there and takes no connection yet: it does not
// answer in time, or says that it is starting up.
func isBusy(err error) bool {
	if pgErr, ok := errors.AsType[*pgconn.PgError](err); ok {
		return pgErr.Code == "57P03" // cannot_connect_now
	}
	return errors.Is(err, context.DeadlineExceeded)
}

// failure turns what the database says into a fault that tells what was
// attempted and what a person can do. Faults pass as they are.
func failure(attempt string, err error) error {
	if err == nil {
		return nil
	}
	if _, ok := errors.AsType[*fault.Error](err); ok {
		return err
	}
	pgErr, ok := errors.AsType[*pgconn.PgError](err)
	switch {
	case ok:
		return refusal(attempt, pgErr)
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded) && !isConnecting(err):
		return fault.New(fault.Unavailable, "%s: gave up: %w", attempt, err)
	case connectionLost(err):
		return fault.New(fault.Unavailable, "%s: the database cannot be reached: %w", attempt, awayError{inOneLine{err}}).
			WithHint("%s", toReach(err))
	default:
		return fault.New(fault.Internal, "%s: %w", attempt, err)
	}
}

// onStandby: what is asked for takes a server that takes writes. One that
// follows another is told of by functions of the log that it cannot carry out
// (55000), and by a mode of transactions that it does not have.
func onStandby(pgErr *pgconn.PgError) bool {
	return pgErr.Code == "25006" || pgErr.Code == "55000" || pgErr.Code == "0A000" && pgErr.Routine == "call_enum_check_hook"
}

// inOneLine is an error of several addresses, each told of once.
type inOneLine struct{ error }

func (e inOneLine) Error() string {
	var lines []string
	for line := range strings.Lines(e.error.Error()) {
		if line = strings.TrimSpace(line); !slices.Contains(lines, line) {
			lines = append(lines, line)
		}
	}
	return strings.ReplaceAll(strings.Join(lines, "; "), ":; ", ": ")
}

func (e inOneLine) Unwrap() error { return e.error }

// awayError is an error of a database that cannot be reached.
type awayError struct{ error }

func (e awayError) Unwrap() error { return e.error }

func (e awayError) Is(target error) bool { return target == store.ErrAway }

// toReach is what to do about a database that cannot be reached.
func toReach(err error) string {
	if _, unverified := errors.AsType[*tls.CertificateVerificationError](err); unverified {
		return "name a PEM file of who vouches for its certificate with sslrootcert=FILE in the URL, and the server as its certificate does"
	}
	// Where that is allowed, each address is tried without it next.
	if tried := (inOneLine{err}).Error(); strings.Count(tried, "server refused TLS") == strings.Count(tried, "; ")+1 {
		return "have the database take TLS, or add sslmode=disable to the URL if nobody can be on the way to it"
	}
	return "is it running, and reachable from here under that name and port?"
}

// refusal of a server, by the codes of its manual's appendix A.
func refusal(attempt string, pgErr *pgconn.PgError) error {
	class := pgErr.Code[:min(2, len(pgErr.Code))]
	switch {
	case inTheWay(pgErr):
		return fault.New(fault.Unavailable, "%s: others wrote to the same at the same time: %w", attempt, pgErr).WithHint("try again")
	case class == "08", class == "57":
		return fault.New(fault.Unavailable, "%s: the database ended the connection: %w", attempt, awayError{pgErr}).WithHint("is it being restarted? it is tried again")
	case pgErr.Code == "53100":
		return fault.New(fault.Unavailable, "%s: the database's disk is full: %w", attempt, pgErr).
			WithHint("free space on it; writes are taken again without a restart, and nothing accepted is lost")
	case class == "53":
		return fault.New(fault.Unavailable, "%s: the database has no more of something: %w", attempt, pgErr).
			WithHint("each replica uses up to %d connections: compare with the server's max_connections", connections)
	case onStandby(pgErr):
		return fault.New(fault.Unavailable, "%s: the database is a standby, or was made read only: %w", attempt, pgErr).
			WithHint("name the primary; after a failover it is tried again")
	case class == "25", class == "55":
		return fault.New(fault.Unavailable, "%s: %w", attempt, pgErr).WithHint("it is tried again")
	case class == "28", pgErr.Code == "42501":
		return fault.New(fault.Denied, "%s: %w", attempt, pgErr).
			WithHint("the user needs to connect to the database and to make tables in it; a password belongs into PGPASSWORD or PGPASSFILE")
	case class == "3D":
		return fault.New(fault.NotFound, "%s: %w", attempt, pgErr).WithHint("make it with: createdb NAME")
	case class == "XX":
		return fault.New(fault.Internal, "%s: the database is damaged: %w", attempt, pgErr).WithHint("stop, and restore it from a backup")
	default:
		return fault.New(fault.Internal, "%s: %w", attempt, pgErr)
	}
}
