package check

import (
	"errors"
	"math"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	intentpb "lehr.dev/gen/lehr/intent/v1"
	processpb "lehr.dev/gen/lehr/process/v1"
	"lehr.dev/internal/ground/intent"
)

func sample(value float64, labels ...string) Sample {
	s := Sample{Labels: map[string]string{}, Value: value}
	for i := 0; i+1 < len(labels); i += 2 {
		s.Labels[labels[i]] = labels[i+1]
	}
	return s
}

// owned is what a check looks at of an asset.
func owned(c *Configured, asset intent.Asset) map[*Configured]Own {
	var own Own
	own.Labels, own.Unlabelled = c.LabelsOf(asset)
	return map[*Configured]Own{c: own}
}

func TestMetric(t *testing.T) {
	scoped := &intentpb.ImpactedScope{Scopes: map[string]string{"cluster": "a"}}
	web := holding(t, &processpb.Job{Replicas: 3}, scoped)
	limit := &intentpb.Metric{Prometheus: "main", Query: "errors", Below: proto.Float64(0.02)}
	with := func(change func(*intentpb.Metric)) *intentpb.Metric {
		m := proto.CloneOf(limit)
		change(m)
		return m
	}
	least := with(func(m *intentpb.Metric) { m.Below, m.Above = nil, proto.Float64(2) })
	own := with(func(m *intentpb.Metric) { m.Labels = map[string]string{"cluster": `scopes["cluster"]`} })
	answered := func(samples ...Sample) Answer { return Answer{At: now.Add(-10 * time.Second), Samples: samples} }
	a, b := sample(0.01, "cluster", "a"), sample(0.5, "cluster", "b")
	for name, test := range map[string]struct {
		asked  *intentpb.Metric
		is     Answer
		answer intent.Answer
		kind   intent.WaitingKind
		says   string
	}{
		"below":              {limit, answered(a), intent.Pass, "", ""},
		"at the limit":       {limit, answered(sample(0.02)), intent.Wait, intent.WaitMetric, "errors is 0.02, and must be below 0.02; asked at 2026-03-01T11:59:50Z"},
		"one of two":         {limit, answered(a, b, sample(0.3)), intent.Wait, intent.WaitMetric, `errors is 0.5 for {cluster="b"}, and must be below 0.02 (2 of 3 series are not so)`},
		"its own series":     {own, answered(a, b), intent.Pass, "", ""},
		"none of its own":    {own, answered(b), intent.Broken, intent.WaitCheckBroken, `errors gives no value for {cluster="a"}`},
		"above":              {least, answered(sample(2.1)), intent.Pass, "", ""},
		"not above":          {least, answered(sample(3), sample(-1)), intent.Wait, intent.WaitMetric, "errors is -1, and must be above 2 (1 of 2"},
		"absent":             {limit, answered(), intent.Broken, intent.WaitCheckBroken, "errors gives no value, and so says nothing"},
		"absence passes":     {with(func(m *intentpb.Metric) { m.Absent = intentpb.Metric_ABSENCE_PASS }), answered(), intent.Pass, "", ""},
		"absence waits":      {with(func(m *intentpb.Metric) { m.Absent = intentpb.Metric_ABSENCE_WAIT }), answered(), intent.Wait, intent.WaitMetric, "gives no value"},
		"no number":          {limit, answered(a, sample(math.NaN(), "cluster", "b")), intent.Broken, intent.WaitCheckBroken, `errors is NaN for {cluster="b"}, which is no measure`},
		"without end":        {least, answered(sample(math.Inf(1))), intent.Broken, intent.WaitCheckBroken, "no measure"},
		"not yet":            {limit, Answer{}, intent.Broken, intent.WaitTurn, "prometheus main was asked, and did not answer yet"},
		"failed":             {limit, Answer{Failed: errors.New("401")}, intent.Broken, intent.WaitCheckBroken, "prometheus main: 401"},
		"failed meanwhile":   {limit, Answer{At: now.Add(-59 * time.Second), Samples: []Sample{a}, Failed: errors.New("401")}, intent.Pass, "", ""},
		"failed and too old": {limit, Answer{At: now.Add(-time.Minute), Samples: []Sample{a}, Failed: errors.New("401")}, intent.Broken, intent.WaitCheckBroken, "401; what it answered at 2026-03-01T11:59:00Z is older than 1m0s"},
		"of the future":      {limit, Answer{At: now.Add(time.Second), Samples: []Sample{a}}, intent.Broken, intent.WaitTurn, ""},
		"no such label":      {with(func(m *intentpb.Metric) { m.Labels = map[string]string{"c": `labels["c"]`} }), answered(a), intent.Broken, intent.WaitCheckBroken, "the label c of web"},
		"an empty label":     {with(func(m *intentpb.Metric) { m.Labels = map[string]string{"c": `""`} }), answered(a), intent.Broken, intent.WaitCheckBroken, "is empty"},
		"over both limits":   {with(func(m *intentpb.Metric) { m.Above, m.Over = proto.Float64(0), durationpb.New(time.Minute) }), answered(a), intent.Broken, intent.WaitCheckBroken, "one limit"},
	} {
		c := Configure(&intentpb.Check{Name: "errors", Kind: &intentpb.Check_Query{Query: test.asked}}, builtin)
		facts := Facts{Now: now, Asset: "web"}
		if c.Question != nil {
			facts.Own = owned(c, web)
			facts.Answers = map[Question]Answer{*c.Question: test.is}
		}
		v := c.judge(facts)
		if c.Question != nil {
			facts.Answers[*c.Question] = test.is.Indexed()
			if again := c.judge(facts); again.Answer != v.Answer || again.Waiting.Reason != v.Waiting.Reason {
				t.Errorf("%s: of an index it makes %+v", name, again)
			}
		}
		if v.Check != "errors" || v.Answer != test.answer || v.Waiting.Kind != test.kind || !strings.Contains(v.Waiting.Reason, test.says) {
			t.Errorf("%s: %+v", name, v)
		}
		if v.Answer == intent.Pass && !v.Until.Equal(test.is.At.Add(time.Minute)) {
			t.Errorf("%s: it passes until %s", name, v.Until)
		}
	}
}

