package python_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/structpb"

	intentpb "lehr.dev/gen/lehr/intent/v1"
	pluginpb "lehr.dev/gen/lehr/plugin/v1"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/pluginhost/plugin"
	"lehr.dev/test/interpreter"
)

// child is a plugin in Python, spoken to as Lehr does.
type child struct {
	t       *testing.T
	command *exec.Cmd
	client  pluginpb.PluginServiceClient
	conn    *grpc.ClientConn
	// home is where it has effects, words what it wrote to its log and stdout what it
	// wrote to standard output, which are read after its end.
	home          string
	stdin         io.Closer
	words, stdout *strings.Builder
	exited        chan struct{}
}

func startChild(t *testing.T, script string) *child { return startChildWith(t, script, nil) }

// startChildWith starts it with more variables, which a function makes that is given its home.
func startChildWith(t *testing.T, script string, variables func(home string) []string) *child {
	t.Helper()
	folder, err := os.MkdirTemp("", "lehr-python-") // A socket's path must be short.
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(folder) })
	c := &child{t: t, home: t.TempDir(), words: &strings.Builder{}, stdout: &strings.Builder{}, exited: make(chan struct{})}
	socket := filepath.Join(folder, "s")
	c.command = exec.Command(interpreter.Python(t), "-B", "testdata/"+script)
	c.command.Env = []string{
		plugin.SocketVariable + "=" + socket, "HOME=" + c.home, "PATH=" + os.Getenv("PATH"),
		plugin.StoresVariable + `=["` + filepath.Join(c.home, "lehr.db") + `"]`,
	}
	if variables != nil {
		c.command.Env = append(c.command.Env, variables(c.home)...)
	}
	c.command.Stdout, c.command.Stderr = c.stdout, c.words
	c.stdin, err = c.command.StdinPipe()
	if err == nil {
		err = c.command.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	go func() {
		_ = c.command.Wait()
		close(c.exited)
	}()
	t.Cleanup(func() {
		c.end()
		if t.Failed() {
			t.Log(c.words.String())
		}
	})
	c.conn, err = grpc.NewClient("unix:"+socket, grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithDefaultCallOptions(grpc.WaitForReady(true)))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.conn.Close() })
	c.client = pluginpb.NewPluginServiceClient(c.conn)
	return c
}

// end closes its standard input, as the end of Lehr does, and waits for it.
func (c *child) end() {
	c.stdin.Close()
	<-c.exited
}

func (c *child) context() context.Context {
	ctx, cancel := context.WithTimeout(c.t.Context(), time.Minute)
	c.t.Cleanup(cancel)
	return ctx
}

// thing is an asset whose payload has its id as its name.
func (c *child) thing(id string) *pluginpb.AssetContent {
	c.t.Helper()
	payload, err := anypb.New(&structpb.Struct{Fields: map[string]*structpb.Value{"name": structpb.NewStringValue(id)}})
	if err != nil {
		c.t.Fatal(err)
	}
	content, err := proto.MarshalOptions{Deterministic: true}.Marshal(&intentpb.Asset{Id: id, Payload: payload})
	if err != nil {
		c.t.Fatal(err)
	}
	digest := intent.BodyDigest(content)
	if id == "forged" {
		digest = intent.BodyDigest(nil)
	}
	return &pluginpb.AssetContent{Asset: id, Digest: digest[:], Content: content}
}

func (c *child) content(need *pluginpb.Need) *pluginpb.Content {
	content := &pluginpb.Content{Partition: need.Partition, Incarnation: need.Incarnation}
	for _, asset := range need.Assets {
		one := c.thing(asset.Asset)
		if string(asset.Known) == string(one.Digest) {
			one.Unchanged, one.Content = true, nil
		}
		content.Assets = append(content.Assets, one)
	}
	for _, blob := range need.Blobs {
		content.Blobs = append(content.Blobs, blobPart(blob))
	}
	return content
}

// aBlob is the one blob that Lehr has here; the plugin asks for others, too.
var aBlob = bytes.Repeat([]byte("a blob"), 400_000)

func blobPart(need *pluginpb.NeedBlob) *pluginpb.BlobContent {
	part := &pluginpb.BlobContent{Asset: need.Asset, Sha256: need.Sha256, Offset: need.Offset}
	if digest := sha256.Sum256(aBlob); !bytes.Equal(digest[:], need.Sha256) {
		part.Refused = "no asset names it"
		return part
	}
	part.Size = int64(len(aBlob))
	part.Content = aBlob[need.Offset:min(need.Offset+1_000_000, part.Size)]
	if need.Asset == "blob that was damaged" {
		part.Content = bytes.ToUpper(part.Content)
	}
	return part
}

