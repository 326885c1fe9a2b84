package app

import (
	"log/slog"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"lehr.dev/internal/ground/trace"
)

// BenchmarkTrace is what a push costs the enforcer where somebody is told of it.
func BenchmarkTrace(b *testing.B) {
	collector := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	defer collector.Close()
	a := &App{log: slog.New(slog.DiscardHandler)}
	told, err := a.newTraces(b.Context(), collector.URL)
	if err != nil {
		b.Fatal(err)
	}
	defer told.close()
	now := time.Now()
	about := []trace.Attribute{{Key: trace.Partition, Value: "shop"}, {Key: trace.Asset, Value: "web"}, {Key: trace.Push, Value: "shop/1-1"}}
	b.ReportAllocs()
	for b.Loop() {
		span := told.Begin(trace.Of("shop/1-1", now), trace.Of("shop@1", now), "push", now, about...)
		for _, step := range []string{"target", "diff", "checks", "admission", "plugin push", "close", "in sync"} {
			span.Tell(trace.Step{Name: step, Begin: now, End: now, About: about[:1]})
		}
		span.End(now, false, about[:1]...)
	}
}
