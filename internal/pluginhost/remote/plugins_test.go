package remote

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"

	pluginpb "lehr.dev/gen/lehr/plugin/v1"
	processpb "lehr.dev/gen/lehr/process/v1"
	"lehr.dev/internal/ground/files"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/pluginhost/plugin"
	"lehr.dev/sdk/serve"
)

// testPlugins are the programs that this binary can be, by name.
var testPlugins = map[string]func(arguments []string) int{
	"folder":         folderPlugin,
	"liar":           func([]string) int { return rawPlugin(&liar{protocol: plugin.Protocol}) },
	"flood":          func([]string) int { return rawPlugin(&liar{protocol: plugin.Protocol, floods: true}) },
	"other-protocol": func([]string) int { return rawPlugin(&liar{protocol: 99}) },
	"endless":        func([]string) int { return rawPlugin(&liar{protocol: plugin.Protocol, endless: true}) },
	"curious":        func([]string) int { return rawPlugin(&liar{protocol: plugin.Protocol, curious: true}) },
	"server":         serverPlugin,
	"exits":          exitingPlugin,
	"silent":         silentPlugin,
	"lehr":           lehrItself,
	"librarian":      librarianPlugin,
	"watching":       watchingPlugin,
	"forgetful":      func([]string) int { return rawPlugin(&forgetful{liar: liar{protocol: plugin.Protocol}}) },
}

// folderPlugin keeps production in files of a folder. What goes wrong is told
// by a job's version.
func folderPlugin(arguments []string) int {
	note(arguments[0], "started")
	return serve.Main(serve.Plugin{Name: "folder", Version: "1", Resources: []serve.Kind{serve.For(folder(arguments[0]), serve.Serving{Destructive: []string{"base_port"}})}})
}

// note appends a line with the process and the time to the folder's log.
func note(dir, what string) {
	file, err := os.OpenFile(filepath.Join(dir, "log"), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err == nil {
		fmt.Fprintf(file, "%s %d %d\n", what, os.Getpid(), time.Now().UnixNano())
		file.Close()
	}
}

type folder string

func (f folder) path(job *processpb.Job) string {
	return filepath.Join(string(f), strings.ReplaceAll(job.Name, "/", "_"))
}

func (f folder) Read(_ context.Context, assets []serve.Asset[*processpb.Job]) ([]serve.State[*processpb.Job], error) {
	states := make([]serve.State[*processpb.Job], len(assets))
	for i, asset := range assets {
		switch asset.Payload.Version {
		case "read-crash":
			fmt.Fprintln(os.Stderr, "disk on fire")
			os.Exit(3)
		case "read-hang":
			select {}
		case "read-panic":
			panic("no such shelf")
		case "read-spawn":
			// Started carelessly: nothing is closed, and in a group of its own.
			leak := exec.Command("sleep", "60")
			leak.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
			if err := leak.Start(); err != nil {
				panic(err)
			}
			states[i].Err = fmt.Errorf("started %d with %q", leak.Process.Pid, os.Environ())
			continue
		case "read-store":
			var open *os.File
			if open, states[i].Err = files.Open(asset.Payload.Binary); states[i].Err == nil {
				open.Close()
			}
			continue
		case "read-busy":
			states[i].Err = fmt.Errorf("429: %w", serve.Busy(errors.New("too many requests"), 42*time.Second))
			continue
		case "read-memo":
			states[i].Err = fmt.Errorf("handed %q", asset.Memos)
			continue
		case "read-error":
			states[i].Err = errors.New("the shelf is locked")
			continue
		}
		content, err := os.ReadFile(f.path(asset.Payload))
		states[i] = serve.State[*processpb.Job]{Key: serve.ResourceKey("folder:" + asset.Payload.Name), Health: serve.Health{State: serve.Healthy}}
		if err == nil {
			states[i].Current = &processpb.Job{}
			states[i].Err = proto.Unmarshal(content, states[i].Current)
			states[i].Base = string(content[:min(8, len(content))])
		}
	}
	return states, nil
}

func (f folder) Resolve(_ context.Context, asset serve.Asset[*processpb.Job]) (*processpb.Job, error) {
	resolved := proto.CloneOf(asset.Payload)
	if resolved.Replicas == 0 {
		resolved.Replicas = 1
	}
	return resolved, nil
}

func (f folder) Apply(ctx context.Context, change serve.Change[*processpb.Job], permit serve.Permit) error {
	switch change.Target.Version {
	case "apply-loop":
		for {
			if err := permit.Effect(ctx); err != nil {
				note(string(f), "stopped")
				return err
			}
			note(string(f), "effect")
			time.Sleep(5 * time.Millisecond)
		}
	case "apply-deaf":
		note(string(f), "effect")
		select {}
	case "apply-crash":
		note(string(f), "effect")
		os.Exit(4)
	case "apply-busy":
		return fmt.Errorf("429: %w", serve.Busy(errors.New("too many requests of "+change.Traceparent), 1500*time.Millisecond))
	case "apply-outranked":
		return fmt.Errorf("the target refuses: %w", serve.Outranked(change.Token+50))
	case "apply-panic":
		panic("dropped it")
	case "apply-progress":
		change.Progress("first\nhalf\x1b way\r\n")
	case "apply-memo", "apply-memo-flood":
		return remember(ctx, change)
	case "apply-chatter":
		for i := range 200 {
			change.Progress(fmt.Sprintf("step %d", i+1))
			time.Sleep(5 * time.Millisecond)
		}
	}
	if err := permit.Effect(ctx); err != nil {
		return err
	}
	content, err := proto.Marshal(change.Target)
	if err != nil {
		return err
	}
	return os.WriteFile(f.path(change.Target), content, 0o600)
}

func exitingPlugin([]string) int {
	fmt.Fprintln(os.Stderr, "no licence key")
	return 7
}

func silentPlugin([]string) int {
	fmt.Fprintln(os.Stderr, "waiting for a database")
	_, _ = io.Copy(io.Discard, os.Stdin)
	return 0
}

// lehrItself is another Lehr, to be killed: it pushes one endless job.
func lehrItself(arguments []string) int {
	dir, locks := arguments[0], arguments[1]
	contents := newIntents()
	endless := job(1)
	endless.Version = "apply-loop"
	contents.put("job/1", endless)
	path, _ := os.Executable()
	child := Start(context.Background(), Options{Name: "folder", Run: []string{path, "plugin:folder", dir}, Contents: contents, LockDir: locks})
	for _, err := child.Describe(); err != nil; _, err = child.Describe() {
		time.Sleep(time.Millisecond)
	}
	differences, err := child.Diff(context.Background(), plugin.DiffRequest{Incarnation: head, Assets: []intent.AssetID{"job/1"}})
	if err != nil {
		panic(err)
	}
	child.Push(context.Background(), admitted(differences[0]))
	return 0
}

// liar answers anything but the truth.
type liar struct {
	pluginpb.UnimplementedPluginServiceServer
	protocol uint32
	floods   bool
	curious  bool
	// endless: it never stops talking, and keeps what it says within limits.
	endless bool
}

func rawPlugin(l pluginpb.PluginServiceServer) int {
	listener, err := net.Listen("unix", os.Getenv(plugin.SocketVariable))
	if err != nil {
		return 1
	}
	server := grpc.NewServer()
	pluginpb.RegisterPluginServiceServer(server, l)
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		os.Exit(1)
	}()
	_ = server.Serve(listener)
	return 0
}

