package monitoring

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"lehr.dev/internal/cli"
	"lehr.dev/internal/external"
	"lehr.dev/internal/external/prometheus"
)

// judged runs lehr judge on what a real Prometheus says.
func judged(t *testing.T, arguments ...string) (code int, says string) {
	t.Helper()
	var out strings.Builder
	local := cli.Local{Range: func(ctx context.Context, q cli.RangeQuery) (ranged []cli.Ranged, err error) {
		runs, err := prometheus.Range(ctx, external.Request{URL: q.URL, Header: http.Header{}}, prometheus.RangeOf{Query: q.Query, From: q.From, To: q.To, Step: q.Step})
		for _, r := range runs {
			ranged = append(ranged, cli.Ranged(r))
		}
		return ranged, err
	}}
	code = cli.Run(t.Context(), local, cli.Terminal{Out: &out, Err: &out, Getenv: func(string) string { return "" }}, append([]string{"judge"}, arguments...))
	return code, out.String()
}

// TestJudgeAsksPrometheus for both sides of a change, and for two versions of one
// time.
func TestJudgeAsksPrometheus(t *testing.T) {
	t.Parallel()
	const page = "latency{version=\"v1\"} %d\nlatency{version=\"v2\"} %d\nqueue %d\n"
	watched := newTarget(t, fmt.Sprintf(page, 100, 101, 10))
	server := newPrometheus(t, watched, nil, "")
	ask := func(query string) []time.Time {
		where, err := url.Parse(server.url())
		if err != nil {
			t.Fatal(err)
		}
		runs, err := prometheus.Range(t.Context(), external.Request{URL: where}, prometheus.RangeOf{Query: query, From: time.Now().Add(-2 * time.Minute), To: time.Now(), Step: time.Second})
		if err != nil || len(runs) == 0 {
			return nil
		}
		return runs[0].Times
	}
	samples := func(query string, least int) {
		t.Helper()
		eventually(t, func() string {
			if n := len(ask(query)); n < least {
				return fmt.Sprintf("%s has %d samples, not %d", query, n, least)
			}
			return ""
		})
	}
	// A queue that moves a little, and is eight times as long after the change.
	says := func(queues ...int) {
		for _, queue := range queues {
			watched.says(fmt.Sprintf(page, 100, 101, queue))
			samples(fmt.Sprintf("queue == %d", queue), 3)
		}
	}
	says(10, 11, 12, 90, 92, 91, 93)
	changed := ask("queue == 90")[0].UTC().Format(time.RFC3339Nano)
	common := []string{"--prometheus", server.url(), "--at", changed, "--window", "2m", "--step", "1s"}

	code, answer := judged(t, append(common, "--query", "queue=queue")...)
	if code != 1 || !strings.Contains(answer, "FAIL: queue failed") || !strings.Contains(answer, " after 11") {
		t.Errorf("before and after: %d\n%s", code, answer)
	}
	code, answer = judged(t, append(common, "--query", "latency", "--experiment", "version=v2")...)
	if code != 0 || !strings.Contains(answer, "PASS: ") || !strings.Contains(answer, "101 after 100") {
		t.Errorf("two versions: %d\n%s", code, answer)
	}
	for query, want := range map[string]string{"no_such_metric": "the control has no data", "queue{": "it refuses the query (bad_data)"} {
		if code, says := judged(t, append(common, "--query", query)...); code != 2 || !strings.Contains(says, want) {
			t.Errorf("%s: %d\n%s", query, code, says)
		}
	}
	server.end()
	if code, says := judged(t, append(common, "--query", "queue")...); code != 2 || !strings.Contains(says, "did not answer") {
		t.Errorf("a Prometheus that is gone: %d\n%s", code, says)
	}
}
