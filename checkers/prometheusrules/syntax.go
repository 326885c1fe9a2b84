package main

import (
	"log/slog"
	"regexp"
	"strconv"
	"strings"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/rulefmt"
	"github.com/prometheus/prometheus/promql/parser"

	"lehr.dev/sdk/generator"
)

// expressions are parsed as a Prometheus without feature flags does.
var expressions = parser.NewParser(parser.Options{})

// parse reads a rule file with Prometheus' library.
func (r *ruleText) parse() (*rulefmt.RuleGroups, []error) {
	return rulefmt.Parse(r.text, r.loose, model.UTF8Validation, expressions, slog.New(slog.DiscardHandler))
}

// check tells what Prometheus would refuse of a rule file.
func (r *ruleText) check(out *generator.Output) {
	groups, errs := r.parse()
	for _, err := range errs {
		for _, problem := range problemsOf(err.Error()) {
			r.at(out, r.lineOf(problem)).Error("mend the rule: promtool check rules says the same", "Prometheus refuses the rule file: %s", problem.message)
		}
	}
	if len(errs) > 0 {
		return
	}
	rules := 0
	for _, group := range groups.Groups {
		rules += len(group.Rules)
	}
	if rules == 0 {
		r.at(out, 1).Warn("add rules, or remove the file", "a rule file without rules")
	}
}

// problem is one thing that Prometheus' library says, with the line that it names; 0: none.
type problem struct {
	line    int
	message string
}

var (
	// placed is an error of a rule, after LINE:COLUMN.
	placed = regexp.MustCompile(`(?s)^(\d+):\d+: (.*)$`)
	// ofYAML is an error of the reader of YAML.
	ofYAML = regexp.MustCompile(`line (\d+): ([^\n]*)`)
	// ofExpression is where an expression is wrong, from its own beginning.
	ofExpression = regexp.MustCompile(`could not parse expression: (\d+):\d+: `)
	// block is a line whose value begins in the next.
	block = regexp.MustCompile(`:[ \t]*[|>][-+0-9]*[ \t]*(#.*)?$`)
)

// problemsOf splits what one error says.
func problemsOf(text string) (problems []problem) {
	if match := placed.FindStringSubmatch(text); match != nil {
		line, _ := strconv.Atoi(match[1])
		return []problem{{line, match[2]}}
	}
	for _, match := range ofYAML.FindAllStringSubmatch(text, -1) {
		line, _ := strconv.Atoi(match[1])
		problems = append(problems, problem{line, match[2]})
	}
	if len(problems) == 0 {
		problems = []problem{{0, text}}
	}
	return problems
}

// lineOf a problem: within an expression of several lines, the line of that.
func (r *ruleText) lineOf(p problem) int {
	match, lines := ofExpression.FindStringSubmatch(p.message), strings.Split(string(r.text), "\n")
	if match == nil || p.line < 1 || p.line > len(lines) {
		return p.line
	}
	within, _ := strconv.Atoi(match[1])
	if block.MatchString(lines[p.line-1]) {
		within++
	}
	return min(p.line+within-1, len(lines))
}
