package monitoring

import (
	"fmt"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	intentpb "lehr.dev/gen/lehr/intent/v1"
	"lehr.dev/internal/annealing/check"
	"lehr.dev/internal/ground/intent"
)

func TestPrometheus(t *testing.T) {
	t.Parallel()
	const well = "error_ratio{service=\"web\"} 0.01\nerror_ratio{service=\"db\"} 0.5\nqps 100\nnothing_to_nothing NaN\n"
	watched := newTarget(t, well)
	prometheus := newPrometheus(t, watched, nil, "")
	policy := policyFile(t, "")
	below := func(query string, limit float64, change ...func(*intentpb.Metric)) *intentpb.Check {
		asked := &intentpb.Metric{Prometheus: prometheus.url(), Query: query, Below: proto.Float64(limit)}
		for _, c := range change {
			c(asked)
		}
		return &intentpb.Check{Name: "errors", Kind: &intentpb.Check_Query{Query: asked}}
	}
	web := below(`error_ratio{service="web"}`, 0.02)
	// The first sample comes seconds after the start.
	until(t, policy, web, intent.Broken, "gives no value, and so says nothing")
	until(t, policy, web, intent.Pass, "")
	until(t, policy, below("error_ratio", 0.02), intent.Wait, `error_ratio is 0.5 for {__name__="error_ratio",instance="`)
	until(t, policy, below("error_ratio", 0.02), intent.Wait, "must be below 0.02 (1 of 2 series are not so)")
	until(t, policy, below("max(error_ratio)", 0.6), intent.Pass, "")
	until(t, policy, below("scalar(qps)", 99), intent.Wait, "scalar(qps) is 100, and must be below 99")
	until(t, policy, below("nothing_to_nothing", 1), intent.Broken, "is NaN for {")
	until(t, policy, below("no_such_metric", 1), intent.Broken, "no_such_metric gives no value")
	until(t, policy, below("no_such_metric", 1, func(m *intentpb.Metric) { m.Absent = intentpb.Metric_ABSENCE_PASS }), intent.Pass, "")
	until(t, policy, below("qps[1m]", 1), intent.Broken, "the query gives a matrix")
	until(t, policy, below(`"text"`, 1), intent.Broken, "the query gives a string")
	until(t, policy, below("qps{", 1), intent.Broken, "it refuses the query (bad_data): ")
	until(t, policy, below("qps", 101, func(m *intentpb.Metric) { m.Over = durationpb.New(20 * time.Second) }), intent.Pass, "")
	until(t, policyFile(t, "networks: []")+".none", web, intent.Broken, "policy of external checks")

	// The recent peak stays known when less is asked, and what it was over a while.
	peak := &intentpb.Check{Name: "peak", Kind: &intentpb.Check_Peak{Peak: &intentpb.Peak{Prometheus: prometheus.url(), Query: "max_over_time(qps[1h])", Headroom: 1.3}}}
	shrinks := check.Amount{Current: 400, Target: 200}
	until(t, policy, peak, intent.Pass, "", shrinks)
	watched.says("qps 160\n")
	until(t, policy, peak, intent.Wait, "less than the recent peak 160 × 1.3 = 208", shrinks)
	watched.says("qps 10\n")
	until(t, policy, below("qps", 11), intent.Pass, "")
	until(t, policy, peak, intent.Wait, "it serves 400 and would serve 200, less than the recent peak 160", shrinks)
	until(t, policy, below("qps # now", 150, func(m *intentpb.Metric) { m.Over = durationpb.New(time.Minute) }), intent.Wait, "is 160 for ")

	// What is not scraped any more is absent, not what it was.
	until(t, policy, web, intent.Broken, "gives no value")
	watched.goes()
	until(t, policy, below("qps", 11), intent.Broken, "qps gives no value")
	watched.says(well)
	until(t, policy, web, intent.Pass, "")

	prometheus.end()
	until(t, policy, web, intent.Broken, "connection refused")
	until(t, policy, peak, intent.Broken, "connection refused", shrinks)
	until(t, policy, peak, intent.Pass, "", check.Amount{Current: 200, Target: 400})
	prometheus.start()
	until(t, policy, web, intent.Pass, "")
}

