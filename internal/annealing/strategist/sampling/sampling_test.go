package sampling_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	pluginpb "lehr.dev/gen/lehr/plugin/v1"
	"lehr.dev/internal/annealing/strategist/sampling"
	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/ground/judge"
	"lehr.dev/internal/ground/validation"
	"lehr.dev/test/pgserver"
)

var (
	changed = time.Date(2026, 3, 2, 8, 0, 0, 0, time.UTC)
	subject = sampling.Subject{
		Experiment: sampling.Part{Assets: []intent.AssetID{"web/b", "web/a"}, Scopes: map[string][]string{"cluster": {"a"}}},
		Control:    sampling.Part{Assets: []intent.AssetID{"web/c"}, Scopes: map[string][]string{"cluster": {"b", "c"}}},
	}
)

// policyOf an operator.
func policyOf(t *testing.T, text string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "checks.yaml")
	if err := os.WriteFile(file, []byte("external-checks: v1\n"+text), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// read what a source gives at the end of ten minutes.
func read(t *testing.T, policy string, compare validation.Comparison, source validation.Source) validation.Reading {
	t.Helper()
	return readBy(t, policy, nil, compare, source)
}

// readBy asks plugins by a function.
func readBy(t *testing.T, policy string, plugin sampling.Plugin, compare validation.Comparison, source validation.Source) validation.Reading {
	t.Helper()
	m := validation.Measure{Judge: judge.Metric{Name: "latency", Limit: &judge.Limit{Above: new(500.0)}}, Compare: compare, Source: source}
	s := validation.Settings{Name: "web", WarmUp: time.Minute, Metrics: []validation.Measure{m}}
	w, err := s.Window(validation.Change{Done: changed}, changed.Add(11*time.Minute))
	if err != nil {
		t.Fatal(err)
	}
	readings, err := sampling.New("shop", policy, plugin).Read(t.Context(), s, subject, w)
	if err != nil || len(readings) != 1 || readings[0].Metric != "latency" {
		t.Fatalf("%v %+v", err, readings)
	}
	return readings[0]
}

const here = "networks: [127.0.0.0/8, \"::1/128\"]\n"

// TestServicesAreTold what is asked about, once for each side.
func TestServicesAreTold(t *testing.T) {
	var mutex sync.Mutex
	var told []string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		mutex.Lock()
		told = append(told, string(body))
		mutex.Unlock()
		fmt.Fprint(w, `{"samples": [{"at": "2026-03-02T08:05:00+01:00", "value": 1.5, "of": 20}, {"at": 1772438400.5, "value": "NaN"}, {"at": 0, "value": null}]}`)
	}))
	defer server.Close()
	got := read(t, policyOf(t, here), validation.Control, validation.Source{HTTP: server.URL + "/samples", Query: "p90"})
	slices.Sort(told)
	if want := []string{
		`{"validation":"web","metric":"latency","partition":"shop","side":"control","assets":["web/c"],"scopes":{"cluster":["b","c"]},"start":"2026-03-02T08:01:00Z","end":"2026-03-02T08:11:00Z","step":15,"query":"p90"}`,
		`{"validation":"web","metric":"latency","partition":"shop","side":"experiment","assets":["web/b","web/a"],"scopes":{"cluster":["a"]},"start":"2026-03-02T08:01:00Z","end":"2026-03-02T08:11:00Z","step":15,"query":"p90"}`,
	}; !slices.Equal(told, want) {
		t.Errorf("they are told %s", told)
	}
	text, err := json.Marshal(got.Experiment)
	if want := `{"samples":[{"at":"2026-03-02T08:05:00+01:00","value":1.5,"of":20},{"at":"2026-03-02T08:00:00.5Z","value":"NaN"},{"at":"1970-01-01T00:00:00Z","value":"NaN"}]}`; err != nil || string(text) != want {
		t.Errorf("%v %s", err, text)
	}
	told = nil
	read(t, policyOf(t, here), validation.Before, validation.Source{HTTP: server.URL})
	slices.Sort(told)
	if len(told) != 2 || !strings.Contains(told[0], `"side":"before","assets":["web/b","web/a"]`) || !strings.Contains(told[0], `"start":"2026-03-02T07:50:00Z","end":"2026-03-02T08:00:00Z"`) {
		t.Errorf("they are told %s", told)
	}
	told = nil
	if read(t, policyOf(t, here), validation.None, validation.Source{HTTP: server.URL}); len(told) != 1 {
		t.Errorf("they are told %s", told)
	}
}

