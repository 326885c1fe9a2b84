package remote

import (
	"context"
	"fmt"
	"net"
	"os"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"

	pluginpb "lehr.dev/gen/lehr/plugin/v1"
	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/pluginhost/plugin"
)

const (
	// maxMessage is the largest message taken from a plugin.
	maxMessage  = 4 << 20
	windowBytes = 4 << 20
	// dialPoll is how often a socket that is not there yet is tried.
	dialPoll = 2 * time.Millisecond
)

// start waits until no older process can be running, and starts one.
func (c *Child) start(ctx context.Context) (*process, error) {
	var lock *os.File
	if c.options.LockDir != "" {
		var err error
		lock, err = takeLock(ctx, c.options.LockDir, c.options.Name, func(cause error) { c.setSession(nil, cause) })
		if err != nil {
			return nil, err
		}
		// The child holds its own copy.
		defer lock.Close()
		c.setSession(nil, starting(c.options))
	}
	select {
	case <-c.alone:
	default:
		close(c.alone)
	}
	path, err := LookUp(c.options.Run[0])
	if err != nil {
		return nil, err
	}
	return spawn(c.options, path, lock)
}

// connect waits until the plugin serves and has said what it is. Its protocol
// version is looked at before anything else.
func (c *caller) connect(ctx context.Context, peer peer, dial func(context.Context) (net.Conn, error)) (*session, error) {
	ctx, cancel := context.WithTimeout(ctx, c.options.StartTimeout)
	defer cancel()
	go func() {
		select {
		case <-peer.done():
			cancel()
		case <-ctx.Done():
		}
	}()
	conn, err := grpc.NewClient("passthrough:///plugin",
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return dial(ctx) }),
		grpc.WithInitialWindowSize(windowBytes), grpc.WithInitialConnWindowSize(windowBytes),
		grpc.WithReadBufferSize(128<<10), grpc.WithWriteBufferSize(128<<10),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(maxMessage), grpc.WaitForReady(true)),
	)
	if err != nil {
		return nil, fault.New(fault.Internal, "dialling plugin %s: %w", c.options.Name, err)
	}
	description, err := c.describe(ctx, conn)
	if err != nil {
		conn.Close()
		return nil, err
	}
	return newSession(c.options, c.answers, &c.hints, peer, conn, description), nil
}

// dial waits for the child's socket.
func dial(ctx context.Context, process *process) (net.Conn, error) {
	for {
		conn, err := (&net.Dialer{}).DialContext(ctx, "unix", process.socket)
		if err == nil {
			return conn, nil
		}
		select {
		case <-ctx.Done():
			return nil, err
		case <-process.terminated:
			return nil, err
		case <-time.After(dialPoll):
		}
	}
}

func (c *caller) describe(ctx context.Context, conn *grpc.ClientConn) (plugin.Description, error) {
	for {
		health, err := healthpb.NewHealthClient(conn).Check(ctx, &healthpb.HealthCheckRequest{})
		if err != nil && status.Code(err) != codes.Unimplemented {
			return plugin.Description{}, err
		}
		if err != nil || health.Status == healthpb.HealthCheckResponse_SERVING {
			break
		}
		select {
		case <-ctx.Done():
			return plugin.Description{}, fmt.Errorf("its health is %s", health.Status)
		case <-time.After(10 * dialPoll):
		}
	}
	response, err := pluginpb.NewPluginServiceClient(conn).Describe(ctx, &pluginpb.DescribeRequest{Protocol: plugin.Protocol})
	switch {
	case status.Code(err) == codes.Unimplemented:
		return plugin.Description{}, c.wrongProtocol("none that this lehr knows")
	case err != nil:
		return plugin.Description{}, err
	case response.Protocol != plugin.Protocol:
		return plugin.Description{}, c.wrongProtocol(fmt.Sprintf("version %d", response.Protocol))
	}
	return CheckDescription(response)
}

func (c *caller) wrongProtocol(spoken string) error {
	return fault.New(fault.Invalid, "plugin %s speaks protocol %s, this lehr speaks version %d", c.options.Name, spoken, plugin.Protocol).
		WithHint("install the plugin and lehr from matching releases")
}

// explain says why a child never came to serve.
func (c *Child) explain(process *process, err error) error {
	if fault.Is(err, fault.Invalid) {
		return err
	}
	// One that has just ended is soon reaped, and its last words are read.
	select {
	case <-process.terminated:
		return fault.New(fault.Unavailable, "plugin %s (%s) ended while starting: %v; %s", c.options.Name, c.options.Run[0], process.exitErr, process.log.last())
	case <-time.After(100 * time.Millisecond):
	}
	return fault.New(fault.Unavailable, "plugin %s (%s) did not serve on its socket within %s: %w; %s", c.options.Name, c.options.Run[0], c.options.StartTimeout, err, process.log.last()).
		WithHint("run the program by hand to see what it says")
}