// TestWhatIsAskedIsTheSameForAllAssets, so nothing of an asset gets into a query.
func TestWhatIsAskedIsTheSameForAllAssets(t *testing.T) {
	ask := func(m *intentpb.Metric) Question {
		return *Configure(&intentpb.Check{Name: "a", Kind: &intentpb.Check_Query{Query: m}}, builtin).Question
	}
	m := &intentpb.Metric{Prometheus: "main", Query: "errors # of all", Below: proto.Float64(1), Labels: map[string]string{"cluster": "scope"}}
	if q := ask(m); q != (Question{Source: Prometheus, Place: "main", Text: "errors # of all", Keep: time.Minute}) {
		t.Errorf("%+v", q)
	}
	m.Over, m.Keep = durationpb.New(10*time.Minute), durationpb.New(5*time.Second)
	if q := ask(m); q.Text != "max_over_time((\nerrors # of all\n)[600s:3s])" || q.Keep != 5*time.Second {
		t.Errorf("%+v", q)
	}
	m.Above, m.Below = m.Below, nil
	if q := ask(m); !strings.HasPrefix(q.Text, "min_over_time(") {
		t.Errorf("%+v", q)
	}
}

func TestAlerts(t *testing.T) {
	asked := &intentpb.Alerts{Alertmanager: "main", Matchers: []string{`severity="page"`, `service="web"`}, Labels: map[string]string{"version": "payload.version"}}
	c := Configure(&intentpb.Check{Name: "pages", Kind: &intentpb.Check_Alerts{Alerts: asked}}, builtin)
	alert := func(name, version string, ago time.Duration) Alert {
		return Alert{Labels: map[string]string{"alertname": name, "version": version}, Since: now.Add(-ago), Link: "http://prometheus/graph?g0\x1b[31m"}
	}
	judged := func(a Answer) intent.Verdict {
		return c.judge(Facts{Now: now, Asset: "web", Own: owned(c, holding(t, &processpb.Job{Version: "v1"})), Answers: map[Question]Answer{*c.Question: a}})
	}
	if c.Question.Text != "severity=\"page\"\nservice=\"web\"" {
		t.Errorf("%+v", c.Question)
	}
	if v := judged(Answer{At: now, Alerts: []Alert{alert("Slow", "v2", time.Hour)}}); v.Answer != intent.Pass || !v.Until.Equal(now.Add(time.Minute)) {
		t.Errorf("another's alert: %+v", v)
	}
	v := judged(Answer{At: now, Alerts: []Alert{alert("Slow", "v1", time.Minute), alert("Down", "v1", time.Hour), alert("Other", "v2", 2*time.Hour)}})
	if v.Answer != intent.Wait || v.Waiting.Kind != intent.WaitAlert || !strings.Contains(v.Waiting.Reason, `alert Down is active since 2026-03-01T11:00:00Z {version="v1"} and 1 more: http://prometheus/graph?g0\x1b[31m; asked at`) {
		t.Errorf("%+v", v)
	}
	if v := judged(Answer{Failed: errors.New("connection refused")}); v.Answer != intent.Broken {
		t.Errorf("%+v", v)
	}
}

func TestPeak(t *testing.T) {
	c := Configure(&intentpb.Check{Name: "peak", Kind: &intentpb.Check_Peak{Peak: &intentpb.Peak{Prometheus: "main", Query: "qps", Headroom: 1.3}}}, builtin)
	down := Answer{Failed: errors.New("connection refused")}
	is := func(values ...float64) Answer {
		a := Answer{At: now}
		for _, v := range values {
			a.Samples = append(a.Samples, sample(v))
		}
		return a
	}
	for name, test := range map[string]struct {
		current, target float64
		is              Answer
		answer          intent.Answer
		says            string
	}{
		"grows while nobody answers":   {10, 20, down, intent.Pass, ""},
		"stays while nobody answers":   {10, 10, down, intent.Pass, ""},
		"shrinks while nobody answers": {20, 10, down, intent.Broken, "connection refused"},
		"shrinks to what is needed":    {20, 13, is(10), intent.Pass, ""},
		"shrinks too far":              {20, 12.9, is(10), intent.Wait, "it serves 20 and would serve 12.9, less than the recent peak 10 × 1.3 = 13 (qps)"},
		"the highest counts":           {20, 13, is(1, 10.1), intent.Wait, "10.1"},
		"goes while nothing is asked":  {20, 0, is(0), intent.Pass, ""},
		"nothing is known":             {20, 19, is(), intent.Broken, "the recent peak is not known"},
		"no number":                    {20, 19, is(math.NaN()), intent.Broken, "NaN"},
		"less than nothing":            {20, 19, is(-1), intent.Broken, "no peak"},
	} {
		v := c.judge(Facts{Now: now, Answers: map[Question]Answer{*c.Question: test.is}, Own: map[*Configured]Own{c: {Serves: Amount{test.current, test.target}}}})
		if v.Answer != test.answer || !strings.Contains(v.Waiting.Reason, test.says) {
			t.Errorf("%s: %+v", name, v)
		}
	}
	if v := c.judge(Facts{Now: now, Answers: map[Question]Answer{*c.Question: is(0)}}); v.Answer != intent.Broken {
		t.Errorf("what it serves is not known: %+v", v)
	}
}