// TestAnswersThatAreNone: there are no samples, and a reason.
func TestAnswersThatAreNone(t *testing.T) {
	for _, test := range []struct {
		status int
		body   string
		says   string
	}{
		{200, ``, "cannot be read"},
		{200, `null`, "it has no samples"},
		{200, `{}`, "it has no samples"},
		{200, `{"samples": null}`, "it has no samples"},
		{200, `{"samples": [{"value": 1}]}`, "sample 1: \"\" is no time"},
		{200, `{"samples": [{"at": -1, "value": 1}]}`, "is no time"},
		{200, `{"samples": [{"at": 1e300, "value": 1}]}`, "is no time"},
		{200, `{"samples": [{"at": "yesterday", "value": 1}]}`, "is no time"},
		{200, `{"samples": [{"at": 1, "value": 1}, {"at": 1, "value": "many"}]}`, "sample 2: \"many\" is no number"},
		{200, `{"samples": [{"at": 1, "value": 1, "of": {}}]}`, "is no number"},
		{200, `{"samples": [` + strings.Repeat(`{"at":1,"value":1},`, 5000) + `{"at":1,"value":1}]}`, "5001 samples, more than 5000"},
		{200, strings.Repeat(" ", 2<<20), "more than 1048576 bytes"},
		{200, `<html>`, "cannot be read"},
		{302, ``, "redirects are not followed"},
		{401, ``, "refuses whoever asks (401)"},
		{500, `{"samples": []}`, "answered 500"},
	} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(test.status)
			fmt.Fprint(w, test.body)
		}))
		got := read(t, policyOf(t, here), validation.None, validation.Source{HTTP: server.URL})
		server.Close()
		if len(got.Experiment.Samples) > 0 || !strings.Contains(got.Experiment.Failed, test.says) {
			t.Errorf("%d %.60s: %s", test.status, test.body, got.Experiment.Failed)
		}
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, `{"samples": []}`) }))
	defer server.Close()
	if got := read(t, policyOf(t, here), validation.None, validation.Source{HTTP: server.URL}); got.Experiment.Failed != "" || len(got.Experiment.Samples) != 0 {
		t.Errorf("no samples: %+v", got)
	}
}

// TestASourceThatHangs is given up in its time, and keeps no other waiting.
func TestASourceThatHangs(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		<-r.Context().Done()
		panic(http.ErrAbortHandler) // An answer could still get through.
	}))
	defer server.Close()
	for name, source := range map[string]validation.Source{
		"a service":    {HTTP: server.URL},
		"a Prometheus": {Prometheus: server.URL, Query: "up"},
		"a program":    {Command: []string{"/bin/sleep", "1000"}},
	} {
		source.Timeout = 200 * time.Millisecond
		got := read(t, policyOf(t, here+"commands: [{run: /bin/sleep, partitions: [shop]}]"), validation.Before, source)
		for _, side := range []validation.Side{got.Control, got.Experiment} {
			if side.Failed != "there was no answer within 200ms" {
				t.Errorf("%s: %+v", name, side)
			}
		}
	}
}

