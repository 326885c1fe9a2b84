package conformance

import (
	"context"
	"encoding/base64"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/types/known/durationpb"

	pluginpb "lehr.dev/gen/lehr/plugin/v1"
	"lehr.dev/sdk/serve"
)

// wireLies are told on the wire, where the SDK would not.
var wireLies = []string{"answers for others", "answers twice", "leaves assets out", "takes one call after the other", "deletes on absence", "asks for no permit", "is busy until before", "watches in silence", "hints what nobody asked about",
	"tells facts of the future", "tells facts of last year", "has a secret, and plans with it", "has a secret, and tells it as progress",
	"tells an output", "tells an output that changes", "tells a megabyte of outputs"}

// between stands between the suite and an honest plugin, and alters what goes
// through.
type between struct {
	pluginpb.UnimplementedPluginServiceServer
	inner   pluginpb.PluginServiceClient
	subject *subject
	// looks counts answers, for those that change.
	looks int
}

func serveTampered(p serve.Plugin, listener net.Listener, s *subject) error {
	socket := filepath.Join(s.folder, "inner")
	_ = os.Remove(socket) // Of one that was killed.
	inner, err := net.Listen("unix", socket)
	if err != nil {
		return err
	}
	go func() { _ = p.Serve(context.Background(), inner) }()
	conn, err := grpc.NewClient("unix:"+socket, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return err
	}
	server := grpc.NewServer()
	pluginpb.RegisterPluginServiceServer(server, &between{inner: pluginpb.NewPluginServiceClient(conn), subject: s})
	return server.Serve(listener)
}

func (b *between) Describe(ctx context.Context, request *pluginpb.DescribeRequest) (*pluginpb.DescribeResponse, error) {
	return b.inner.Describe(ctx, request)
}

func (b *between) Diff(stream pluginpb.PluginService_DiffServer) error {
	inner, err := b.inner.Diff(stream.Context())
	if err != nil {
		return err
	}
	// Batches wait here for the results of the one before.
	batches, answered := make(chan *pluginpb.DiffRequest, 100), make(chan struct{}, 100)
	go func() {
		for request := range batches {
			_ = inner.Send(request)
			<-answered
		}
	}()
	go func() {
		for {
			request, err := stream.Recv()
			if err != nil {
				return
			}
			for _, one := range request.GetContent().GetAssets() {
				if one.Refused != "" && b.subject.lie == "deletes on absence" && one.Asset == example {
					t, _ := b.subject.load()
					t.job = nil
					_ = b.subject.store(t)
				}
			}
			if request.GetBatch() != nil && b.subject.lie == "takes one call after the other" {
				batches <- request
				continue
			}
			if inner.Send(request) != nil {
				return
			}
		}
	}()
	for {
		response, err := inner.Recv()
		if err != nil {
			return err
		}
		if results := response.GetResults(); results != nil {
			if b.subject.lie == "takes one call after the other" {
				answered <- struct{}{}
			}
			b.alter(results)
		}
		if err := stream.Send(response); err != nil {
			return err
		}
	}
}

func (b *between) alter(results *pluginpb.DiffResults) {
	switch b.subject.lie {
	case "answers for others":
		results.Diffs = append(results.Diffs, &pluginpb.AssetDiff{Asset: "somebody/else", Outcome: &pluginpb.AssetDiff_InSync{InSync: &pluginpb.InSync{}}})
	case "is busy until before":
		for _, diff := range results.Diffs {
			if unknown := diff.GetUnknown(); unknown != nil {
				unknown.RetryAfter = durationpb.New(-time.Second)
			}
		}
	case "tells facts of the future", "tells facts of last year":
		for _, diff := range results.Diffs {
			diff.Age = durationpb.New(map[string]time.Duration{"tells facts of the future": -time.Minute, "tells facts of last year": 365 * 24 * time.Hour}[b.subject.lie])
		}
	case "has a secret, and plans with it":
		for _, diff := range results.Diffs {
			for _, change := range diff.GetDiffers().GetChanges() {
				change.Reason = "the password is " + b.password()
			}
		}
	case "tells an output", "tells an output that changes", "tells a megabyte of outputs":
		b.looks++
		for _, diff := range results.Diffs {
			diff.Outputs = []*pluginpb.Output{{Name: "name", Json: map[string]string{
				"tells an output": `"x"`, "tells an output that changes": strconv.Itoa(b.looks), "tells a megabyte of outputs": `"` + strings.Repeat("x ", 500_000) + `"`,
			}[b.subject.lie]}}
		}
	case "answers twice":
		results.Diffs = append(results.Diffs, results.Diffs...)
	case "leaves assets out":
		if len(results.Diffs) > 1 {
			results.Diffs = results.Diffs[1:]
		}
	}
}

// password is the secret's value as it is now.
func (b *between) password() string {
	content, _ := os.ReadFile(filepath.Join(b.subject.folder, "password"))
	return strings.TrimSpace(string(content))
}

func (b *between) Push(stream pluginpb.PluginService_PushServer) error {
	inner, err := b.inner.Push(stream.Context())
	if err != nil {
		return err
	}
	go func() {
		for {
			request, err := stream.Recv()
			if err != nil || inner.Send(request) != nil {
				return
			}
		}
	}()
	for {
		response, err := inner.Recv()
		if err != nil {
			return err
		}
		if result := response.GetResult(); result != nil && b.subject.lie == "has a secret, and tells it as progress" {
			progress := &pluginpb.PushProgress{Push: result.Push, Text: "set " + base64.StdEncoding.EncodeToString([]byte(b.password()))}
			if err := stream.Send(&pluginpb.PushResponse{Message: &pluginpb.PushResponse_Progress{Progress: progress}}); err != nil {
				return err
			}
		}
		if response.GetPermitRequest() != nil && b.subject.lie == "asks for no permit" {
			continue
		}
		if err := stream.Send(response); err != nil {
			return err
		}
	}
}

func (b *between) Hints(request *pluginpb.HintsRequest, stream pluginpb.PluginService_HintsServer) error {
	message := &pluginpb.HintsResponse{}
	switch b.subject.lie {
	case "watches in silence":
	case "hints what nobody asked about":
		message.Hints = []*pluginpb.Hint{{Partition: string(first.Partition), Asset: "somebody/else"}}
	default:
		return b.UnimplementedPluginServiceServer.Hints(request, stream)
	}
	if err := stream.Send(message); err != nil {
		return err
	}
	<-stream.Context().Done()
	return nil
}
