package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/rulefmt"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/promql/promqltest"
	"github.com/prometheus/prometheus/rules"

	"lehr.dev/sdk/generator"
)

// playing is one test under way. It does what promtool test rules does, with the same engine,
// storage and rules manager; promtool itself is a program, and no library.
type playing struct {
	file    *testFile
	content *fileContent
	test    *testCase
	// path of the test in the file.
	path  []any
	rules []*ruleText
	out   *generator.Output

	suite  *promqltest.LazyLoader
	groups []*rules.Group
	start  time.Time
}

// fail tells what went otherwise than expected, at the line of a part of the test.
func (p *playing) fail(part []any, format string, arguments ...any) {
	name := cmp.Or(p.test.Name, "unnamed#"+strconv.Itoa(p.path[1].(int)))
	text := fmt.Sprintf(format, arguments...)
	p.out.At(p.file.name, p.file.line(slices.Concat(p.path, part)...)).
		Error("mend the rule, or what the test expects: promtool test rules says the same", "the test %s of the rules fails: %s", name, text)
}

// run the test. An error is of the test as a whole.
func (p *playing) run() (err error) {
	options := promqltest.LazyLoaderOpts{EnableAtModifier: true, EnableNegativeOffset: true, StartTime: p.test.StartTimestamp.Time, Parser: expressions}
	if p.suite, err = promqltest.NewLazyLoader(p.test.loading(), options); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, p.suite.Close()) }()
	p.suite.SubqueryInterval = time.Duration(p.content.EvaluationInterval)
	if err := p.load(); err != nil {
		return err
	}
	if p.start = time.Unix(0, 0).UTC(); !p.test.StartTimestamp.IsZero() {
		p.start = p.test.StartTimestamp.Time
	}
	if err := p.evaluate(); err != nil {
		return err
	}
	for i := range p.test.ExprTests {
		p.expression(i)
	}
	return nil
}

// load makes the groups of the rule files, in the order that the file asks for.
func (p *playing) load() error {
	manager := rules.NewManager(&rules.ManagerOptions{
		QueryFunc: rules.EngineQueryFunc(p.suite.QueryEngine(), p.suite.Storage()), AppendableV2: p.suite.Storage(), Context: p.suite.Context(),
		NotifyFunc: func(context.Context, string, ...*rules.Alert) {}, Logger: slog.New(slog.DiscardHandler), Parser: expressions, GroupLoader: loader(p.rules),
	})
	names := make([]string, len(p.rules))
	for i := range p.rules {
		names[i] = strconv.Itoa(i)
	}
	groups, errs := manager.LoadGroups(time.Duration(p.test.Interval), labels.FromMap(p.test.ExternalLabels), p.test.ExternalURL, nil, true, names...)
	if len(errs) > 0 {
		return errors.Join(errs...)
	}
	for _, group := range groups {
		p.groups = append(p.groups, group)
		for _, rule := range group.Rules() {
			if alerting, ok := rule.(*rules.AlertingRule); ok {
				alerting.SetRestored(true) // So that it makes the series ALERTS.
			}
		}
	}
	slices.SortFunc(p.groups, func(a, b *rules.Group) int {
		order := func(g *rules.Group) int { return max(slices.Index(p.content.GroupEvalOrder, g.Name()), 0) }
		return cmp.Or(cmp.Compare(order(a), order(b)), cmp.Compare(a.File(), b.File()), cmp.Compare(a.Name(), b.Name()))
	})
	return nil
}

// loader gives the rules manager the rule files by their indexes.
type loader []*ruleText

// Load implements rules.GroupLoader.
func (l loader) Load(index string, _ bool, _ model.ValidationScheme) (*rulefmt.RuleGroups, []error) {
	i, err := strconv.Atoi(index)
	if err != nil || i >= len(l) {
		return nil, []error{fmt.Errorf("there is no rule file %s", index)}
	}
	return l[i].parse()
}

// Parse implements rules.GroupLoader.
func (l loader) Parse(query string) (parser.Expr, error) { return expressions.ParseExpr(query) }

// evaluate lets time pass, and compares the alerts as they are due.
func (p *playing) evaluate() error {
	var due []int
	for i, test := range p.test.AlertRuleTests {
		if test.Alertname == "" {
			p.fail([]any{"alert_rule_test", i}, "alertname is missing")
			continue
		}
		due = append(due, i)
	}
	interval := time.Duration(p.content.EvaluationInterval)
	for now := p.start; !now.After(p.start.Add(p.test.lasting())); now = now.Add(interval) {
		if err := p.step(now); err != nil {
			return err
		}
		for _, i := range due {
			at := p.start.Add(time.Duration(p.test.AlertRuleTests[i].EvalTime))
			if !now.After(at) && at.Before(now.Add(interval)) {
				p.alerts(i)
			}
		}
	}
	return nil
}