// TestOnlyWhatTheOperatorAllowsIsAsked.
func TestOnlyWhatTheOperatorAllowsIsAsked(t *testing.T) {
	for words, source := range map[string]validation.Source{
		"no public address":                      {HTTP: "http://127.0.0.1:1/"},
		"may not ask the prometheus":             {Prometheus: "main", Query: "up"},
		"may not ask the metrics":                {HTTP: "main"},
		`may not run "/bin/echo"`:                {Command: []string{"/bin/echo", "{}"}},
		`may not read the database "production"`: {SQL: "production", Query: "SELECT now(), 1"},
		"is no PostgreSQL":                       {SQL: "file", Query: "SELECT 1, 2"},
		`may not ask the plugin of checks "slow`: {Plugin: "slowest"},
	} {
		policy := policyOf(t, "commands: [{run: /bin/echo, partitions: [other]}]\ndatabases: [{name: file, env: FILE, partitions: [shop]}]\nplugins: [{name: slowest, run: [/bin/true], partitions: [other]}]")
		t.Setenv("FILE", "/tmp/x.db")
		if got := read(t, policy, validation.None, source); !strings.Contains(got.Experiment.Failed, words) {
			t.Errorf("%s: %s", words, got.Experiment.Failed)
		}
	}
	if got := read(t, "/no/such/file", validation.Before, validation.Source{HTTP: "https://example.com"}); got.Experiment.Failed == "" || got.Control.Failed == "" {
		t.Errorf("a policy that cannot be read allows: %+v", got)
	}
}

// TestProgramsAreAsked by what they write.
func TestProgramsAreAsked(t *testing.T) {
	program := filepath.Join(t.TempDir(), "measure")
	script := "#!/bin/sh\ncase \"$1\" in\nfail) echo no such metric >&2; exit 3;;\necho) grep -q '\"side\":\"experiment\"' && echo '{\"samples\": [{\"at\": 1772438400, \"value\": 7}]}';;\nesac\n"
	if err := os.WriteFile(program, []byte(script), 0o700); err != nil {
		t.Fatal(err)
	}
	policy := policyOf(t, "commands: [{run: "+program+", partitions: [shop]}]")
	got := read(t, policy, validation.None, validation.Source{Command: []string{program, "echo"}})
	if want := []judge.Sample{{At: changed, Value: 7}}; got.Experiment.Failed != "" || !reflect.DeepEqual(got.Experiment.Samples, want) {
		t.Errorf("%+v", got.Experiment)
	}
	if got := read(t, policy, validation.None, validation.Source{Command: []string{program, "fail"}}); got.Experiment.Failed != "it exited with 3: no such metric" {
		t.Errorf("%+v", got.Experiment)
	}
	if got := read(t, policy, validation.None, validation.Source{Command: []string{program, "nothing"}}); !strings.Contains(got.Experiment.Failed, "cannot be read") {
		t.Errorf("%+v", got.Experiment)
	}
}

// TestPluginsAreAsked what services are told, once for each side; one that hangs is given
// up, and one that gives too much gave nothing.
func TestPluginsAreAsked(t *testing.T) {
	policy := policyOf(t, "plugins: [{name: slowest, run: [/bin/slowest, log], partitions: [shop]}]")
	source := validation.Source{Plugin: "slowest", Query: "p90", Timeout: 200 * time.Millisecond}
	var mutex sync.Mutex
	var told []string
	got := readBy(t, policy, func(_ context.Context, run []string, asked *pluginpb.MeasureRequest) (*pluginpb.MeasureResponse, error) {
		mutex.Lock()
		defer mutex.Unlock()
		text := fmt.Sprintf("%s %s %s %s %s %s %s %s %s %s %s %d", strings.Join(run, " "), asked.Validation, asked.Metric, asked.Partition, asked.Side, asked.Assets, asked.Scopes["cluster"].Values,
			asked.Start.AsTime().Format(time.TimeOnly), asked.End.AsTime().Format(time.TimeOnly), asked.Step.AsDuration(), asked.Query, asked.Most)
		told = append(told, text)
		return &pluginpb.MeasureResponse{Samples: []*pluginpb.MeasuredSample{
			{At: timestamppb.New(changed), Value: 3, Of: new(20.0)}, {At: timestamppb.New(changed.Add(time.Minute)), Value: math.NaN()},
		}}, nil
	}, validation.Control, source)
	slices.Sort(told)
	if want := []string{
		"/bin/slowest log web latency shop control [web/c] [b c] 08:01:00 08:11:00 15s p90 5000",
		"/bin/slowest log web latency shop experiment [web/b web/a] [a] 08:01:00 08:11:00 15s p90 5000",
	}; !slices.Equal(told, want) {
		t.Errorf("it is told %q", told)
	}
	text, err := json.Marshal(got.Experiment)
	if want := `{"samples":[{"at":"2026-03-02T08:00:00Z","value":3,"of":20},{"at":"2026-03-02T08:01:00Z","value":"NaN"}]}`; err != nil || string(text) != want {
		t.Errorf("%v %s", err, text)
	}
	for says, plugin := range map[string]sampling.Plugin{
		"the log is gone": func(context.Context, []string, *pluginpb.MeasureRequest) (*pluginpb.MeasureResponse, error) {
			return nil, fault.New(fault.Unavailable, "the log is gone")
		},
		"there was no answer within 200ms": func(ctx context.Context, _ []string, _ *pluginpb.MeasureRequest) (*pluginpb.MeasureResponse, error) {
			<-ctx.Done()
			return nil, ctx.Err()
		},
		"it gave 5001 samples, more than 5000": func(context.Context, []string, *pluginpb.MeasureRequest) (*pluginpb.MeasureResponse, error) {
			return &pluginpb.MeasureResponse{Samples: slices.Repeat([]*pluginpb.MeasuredSample{{At: timestamppb.New(changed)}}, 5001)}, nil
		},
	} {
		if got := readBy(t, policy, plugin, validation.None, source); !strings.Contains(got.Experiment.Failed, says) || len(got.Experiment.Samples) > 0 {
			t.Errorf("%s: %s", says, got.Experiment.Failed)
		}
	}
}

