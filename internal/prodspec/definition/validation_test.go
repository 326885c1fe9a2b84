package definition_test

import (
	"encoding/json"
	"os"
	"strings"
	"testing"
	"time"

	"lehr.dev/internal/ground/schema"
	"lehr.dev/internal/ground/validation"
	"lehr.dev/internal/prodspec/definition"
)

const validated = `lehr: v1
partition: shop
sources: {s: {dir: a, files: "*.yaml"}}
generate: {g: {render: assets, from: s}}
validations:
  web:
    warm_up: 5m
    interval: 10m
    intervals: 3
    compare: control
    pass: 90
    groups: {latency: 2}
    metrics:
      p90:
        prometheus: main
        query: 'histogram_quantile(0.9, sum by (le) (rate(seconds_bucket{job="web",$selector}[1m])))'
        experiment: 'version="v2"'
        control: 'version!="v2"'
        unit: s
        group: latency
        worse: higher
        tolerance: 5%
        matters: 15%
      errors:
        prometheus: main
        query: 'sum(increase(errors_total{instance=~"$asset"}[$step]))'
        of: 'sum(increase(requests_total{instance=~"$asset"}[$step]))'
        critical: true
        absent: zero
      queue:
        sql: metrics
        query: SELECT at, length FROM queues WHERE cluster = ANY($scope.cluster) AND at BETWEEN $start AND $end
        compare: none
        at_most: 500
        allow: 2
        newest: 10
        shadow: true
`

func validationsOf(text string) (definition.Definition, string) {
	d, findings := definition.Parse("lehr.yaml", []byte(text), schema.Builtin())
	var said strings.Builder
	for _, f := range findings {
		said.WriteString(f.Field + ": " + f.Message + "; " + f.Hint + "\n")
	}
	return d, said.String()
}

// TestValidationsAreRead whole, as they are assessed by.
func TestValidationsAreRead(t *testing.T) {
	d, said := validationsOf(validated)
	if said != "" || len(d.Policy.GetValidations()) != 1 {
		t.Fatalf("%s", said)
	}
	s, err := validation.Of(d.Policy.Validations[0])
	if err != nil {
		t.Fatal(err)
	}
	if s.Name != "web" || s.WarmUp != 5*time.Minute || s.Intervals != 3 || s.Every != 10*time.Minute || s.Pass != 90 || len(s.Metrics) != 3 {
		t.Errorf("%+v", s)
	}
	errors, p90, queue := s.Metrics[0], s.Metrics[1], s.Metrics[2]
	if !errors.Judge.Critical || errors.Absent != validation.AbsentZero || errors.Judge.Kind != "events" || errors.Source.Of == "" {
		t.Errorf("%+v", errors)
	}
	if p90.Judge.Matters.Relative != 0.15 || p90.Judge.Tolerance.Relative != 0.05 || p90.Compare != validation.Control || p90.Source.Control != `version!="v2"` {
		t.Errorf("%+v", p90)
	}
	if l := queue.Judge.Limit; *l.Above != 500 || l.Below != nil || l.Allow != 2 || l.Of != 10 || !queue.Judge.Shadow || queue.Compare != validation.None || queue.Source.SQL != "metrics" {
		t.Errorf("%+v", queue)
	}
}

// TestNoNumberIsRead as each of its words, which the schema has, too.
func TestNoNumberIsRead(t *testing.T) {
	for word, want := range map[string]validation.NaN{"broken": validation.NaNBroken, "ignore": validation.NaNIgnore, "zero": validation.NaNZero, "bad": validation.NaNBad} {
		d, said := validationsOf(strings.Replace(validated, "        shadow: true", "        shadow: true\n        nan: "+word, 1))
		if said != "" {
			t.Fatal(said)
		}
		s, err := validation.Of(d.Policy.Validations[0])
		if err != nil {
			t.Fatal(err)
		}
		if queue := s.Metrics[2]; queue.NaN != want || queue.Judge.Limit.NaN != (want == validation.NaNBad) {
			t.Errorf("%s: %+v", word, queue)
		}
	}
	text, err := json.Marshal(definition.Schema())
	if err != nil || !strings.Contains(string(text), `"nan":{"enum":["bad","broken","ignore","zero"]`) {
		t.Errorf("the schema does not have the words: %v", err)
	}
}

