package server_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	apipb "lehr.dev/gen/lehr/api/v1"
	"lehr.dev/internal/ground/export"
	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/store"
	"lehr.dev/test/detector"
)

// exported is an export as JSON lines.
func (w *world) exported(request *apipb.ExportIncarnationRequest) (string, export.Exported, error) {
	w.Helper()
	var out bytes.Buffer
	request.Partition = "shop"
	said, err := w.client.Export(w.Context(), request, export.JSON, &out)
	return out.String(), said, err
}

func TestExporting(t *testing.T) {
	w := newWorld(t)
	_, _, err := w.exported(&apipb.ExportIncarnationRequest{})
	w.refused(err, fault.NotFound, "no incarnation yet")
	var assets []intent.Asset
	count := detector.Scale(2500, 500)
	for i := range count {
		assets = append(assets, w.job(intent.AssetID(fmt.Sprintf("web/%04d", i)), i%5, strings.Repeat("v", 200)))
	}
	first := w.publish(0, assets...)
	w.must(w.store.SetLabel(t.Context(), first.ID, "release", "spring", "", ann))
	w.remove(1, "web/0000", "web/0001")

	for request, want := range map[*apipb.ExportIncarnationRequest]struct {
		incarnation string
		count       int
	}{
		{}:                                         {"shop@2", count - 2},
		{Incarnation: "shop@1"}:                    {"shop@1", count},
		{Label: "release=spring"}:                  {"shop@1", count},
		{At: timestamppb.New(first.Created)}:       {"shop@1", count},
		{Filter: `payload.replicas == 3`}:          {"shop@2", count / 5},
		{Filter: `id == "web/0000"`}:               {"shop@2", 0},
		{Filter: `true`, Label: "release"}:         {"shop@1", count},
		{Filter: `id < "web/0100" && 1 + 1 == 2`}:  {"shop@2", 98},
		{Filter: `payload.version.endsWith("vv")`}: {"shop@2", count - 2},
	} {
		text, said, err := w.exported(request)
		if err != nil || said.Incarnation != want.incarnation || said.Count != want.count || strings.Count(text, "\n") != want.count {
			t.Errorf("%v: %d lines, %+v, %v", request, strings.Count(text, "\n"), said, err)
		}
	}
	for request, kind := range map[*apipb.ExportIncarnationRequest]fault.Kind{
		{Incarnation: "shop@3"}:                           fault.NotFound,
		{Incarnation: "mall@1"}:                           fault.Invalid,
		{Incarnation: "shop@1", Label: "release"}:         fault.Invalid,
		{Label: "release=autumn"}:                         fault.NotFound,
		{At: timestamppb.New(time.Unix(1, 0))}:            fault.NotFound,
		{Filter: "payload."}:                              fault.Invalid,
		{Filter: `type == "Job" && payload.x == 1`}:       fault.Invalid,
		{Filter: "payload.replicas", Incarnation: "shop"}: fault.Invalid,
	} {
		if text, _, err := w.exported(request); !fault.Is(err, kind) || text != "" {
			t.Errorf("%v: %.100s, %v, want %s", request, text, err, kind)
		}
	}
	// What was collected says so.
	w.publish(2, assets[:2]...)
	_, err = w.store.Collect(t.Context(), w.lease, store.Retention{Incarnations: 1}, time.Now().Add(time.Hour))
	w.must(err)
	_, _, err = w.exported(&apipb.ExportIncarnationRequest{Incarnation: "shop@2"})
	w.refused(err, fault.NotFound, "not retained")
	if _, _, err = w.exported(&apipb.ExportIncarnationRequest{Incarnation: "shop@1"}); err != nil {
		t.Errorf("what has a label is retained: %v", err)
	}
}

type full struct{}

func (full) Write([]byte) (int, error) { return 0, errors.New("the disk is full") }

// An export that cannot be written, or is not waited for, ends.
func TestExportsEnd(t *testing.T) {
	w := newWorld(t)
	var assets []intent.Asset
	for i := range 50 {
		assets = append(assets, w.command(intent.AssetID(fmt.Sprintf("a/%d", i)), strings.Repeat("x", 100_000)))
	}
	w.publish(0, assets...)
	request := &apipb.ExportIncarnationRequest{Partition: "shop"}
	if _, err := w.client.Export(t.Context(), request, export.JSON, full{}); err == nil || !strings.Contains(err.Error(), "the disk is full") {
		t.Errorf("a full disk: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := w.client.Export(ctx, request, export.JSON, &bytes.Buffer{}); !errors.Is(err, context.Canceled) {
		t.Errorf("a caller that left: %v", err)
	}
}
