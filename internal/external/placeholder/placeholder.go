// Package placeholder fills what is asked about into queries of metrics, so that nothing
// that is filled in becomes a part of the query: into PromQL as quoted text within
// matchers of labels, into SQL as parameters. It is pure. Definitions check queries by it,
// and who reads samples fills them.
package placeholder

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"lehr.dev/internal/ground/fault"
)

// Values are what placeholders stand for.
type Values struct {
	// Assets of a side, and the values of their scopes by name; there may be many.
	Assets []string
	Scopes map[string][]string
	// Start and End of the time that is asked about; Step between two samples.
	Start, End time.Time
	Step       time.Duration
	// Selector are matchers of labels, filled themselves.
	Selector string
}

const knownPlaceholders = "$asset, $scope.NAME, $start, $end and $step"

// variable at the beginning of a text: asset, scope.cluster, start.
var variable = regexp.MustCompile(`^\$(asset|scope\.[a-zA-Z0-9_-]+|start|end|step|selector)\b`)

// word is what looks like a variable.
var word = regexp.MustCompile(`^\$[a-zA-Z0-9_.]*`)

// values of $asset or $scope.NAME.
func (v *Values) values(name string) ([]string, error) {
	list := v.Assets
	if scope, ok := strings.CutPrefix(name, "scope."); ok {
		list = v.Scopes[scope]
	}
	if len(list) == 0 {
		return nil, wrong("$%s stands for nothing here", name).WithHint("ask about assets that have it")
	}
	list = slices.Clone(list)
	slices.Sort(list)
	return slices.Compact(list), nil
}

// Uses reports whether a query holds one of the placeholders.
func Uses(query string, names ...string) bool {
	for i := range query {
		if query[i] != '$' {
			continue
		}
		if match := variable.FindStringSubmatch(query[i:]); match != nil {
			name, _, _ := strings.Cut(match[1], ".")
			if slices.Contains(names, name) {
				return true
			}
		}
	}
	return false
}

// CheckPromQL is Invalid for a query in which a placeholder cannot be filled.
func CheckPromQL(query string) error {
	_, err := PromQL(query, Values{Assets: []string{"a"}, Scopes: anyScope(query), Selector: `a="b"`})
	return err
}

// CheckSQL is Invalid for a query in which a placeholder cannot be filled.
func CheckSQL(query string) error {
	_, _, err := SQL(query, Values{Assets: []string{"a"}, Scopes: anyScope(query)})
	return err
}

// anyScope has a value for each that a query names.
func anyScope(query string) map[string][]string {
	scopes := map[string][]string{}
	for i := range query {
		if match := variable.FindStringSubmatch(query[i:]); match != nil {
			if name, ok := strings.CutPrefix(match[1], "scope."); ok {
				scopes[name] = []string{"a"}
			}
		}
	}
	return scopes
}

// PromQL fills a query of Prometheus, or matchers of one. $asset and $scope.NAME are
// texts within the quotes of a matcher of labels; where there are many, of =~ or !~.
// $start and $end are seconds since 1970, $step a duration.
func PromQL(query string, v Values) (string, error) {
	var filled strings.Builder
	quote := byte(0) // in a text of this quote
	operator := ""   // before the text
	for i := 0; i < len(query); {
		c := query[i]
		switch {
		case c == '$':
			text, size, err := v.promql(query[i:], quote, operator)
			if err != nil {
				return "", err
			}
			filled.WriteString(text)
			i += size
			continue
		case quote == 0 && c == '#':
			end := strings.IndexByte(query[i:], '\n')
			if end < 0 {
				end = len(query) - i
			}
			filled.WriteString(query[i : i+end])
			i += end
			continue
		case quote == 0 && (c == '"' || c == '\'' || c == '`'):
			quote, operator = c, operatorBefore(query[:i])
		case quote == c:
			quote = 0
		case quote != 0 && quote != '`' && c == '\\' && i+1 < len(query):
			filled.WriteByte(c)
			i++
		}
		filled.WriteByte(query[i])
		i++
	}
	if quote != 0 {
		return "", wrong("a text of the query has no end").WithHint("close the quote %c", quote)
	}
	return filled.String(), nil
}

// operatorBefore a text is that of a matcher of labels; empty: it is none.
func operatorBefore(text string) string {
	text = strings.TrimRight(text, " \t\r\n")
	for _, operator := range []string{"=~", "!~", "!=", "="} {
		if strings.HasSuffix(text, operator) && !strings.HasSuffix(text, "==") {
			return operator
		}
	}
	return ""
}