func (l *liar) Describe(context.Context, *pluginpb.DescribeRequest) (*pluginpb.DescribeResponse, error) {
	return &pluginpb.DescribeResponse{Protocol: l.protocol, Name: "liar", Version: "0", Types: []*pluginpb.ServedType{{Type: "lehr.process.v1.Job"}}}, nil
}

// Push asks for permits, and breaks the stream when a push starts.
func (l *liar) Push(stream pluginpb.PluginService_PushServer) error {
	if err := stream.Send(&pluginpb.PushResponse{Message: &pluginpb.PushResponse_PermitRequest{PermitRequest: &pluginpb.PermitRequest{Request: 1}}}); err != nil {
		return err
	}
	_, _ = stream.Recv()
	return errors.New("dropped it")
}

func (l *liar) Diff(stream pluginpb.PluginService_DiffServer) error {
	for {
		request, err := stream.Recv()
		if err != nil {
			return err
		}
		batch := request.GetBatch()
		if batch == nil {
			continue
		}
		if l.curious {
			l.ask(stream, batch)
			continue
		}
		for l.endless {
			if err := l.talk(stream, batch); err != nil {
				return err
			}
		}
		for l.floods {
			if err := send(stream, batch.Batch+1000, &pluginpb.AssetDiff{Asset: "job/0"}); err != nil {
				return err
			}
		}
		_ = send(stream, batch.Batch+1000, agrees(batch.Assets[0]))
		for _, asset := range append(batch.Assets, "not/asked") {
			if diff := lies[asset]; diff != nil {
				diff.Asset = asset
				_ = send(stream, batch.Batch, diff)
			}
		}
		_ = send(stream, batch.Batch, agrees("honest"), agrees("honest"))
	}
}

