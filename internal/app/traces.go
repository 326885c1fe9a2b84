package app

import (
	"cmp"
	"context"
	"net/url"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	oteltrace "go.opentelemetry.io/otel/trace"

	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/measure"
	"lehr.dev/internal/ground/trace"
)

// lastSpansPatience bounds how long the end of a server waits for a collector.
const lastSpansPatience = 3 * time.Second

// traces hands spans to a collector, by OpenTelemetry's SDK.
type traces struct {
	provider *sdktrace.TracerProvider
	tracer   oteltrace.Tracer
	sampler  sdktrace.Sampler
}

// newTraces returns nil where nobody names a collector: neither to, the base of
// its URL, nor OpenTelemetry's own variables, which say all the rest.
func (a *App) newTraces(ctx context.Context, collectorURL string) (*traces, error) {
	endpoint, err := collector(collectorURL)
	if err != nil || endpoint == "" {
		return nil, err
	}
	sampler, err := samplerOf(os.Getenv("OTEL_TRACES_SAMPLER"), os.Getenv("OTEL_TRACES_SAMPLER_ARG"))
	if err != nil {
		return nil, err
	}
	var options []otlptracehttp.Option
	if collectorURL != "" {
		options = append(options, otlptracehttp.WithEndpointURL(endpoint))
	}
	exporter, err := otlptracehttp.New(ctx, options...)
	if err != nil {
		return nil, fault.New(fault.Invalid, "traces cannot be sent to %s: %w", bare(endpoint), err).WithHint("look at the variables OTEL_EXPORTER_OTLP_…")
	}
	// What the SDK says by itself would be no record of the log, and may quote a
	// variable that holds a secret.
	otel.SetLogger(logr.Discard())
	otel.SetErrorHandler(otel.ErrorHandlerFunc(func(err error) { a.log.Warn("traces", "error", err) }))
	described, err := resource.New(ctx,
		resource.WithAttributes(attribute.String("service.name", "lehr"), attribute.String("service.version", a.options.Version), attribute.String("service.instance.id", a.holder)),
		resource.WithTelemetrySDK(), resource.WithFromEnv())
	if err != nil {
		return nil, fault.New(fault.Invalid, "reading what traces say of this server: %w", err).WithHint("write OTEL_RESOURCE_ATTRIBUTES as key=value,key=value")
	}
	g := newGate(exporter, a)
	provider := sdktrace.NewTracerProvider(sdktrace.WithResource(described), sdktrace.WithSampler(sdktrace.ParentBased(sampler)),
		sdktrace.WithIDGenerator(idGenerator{}), sdktrace.WithSpanProcessor(g))
	return &traces{provider, provider.Tracer("lehr.dev"), sampler}, nil
}

// tracer is who is told of traces; nil: nobody.
func (a *App) tracer() trace.Tracer {
	if a.traces == nil {
		return nil
	}
	return a.traces
}

// collector is where traces go; empty: nowhere.
func collector(collectorURL string) (string, error) {
	if disabled, _ := strconv.ParseBool(os.Getenv("OTEL_SDK_DISABLED")); disabled {
		return "", nil
	}
	switch exporter := os.Getenv("OTEL_TRACES_EXPORTER"); exporter {
	case "none":
		return "", nil
	case "", "otlp":
	default:
		return "", fault.New(fault.Invalid, "OTEL_TRACES_EXPORTER is %.40q, and traces are sent by OTLP only", exporter).WithHint("set it to otlp or none")
	}
	setting, endpoint := "--traces", collectorURL
	if collectorURL == "" {
		setting, endpoint = "OTEL_EXPORTER_OTLP_ENDPOINT", os.Getenv("OTEL_EXPORTER_OTLP_ENDPOINT")
		if own := os.Getenv("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"); own != "" {
			setting, endpoint = "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", own
		}
	}
	if endpoint == "" {
		return "", nil
	}
	parsed, err := url.Parse(strings.TrimSpace(endpoint))
	if err != nil || parsed.Host == "" || parsed.Scheme != "http" && parsed.Scheme != "https" {
		return "", fault.New(fault.Invalid, "%s is %q, which is no URL of a collector", setting, bare(endpoint)).WithHint("name one that speaks OTLP over HTTP, such as http://127.0.0.1:4318")
	}
	protocol := cmp.Or(os.Getenv("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL"), os.Getenv("OTEL_EXPORTER_OTLP_PROTOCOL"), "http/protobuf")
	if protocol != "http/protobuf" {
		return "", fault.New(fault.Invalid, "OTEL_EXPORTER_OTLP_PROTOCOL is %.40q, and traces are sent as http/protobuf only", protocol).WithHint("name the collector's port for that, usually 4318, and unset the variable")
	}
	if collectorURL != "" {
		return parsed.JoinPath("v1", "traces").String(), nil
	}
	return endpoint, nil
}