// promql is what a placeholder at the beginning of a text stands for, and its size.
func (v *Values) promql(at string, quote byte, operator string) (text string, size int, err error) {
	match := variable.FindStringSubmatch(at)
	switch {
	case match == nil && quote != 0:
		return "$", 1, nil // As in regular expressions.
	case match == nil:
		return "", 0, unknown(at)
	}
	size = len(match[0])
	seconds := func(t time.Time) string { return strconv.FormatFloat(float64(t.UnixMilli())/1000, 'f', -1, 64) }
	inText := match[1] == "asset" || strings.HasPrefix(match[1], "scope.")
	switch {
	case !inText && quote != 0:
		return "", 0, wrong("%s stands within quotes", match[0]).WithHint("write it outside of texts")
	case match[1] == "start":
		return seconds(v.Start), size, nil
	case match[1] == "end":
		return seconds(v.End), size, nil
	case match[1] == "step":
		return fmt.Sprintf("%dms", v.Step.Milliseconds()), size, nil
	case match[1] == "selector" && v.Selector == "":
		return "", 0, wrong("$selector stands for nothing").WithHint(`write experiment: 'version="v2"', and control: where it is compared with one`)
	case match[1] == "selector":
		return v.Selector, size, nil
	case operator == "" || quote == '`':
		return "", 0, wrong("%s stands where no label is matched", match[0]).WithHint(`write it in the quotes of a matcher, as in {asset=~"%s"}`, match[0])
	}
	list, err := v.values(match[1])
	if err != nil {
		return "", 0, err
	}
	regular := operator == "=~" || operator == "!~"
	if len(list) > 1 && !regular {
		return "", 0, wrong("%s are %d values, and are matched as one", match[0], len(list)).WithHint(`write =~ in place of =, and !~ in place of !=`)
	}
	if regular {
		for i := range list {
			list[i] = regexp.QuoteMeta(list[i])
		}
	}
	text = list[0]
	if len(list) > 1 {
		text = "(?:" + strings.Join(list, "|") + ")"
	}
	return strings.NewReplacer(`\`, `\\`, string(quote), `\`+string(quote), "\n", `\n`).Replace(text), size, nil
}

// SQL fills a query of PostgreSQL: each placeholder becomes a parameter. $asset and
// $scope.NAME are arrays of text, $start and $end times, $step is in seconds.
func SQL(query string, v Values) (filled string, arguments []any, err error) {
	var text strings.Builder
	numbers := map[string]int{}
	for i := 0; i < len(query); {
		if size := skipped(query[i:]); size > 0 {
			if literal := query[i : i+size]; Uses(literal, "asset", "scope", "start", "end", "step") && literal[0] == '\'' {
				return "", nil, wrong("a placeholder stands within quotes").WithHint("remove the quotes around it: it is a parameter, not a part of the text")
			}
			text.WriteString(query[i : i+size])
			i += size
			continue
		}
		if query[i] != '$' {
			text.WriteByte(query[i])
			i++
			continue
		}
		match := variable.FindStringSubmatch(query[i:])
		if match == nil || match[1] == "selector" {
			return "", nil, unknown(query[i:])
		}
		if numbers[match[1]] == 0 {
			argument, err := v.parameter(match[1])
			if err != nil {
				return "", nil, err
			}
			arguments = append(arguments, argument)
			numbers[match[1]] = len(arguments)
		}
		text.WriteByte('$')
		text.WriteString(strconv.Itoa(numbers[match[1]]))
		i += len(match[0])
	}
	return text.String(), arguments, nil
}

// parameter that a placeholder of SQL stands for.
func (v *Values) parameter(name string) (any, error) {
	switch name {
	case "start":
		return v.Start, nil
	case "end":
		return v.End, nil
	case "step":
		return v.Step.Seconds(), nil
	}
	return v.values(name)
}

// skipped is the size of a text, a name in quotes or a comment at the beginning of SQL;
// 0: there is none.
func skipped(at string) int {
	endOf := func(start int, end string) int {
		if i := strings.Index(at[start:], end); i >= 0 {
			return start + i + len(end)
		}
		return len(at)
	}
	switch {
	case at[0] == '\'' || at[0] == '"':
		return endOf(1, at[:1])
	case strings.HasPrefix(at, "--"):
		return endOf(2, "\n")
	case strings.HasPrefix(at, "/*"):
		return endOf(2, "*/")
	}
	return 0
}

func unknown(at string) error {
	return wrong("%.40q is no placeholder", word.FindString(at)).WithHint("those that can be filled are %s, and $selector of Prometheus", knownPlaceholders)
}

func wrong(format string, arguments ...any) *fault.Error {
	return fault.New(fault.Invalid, format, arguments...)
}
