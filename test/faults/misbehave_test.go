package faults

import (
	"context"
	"fmt"
	"io"
	"net"
	"os"

	"google.golang.org/grpc"

	pluginpb "lehr.dev/gen/lehr/plugin/v1"
	"lehr.dev/internal/pluginhost/plugin"
	"lehr.dev/sdk/serve"
)

// odd is a plugin for jobs whose diff does something that it should not.
type odd struct {
	serve.Kind
	diff func()
}

func (odd) Served() serve.Served {
	return serve.Served{Type: "lehr.process.v1.Job", Guarantee: serve.Unguarded}
}

func (o odd) Diff(context.Context, []serve.Intent) []serve.Difference {
	o.diff()
	return nil
}

func (odd) Push(context.Context, serve.Push, serve.Permits) serve.Outcome {
	return serve.Outcome{Ending: serve.Failed, Reason: "nobody may ask this plugin to push"}
}

func runOdd(name string, diff func()) int {
	return serve.Main(serve.Plugin{Name: name, Version: "1", Resources: []serve.Kind{odd{diff: diff}}})
}

func hungPlugin([]string) int { return runOdd("hung", func() { select {} }) }

func crashingPlugin([]string) int {
	return runOdd("crashing", func() {
		fmt.Fprintln(os.Stderr, "out of cheese")
		os.Exit(3)
	})
}

// wrongProtocolPlugin is of a release to come.
func wrongProtocolPlugin([]string) int {
	listener, err := net.Listen("unix", os.Getenv(plugin.SocketVariable))
	if err != nil {
		return 1
	}
	server := grpc.NewServer()
	pluginpb.RegisterPluginServiceServer(server, protocol9{})
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		os.Exit(1)
	}()
	_ = server.Serve(listener)
	return 0
}

type protocol9 struct {
	pluginpb.UnimplementedPluginServiceServer
}

func (protocol9) Describe(context.Context, *pluginpb.DescribeRequest) (*pluginpb.DescribeResponse, error) {
	return &pluginpb.DescribeResponse{Protocol: 9, Name: "early", Version: "9", Types: []*pluginpb.ServedType{{Type: "lehr.command.v1.Command"}}}, nil
}
