package watching

import (
	"compress/gzip"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	collectorpb "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	commonpb "go.opentelemetry.io/proto/otlp/common/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"

	"lehr.dev/test/freeport"
)

// collector takes what a server sends by OTLP over HTTP.
type collector struct {
	mutex  sync.Mutex
	spans  map[string]*tracepb.Span
	wrong  []string
	said   []byte
	origin map[string]string
}

func newCollector(t *testing.T) (*collector, string) {
	t.Helper()
	c := &collector{spans: map[string]*tracepb.Span{}, origin: map[string]string{}}
	server := httptest.NewServer(c)
	t.Cleanup(server.Close)
	return c, server.URL
}

func (c *collector) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	var body io.Reader = r.Body
	if r.Header.Get("Content-Encoding") == "gzip" {
		unpacked, err := gzip.NewReader(r.Body)
		if err != nil {
			c.wrong = append(c.wrong, err.Error())
			return
		}
		body = unpacked
	}
	text, err := io.ReadAll(body)
	request := &collectorpb.ExportTraceServiceRequest{}
	if err == nil {
		err = proto.Unmarshal(text, request)
	}
	if err != nil || r.URL.Path != "/v1/traces" || r.Header.Get("Content-Type") != "application/x-protobuf" {
		c.wrong = append(c.wrong, fmt.Sprint(r.URL.Path, r.Header, err))
	}
	c.said = append(c.said, text...)
	for _, resource := range request.ResourceSpans {
		maps.Copy(c.origin, words(resource.Resource.GetAttributes()))
		for _, scope := range resource.ScopeSpans {
			for _, span := range scope.Spans {
				if id := fmt.Sprintf("%x-%x", span.TraceId, span.SpanId); c.spans[id] == nil {
					c.spans[id] = span
				} else {
					c.wrong = append(c.wrong, "span "+id+" came twice")
				}
			}
		}
	}
	answer, _ := proto.Marshal(&collectorpb.ExportTraceServiceResponse{})
	w.Header().Set("Content-Type", "application/x-protobuf")
	_, _ = w.Write(answer)
}

// words are attributes as text.
func words(list []*commonpb.KeyValue) map[string]string {
	found := map[string]string{}
	for _, a := range list {
		switch value := a.Value.Value.(type) {
		case *commonpb.AnyValue_StringValue:
			found[a.Key] = value.StringValue
		case *commonpb.AnyValue_ArrayValue:
			var parts []string
			for _, part := range value.ArrayValue.Values {
				parts = append(parts, part.GetStringValue())
			}
			found[a.Key] = strings.Join(parts, " ")
		default:
			found[a.Key] = fmt.Sprint(a.Value.Value)
		}
	}
	return found
}

// root finds the newest one of that name, with these attributes.
func (c *collector) root(name string, has map[string]string) *tracepb.Span {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	var found *tracepb.Span
	for _, span := range c.spans {
		about, fits := words(span.Attributes), span.Name == name && len(span.ParentSpanId) == 0
		for key, value := range has {
			fits = fits && about[key] == value
		}
		if fits && (found == nil || found.StartTimeUnixNano < span.StartTimeUnixNano) {
			found = span
		}
	}
	return found
}

// below lists what is below a root, in the order in which it began.
func (c *collector) below(root *tracepb.Span) (list []*tracepb.Span) {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	for _, span := range c.spans {
		if string(span.TraceId) == string(root.TraceId) && string(span.ParentSpanId) == string(root.SpanId) {
			list = append(list, span)
		}
	}
	slices.SortFunc(list, func(a, b *tracepb.Span) int {
		return int(int64(a.StartTimeUnixNano) - int64(b.StartTimeUnixNano) + int64(a.EndTimeUnixNano) - int64(b.EndTimeUnixNano))
	})
	return list
}

func names(list []*tracepb.Span) (names []string) {
	for _, span := range list {
		names = append(names, span.Name)
	}
	return names
}

// more is a real process, and a command that keeps what it was told of its trace.
const more = ` + [
        # What a failed test leaves behind ends by itself.
        asset("web", lehr.process.v1.Job(name = service["name"], replicas = service["replicas"], binary = "/bin/sleep", args = ["60"])),
        asset("note", lehr.command.v1.Command(
            diff = ["/bin/sh", "-c", 'test -f "$1" || { echo "no such file"; exit 2; }', "sh", service["note"]],
            push = ["/bin/sh", "-c", 'echo "$TRACEPARENT" > "$1"', "sh", service["note"]],
            input = "unspeakable",
        )),
    ]
`

// alter a file of the partition, by its name.
func (w world) alter(t *testing.T, name, old, text string) {
	t.Helper()
	file := filepath.Join(w.folder, "hello", name)
	before := read(t, file)
	if !strings.Contains(before, old) {
		t.Fatalf("%s has no %q", name, old)
	}
	if err := os.WriteFile(file, []byte(strings.Replace(before, old, text, 1)), 0o644); err != nil {
		t.Fatal(err)
	}
}

