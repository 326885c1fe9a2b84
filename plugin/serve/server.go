package serve

import (
	"context"
	"net"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/protobuf/types/known/durationpb"

	pluginpb "lehr.dev/gen/lehr/plugin/v1"
	"lehr.dev/intent"
	"lehr.dev/plugin"
	"lehr.dev/plugin/recent"
)

const (
	// windowBytes lets batches be under way without waiting for each other.
	windowBytes = 4 << 20
	// maxMessage is the largest message of either side.
	maxMessage = 4 << 20
)

// Serve serves the plugin on the listener until ctx ends.
func (p Plugin) Serve(ctx context.Context, listener net.Listener) error {
	kinds, err := p.kinds()
	if err != nil {
		return err
	}
	limit := p.CacheBytes
	if limit == 0 {
		limit = defaultCacheBytes
	}
	service := &service{plugin: p, kinds: kinds, held: recent.New[heldKey, held](limit)}
	server := grpc.NewServer(
		grpc.MaxRecvMsgSize(maxMessage), grpc.MaxConcurrentStreams(64),
		grpc.InitialWindowSize(windowBytes), grpc.InitialConnWindowSize(windowBytes),
		grpc.ReadBufferSize(128<<10), grpc.WriteBufferSize(128<<10),
	)
	pluginpb.RegisterPluginServiceServer(server, service)
	healthpb.RegisterHealthServer(server, health.NewServer())
	stopped := make(chan struct{})
	defer close(stopped)
	go func() {
		select {
		case <-ctx.Done():
		case <-stopped:
			return
		}
		// Streams live as long as Lehr does: there is nothing to wait for
		// but the effects that cannot be cancelled.
		graceful := time.AfterFunc(stopWithin/2, server.Stop)
		defer graceful.Stop()
		server.Stop()
	}()
	return server.Serve(listener)
}

// service answers Lehr.
type service struct {
	pluginpb.UnimplementedPluginServiceServer
	plugin Plugin
	kinds  map[TypeName]Kind
	held   *recent.Map[heldKey, held]
}

var guaranteeClasses = map[Guarantee]pluginpb.GuaranteeClass{
	"":            pluginpb.GuaranteeClass_GUARANTEE_CLASS_NONE,
	Unguarded:     pluginpb.GuaranteeClass_GUARANTEE_CLASS_NONE,
	CompareAndSet: pluginpb.GuaranteeClass_GUARANTEE_CLASS_COMPARE_AND_SET,
	Fenced:        pluginpb.GuaranteeClass_GUARANTEE_CLASS_FENCED,
}

func (s *service) Describe(context.Context, *pluginpb.DescribeRequest) (*pluginpb.DescribeResponse, error) {
	response := &pluginpb.DescribeResponse{Protocol: plugin.Protocol, Name: s.plugin.Name, Version: s.plugin.Version}
	for _, kind := range s.plugin.Resources {
		served := kind.Served()
		longest := served.LongestEffect
		if longest == 0 {
			longest = time.Second
		}
		response.Types = append(response.Types, &pluginpb.ServedType{
			Type:          string(served.Type),
			Guarantee:     guaranteeClasses[served.Guarantee],
			LongestEffect: durationpb.New(longest),
		})
	}
	return response, nil
}

// heldKey names an asset whose intent is held.
type heldKey struct {
	partition intent.PartitionID
	asset     AssetID
}

// held is the intent of an asset. Incarnations never change, so what was true
// of sequence stays true; for another one Lehr is asked whether the digest is
// still the same.
type held struct {
	sequence intent.Sequence
	digest   [32]byte
	content  []byte
}
