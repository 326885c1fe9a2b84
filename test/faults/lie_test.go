package faults

import (
	"context"
	"errors"
	"io"
	"math"
	"net"
	"os"
	"strings"

	"google.golang.org/grpc"

	pluginpb "lehr.dev/gen/lehr/plugin/v1"
	"lehr.dev/internal/pluginhost/plugin"
)

// lyingPlugin answers for jobs what nobody may believe, by their names.
func lyingPlugin([]string) int {
	listener, err := net.Listen("unix", os.Getenv(plugin.SocketVariable))
	if err != nil {
		return 1
	}
	server := grpc.NewServer()
	pluginpb.RegisterPluginServiceServer(server, liar{})
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		os.Exit(1)
	}()
	_ = server.Serve(listener)
	return 0
}

type liar struct {
	pluginpb.UnimplementedPluginServiceServer
}

func (liar) Describe(context.Context, *pluginpb.DescribeRequest) (*pluginpb.DescribeResponse, error) {
	return &pluginpb.DescribeResponse{Protocol: 1, Name: "liar", Version: "1", Types: []*pluginpb.ServedType{
		{Type: "lehr.process.v1.Job", Guarantee: pluginpb.GuaranteeClass_GUARANTEE_CLASS_NONE},
	}}, nil
}

// lies are told for the asset of the name.
var lies = map[string]func() *pluginpb.AssetDiff{
	// Of an asset of another plugin, that it is in sync.
	"job/stranger": func() *pluginpb.AssetDiff {
		return &pluginpb.AssetDiff{Asset: "resource/a", ResourceKey: "lie:a", Outcome: &pluginpb.AssetDiff_InSync{InSync: &pluginpb.InSync{}}}
	},
	"job/nan": func() *pluginpb.AssetDiff {
		return &pluginpb.AssetDiff{Asset: "job/nan", ResourceKey: "lie:nan", Impacts: []*pluginpb.Impact{{Dimension: "tasks", Current: math.NaN(), Target: math.Inf(1)}},
			Outcome: &pluginpb.AssetDiff_Differs{Differs: &pluginpb.Differs{Action: pluginpb.Action_ACTION_UPDATE, Changes: []*pluginpb.FieldChange{{Path: "replicas", Current: "1", Target: "2"}}}}}
	},
	"job/endless": func() *pluginpb.AssetDiff {
		return &pluginpb.AssetDiff{Asset: "job/endless", ResourceKey: "lie:endless",
			Outcome: &pluginpb.AssetDiff_Unknown{Unknown: &pluginpb.Unknown{Reason: strings.Repeat("and so on ", 200_000)}}}
	},
}

func (liar) Diff(stream grpc.BidiStreamingServer[pluginpb.DiffRequest, pluginpb.DiffResponse]) error {
	for {
		request, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		batch := request.GetBatch()
		if batch == nil {
			continue
		}
		for _, asset := range batch.Assets {
			lie := lies[asset]
			if lie == nil {
				continue
			}
			if err := stream.Send(&pluginpb.DiffResponse{Message: &pluginpb.DiffResponse_Results{
				Results: &pluginpb.DiffResults{Batch: batch.Batch, Diffs: []*pluginpb.AssetDiff{lie()}},
			}}); err != nil {
				return err
			}
		}
	}
}

// Push tells that all was done.
func (liar) Push(stream grpc.BidiStreamingServer[pluginpb.PushRequest, pluginpb.PushResponse]) error {
	for {
		request, err := stream.Recv()
		if err != nil {
			return nil
		}
		if start := request.GetStart(); start != nil {
			if err := stream.Send(&pluginpb.PushResponse{Message: &pluginpb.PushResponse_Result{
				Result: &pluginpb.PushResult{Push: start.Push, Outcome: &pluginpb.PushResult_Pushed{Pushed: &pluginpb.Pushed{}}},
			}}); err != nil {
				return err
			}
		}
	}
}