// TestAPrometheusThatAsksForAPassword: the operator's file has it.
func TestAPrometheusThatAsksForAPassword(t *testing.T) {
	watched := newTarget(t, "up_since 1\n")
	// The hash is that of "test", from the manual of Prometheus.
	prometheus := newPrometheus(t, watched, nil, "basic_auth_users: {lehr: $2b$12$hNf2lSsxfm0.i4a.1kVpSOVyBCfIB51VRjgBUyv6kdnyTlgWj81Ay}\n")
	asked := func(place string) *intentpb.Check {
		return &intentpb.Check{Name: "up", Kind: &intentpb.Check_Query{Query: &intentpb.Metric{Prometheus: place, Query: "vector(1)", Above: proto.Float64(0)}}}
	}
	entry := func(password, partition string) string {
		t.Setenv("PROMETHEUS_"+password, password)
		return policyFile(t, fmt.Sprintf("monitoring: [{name: main, kind: prometheus, url: %q, user: lehr, password: {env: PROMETHEUS_%s}, partitions: [%s]}]\n", prometheus.url(), password, partition))
	}
	until(t, entry("test", "shop"), asked("main"), intent.Pass, "")
	until(t, entry("wrong", "shop"), asked("main"), intent.Broken, "it refuses whoever asks (401)")
	until(t, entry("test", "other"), asked("main"), intent.Broken, "partition shop may not ask the prometheus \"main\"")
	until(t, policyFile(t, ""), asked(prometheus.url()), intent.Broken, "it refuses whoever asks (401)")
}

// alert as Alertmanager takes it, for a while.
func alert(name, service string, lasts time.Duration) map[string]any {
	return map[string]any{
		"labels":   map[string]string{"alertname": name, "service": service, "severity": "page"},
		"startsAt": time.Now().Format(time.RFC3339Nano), "endsAt": time.Now().Add(lasts).Format(time.RFC3339Nano), "generatorURL": "http://prometheus/graph?g0.expr=" + name,
	}
}

func TestAlertmanager(t *testing.T) {
	t.Parallel()
	manager := newAlertmanager(t)
	policy := policyFile(t, "")
	pages := func(change ...func(*intentpb.Alerts)) *intentpb.Check {
		asked := &intentpb.Alerts{Alertmanager: manager.url(), Matchers: []string{`service="web"`, `severity=~"page|ticket"`}}
		for _, c := range change {
			c(asked)
		}
		return &intentpb.Check{Name: "pages", Kind: &intentpb.Check_Alerts{Alerts: asked}}
	}
	silenced := pages(func(a *intentpb.Alerts) { a.Silenced = true })
	inhibited := pages(func(a *intentpb.Alerts) { a.Inhibited = true })
	until(t, policy, pages(), intent.Pass, "")
	post(t, manager.url()+"/api/v2/alerts", []any{alert("Slow", "db", time.Hour)})
	until(t, policy, pages(func(a *intentpb.Alerts) { a.Matchers = []string{`service="db"`} }), intent.Wait, "alert Slow is active since ")
	until(t, policy, pages(), intent.Pass, "")

	post(t, manager.url()+"/api/v2/alerts", []any{alert("Slow", "web", time.Hour)})
	until(t, policy, pages(), intent.Wait, `{service="web",severity="page"}: http://prometheus/graph?g0.expr=Slow; asked at`)
	// One that inhibits it counts itself.
	post(t, manager.url()+"/api/v2/alerts", []any{alert("Down", "web", time.Hour)})
	until(t, policy, inhibited, intent.Wait, "and 1 more")
	until(t, policy, pages(), intent.Wait, "alert Down is active")
	post(t, manager.url()+"/api/v2/silences", map[string]any{
		"matchers": []any{map[string]any{"name": "alertname", "value": "Down", "isRegex": false, "isEqual": true}},
		"startsAt": time.Now().Format(time.RFC3339Nano), "endsAt": time.Now().Add(time.Hour).Format(time.RFC3339Nano), "createdBy": "ann", "comment": "known",
	})
	until(t, policy, pages(), intent.Pass, "")
	until(t, policy, silenced, intent.Wait, "alert Down is active")
	until(t, policy, inhibited, intent.Wait, "alert Slow is active")

	// It is over when it is resolved, and when nobody tells of it any more.
	post(t, manager.url()+"/api/v2/alerts", []any{alert("Slow", "web", 0)})
	until(t, policy, inhibited, intent.Pass, "")
	post(t, manager.url()+"/api/v2/alerts", []any{alert("Brief", "web", 2*time.Second)})
	until(t, policy, pages(), intent.Wait, "alert Brief is active")
	until(t, policy, pages(), intent.Pass, "")

	until(t, policy, pages(func(a *intentpb.Alerts) { a.Matchers = []string{`service=~"("`} }), intent.Broken, "it refuses the matchers")
	until(t, policy, &intentpb.Check{Name: "errors", Kind: &intentpb.Check_Query{Query: &intentpb.Metric{Prometheus: manager.url(), Query: "up", Above: proto.Float64(0)}}}, intent.Broken, "it answered 404")
	manager.end()
	until(t, policy, pages(), intent.Broken, "connection refused")
	manager.start()
	until(t, policy, pages(), intent.Pass, "")
}
