package client_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/types/known/timestamppb"

	apipb "lehr.dev/gen/lehr/api/v1"
	"lehr.dev/gen/lehr/api/v1/apipbconnect"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/sdk/client"
)

// told is a server whose watches say what they were given to, and are then cut
// off as by a kill.
type told struct {
	apipbconnect.UnimplementedAssetServiceHandler
	apipbconnect.UnimplementedReportServiceHandler
	assets  []*apipb.WatchAssetsResponse
	reports []*apipb.WatchReportsResponse
	after   chan string
}

func (s *told) WatchAssets(_ context.Context, r *apipb.WatchAssetsRequest, stream *connect.ServerStream[apipb.WatchAssetsResponse]) error {
	s.after <- r.After
	for _, m := range s.assets {
		if err := stream.Send(m); err != nil {
			return err
		}
	}
	panic(http.ErrAbortHandler)
}

func (s *told) WatchReports(_ context.Context, _ *apipb.WatchReportsRequest, stream *connect.ServerStream[apipb.WatchReportsResponse]) error {
	for _, m := range s.reports {
		if err := stream.Send(m); err != nil {
			return err
		}
	}
	panic(http.ErrAbortHandler)
}

func (s *told) serve(t *testing.T) string {
	s.after = make(chan string, 100)
	mux := http.NewServeMux()
	mux.Handle(apipbconnect.NewAssetServiceHandler(s))
	mux.Handle(apipbconnect.NewReportServiceHandler(s))
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	return server.URL
}

func assets(incarnation, id string, complete, reset bool) *apipb.WatchAssetsResponse {
	return &apipb.WatchAssetsResponse{Incarnation: incarnation, Assets: []*apipb.Asset{{Id: id}}, Complete: complete, Reset_: reset}
}

var errEnough = errors.New("enough")

// A watch that is cut off within an incarnation goes on at another server, and
// hands on each change once.
func TestWatchOfAssetsGoesOn(t *testing.T) {
	first := &told{assets: []*apipb.WatchAssetsResponse{
		assets("shop@1", "a", false, true), assets("shop@1", "b", true, false),
		assets("shop@2", "c", false, false), // and not the rest of it
	}}
	second := &told{assets: []*apipb.WatchAssetsResponse{
		{Incarnation: "shop@1", Complete: true}, // nothing changed yet
		assets("shop@2", "c", false, false), assets("shop@2", "d", true, false),
	}}
	c := client.Dial(first.serve(t), "", intent.Actor{}, second.serve(t))
	var seen []string
	err := c.WatchAssets(t.Context(), &apipb.WatchAssetsRequest{Partition: "shop"}, func(m *apipb.WatchAssetsResponse) error {
		for _, a := range m.Assets {
			seen = append(seen, a.Id)
		}
		if slices.Contains(seen, "d") {
			return errEnough
		}
		return nil
	})
	if !errors.Is(err, errEnough) || !slices.Equal(seen, []string{"a", "b", "c", "d"}) {
		t.Errorf("handed on were %v; %v", seen, err)
	}
	if after := <-second.after; after != "shop@1" {
		t.Errorf("it went on after %q", after)
	}
}

// One of reports that begins anew leaves out what was handed on.
func TestWatchOfReportsGoesOn(t *testing.T) {
	at := time.Unix(1000, 0)
	report := func(asset string, seconds int) *apipb.Report {
		return &apipb.Report{Asset: asset, At: timestamppb.New(at.Add(time.Duration(seconds) * time.Second))}
	}
	partition := &apipb.Partition{Id: "shop"}
	first := &told{reports: []*apipb.WatchReportsResponse{{Partition: partition}, {Reports: []*apipb.Report{report("a", 1)}}}}
	second := &told{reports: []*apipb.WatchReportsResponse{
		{Partition: partition}, {Reports: []*apipb.Report{report("a", 1), report("b", 1)}, Complete: true}, {Reports: []*apipb.Report{report("a", 2)}},
	}}
	c := client.Dial(first.serve(t), "", intent.Actor{}, second.serve(t))
	var seen []string
	err := c.WatchReports(t.Context(), &apipb.WatchReportsRequest{Partition: "shop"}, func(m *apipb.WatchReportsResponse) error {
		if m.Partition != nil {
			seen = append(seen, "partition")
		}
		for _, r := range m.Reports {
			seen = append(seen, r.Asset)
		}
		if m.Complete {
			seen = append(seen, "complete")
		}
		if len(seen) == 5 {
			return errEnough
		}
		return nil
	})
	if !errors.Is(err, errEnough) || !slices.Equal(seen, []string{"partition", "a", "b", "complete", "a"}) {
		t.Errorf("handed on were %v; %v", seen, err)
	}
}
