package plugintest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"lehr.dev/fault"
	pluginpb "lehr.dev/gen/lehr/plugin/v1"
	"lehr.dev/plugin"
)

// endsWithin is how long a plugin may outlive the end of its input: until
// then it may still have effects. A busy machine needs most of it.
const endsWithin = 500 * time.Millisecond

// bare is a plugin process without Lehr's side of the protocol.
type bare struct {
	command *exec.Cmd
	stdin   io.WriteCloser
	conn    *grpc.ClientConn
	client  pluginpb.PluginServiceClient
	dir     string
	ended   chan struct{}
}

// startBare starts the program by itself and waits until it describes itself.
func (s *suite) startBare(ctx context.Context) (*bare, error) {
	path, err := exec.LookPath(s.target.Run[0])
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "lehr-plugintest-")
	if err != nil {
		return nil, err
	}
	socket := filepath.Join(dir, "s")
	b := &bare{dir: dir, ended: make(chan struct{}), command: &exec.Cmd{
		Path: path, Args: s.target.Run,
		Env:         append(os.Environ(), plugin.SocketVariable+"="+socket),
		SysProcAttr: &syscall.SysProcAttr{Setpgid: true},
	}}
	if b.stdin, err = b.command.StdinPipe(); err == nil {
		err = b.command.Start()
	}
	if err != nil {
		os.RemoveAll(dir)
		return nil, err
	}
	go func() {
		_ = b.command.Wait()
		close(b.ended)
	}()
	b.conn, err = grpc.NewClient("unix:"+socket, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		b.close()
		return nil, err
	}
	b.client = pluginpb.NewPluginServiceClient(b.conn)
	for {
		_, err = b.client.Describe(ctx, &pluginpb.DescribeRequest{Protocol: plugin.Protocol})
		if err == nil {
			return b, nil
		}
		b.conn.ResetConnectBackoff()
		select {
		case <-ctx.Done():
		case <-b.ended:
		case <-time.After(10 * time.Millisecond):
			continue
		}
		b.close()
		return nil, err
	}
}

func (b *bare) close() {
	if b.conn != nil {
		b.conn.Close()
	}
	b.stdin.Close()
	select {
	case <-b.ended:
	case <-time.After(endsWithin):
		_ = syscall.Kill(-b.command.Process.Pid, syscall.SIGKILL)
		<-b.ended
	}
	os.RemoveAll(b.dir)
}

// nonsense sends messages that no Lehr sends.
func (s *suite) nonsense(ctx context.Context) error {
	b, err := s.startBare(ctx)
	if err != nil {
		return err
	}
	defer b.close()
	diffs, err := b.client.Diff(ctx)
	if err != nil {
		return err
	}
	for _, request := range []*pluginpb.DiffRequest{
		{},
		{Message: &pluginpb.DiffRequest_Content{Content: &pluginpb.Content{Incarnation: "x@1", Assets: []*pluginpb.AssetContent{{Asset: "never asked for", Digest: []byte("short")}}}}},
		{Message: &pluginpb.DiffRequest_Batch{Batch: &pluginpb.DiffBatch{Batch: 1, Incarnation: "not an incarnation", Assets: []string{"a"}}}},
		{Message: &pluginpb.DiffRequest_Batch{Batch: &pluginpb.DiffBatch{Batch: 2}}},
	} {
		if err := diffs.Send(request); err != nil {
			return fmt.Errorf("the stream of diffs broke: %w", err)
		}
	}
	pushes, err := b.client.Push(ctx)
	if err != nil {
		return err
	}
	for _, request := range []*pluginpb.PushRequest{
		{},
		{Message: &pluginpb.PushRequest_Permit{Permit: &pluginpb.Permit{Request: 99, Grants: []*pluginpb.PermitGrant{{Push: "none", Granted: true}}}}},
		{Message: &pluginpb.PushRequest_Start{Start: &pluginpb.PushStart{Push: "1", Incarnation: "not an incarnation", Asset: "a", PlanDigest: []byte("short")}}},
		{Message: &pluginpb.PushRequest_Start{Start: &pluginpb.PushStart{}}},
	} {
		if err := pushes.Send(request); err != nil {
			return fmt.Errorf("the stream of pushes broke: %w", err)
		}
	}
	// It must end the push that it cannot carry out.
	for {
		response, err := pushes.Recv()
		if err != nil {
			return fmt.Errorf("the stream of pushes broke: %w", err)
		}
		if result := response.GetResult(); result != nil && result.Push == "1" {
			if result.GetPushed() != nil {
				return errors.New("it says that it pushed what nobody could")
			}
			break
		}
	}
	_, err = b.client.Describe(ctx, &pluginpb.DescribeRequest{Protocol: plugin.Protocol})
	return err
}

// endsWithParent closes the plugin's input, as the kernel does when Lehr is
// killed.
func (s *suite) endsWithParent(ctx context.Context) error {
	b, err := s.startBare(ctx)
	if err != nil {
		return err
	}
	defer b.close()
	b.stdin.Close()
	select {
	case <-b.ended:
		return nil
	case <-time.After(endsWithin):
		return fault.New(fault.Invalid, "%s after the end of its standard input it still runs, and could have effects", endsWithin).
			WithHint("exit when reading standard input returns end of file")
	}
}