// TestAPrometheusThatGivesNoMetric: of faults that no real one gives on demand, and of
// queries that cannot be filled.
func TestAPrometheusThatGivesNoMetric(t *testing.T) {
	asked := ""
	const series = `{"metric":{"a":"1"},"values":[[1772438400,"1"]]}`
	result := ""
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked = r.FormValue("query") + " " + r.FormValue("start") + " " + r.FormValue("end") + " " + r.FormValue("step")
		fmt.Fprint(w, `{"status":"success","data":{"resultType":"matrix","result":`+result+`}}`)
	}))
	defer server.Close()
	policy := policyOf(t, here)
	for _, test := range []struct{ result, query, says string }{
		{"[" + series + "," + series + "]", "up", "the query gives 2 series, such as map[a:1] and map[a:1]"},
		{"null", "up", "cannot be read"},
		{`[{"metric":{},"values":[[1772438400,"x"]]}]`, "up", "cannot be read"},
		{"[]", `up{a="$asset"}`, "2 values"},
		{"[]", `up{a="$scope.zone"}`, "stands for nothing"},
		{"[]", `up{$selector}`, "stands for nothing"},
	} {
		result = test.result
		if got := read(t, policy, validation.None, validation.Source{Prometheus: server.URL, Query: test.query}); !strings.Contains(got.Experiment.Failed, test.says) {
			t.Errorf("%s of %s: %s", test.query, test.result, got.Experiment.Failed)
		}
	}
	result = "[" + series + "]"
	got := read(t, policy, validation.None, validation.Source{Prometheus: server.URL, Query: `up{asset=~"$asset",$selector}`, Experiment: `cluster="$scope.cluster"`})
	if want := `up{asset=~"(?:web/a|web/b)",cluster="a"} 1772438460.000 1772439060.000 15.000`; asked != want || len(got.Experiment.Samples) != 1 {
		t.Errorf("%s is asked: %+v", asked, got)
	}
}