// bare is a URL without what may be secret in it.
func bare(text string) string {
	parsed, err := url.Parse(text)
	if err != nil {
		return "…"
	}
	return (&url.URL{Scheme: parsed.Scheme, Host: parsed.Host, Path: parsed.Path}).String()
}

// samplerOf reads OpenTelemetry's names. All traces begin here, so those that heed
// a parent are as those that do not.
func samplerOf(name, argument string) (sdktrace.Sampler, error) {
	switch strings.TrimPrefix(strings.ToLower(strings.TrimSpace(name)), "parentbased_") {
	case "", "always_on":
		return sdktrace.AlwaysSample(), nil
	case "always_off":
		return sdktrace.NeverSample(), nil
	case "traceidratio":
		share, err := strconv.ParseFloat(cmp.Or(strings.TrimSpace(argument), "1"), 64)
		if err != nil || !(share >= 0 && share <= 1) {
			return nil, fault.New(fault.Invalid, "OTEL_TRACES_SAMPLER_ARG is %.40q, which is no share of traces", argument).WithHint("write a number from 0 to 1, such as 0.1")
		}
		return sdktrace.TraceIDRatioBased(share), nil
	}
	return nil, fault.New(fault.Invalid, "OTEL_TRACES_SAMPLER is %.40q, which is no sampler", name).
		WithHint("write always_on, always_off, traceidratio or parentbased_traceidratio, with its share in OTEL_TRACES_SAMPLER_ARG")
}

// close hands over what is left, for a while.
func (t *traces) close() {
	if t == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), lastSpansPatience)
	defer cancel()
	_ = t.provider.Shutdown(ctx)
}

// Sampled is trace.Tracer's.
func (t *traces) Sampled(id trace.ID) bool {
	parameters := sdktrace.SamplingParameters{ParentContext: context.Background(), TraceID: id.Trace}
	return t.sampler.ShouldSample(parameters).Decision == sdktrace.RecordAndSample
}

// Begin is trace.Tracer's.
func (t *traces) Begin(id, cause trace.ID, name string, at time.Time, attrs ...trace.Attribute) trace.Span {
	options := []oteltrace.SpanStartOption{oteltrace.WithTimestamp(at), oteltrace.WithNewRoot(), oteltrace.WithAttributes(attributes(attrs)...)}
	if cause != (trace.ID{}) {
		options = append(options, oteltrace.WithLinks(oteltrace.Link{SpanContext: contextOf(cause, t.Sampled(cause))}))
	}
	ctx, root := t.tracer.Start(context.WithValue(context.Background(), idGenerator{}, id), name, options...)
	return &span{t, id, ctx, root}
}

func contextOf(id trace.ID, sampled bool) oteltrace.SpanContext {
	return oteltrace.NewSpanContext(oteltrace.SpanContextConfig{
		TraceID: id.Trace, SpanID: id.Span, TraceFlags: oteltrace.TraceFlags(0).WithSampled(sampled),
	})
}

type span struct {
	traces *traces
	id     trace.ID
	ctx    context.Context
	root   oteltrace.Span
}

