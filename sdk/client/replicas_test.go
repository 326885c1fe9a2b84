package client_test

import (
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"

	apipb "lehr.dev/gen/lehr/api/v1"
	"lehr.dev/gen/lehr/api/v1/apipbconnect"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/sdk/client"
)

// brakes counts the stops that it was asked for.
type brakes struct {
	apipbconnect.UnimplementedBrakeServiceHandler
	asked atomic.Int32
}

func (b *brakes) SetStop(context.Context, *apipb.SetStopRequest) (*apipb.SetStopResponse, error) {
	b.asked.Add(1)
	return &apipb.SetStopResponse{}, nil
}

func (b *brakes) ListStops(context.Context, *apipb.ListStopsRequest) (*apipb.ListStopsResponse, error) {
	b.asked.Add(1)
	return &apipb.ListStopsResponse{}, nil
}

func serveBrakes(t *testing.T) (*brakes, string) {
	b := &brakes{}
	mux := http.NewServeMux()
	mux.Handle(apipbconnect.NewBrakeServiceHandler(b))
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	return b, server.URL
}

// hangingUp takes requests and ends without an answer.
func hangingUp(t *testing.T) string {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		conn, _, _ := w.(http.Hijacker).Hijack()
		conn.Close()
	}))
	t.Cleanup(server.Close)
	return server.URL
}

func nobody(t *testing.T) string {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	return "http://" + listener.Addr().String()
}

func unwell(t *testing.T) string {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusServiceUnavailable)
	}))
	t.Cleanup(server.Close)
	return server.URL
}

// What reads is asked of the next server whatever became of the first; what
// writes only when it was certainly not sent.
func TestAnotherReplicaIsAsked(t *testing.T) {
	for name, c := range map[string]struct {
		first       func(*testing.T) string
		read, write bool
	}{
		"nobody listens":    {nobody, true, true},
		"it hangs up":       {hangingUp, true, false},
		"it is unavailable": {unwell, true, false},
	} {
		t.Run(name, func(t *testing.T) {
			for _, writing := range []bool{false, true} {
				second, url := serveBrakes(t)
				to := client.Dial(c.first(t), "", intent.Actor{}, url)
				var err error
				want := c.read
				if writing {
					want = c.write
					_, err = to.Brakes.SetStop(t.Context(), &apipb.SetStopRequest{Reason: "a try"})
				} else {
					_, err = to.Brakes.ListStops(t.Context(), &apipb.ListStopsRequest{})
				}
				if asked := second.asked.Load() == 1; asked != want || (err == nil) != want {
					t.Errorf("writing %v: the second was asked: %v, want %v; %v", writing, asked, want, err)
				}
				to.Close()
			}
		})
	}
}

// Every call is known to read or to write: a new one must be named so.
func TestWhatReads(t *testing.T) {
	writes := strings.Fields(`Add Remove Set Resume Acknowledge Label Approve Disown Create Revoke Reject Withdraw Overrule Override Adopt Login Edit Undo Delete Retry Order TurnDown Act Vote Record Start Signal Cancel Migrate`)
	protoregistry.GlobalFiles.RangeFilesByPackage("lehr.api.v1", func(file protoreflect.FileDescriptor) bool {
		for i := range file.Services().Len() {
			methods := file.Services().Get(i).Methods()
			for j := range methods.Len() {
				name, known := string(methods.Get(j).Name()), 0
				for _, verb := range writes {
					if strings.HasPrefix(name, verb) {
						known++
					}
				}
				if client.Reads("/service/" + name) {
					known++
				}
				if known != 1 {
					t.Errorf("does %s change something? name it in writes, or in reads", name)
				}
			}
		}
		return true
	})
}