// TestValidationsThatMakeNoSense are refused where they are written, with what to do.
func TestValidationsThatMakeNoSense(t *testing.T) {
	for _, test := range []struct{ old, new, says string }{
		{"intervals: 3", "interval_count: 3", "validations.web.interval_count: unknown field"},
		{"intervals: 3", "intervals: 60", "validations.web: intervals is 60; write 1 to 24"},
		{"intervals: 3", "intervals: 3\n    errors: 1001", "validations.web.errors is 1001, at most 1000 are allowed"},
		{"intervals: 3", "intervals: 3\n    errors: few", "validations.web.errors"},
		{"  web:", "  Web shop:", `"Web shop" is not a name`},
		{"pass: 90", "pass: 900", "pass is 900"},
		{"pass: 90", "pass: -1", "validations.web.pass must be more than 0"},
		{"groups: {latency: 2}", "groups: {latncy: 2}", `group "latncy" has no metric`},
		{"worse: higher", "worse: up", "validations.web.metrics.p90.worse: \"up\" is not known; write higher, lower or either"},
		{"tolerance: 5%", "tolerance: some", `validations.web.metrics.p90.tolerance: "some" is no change; write a share such as 5%`},
		{"matters: 15%", "matters: 1%", "more is tolerated than matters"},
		{"at_most: 500", "unit: x", "validations.web.metrics.queue.allow is of a limit"},
		{"compare: none", "compare: all", "write before, control or none"},
		{"        query: 'histogram", "        http: guard\n        query: 'histogram", "is read of 2 sources; write one of prometheus, http, sql, command and plugin"},
		{"        prometheus: main\n        query: 'histogram", "        query: 'histogram", "is read of 0 sources"},
		{"prometheus: main\n        query: 'h", "prometheus: 'http://a?b'\n        query: 'h", "a query or a fragment"},
		{"version=\"v2\"'\n        control", "version'\n        control", "is no matcher of labels"},
		{"        control: 'version!=\"v2\"'\n", "", "control is missing, which $selector stands for"},
		{",$selector", "", "has no $selector to put them"},
		{`$asset"}[$step]))'` + "\n        of", `web"}[$step]))'` + "\n        of", "is the same for both sides"},
		{`=~"$asset"}[$step]))'` + "\n        of", `=~$asset}[$step]))'` + "\n        of", "stands where no label is matched"},
		{"$start AND", "$begin AND", `"$begin" is no placeholder`},
		{"sql: metrics", "command: measure", "is no absolute path"},
		{"sql: metrics", "plugin: Some Queues", `validations.web.metrics.queue.plugin: "Some Queues" is no name; write the name of one that`},
		{"        shadow: true", "        shadow: true\n        critical: true", "it is critical and a shadow"},
		{"critical: true", "kind: values", "values have no trials"},
		{"sql: metrics", "sql: metrics\n        timeout: 2m", "is longer than 1m0s"},
		{"sql: metrics", "sql: metrics\n        of: x", "validations.web.metrics.queue.of is for Prometheus"},
		{"unit: s", "unit: 5", "put it in quotes"},
		{"at_most: 500", "at_most: .nan", "must be a number"},
		{"        shadow: true", "        shadow: true\n        nan: worse", `validations.web.metrics.queue.nan: "worse" is not known; write broken, ignore, zero or bad`},
		{"unit: s", "nan: bad", "nan is bad, and it has no limit that such a sample could be beyond; write at_most or at_least"},
		{"unit: s", "range: {low: 1}", "range.high is missing"},
		{"unit: s", "range: {low: 1, high: 0}", "its range is from 1 to 0"},
		{"unit: s", "broken: 2", "broken is 2"},
	} {
		if !strings.Contains(validated, test.old) {
			t.Fatalf("%q is not there", test.old)
		}
		if _, said := validationsOf(strings.Replace(validated, test.old, test.new, 1)); !strings.Contains(said, test.says) {
			t.Errorf("%s: %s", test.new, said)
		}
	}
	if _, said := validationsOf(strings.Split(validated, "    metrics:")[0]); !strings.Contains(said, "validations.web.metrics is missing") {
		t.Error(said)
	}
}

// TestValidationsOfThePageAreRead: what docs/use/validation.md shows is taken, and its tables have
// every key.
func TestValidationsOfThePageAreRead(t *testing.T) {
	page, err := os.ReadFile("../../../docs/use/validation.md")
	if err != nil {
		t.Fatal(err)
	}
	_, example, _ := strings.Cut(string(page), "```yaml\n")
	example, _, _ = strings.Cut(example, "```")
	before, _, _ := strings.Cut(validated, "validations:")
	d, said := validationsOf(before + example)
	if said != "" || len(d.Policy.GetValidations()) != 1 {
		t.Fatalf("%s", said)
	}
	s, err := validation.Of(d.Policy.Validations[0])
	if err != nil || len(s.Metrics) != 4 || s.Marginal != 60 {
		t.Errorf("%v %+v", err, s)
	}
	for _, template := range []string{"validations: {v: {KEY}}", "validations: {v: {metrics: {m: {KEY}}}}"} {
		for _, key := range allowed(t, template) {
			if !strings.Contains(string(page), "`"+key+"`") && key != "metrics" {
				t.Errorf("the page does not have the key %s", key)
			}
		}
	}
}