// Tell is trace.Span's.
func (s *span) Tell(step trace.Step) {
	if !s.root.IsRecording() {
		return
	}
	ctx := context.WithValue(s.ctx, idGenerator{}, s.id.Child(step.Name))
	_, child := s.traces.tracer.Start(ctx, step.Name, oteltrace.WithTimestamp(step.Begin), oteltrace.WithAttributes(attributes(step.About)...))
	if step.Failed {
		child.SetStatus(codes.Error, "")
	}
	child.End(oteltrace.WithTimestamp(step.End))
}

// End is trace.Span's.
func (s *span) End(at time.Time, failed bool, attrs ...trace.Attribute) {
	s.root.SetAttributes(attributes(attrs)...)
	if failed {
		s.root.SetStatus(codes.Error, "")
	}
	s.root.End(oteltrace.WithTimestamp(at))
}

// mostWords of an attribute that is a list.
const mostWords = 32

func attributes(attrs []trace.Attribute) (list []attribute.KeyValue) {
	for _, a := range attrs {
		key := attribute.Key(a.Key)
		switch value := a.Value.(type) {
		case string:
			list = append(list, key.String(value))
		case bool:
			list = append(list, key.Bool(value))
		case int:
			list = append(list, key.Int(value))
		case []string:
			list = append(list, key.StringSlice(value[:min(len(value), mostWords)]))
		}
	}
	return list
}

// idGenerator is who gives spans the ids that a context has.
type idGenerator struct{}

func (idGenerator) NewIDs(ctx context.Context) (oteltrace.TraceID, oteltrace.SpanID) {
	id := ctx.Value(idGenerator{}).(trace.ID)
	return id.Trace, id.Span
}

func (idGenerator) NewSpanID(ctx context.Context, _ oteltrace.TraceID) oteltrace.SpanID {
	return ctx.Value(idGenerator{}).(trace.ID).Span
}

// gate counts the spans on the way to the collector, and turns away those for
// which there is no room: nobody waits, and none is lost uncounted.
type gate struct {
	sdktrace.SpanProcessor
	exporter sdktrace.SpanExporter
	app      *App
	most     int64
	waiting  atomic.Int64

	mutex   sync.Mutex
	failing bool
}

func newGate(exporter sdktrace.SpanExporter, a *App) *gate {
	g := &gate{exporter: exporter, app: a, most: sdktrace.DefaultMaxQueueSize}
	if most, err := strconv.ParseInt(os.Getenv("OTEL_BSP_MAX_QUEUE_SIZE"), 10, 64); err == nil && most > 0 {
		g.most = most
	}
	// Its own queue is as long, so that it never turns one away itself.
	g.SpanProcessor = sdktrace.NewBatchSpanProcessor(counted{g})
	return g
}

// OnEnd is sdktrace.SpanProcessor's.
func (g *gate) OnEnd(s sdktrace.ReadOnlySpan) {
	if !s.SpanContext().IsSampled() {
		return
	}
	if g.waiting.Add(1) > g.most {
		g.waiting.Add(-1)
		g.dropped().Add(1)
		return
	}
	g.SpanProcessor.OnEnd(s)
}

func (g *gate) dropped() *measure.Counter { return &g.app.measures.Traces.Dropped }

// counted is the exporter, whose errors are counted and told of when they begin.
type counted struct{ *gate }

// ExportSpans is sdktrace.SpanExporter's.
func (c counted) ExportSpans(ctx context.Context, spans []sdktrace.ReadOnlySpan) error {
	err := c.exporter.ExportSpans(ctx, spans)
	c.waiting.Add(-int64(len(spans)))
	if err == nil {
		c.app.measures.Traces.Sent.Add(len(spans))
	} else {
		c.dropped().Add(len(spans))
	}
	c.mutex.Lock()
	newlyFailing := err != nil && !c.failing
	c.failing = err != nil
	c.mutex.Unlock()
	if newlyFailing {
		c.app.log.Warn("traces do not arrive, and are dropped until they do", "error", err)
	}
	return nil
}

// Shutdown is sdktrace.SpanExporter's.
func (c counted) Shutdown(ctx context.Context) error { return c.exporter.Shutdown(ctx) }