// From a source's revision to a process that runs, and the reverse: a real
// collector's protocol has each step, what it is about, and what caused it.
func TestTracesFromSourceToProcess(t *testing.T) {
	c, url := newCollector(t)
	t.Setenv("OTEL_EXPORTER_OTLP_COMPRESSION", "gzip")
	t.Setenv("OTEL_BSP_SCHEDULE_DELAY", "50")
	t.Setenv("OTEL_RESOURCE_ATTRIBUTES", "team=blue")
	w := newWorld(t, "--traces", url, "--log-format", "json", "--log-level", "debug")
	w.alter(t, "lehr.yaml", "{run: lehr-command}", "{run: lehr-command}\n  Job: {run: lehr-process}")
	w.alter(t, "service.yaml", "greetings:", fmt.Sprintf("note: %s/note\nname: traced-%d\nreplicas: 1\ngreetings:", w.folder, os.Getpid()))
	w.alter(t, "web.star", ".items()\n    ]\n", ".items()\n    ]"+more)

	pushes := map[string]*tracepb.Span{}
	for _, asset := range []string{"web", "note"} {
		eventually(t, "the push of "+asset+" is told of", func() string {
			pushes[asset] = c.root("push", map[string]string{"lehr.asset": asset, "lehr.outcome": "in-sync"})
			if pushes[asset] == nil {
				return w.lehr(t, "get", "reports")
			}
			return ""
		})
	}
	var head *tracepb.Span
	for asset, root := range pushes {
		about := words(root.Attributes)
		eventually(t, "the build is told of", func() string {
			head = c.root("build", map[string]string{"lehr.incarnation": about["lehr.incarnation"]})
			if head == nil {
				return fmt.Sprint(about)
			}
			return ""
		})
		checkPush(t, c, asset, root, head)
		checkTold(t, w, root)
	}
	if got := names(c.below(head)); !slices.Equal(got, []string{"read", "generate", "validate", "publish"}) {
		t.Errorf("the build is told of as %q", got)
	}
	if about := words(head.Attributes); !regexp.MustCompile(`\bservice@\S+`).MatchString(about["lehr.sources"]) || about["lehr.partition"] != "hello" {
		t.Errorf("of the build is told %v", about)
	}
	note := pushes["note"]
	var plugin *tracepb.Span
	for _, step := range c.below(note) {
		if step.Name == "plugin push" {
			plugin = step
		}
	}
	want := fmt.Sprintf("00-%x-%x-01\n", note.TraceId, plugin.GetSpanId())
	if got := read(t, filepath.Join(w.folder, "note")); got != want {
		t.Errorf("the push command was told the parent %q, want %q", got, want)
	}
	c.mutex.Lock()
	defer c.mutex.Unlock()
	if len(c.wrong) > 0 {
		t.Errorf("the collector got %q", c.wrong)
	}
	if c.origin["service.name"] != "lehr" || c.origin["team"] != "blue" {
		t.Errorf("it comes from %v", c.origin)
	}
	if strings.Contains(string(c.said), "unspeakable") {
		t.Error("a payload was sent to the collector")
	}
}

func checkPush(t *testing.T, c *collector, asset string, root, head *tracepb.Span) {
	t.Helper()
	steps := c.below(root)
	if got := names(steps); !slices.Equal(got, []string{"target", "diff", "checks", "admission", "plugin push", "close", "in sync"}) {
		t.Errorf("the push of %s is told of as %q", asset, got)
	}
	for i, step := range steps {
		if step.EndTimeUnixNano < step.StartTimeUnixNano || step.StartTimeUnixNano < root.StartTimeUnixNano || step.EndTimeUnixNano > root.EndTimeUnixNano {
			t.Errorf("%s of %s is not within its push", step.Name, asset)
		}
		if i > 0 && step.StartTimeUnixNano < steps[i-1].EndTimeUnixNano {
			t.Errorf("%s of %s begins before %s has ended", step.Name, asset, steps[i-1].Name)
		}
	}
	about := words(root.Attributes)
	for _, key := range []string{"lehr.partition", "lehr.asset", "lehr.type", "lehr.incarnation", "lehr.push", "lehr.ending"} {
		if about[key] == "" {
			t.Errorf("the push of %s says nothing of %s: %v", asset, key, about)
		}
	}
	if about["lehr.ending"] != "pushed" {
		t.Errorf("the push of %s ended as %s", asset, about["lehr.ending"])
	}
	if len(root.Links) != 1 || string(root.Links[0].TraceId) != string(head.TraceId) || string(root.Links[0].SpanId) != string(head.SpanId) {
		t.Errorf("the push of %s is caused by %v, want %x", asset, root.Links, head.TraceId)
	}
}