// TestDatabasesAreOnlyRead: rows become samples, what people name are parameters, and
// nothing is written by a role that could.
func TestDatabasesAreOnlyRead(t *testing.T) {
	server := pgserver.New(t)
	server.Start()
	address := server.URL("postgres")
	server.Execute(address, "CREATE TABLE latency (at timestamptz, asset text, ms numeric, of bigint)")
	server.Execute(address, `INSERT INTO latency SELECT timestamptz '2026-03-02 07:30:00Z' + i * interval '1 minute', 'web/' || substr('abc', i % 3 + 1, 1), 100.5 + i, 20 FROM generate_series(0, 59) i`)
	server.Execute(address, "INSERT INTO latency VALUES ('2026-03-02 08:05:30Z', 'web/a', NULL, 20)")
	t.Setenv("METRICS", address)
	policy := policyOf(t, "databases: [{name: metrics, env: METRICS, partitions: [shop]}]")
	ask := func(query string) validation.Reading {
		return read(t, policy, validation.Control, validation.Source{SQL: "metrics", Query: query, Timeout: 2 * time.Second})
	}
	got := ask("SELECT at, ms, of FROM latency WHERE asset = ANY($asset) AND at BETWEEN $start AND $end")
	if got.Experiment.Failed != "" || len(got.Experiment.Samples) != 8 || len(got.Control.Samples) != 4 || *got.Control.Samples[0].Of != 20 || got.Control.Samples[0].Value < 130 {
		t.Errorf("%+v", got)
	}
	text, _ := json.Marshal(got.Experiment.Samples)
	if !strings.Contains(string(text), `{"at":"2026-03-02T08:05:30Z","value":"NaN","of":20}`) {
		t.Errorf("%s", text)
	}
	for query, says := range map[string]string{
		"SELECT at FROM latency":                                               "the query gives 1 columns",
		"SELECT ms, at FROM latency":                                           "is no time",
		"SELECT at, asset FROM latency":                                        "is no number",
		"INSERT INTO latency VALUES (now()) RETURNING at, 1":                   "read-only transaction",
		"SELECT now(), 1; DELETE FROM latency":                                 "cannot insert multiple commands",
		"SELECT now(), set_config('transaction_read_only', 'off', true)::text": "read-write mode",
		"SELECT now(), pg_sleep(1000)":                                         "no answer within 2s",
		"SELECT now(), i FROM generate_series(1, 20000) i":                     "more than 5000 rows",
		"SELECT at, ms FROM latency WHERE at > $first":                         "is no placeholder",
		"SELECT at, ms FROM nothing":                                           "does not exist",
	} {
		if got := ask(query); !strings.Contains(got.Experiment.Failed, says) || strings.Contains(got.Experiment.Failed, address) {
			t.Errorf("%s: %s", query, got.Experiment.Failed)
		}
	}
	if rows, err := server.Query(address, "SELECT count(*) FROM latency"); err != nil || rows != "61" {
		t.Errorf("%v: there are %s rows", err, rows)
	}
	eventually := time.Now().Add(30 * time.Second)
	for {
		running, err := server.Query(address, "SELECT count(*) FROM pg_stat_activity WHERE query LIKE '%pg_sleep(1000)' AND state = 'active'")
		if err == nil && running == "0" {
			break
		}
		if time.Now().After(eventually) {
			t.Fatalf("%v: %s queries go on", err, running)
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// TestNothingIsReadBeforeTheFirstLook.
func TestNothingIsReadBeforeTheFirstLook(t *testing.T) {
	s := validation.Settings{Metrics: []validation.Measure{{Judge: judge.Metric{Name: "latency"}, Source: validation.Source{Command: []string{"/bin/false"}}}}}
	w, err := s.Window(validation.Change{Done: changed}, changed.Add(time.Minute))
	if err != nil {
		t.Fatal(err)
	}
	if readings, err := sampling.New("shop", "", nil).Read(t.Context(), s, subject, w); err != nil || readings != nil {
		t.Errorf("%v %+v", err, readings)
	}
}

// TestAlone: what would be compared with the assets that did not change is compared with
// before; with something else, as it was said.
func TestAlone(t *testing.T) {
	s := validation.Settings{Metrics: []validation.Measure{
		{Compare: validation.Control},
		{Compare: validation.Control, Source: validation.Source{Control: `instance=~"$asset"`}},
		{Compare: validation.Control, Source: validation.Source{Control: `job="baseline"`}},
		{Compare: validation.None},
	}}
	alone := sampling.Alone(s)
	for i, want := range []validation.Comparison{validation.Before, validation.Before, validation.Control, validation.None} {
		if got := alone.Metrics[i].Compare; got != want {
			t.Errorf("metric %d is compared with %s, not %s", i, got, want)
		}
		if got := alone.Metrics[i].Alone; got != (i < 2) {
			t.Errorf("metric %d says %v of being compared with something else than was asked for", i, got)
		}
	}
	if s.Metrics[0].Compare != validation.Control {
		t.Error("the settings that were handed in have changed")
	}
}