// talk says as much as one message carries, in every way there is.
func (l *liar) talk(stream pluginpb.PluginService_DiffServer, batch *pluginpb.DiffBatch) error {
	const most = 3 << 20
	fmt.Fprintln(os.Stderr, strings.Repeat("and so on ", most/10))
	state := make([]byte, 1<<20-8)
	copy(state, "\x0a\xf4\xff\x3f") // a field of 1<<20 - 12 bytes
	for _, asset := range batch.Assets {
		diff := agrees(asset)
		diff.Current = state
		if err := send(stream, batch.Batch, diff); err != nil {
			return err
		}
	}
	need := &pluginpb.Need{Partition: batch.Partition, Incarnation: batch.Incarnation}
	for range most / 2 {
		need.Assets = append(need.Assets, &pluginpb.NeedAsset{})
	}
	return stream.Send(&pluginpb.DiffResponse{Message: &pluginpb.DiffResponse_Need{Need: need}})
}

// ask asks for each asset in the intent of another, and tells what it got.
func (l *liar) ask(stream pluginpb.PluginService_DiffServer, batch *pluginpb.DiffBatch) {
	for _, asset := range batch.Assets {
		_, wanted, _ := strings.Cut(asset, "wants/")
		need := &pluginpb.Need{Partition: batch.Partition, Incarnation: batch.Incarnation, Assets: []*pluginpb.NeedAsset{{Asset: wanted}}}
		if strings.HasPrefix(wanted, "older/") {
			need.Incarnation = "shop@6"
		}
		_ = stream.Send(&pluginpb.DiffResponse{Message: &pluginpb.DiffResponse_Need{Need: need}})
		request, err := stream.Recv()
		if err != nil {
			return
		}
		got := request.GetContent().GetAssets()[0]
		_ = send(stream, batch.Batch, &pluginpb.AssetDiff{Asset: asset, Outcome: &pluginpb.AssetDiff_Unknown{
			Unknown: &pluginpb.Unknown{Reason: fmt.Sprintf("got %d bytes, refused: %s", len(got.Content), got.Refused)},
		}})
	}
}

func send(stream pluginpb.PluginService_DiffServer, batch uint64, diffs ...*pluginpb.AssetDiff) error {
	return stream.Send(&pluginpb.DiffResponse{Message: &pluginpb.DiffResponse_Results{Results: &pluginpb.DiffResults{Batch: batch, Diffs: diffs}}})
}

func agrees(asset string) *pluginpb.AssetDiff {
	return &pluginpb.AssetDiff{Asset: asset, Outcome: &pluginpb.AssetDiff_InSync{InSync: &pluginpb.InSync{}}}
}

func differs(action pluginpb.Action, changes ...*pluginpb.FieldChange) *pluginpb.AssetDiff {
	return &pluginpb.AssetDiff{Outcome: &pluginpb.AssetDiff_Differs{Differs: &pluginpb.Differs{Action: action, Changes: changes}}}
}

// lies are answers that must not be believed, by the asset they are about.
var lies = map[string]*pluginpb.AssetDiff{
	"not/asked":   agrees(""),
	"no-outcome":  {},
	"no-action":   differs(pluginpb.Action_ACTION_UNSPECIFIED, &pluginpb.FieldChange{Path: "a"}),
	"no-change":   differs(pluginpb.Action_ACTION_UPDATE),
	"twice":       differs(pluginpb.Action_ACTION_UPDATE, &pluginpb.FieldChange{Path: "a"}, &pluginpb.FieldChange{Path: "a"}),
	"terminal":    differs(pluginpb.Action_ACTION_UPDATE, &pluginpb.FieldChange{Path: "a\x1b[2J"}),
	"long-value":  differs(pluginpb.Action_ACTION_UPDATE, &pluginpb.FieldChange{Path: "a", Target: strings.Repeat("v", 9000)}),
	"not-finite":  {Outcome: &pluginpb.AssetDiff_InSync{InSync: &pluginpb.InSync{}}, Impacts: []*pluginpb.Impact{{Dimension: "qps", Current: math.NaN()}}},
	"negative":    {Outcome: &pluginpb.AssetDiff_InSync{InSync: &pluginpb.InSync{}}, Impacts: []*pluginpb.Impact{{Dimension: "qps", Target: -1}}},
	"no-message":  {Outcome: &pluginpb.AssetDiff_InSync{InSync: &pluginpb.InSync{}}, Current: []byte("\xff\xff not protobuf")},
	"long-state":  {Outcome: &pluginpb.AssetDiff_InSync{InSync: &pluginpb.InSync{}}, Current: make([]byte, 1<<20+1)},
	"long-key":    {Outcome: &pluginpb.AssetDiff_InSync{InSync: &pluginpb.InSync{}}, ResourceKey: strings.Repeat("k", 513)},
	"many":        differs(pluginpb.Action_ACTION_UPDATE, make([]*pluginpb.FieldChange, 1001)...),
	"loud":        {Outcome: &pluginpb.AssetDiff_Unknown{Unknown: &pluginpb.Unknown{Reason: strings.Repeat("\x07!", 10_000)}}},
	"undescribed": {Outcome: &pluginpb.AssetDiff_Unknown{}},
}
