package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"go.yaml.in/yaml/v3"

	"lehr.dev/sdk/generator"
)

// testFile is a file of unit tests in the format of promtool test rules.
type testFile struct {
	name string
	text []byte
	// root of its nodes, for lines.
	root yaml.Node
}

// fileContent is what a test file says. The names of its keys are promtool's.
type fileContent struct {
	RuleFiles          []string       `yaml:"rule_files"`
	EvaluationInterval model.Duration `yaml:"evaluation_interval"`
	GroupEvalOrder     []string       `yaml:"group_eval_order"`
	FuzzyCompare       bool           `yaml:"fuzzy_compare"`
	Tests              []testCase     `yaml:"tests"`
}

type testCase struct {
	Name           string            `yaml:"name"`
	Interval       model.Duration    `yaml:"interval"`
	InputSeries    []inputSeries     `yaml:"input_series"`
	AlertRuleTests []alertTest       `yaml:"alert_rule_test"`
	ExprTests      []exprTest        `yaml:"promql_expr_test"`
	ExternalLabels map[string]string `yaml:"external_labels"`
	ExternalURL    string            `yaml:"external_url"`
	StartTimestamp startTime         `yaml:"start_timestamp"`
}

type inputSeries struct {
	Series string `yaml:"series"`
	Values string `yaml:"values"`
}

type alertTest struct {
	EvalTime  model.Duration  `yaml:"eval_time"`
	Alertname string          `yaml:"alertname"`
	ExpAlerts []expectedAlert `yaml:"exp_alerts"`
}

type expectedAlert struct {
	Labels      map[string]string `yaml:"exp_labels"`
	Annotations map[string]string `yaml:"exp_annotations"`
}

type exprTest struct {
	Expr       string           `yaml:"expr"`
	EvalTime   model.Duration   `yaml:"eval_time"`
	ExpSamples []expectedSample `yaml:"exp_samples"`
}

type expectedSample struct {
	Labels    string  `yaml:"labels"`
	Value     float64 `yaml:"value"`
	Histogram string  `yaml:"histogram"`
}

// startTime is a time of RFC 3339, or seconds since 1970.
type startTime struct{ time.Time }

// UnmarshalYAML implements yaml.Unmarshaler.
func (t *startTime) UnmarshalYAML(node *yaml.Node) error {
	var seconds float64
	if node.Decode(&seconds) == nil {
		t.Time = time.UnixMilli(int64(seconds * 1000)).UTC()
		return nil
	}
	parsed, err := time.Parse(time.RFC3339Nano, node.Value)
	t.Time = parsed
	return err
}

// play runs the tests of a file, and returns how many there were.
func (f *testFile) play(rules []*ruleText, out *generator.Output) int {
	content, err := f.read()
	if err != nil {
		for _, problem := range problemsOf(err.Error()) {
			out.At(f.name, max(problem.line, 1)).Error("mend the test file: promtool test rules says the same", "the tests of rules cannot be read: %s", problem.message)
		}
		return 1 // Tests were meant.
	}
	chosen := f.chosen(content.RuleFiles, rules, out)
	if chosen == nil {
		return len(content.Tests)
	}
	if content.EvaluationInterval == 0 {
		content.EvaluationInterval = model.Duration(time.Minute)
	}
	for i := range content.Tests {
		t := &content.Tests[i]
		if t.Interval == 0 {
			t.Interval = content.EvaluationInterval
		}
		p := playing{file: f, content: content, test: t, path: []any{"tests", i}, rules: chosen, out: out}
		if err := p.run(); err != nil {
			p.fail(nil, "%s", err)
		}
	}
	return len(content.Tests)
}

// read is strict, as promtool is.
func (f *testFile) read() (*fileContent, error) {
	content := &fileContent{}
	decoder := yaml.NewDecoder(bytes.NewReader(f.text))
	decoder.KnownFields(true)
	if err := decoder.Decode(content); err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	for i, name := range content.GroupEvalOrder {
		if slices.Contains(content.GroupEvalOrder[:i], name) {
			return nil, fmt.Errorf("group_eval_order names the group %s twice", name)
		}
	}
	return content, yaml.Unmarshal(f.text, &f.root)
}

// chosen are the rule files that a test file names, by their paths from its own folder; or those
// that assets hold, by the name of the field or by the asset's id. Nil: some cannot be used,
// which is told here or where these are checked.
func (f *testFile) chosen(patterns []string, rules []*ruleText, out *generator.Output) (chosen []*ruleText) {
	usable := true
	for i, pattern := range patterns {
		before := len(chosen)
		for _, rule := range rules {
			if matches(f.name, pattern, rule.names) && !slices.Contains(chosen, rule) {
				_, errs := rule.parse()
				usable = usable && len(errs) == 0
				chosen = append(chosen, rule)
			}
		}
		if len(chosen) == before {
			out.At(f.name, f.line("rule_files", i)).Error("name it by its path from the folder of the test file, or by the field or the id of the asset that holds it; and let the check's from name what gives it", "the check was given no rule file %.200q", pattern)
			usable = false
		}
	}
	if !usable {
		return nil
	}
	return append(make([]*ruleText, 0, len(chosen)), chosen...)
}

func matches(file, pattern string, names []string) bool {
	return slices.ContainsFunc(names, func(name string) bool {
		ok, err := path.Match(path.Join(path.Dir(file), pattern), name)
		return name == pattern || err == nil && ok
	})
}

// line of a value of the file, by keys and indexes; of the last of them that is there.
func (f *testFile) line(steps ...any) int {
	node := &f.root
	if len(node.Content) > 0 {
		node = node.Content[0]
	}
	for _, step := range steps {
		var next *yaml.Node
		switch step := step.(type) {
		case string:
			for i := 0; i+1 < len(node.Content); i += 2 {
				if node.Kind == yaml.MappingNode && node.Content[i].Value == step {
					next = node.Content[i+1]
				}
			}
		case int:
			if node.Kind == yaml.SequenceNode && step < len(node.Content) {
				next = node.Content[step]
			}
		}
		if next == nil {
			break
		}
		node = next
	}
	return max(node.Line, 1)
}

// loading is the input series in PromQL's notation of tests.
func (t *testCase) loading() string {
	var text strings.Builder
	fmt.Fprintf(&text, "load %s\n", time.Duration(t.Interval))
	for _, s := range t.InputSeries {
		fmt.Fprintf(&text, "  %s %s\n", s.Series, s.Values)
	}
	return text.String()
}

// lasting is the latest time that is looked at.
func (t *testCase) lasting() (longest time.Duration) {
	for _, a := range t.AlertRuleTests {
		longest = max(longest, time.Duration(a.EvalTime))
	}
	for _, e := range t.ExprTests {
		longest = max(longest, time.Duration(e.EvalTime))
	}
	return longest
}

// labelsOf an expected alert: its name is among them.
func (a expectedAlert) labelsOf(name string) labels.Labels {
	with := map[string]string{labels.AlertName: name}
	for key, value := range a.Labels {
		with[key] = value
	}
	return labels.FromMap(with)
}
