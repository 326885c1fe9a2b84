package inquiry

import (
	"context"
	"net/url"
	"strings"
	"unicode/utf8"

	"lehr.dev/internal/external"
	"lehr.dev/internal/external/rows"
	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/ground/rule"
	"lehr.dev/internal/prodspec/validate"
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
	arguments := make([]any, len(q.Arguments))
	for i, argument := range q.Arguments {
		arguments[i] = argument
	}
	result, err := rows.Read(ctx, policy, rows.Query{Partition: q.Partition, Database: q.Check.Database, Text: q.Check.GetSql(), Arguments: arguments, MaxRows: maxRows})
	if err != nil {
		return answer, err
	}
	answer.Rows = make([]map[string]any, len(result.Rows))
	for i, values := range result.Rows {
		answer.Rows[i] = make(map[string]any, len(values))
		for k, column := range result.Columns {
			answer.Rows[i][column] = values[k]
		}
	}
	return answer, nil
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
