package inquiry

import (
	"context"
	"database/sql"
	"fmt"
	"net/url"
	"strings"
	"time"
	"unicode/utf8"

	_ "github.com/jackc/pgx/v5/stdlib" // the driver pgx
	_ "modernc.org/sqlite"             // the driver sqlite

	"lehr.dev/external"
	"lehr.dev/fault"
	"lehr.dev/intent"
	"lehr.dev/prodspec/validate"
	"lehr.dev/rule"
)

// get asks a URL. Redirects are answers: what they lead to is not asked.
func get(ctx context.Context, policy *external.Policy, q validate.Question) (rule.Answer, error) {
	at, err := url.Parse(q.Check.GetHttp())
	if err != nil {
		return rule.Answer{}, fault.New(fault.Invalid, "%.200q is no URL", q.Check.GetHttp())
	}
	parameters := at.Query()
	for name, value := range q.Parameters {
		parameters.Set(name, value)
	}
	at.RawQuery = parameters.Encode()
	status, text, err := external.Fetch(ctx, external.Request{URL: at, Reach: policy.MayReach})
	if err != nil {
		return rule.Answer{}, err
	}
	return rule.Answer{Status: status, Text: text}, nil
}

// query asks a database, in a transaction that can only read.
func query(ctx context.Context, policy *external.Policy, q validate.Question) (answer rule.Answer, err error) {
	address, err := policy.Address(q.Partition, q.Check.Database)
	if err != nil {
		return answer, err
	}
	driver := "pgx"
	if !strings.HasPrefix(address, "postgres://") && !strings.HasPrefix(address, "postgresql://") {
		driver, address = "sqlite", "file:"+(&url.URL{Path: address}).EscapedPath()+"?mode=ro&_pragma=query_only(1)&_pragma=busy_timeout(1000)"
	}
	unavailable := func(err error) error {
		// The address may hold a password, and errors of connecting tell of it.
		said := strings.ReplaceAll(err.Error(), address, q.Check.Database)
		return fault.New(fault.Unavailable, "the database %s did not answer: %.300s", q.Check.Database, said)
	}
	db, err := sql.Open(driver, address)
	if err != nil {
		return answer, unavailable(err)
	}
	defer db.Close()
	reading, err := db.BeginTx(ctx, &sql.TxOptions{ReadOnly: driver == "pgx"})
	if err != nil {
		return answer, unavailable(err)
	}
	defer reading.Rollback()
	arguments := make([]any, len(q.Arguments))
	for i, argument := range q.Arguments {
		arguments[i] = argument
	}
	rows, err := reading.QueryContext(ctx, q.Check.GetSql(), arguments...)
	if err != nil {
		return answer, unavailable(err)
	}
	defer rows.Close()
	columns, err := rows.Columns()
	if err != nil {
		return answer, unavailable(err)
	}
	answer.Rows = []map[string]any{}
	size := 0
	for rows.Next() {
		values := make([]any, len(columns))
		into := make([]any, len(columns))
		for i := range values {
			into[i] = &values[i]
		}
		if err := rows.Scan(into...); err != nil {
			return answer, unavailable(err)
		}
		row := make(map[string]any, len(columns))
		for i, column := range columns {
			row[column] = readable(values[i])
			size += len(column) + len(fmt.Sprint(row[column]))
		}
		if answer.Rows = append(answer.Rows, row); len(answer.Rows) > maxRows || size > external.MaxAnswer {
			return rule.Answer{}, fault.New(fault.Unavailable, "the database %s gave more than %d rows or %d bytes", q.Check.Database, maxRows, external.MaxAnswer)
		}
	}
	if err := rows.Err(); err != nil {
		return rule.Answer{}, unavailable(err)
	}
	return answer, nil
}

// readable is a value as an expression may find it.
func readable(value any) any {
	switch value := value.(type) {
	case []byte:
		return strings.ToValidUTF8(string(value), "\ufffd")
	case string:
		return strings.ToValidUTF8(value, "\ufffd")
	case nil, bool, int64, float64, time.Time:
		return value
	}
	return fmt.Sprint(value)
}

// run asks a program: what it writes to its standard output, and how it exits.
func run(ctx context.Context, policy *external.Policy, q validate.Question) (answer rule.Answer, err error) {
	line := append(append([]string{}, q.Check.GetCommand().GetLine()...), q.Arguments...)
	if err := policy.MayRun(q.Partition, line[0]); err != nil {
		return answer, err
	}
	for _, argument := range line {
		if strings.ContainsRune(argument, 0) || !utf8.ValidString(argument) {
			return answer, fault.New(fault.Invalid, "%.200s cannot be given as an argument", intent.Shown(argument))
		}
	}
	ran, err := external.Run(ctx, line, "")
	return rule.Answer{Exit: ran.Exit, Text: ran.Text}, err
}