// checkTold: describe and the log tell the id.
func checkTold(t *testing.T, w world, root *tracepb.Span) {
	t.Helper()
	push, id := words(root.Attributes)["lehr.push"], fmt.Sprintf("%x", root.TraceId)
	if shown := w.lehr(t, "describe", "push", push); !strings.Contains(shown, id) {
		t.Errorf("describe push %s does not tell trace %s:\n%s", push, id, shown)
	}
	made, build := words(root.Attributes)["lehr.incarnation"], fmt.Sprintf("%x", root.Links[0].TraceId)
	if shown := w.lehr(t, "describe", "incarnation", made); !strings.Contains(shown, build) {
		t.Errorf("describe incarnation %s does not tell trace %s:\n%s", made, build, shown)
	}
	told := false
	for line := range strings.Lines(read(t, w.log)) {
		var record map[string]any
		if json.Unmarshal([]byte(line), &record) == nil && record["push"] == push {
			told = told || record["trace"] == id
		}
	}
	if !told {
		t.Errorf("the log does not tell trace %s of push %s", id, push)
	}
}

var spans = regexp.MustCompile(`lehr_trace_spans_total\{outcome="(\w+)"\} (\d+)`)

// A collector that never answers, and one that is away, delay nothing: what has no
// room is dropped, and counted.
func TestCollectorsThatFailDelayNothing(t *testing.T) {
	hung := make(chan struct{})
	hangs := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-hung }))
	t.Cleanup(func() { close(hung); hangs.Close() })
	for name, url := range map[string]string{"it hangs": hangs.URL, "it is away": "http://" + freeport.Address(t)} {
		t.Run(name, func(t *testing.T) {
			t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", url)
			t.Setenv("OTEL_BSP_SCHEDULE_DELAY", "50")
			t.Setenv("OTEL_BSP_MAX_QUEUE_SIZE", "4")
			w := newWorld(t) // All of it is pushed.
			eventually(t, "spans are dropped", func() string {
				shows, err := w.show()
				counts := map[string]string{}
				for _, m := range spans.FindAllStringSubmatch(shows, -1) {
					counts[m[1]] = m[2]
				}
				if err != nil || counts["sent"] != "0" || counts["dropped"] == "0" || counts["dropped"] == "" {
					return fmt.Sprint(counts, err)
				}
				return ""
			})
		})
	}
}

// A share is of whole traces, and describe tells of those alone that are sent.
func TestTracesAreSampled(t *testing.T) {
	c, url := newCollector(t)
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", url)
	t.Setenv("OTEL_BSP_SCHEDULE_DELAY", "50")
	t.Setenv("OTEL_TRACES_SAMPLER", "parentbased_traceidratio")
	t.Setenv("OTEL_TRACES_SAMPLER_ARG", "0")
	w := newWorld(t)
	var list []struct{ Push string }
	text := w.lehr(t, "get", "pushes", "-o", "json")
	if err := json.Unmarshal([]byte(text), &list); err != nil || len(list) == 0 {
		t.Fatalf("%v: %s", err, text)
	}
	for _, of := range [][]string{{"push", list[0].Push}, {"incarnation"}} {
		if shown := w.lehr(t, append([]string{"describe"}, of...)...); strings.Contains(shown, "trace") {
			t.Errorf("a trace is told that is not sent:\n%s", shown)
		}
	}
	c.mutex.Lock()
	defer c.mutex.Unlock()
	if len(c.spans) > 0 {
		t.Errorf("%d spans were sent", len(c.spans))
	}
}

// What the variables say that cannot be done ends the server at its start, and
// says what to do.
func TestTracesThatCannotBeSent(t *testing.T) {
	w := newWorld(t)
	for _, c := range []struct{ variable, value, says string }{
		{"OTEL_EXPORTER_OTLP_ENDPOINT", "collector:4317", "no URL of a collector"},
		{"OTEL_EXPORTER_OTLP_PROTOCOL", "grpc", "http/protobuf only"},
		{"OTEL_TRACES_EXPORTER", "zipkin", "set it to otlp or none"},
		{"OTEL_TRACES_SAMPLER", "sometimes", "traceidratio"},
		{"OTEL_TRACES_SAMPLER_ARG", "2", "a number from 0 to 1"},
	} {
		command := exec.Command(filepath.Join(w.folder, "bin", "lehr"), "serve", "--store", filepath.Join(t.TempDir(), "lehr.db"))
		command.Env = append(w.environment, "OTEL_EXPORTER_OTLP_ENDPOINT=http://127.0.0.1:1", "OTEL_TRACES_SAMPLER=traceidratio", c.variable+"="+c.value)
		out, err := command.CombinedOutput()
		if err == nil || !strings.Contains(string(out), c.says) || !strings.Contains(string(out), c.variable) {
			t.Errorf("%s=%s: %v\n%s", c.variable, c.value, err, out)
		}
	}
}
