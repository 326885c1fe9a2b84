package faults

import (
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"google.golang.org/grpc"

	pluginpb "lehr.dev/gen/lehr/plugin/v1"
	"lehr.dev/internal/pluginhost/plugin"
)

// hostilePlugin serves jobs, and answers as its argument says.
func hostilePlugin(arguments []string) int {
	if arguments[0] == "crash" {
		fmt.Fprintln(os.Stderr, "\x1b[2J\x1b]0;owned\x07 no license \u202e")
		return 3
	}
	if arguments[0] == "forks" {
		for range 100 {
			child := exec.Command("/bin/sleep", "1000")
			child.Env = []string{"LEHR_HOSTILE=" + arguments[1]}
			if child.Start() != nil {
				break
			}
		}
	}
	listener, err := net.Listen("unix", os.Getenv(plugin.SocketVariable))
	if err != nil {
		return 1
	}
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		os.Exit(1)
	}()
	if serve := rawAnswers[arguments[0]]; serve != nil {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return 1
			}
			go serve(conn)
		}
	}
	if arguments[0] == "words" {
		go func() {
			for {
				fmt.Fprintln(os.Stderr, strings.Repeat("\x1b[31mword ", 10_000))
			}
		}()
	}
	server := grpc.NewServer()
	pluginpb.RegisterPluginServiceServer(server, hostileAnswers{kind: arguments[0]})
	_ = server.Serve(listener)
	return 0
}

// preface is how an HTTP/2 server begins: its settings.
const preface = "\x00\x00\x00\x04\x00\x00\x00\x00\x00"

// rawAnswers speak no gRPC, or stop to.
var rawAnswers = map[string]func(net.Conn){
	"garbage": func(conn net.Conn) {
		for {
			if _, err := conn.Write([]byte(strings.Repeat("\x00\xff<html>", 1000))); err != nil {
				return
			}
		}
	},
	"half a frame": func(conn net.Conn) {
		_, _ = conn.Write([]byte(preface + "\x00\x40\x00\x00\x00\x00\x00"))
		conn.Close()
	},
	"a huge frame": func(conn net.Conn) {
		_, _ = conn.Write([]byte(preface + "\xff\xff\xff\x00\x00\x00\x00\x00\x01" + strings.Repeat("x", 1<<20)))
	},
	"silence": func(net.Conn) {},
}

// hostileAnswers describe jobs, and then misbehave in Diff.
type hostileAnswers struct {
	liar
	kind string
}

func (a hostileAnswers) Diff(stream grpc.BidiStreamingServer[pluginpb.DiffRequest, pluginpb.DiffResponse]) error {
	for {
		request, err := stream.Recv()
		if err != nil {
			return nil
		}
		batch := request.GetBatch()
		if batch == nil {
			continue
		}
		answer := func(diff *pluginpb.AssetDiff) error {
			return stream.Send(&pluginpb.DiffResponse{Message: &pluginpb.DiffResponse_Results{
				Results: &pluginpb.DiffResults{Batch: batch.Batch, Diffs: []*pluginpb.AssetDiff{diff}},
			}})
		}
		unknown := func(reason string) *pluginpb.AssetDiff {
			return &pluginpb.AssetDiff{Asset: batch.Assets[0], ResourceKey: "hostile:key", Outcome: &pluginpb.AssetDiff_Unknown{Unknown: &pluginpb.Unknown{Reason: reason}}}
		}
		switch a.kind {
		case "a gigantic message":
			err = answer(unknown(strings.Repeat("x", 64<<20)))
		case "a flood":
			for err == nil {
				err = answer(&pluginpb.AssetDiff{Asset: fmt.Sprintf("job/other%d", time.Now().UnixNano()), Current: make([]byte, 1<<20)})
			}
		case "escapes":
			err = answer(unknown("\x1b[2J\x1b]0;owned\x07<script>alert(1)</script> \u202egnp.exe \x00 %s%n"))
		case "no UTF-8 key":
			err = answer(&pluginpb.AssetDiff{Asset: batch.Assets[0], ResourceKey: "\x1b[31mkey\u202e", Outcome: &pluginpb.AssetDiff_InSync{InSync: &pluginpb.InSync{}}})
		case "deep state":
			state := []byte{}
			for range 20_000 {
				state = append([]byte{0x0a, 0xff, 0xff, 0x03}, state...)
			}
			err = answer(&pluginpb.AssetDiff{Asset: batch.Assets[0], ResourceKey: "hostile:deep", Current: state, Outcome: &pluginpb.AssetDiff_InSync{InSync: &pluginpb.InSync{}}})
		case "an exit amid answers":
			_ = answer(unknown("and"))
			syscall.Kill(os.Getpid(), syscall.SIGKILL)
		case "forks":
			os.Exit(3)
		default:
			err = answer(unknown("as usual"))
		}
		if err != nil {
			return err
		}
	}
}

// A tenant names the programs that enforce its assets: what they answer is a
// claim (S26), and what they do is theirs alone.
func TestHostilePlugins(t *testing.T) {
	t.Parallel()
	h := newAttack(t, "plugins")
	self, err := os.Executable()
	h.must(err)
	marker := fmt.Sprintf("%d-%d", os.Getpid(), time.Now().UnixNano())
	bind := func(kind string) func(*attack) {
		return func(h *attack) {
			h.jobs["odd"] = job{Replicas: 1}
			h.wantIn(h.tenant, values{"t": h.mine})
			delete(h.jobs, "odd")
			h.put("lehr.yaml", tenantDefinition+fmt.Sprintf("  Job: {run: [%q, \"plugin:hostile\", %q, %q]}\n", self, kind, marker))
		}
	}
	var rows []hostile
	for _, c := range []struct {
		kind string
		told []string
	}{
		{"crash", []string{`ended while starting`, `no license`}},
		{"garbage", []string{`did not serve|cannot|frame|error`}},
		{"half a frame", []string{`did not serve|EOF|reset|closed|error`}},
		{"a huge frame", []string{`did not serve|frame|error`}},
		{"silence", []string{`did not serve|did not answer`}},
		{"a gigantic message", []string{`larger than max|ResourceExhausted|too large|did not`}},
		{"a flood", []string{`odd`, `said|answer|many|flood|broken`}},
		{"escapes", []string{`alert\(1\)`, `\\x1b|\\u202e`}},
		{"no UTF-8 key", []string{`resource key`, `not printable`}},
		{"deep state", []string{`current state|no protobuf message`}},
		{"an exit amid answers", []string{`killed|ended`}},
		{"words", []string{`as usual`}},
		{"forks", []string{`exit status 3`}},
	} {
		rows = append(rows, hostile{name: c.kind, told: c.told, asset: "job/odd", write: bind(c.kind)})
	}
	h.run(rows)
	h.end()
	h.await("what plugins started has ended with the server", func() string {
		left := processes(func(p process) bool {
			environment, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", p.pid))
			return err == nil && strings.Contains(string(environment), "LEHR_HOSTILE="+marker)
		})
		if len(left) > 0 {
			return fmt.Sprintf("%d are there", len(left))
		}
		return ""
	})
}