// step evaluates all rules once.
func (p *playing) step(now time.Time) (err error) {
	p.suite.WithSamplesTill(now, func(failed error) {
		if err = failed; failed != nil {
			return
		}
		for _, group := range p.groups {
			group.Eval(p.suite.Context(), now)
			for _, rule := range group.Rules() {
				if failed := rule.LastError(); failed != nil {
					err = errors.Join(err, fmt.Errorf("the rule %s after %s: %w", rule.Name(), now.Sub(p.start), failed))
				}
			}
		}
	})
	return err
}

// alerts compares those of a name with what a test expects.
func (p *playing) alerts(i int) {
	test := p.test.AlertRuleTests[i]
	var got, want []string
	for _, group := range p.groups {
		for _, rule := range group.Rules() {
			alerting, ok := rule.(*rules.AlertingRule)
			if !ok || alerting.Name() != test.Alertname {
				continue
			}
			for _, alert := range alerting.ActiveAlerts() {
				if alert.State == rules.StateFiring {
					got = append(got, alert.Labels.String()+" with annotations "+alert.Annotations.String())
				}
			}
		}
	}
	for _, expected := range test.ExpAlerts {
		want = append(want, expected.labelsOf(test.Alertname).String()+" with annotations "+labels.FromMap(expected.Annotations).String())
	}
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		p.fail([]any{"alert_rule_test", i}, "after %s the alert %s fires as %s, and is expected as %s", test.EvalTime, test.Alertname, listed(got), listed(want))
	}
}

func listed(texts []string) string {
	if len(texts) == 0 {
		return "nothing"
	}
	return strings.Join(texts, "; ")
}

// sampled is a sample to be compared.
type sampled struct {
	labels    labels.Labels
	value     float64
	histogram string
}

func (s sampled) String() string {
	if s.histogram != "" {
		return s.labels.String() + " " + s.histogram
	}
	return s.labels.String() + " " + strconv.FormatFloat(s.value, 'g', -1, 64)
}

// expression compares what an expression gives with what a test expects.
func (p *playing) expression(i int) {
	test, part := p.test.ExprTests[i], []any{"promql_expr_test", i}
	vector, err := p.query(test.Expr, p.start.Add(time.Duration(test.EvalTime)))
	if err != nil {
		p.fail(part, "%s after %s: %s", test.Expr, test.EvalTime, err)
		return
	}
	var got, want []sampled
	for _, sample := range vector {
		got = append(got, sampled{sample.Metric, sample.F, promqltest.HistogramTestExpression(sample.H)})
	}
	for at, expected := range test.ExpSamples {
		sample, err := expected.read()
		if err != nil {
			p.fail(append(part, "exp_samples", at), "%s", err)
			return
		}
		want = append(want, sample)
	}
	order := func(a, b sampled) int { return labels.Compare(a.labels, b.labels) }
	slices.SortStableFunc(got, order)
	slices.SortStableFunc(want, order)
	if !slices.EqualFunc(got, want, p.same) {
		p.fail(part, "%s after %s is %s, and is expected as %s", test.Expr, test.EvalTime, texts(got), texts(want))
	}
}

func texts(samples []sampled) string {
	var list []string
	for _, sample := range samples {
		list = append(list, sample.String())
	}
	return listed(list)
}

func (p *playing) same(a, b sampled) bool {
	near := a.value == b.value || p.content.FuzzyCompare && (math.Nextafter(a.value, math.Inf(-1)) == b.value || math.Nextafter(a.value, math.Inf(1)) == b.value)
	return labels.Equal(a.labels, b.labels) && a.histogram == b.histogram && (near || math.IsNaN(a.value) && math.IsNaN(b.value))
}

// read an expected sample.
func (s expectedSample) read() (sampled, error) {
	with, err := expressions.ParseMetric(s.Labels)
	if err != nil || s.Histogram == "" {
		return sampled{labels: with, value: s.Value}, err
	}
	_, values, err := expressions.ParseSeriesDesc("{} " + s.Histogram)
	if err == nil && (len(values) != 1 || values[0].Histogram == nil) {
		err = fmt.Errorf("%q is no histogram", s.Histogram)
	}
	if err != nil {
		return sampled{}, err
	}
	return sampled{labels: with, histogram: promqltest.HistogramTestExpression(values[0].Histogram)}, nil
}

// query asks at a moment.
func (p *playing) query(text string, at time.Time) (promql.Vector, error) {
	query, err := p.suite.QueryEngine().NewInstantQuery(p.suite.Context(), p.suite.Queryable(), nil, text, at)
	if err != nil {
		return nil, err
	}
	defer query.Close()
	result := query.Exec(p.suite.Context())
	if result.Err != nil {
		return nil, result.Err
	}
	switch value := result.Value.(type) {
	case promql.Vector:
		return slices.Clone(value), nil
	case promql.Scalar:
		return promql.Vector{{T: value.T, F: value.V}}, nil
	}
	return nil, errors.New("it gives neither a vector nor a number")
}
