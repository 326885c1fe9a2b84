package serve

import (
	"context"
	"crypto/rand"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/stats"
	"google.golang.org/protobuf/types/known/durationpb"

	pluginpb "lehr.dev/gen/lehr/plugin/v1"
	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/recent"
	"lehr.dev/internal/pluginhost/plugin"
)

const (
	// windowBytes lets batches be under way without waiting for each other.
	windowBytes = 4 << 20
	// maxMessage is the largest message of either side.
	maxMessage = 4 << 20
)

// Serve serves the plugin on the listener, to whoever reaches it, until ctx
// ends.
func (p Plugin) Serve(ctx context.Context, listener net.Listener) error {
	return p.serve(ctx, listener)
}

func (p Plugin) serve(ctx context.Context, listener net.Listener, options ...grpc.ServerOption) error {
	kinds, err := p.kinds()
	if err != nil {
		return err
	}
	limit := p.CacheBytes
	if limit == 0 {
		limit = defaultCacheBytes
	}
	watching := newWatching(p)
	for _, kind := range p.Resources {
		if b, ok := kind.(reader); ok {
			b.beginReading(ctx)
		}
	}
	service := &service{watching: watching, plugin: p, kinds: kinds, heldIntents: recent.New[heldKey, heldIntent](limit), histories: newHistories(), instance: rand.Text()}
	server := grpc.NewServer(append(options,
		grpc.MaxRecvMsgSize(maxMessage), grpc.MaxConcurrentStreams(64), grpc.StatsHandler(&service.connections),
		grpc.InitialWindowSize(windowBytes), grpc.InitialConnWindowSize(windowBytes),
		grpc.ReadBufferSize(128<<10), grpc.WriteBufferSize(128<<10),
	)...)
	pluginpb.RegisterPluginServiceServer(server, service)
	healthpb.RegisterHealthServer(server, health.NewServer())
	watching.run(ctx)
	stop := context.AfterFunc(ctx, server.Stop)
	defer stop()
	if err := server.Serve(listener); err != nil {
		return fault.New(fault.Unavailable, "serving plugin %s on %s: %w", p.Name, listener.Addr(), err)
	}
	service.finish()
	return nil
}

// finish waits for pushes to notice that they have ended; effects that cannot
// be cancelled in time die with the process.
func (s *service) finish() {
	finished := make(chan struct{})
	go func() {
		s.applying.Wait()
		close(finished)
	}()
	select {
	case <-finished:
	case <-time.After(stopWithin * 9 / 10):
	}
}

// service answers Lehr.
type service struct {
	pluginpb.UnimplementedPluginServiceServer
	plugin      Plugin
	kinds       map[TypeName]Kind
	heldIntents *recent.Map[heldKey, heldIntent]
	// histories are what connections said of how incarnations differ.
	histories *recent.Map[historyKey, *history]
	// instance is this run of the program.
	instance string
	// applying counts the pushes under way.
	applying sync.WaitGroup
	// watching is nil where no kind watches production.
	watching    *watching
	connections connections
}

// connections numbers them, for what is held: an incarnation's name means what
// it does to one Lehr only. Another one's store, or an older copy of the same
// store, has other content under it.
type connections struct{ last atomic.Uint64 }

type connectionKey struct{}

// TagConn gives a connection's number to the context of its calls.
func (c *connections) TagConn(ctx context.Context, _ *stats.ConnTagInfo) context.Context {
	return context.WithValue(ctx, connectionKey{}, c.last.Add(1))
}

// connection returns the number.
func connection(ctx context.Context) uint64 {
	number, _ := ctx.Value(connectionKey{}).(uint64)
	return number
}

func (c *connections) TagRPC(ctx context.Context, _ *stats.RPCTagInfo) context.Context { return ctx }
func (c *connections) HandleRPC(context.Context, stats.RPCStats)                       {}
func (c *connections) HandleConn(context.Context, stats.ConnStats)                     {}

var guaranteeClasses = map[Guarantee]pluginpb.GuaranteeClass{
	"":            pluginpb.GuaranteeClass_GUARANTEE_CLASS_NONE,
	Unguarded:     pluginpb.GuaranteeClass_GUARANTEE_CLASS_NONE,
	CompareAndSet: pluginpb.GuaranteeClass_GUARANTEE_CLASS_COMPARE_AND_SET,
	Fenced:        pluginpb.GuaranteeClass_GUARANTEE_CLASS_FENCED,
}

func (s *service) Describe(context.Context, *pluginpb.DescribeRequest) (*pluginpb.DescribeResponse, error) {
	response := &pluginpb.DescribeResponse{Protocol: plugin.Protocol, Name: s.plugin.Name, Version: s.plugin.Version, Instance: s.instance}
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
			Cadence:       pauseOf(served.Cadence),
		})
	}
	return response, nil
}