// looks is a stream of diffs.
type looks struct {
	*child
	stream pluginpb.PluginService_DiffClient
	// known counts the assets whose content it holds.
	mutex   sync.Mutex
	known   int
	answers chan *pluginpb.AssetDiff
}

func (c *child) look() *looks {
	c.t.Helper()
	stream, err := c.client.Diff(c.context())
	if err != nil {
		c.t.Fatal(err)
	}
	l := &looks{child: c, stream: stream, answers: make(chan *pluginpb.AssetDiff, 1000)}
	go l.receive()
	return l
}

func (l *looks) receive() {
	defer close(l.answers)
	for {
		response, err := l.stream.Recv()
		if err != nil {
			return
		}
		for _, diff := range response.GetResults().GetDiffs() {
			l.answers <- diff
		}
		if need := response.GetNeed(); need != nil {
			l.mutex.Lock()
			for _, asset := range need.Assets {
				if len(asset.Known) > 0 {
					l.known++
				}
			}
			err = l.stream.Send(&pluginpb.DiffRequest{Message: &pluginpb.DiffRequest_Content{Content: l.content(need)}})
			l.mutex.Unlock()
			if err != nil {
				return
			}
		}
	}
}

func (l *looks) send(batch *pluginpb.DiffBatch) {
	l.t.Helper()
	batch.Partition, batch.Incarnation = "p", "p@1"
	l.mutex.Lock()
	defer l.mutex.Unlock()
	if err := l.stream.Send(&pluginpb.DiffRequest{Message: &pluginpb.DiffRequest_Batch{Batch: batch}}); err != nil {
		l.t.Fatal(err)
	}
}

// ask returns the answer about each asset of a batch.
func (l *looks) ask(batch *pluginpb.DiffBatch) map[string]*pluginpb.AssetDiff {
	l.t.Helper()
	l.send(batch)
	answers := map[string]*pluginpb.AssetDiff{}
	for range batch.Assets {
		answer, ok := <-l.answers
		if !ok {
			l.t.Fatal("the stream of diffs ended")
		}
		answers[answer.Asset] = answer
	}
	return answers
}

// begin starts a push of what an answer says, under the permits of a stream.
func (c *child) begin(diff *pluginpb.AssetDiff, memos ...*pluginpb.AssetMemo) pluginpb.PluginService_PushClient {
	c.t.Helper()
	stream, err := c.client.Push(c.context())
	if err != nil {
		c.t.Fatal(err)
	}
	request, err := stream.Recv()
	if err != nil {
		c.t.Fatal(err)
	}
	plan := intent.Plan{Action: intent.ActionCreate}
	for _, change := range diff.GetDiffers().GetChanges() {
		plan.Changes = append(plan.Changes, intent.FieldChange{Path: change.Path, Current: change.Current, Target: change.Target, Destructive: change.Destructive})
	}
	digest := plan.Digest()
	c.push(stream, &pluginpb.PushRequest{Message: &pluginpb.PushRequest_Start{Start: &pluginpb.PushStart{
		Push: "p/1-1", Partition: "p", Incarnation: "p@1", Asset: diff.Asset, PlanDigest: digest[:], Base: diff.Base,
		Permit: request.GetPermitRequest().GetRequest(), Memos: memos,
	}}})
	return stream
}

func (c *child) push(stream pluginpb.PluginService_PushClient, request *pluginpb.PushRequest) {
	c.t.Helper()
	if err := stream.Send(request); err != nil {
		c.t.Fatal(err)
	}
}

// receivePush returns the next progress or result; it gives content and permits meanwhile.
func (c *child) receivePush(stream pluginpb.PluginService_PushClient) *pluginpb.PushResponse {
	c.t.Helper()
	for {
		response, err := stream.Recv()
		if err != nil {
			c.t.Fatal(err)
		}
		switch message := response.Message.(type) {
		case *pluginpb.PushResponse_Need:
			c.push(stream, &pluginpb.PushRequest{Message: &pluginpb.PushRequest_Content{Content: c.content(message.Need)}})
		case *pluginpb.PushResponse_PermitRequest:
			permit := &pluginpb.Permit{Request: message.PermitRequest.Request}
			for _, ask := range message.PermitRequest.Asks {
				permit.Grants = append(permit.Grants, &pluginpb.PermitGrant{Push: ask.Push, Granted: true, Base: ask.Base})
			}
			c.push(stream, &pluginpb.PushRequest{Message: &pluginpb.PushRequest_Permit{Permit: permit}})
		default:
			return response
		}
	}
}

func isServing(ctx context.Context, conn *grpc.ClientConn) bool {
	response, err := healthpb.NewHealthClient(conn).Check(ctx, &healthpb.HealthCheckRequest{}, grpc.WaitForReady(true))
	return err == nil && response.Status == healthpb.HealthCheckResponse_SERVING
}
