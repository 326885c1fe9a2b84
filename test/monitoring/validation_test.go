package monitoring

import (
	"fmt"
	"math/rand/v2"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"lehr.dev/internal/annealing/strategist/sampling"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/ground/judge"
	"lehr.dev/internal/ground/validation"
)

// remembered is a real Prometheus that remembers the last two hours: of a change an hour
// ago, latencies of two versions, of which the new one leaks a little, rare errors of the
// new one, and the traffic of both.
func remembered(t *testing.T, changed time.Time) *process {
	folder := t.TempDir()
	var page strings.Builder
	random := rand.New(rand.NewPCG(1, 48))
	errors, requests := map[string]float64{}, map[string]float64{}
	for _, s := range []struct {
		name string
		of   func(version string, minutes float64) float64
	}{
		{"latency_ms", func(version string, minutes float64) float64 {
			leak := 0.0
			if version == "v2" {
				leak = 0.6 * max(0, minutes)
			}
			return 100 + leak + 15*random.NormFloat64()
		}},
		{"steady_ms", func(string, float64) float64 { return 100 + 15*random.NormFloat64() }},
		{"requests_total", func(version string, _ float64) float64 {
			requests[version] += 150
			return requests[version]
		}},
		{"errors_total", func(version string, minutes float64) float64 {
			for range 150 {
				if version == "v2" && minutes >= 0 && random.Float64() < 0.004 {
					errors[version]++
				}
			}
			return errors[version]
		}},
	} {
		kind := "gauge"
		if strings.HasSuffix(s.name, "_total") {
			kind = "counter"
		}
		fmt.Fprintf(&page, "# TYPE %s %s\n", strings.TrimSuffix(s.name, "_total"), kind)
		for _, version := range []string{"v1", "v2"} {
			for at := -60 * time.Minute; at <= 60*time.Minute; at += 15 * time.Second {
				if value := s.of(version, at.Minutes()); kind == "gauge" || value > 0 {
					fmt.Fprintf(&page, "%s{version=%q,instance=%q} %g %d\n", s.name, version, "web/"+version, value, changed.Add(at).Unix())
				}
			}
		}
	}
	page.WriteString("# EOF\n")
	write(t, folder, map[string]string{"page.txt": page.String(), "prometheus.yml": "{}\n", "access.yml": ""})
	server := need(t, "prometheus")
	if out, err := exec.Command(need(t, "promtool"), "tsdb", "create-blocks-from", "openmetrics", filepath.Join(folder, "page.txt"), filepath.Join(folder, "data")).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return begin(t, server, func(port string) []string {
		return []string{
			"--config.file=" + filepath.Join(folder, "prometheus.yml"), "--storage.tsdb.path=" + filepath.Join(folder, "data"),
			"--web.listen-address=127.0.0.1:" + port, "--log.level=warn",
		}
	})
}

// TestARolloutIsValidated by what a real Prometheus remembers of it: a leak that keeps
// below its limit is found, rare errors are, and what is as it was is good; what is no
// metric, or is gone, is neither.
func TestARolloutIsValidated(t *testing.T) {
	t.Parallel()
	now := time.Now().UTC().Truncate(time.Second)
	changed := now.Add(-time.Hour)
	server := remembered(t, changed)
	folder := t.TempDir()
	write(t, folder, map[string]string{"checks.yaml": "external-checks: v1\nmonitoring: [{name: main, kind: prometheus, url: \"" + server.url() + "\", partitions: [shop]}]\n"})
	sampler := sampling.New("shop", filepath.Join(folder, "checks.yaml"), nil)
	subject := sampling.Subject{
		Experiment: sampling.Part{Assets: []intent.AssetID{"web/v2"}},
		Control:    sampling.Part{Assets: []intent.AssetID{"web/v1"}},
	}
	assess := func(compare validation.Comparison, m validation.Measure) validation.Assessment {
		t.Helper()
		m.Source.Prometheus, m.Judge.Worse = "main", judge.Higher
		s := validation.Settings{Name: "web", WarmUp: 2 * time.Minute, Interval: 14 * time.Minute, Intervals: 4, Compare: compare, Metrics: []validation.Measure{m}}
		w, err := s.Window(validation.Change{Done: changed}, now)
		if err != nil {
			t.Fatal(err)
		}
		readings, err := sampler.Read(t.Context(), s, subject, w)
		if err != nil {
			t.Fatal(err)
		}
		a, err := validation.Assess(s, validation.Change{Done: changed}, readings, now)
		if err != nil {
			t.Fatal(err)
		}
		return a
	}
	of := func(query string) validation.Measure {
		return validation.Measure{Judge: judge.Metric{Name: "metric"}, Source: validation.Source{Query: query}}
	}
	events := of(`sum(increase(errors_total{instance=~"$asset"}[$step]))`)
	events.Source.Of, events.Absent = `sum(increase(requests_total{instance=~"$asset"}[$step]))`, validation.AbsentZero
	selected := of(`latency_ms{$selector}`)
	selected.Source.Experiment, selected.Source.Control = `version="v2"`, `version="v1"`
	limited := of(`latency_ms{instance="$asset"}`)
	limited.Judge.Limit = &judge.Limit{Above: new(250.0)}
	for _, test := range []struct {
		what    string
		compare validation.Comparison
		measure validation.Measure
		want    validation.Verdict
		says    string
	}{
		{"a leak, beside a control", validation.Control, of(`latency_ms{instance="$asset"}`), validation.Bad, "metric: "},
		{"a leak, by a selector", validation.Control, selected, validation.Bad, "metric: "},
		{"a leak, after before", validation.Before, of(`latency_ms{instance="$asset"}`), validation.Bad, "metric: "},
		{"a leak below a limit", validation.None, limited, validation.Good, "passed"},
		{"what is as it was", validation.Before, of(`steady_ms{instance="$asset"}`), validation.Good, "passed"},
		{"what is like others", validation.Control, of(`steady_ms{instance="$asset"}`), validation.Good, "passed"},
		{"rare errors", validation.Control, events, validation.Bad, "times"},
		{"two series", validation.Before, of(`latency_ms`), validation.Broken, "gives 2 series"},
		{"no series", validation.Before, of(`no_such_metric`), validation.Broken, "it has no samples"},
		{"what is no query", validation.Before, of(`latency_ms{`), validation.Broken, "it refuses the query (bad_data)"},
		{"a share of nothing", validation.Before, of(`0 * steady_ms{instance="$asset"} / 0`), validation.Broken, "are no numbers"},
	} {
		if a := assess(test.compare, test.measure); a.Verdict != test.want || !strings.Contains(a.Why, test.says) {
			t.Errorf("%s: %s: %s", test.what, a.Verdict, a.Why)
		}
	}
	server.end()
	if a := assess(validation.Before, of(`steady_ms{instance="$asset"}`)); a.Verdict != validation.Broken || a.Next.IsZero() || !strings.Contains(a.Why, "did not answer") {
		t.Errorf("a Prometheus that is gone: %s: %s", a.Verdict, a.Why)
	}
}
