package remote

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	pluginpb "lehr.dev/gen/lehr/plugin/v1"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/pluginhost/plugin"
	"lehr.dev/sdk/serve"
)

// watchedFolder is a folder whose file "hints" says what is hinted: a partition and an
// asset in each line.
type watchedFolder struct{ folder }

func (w watchedFolder) Watch(ctx context.Context, hint func(serve.PartitionID, serve.AssetID)) error {
	for seen := 0; ctx.Err() == nil; {
		content, _ := os.ReadFile(filepath.Join(string(w.folder), "hints"))
		lines := strings.Split(string(content), "\n")
		for ; seen < len(lines)-1; seen++ {
			partition, asset, _ := strings.Cut(lines[seen], " ")
			hint(serve.PartitionID(partition), serve.AssetID(asset))
		}
		select {
		case <-ctx.Done():
		case <-time.After(5 * time.Millisecond):
		}
	}
	return ctx.Err()
}

// watchingPlugin is the folder plugin, which says what may have changed.
func watchingPlugin(arguments []string) int {
	note(arguments[0], "started")
	return serve.Main(serve.Plugin{Name: "folder", Version: "1", Resources: []serve.Kind{
		serve.For(watchedFolder{folder(arguments[0])}, serve.Serving{Cadence: time.Hour}),
	}})
}

// says has a watched folder hint something.
func says(t *testing.T, dir, partition, asset string) {
	t.Helper()
	file, err := os.OpenFile(filepath.Join(dir, "hints"), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err == nil {
		_, err = fmt.Fprintf(file, "%s %s\n", partition, asset)
	}
	if err == nil {
		err = file.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
}

// ear takes what a plugin hints of a partition.
type ear struct {
	mutex sync.Mutex
	all   []plugin.Hints
	times map[intent.AssetID]int
}

// listen has an ear take the hints of a partition, for the length of the test.
func listen(t *testing.T, source plugin.Hinting, partition intent.PartitionID) *ear {
	t.Helper()
	e := &ear{times: map[intent.AssetID]int{}}
	ctx, cancel := context.WithCancel(context.Background())
	var watching sync.WaitGroup
	watching.Go(func() { source.WatchHints(ctx, partition, e.take) })
	t.Cleanup(func() {
		cancel()
		watching.Wait()
	})
	return e
}

func (e *ear) take(hints plugin.Hints) {
	e.mutex.Lock()
	defer e.mutex.Unlock()
	e.all = append(e.all, hints)
	for _, asset := range hints.Assets {
		e.times[asset]++
	}
}

// isReliable is what it was told last.
func (e *ear) isReliable() bool {
	e.mutex.Lock()
	defer e.mutex.Unlock()
	return len(e.all) > 0 && e.all[len(e.all)-1].Reliable
}

func (e *ear) heard(asset intent.AssetID) int {
	e.mutex.Lock()
	defer e.mutex.Unlock()
	return e.times[asset]
}

// looked has a plugin asked about assets as of an incarnation.
func looked(t *testing.T, p plugin.Plugin, incarnation intent.IncarnationID, assets []intent.AssetID) {
	t.Helper()
	if _, err := p.Diff(t.Context(), plugin.DiffRequest{Incarnation: incarnation, Assets: assets}); err != nil {
		t.Fatal(err)
	}
}

// hintsArrive holds a plugin to this: hints arrive with those who act for their partitions,
// and no others.
func hintsArrive(t *testing.T, dir string, source plugin.Hinting, assets []intent.AssetID) (shop, yard *ear) {
	t.Helper()
	shop, yard = listen(t, source, "shop"), listen(t, source, "yard")
	eventually(t, "hints are reliable", func() bool { return shop.isReliable() && yard.isReliable() })
	looked(t, source, head, assets[:2])
	looked(t, source, intent.IncarnationID{Partition: "yard", Sequence: 1}, assets[1:2])
	says(t, dir, "shop", "job/2") // Not asked about.
	says(t, dir, "yard", "job/1")
	says(t, dir, "shop", "job/0")
	eventually(t, "both hints arrive", func() bool { return shop.heard("job/0") == 1 && yard.heard("job/1") == 1 })
	if n := shop.heard("job/1") + yard.heard("job/0") + shop.heard("job/2"); n > 0 {
		t.Errorf("%d hints are of another partition, or about what was not asked", n)
	}
	return shop, yard
}

// A child's hints arrive; when it ends they are relied on no more, until the next one
// gives some.
func TestHintsOfAChild(t *testing.T) {
	contents, dir := newIntents(), t.TempDir()
	assets := jobs(contents, 3)
	child := started(t, Options{Run: self(t, "watching", dir), Contents: contents})
	shop, _ := hintsArrive(t, dir, child, assets)
	if description, _ := child.Describe(); description.Cadence() != time.Hour {
		t.Errorf("its cadence is %s", description.Cadence())
	}
	shop.mutex.Lock()
	before := len(shop.all)
	shop.mutex.Unlock()
	session, err := child.connected()
	if err != nil {
		t.Fatal(err)
	}
	session.peer.cut()
	eventually(t, "they are told to be lost, and then reliable again", func() bool {
		shop.mutex.Lock()
		defer shop.mutex.Unlock()
		after := shop.all[before:]
		return len(after) >= 2 && !after[0].Reliable && after[len(after)-1].Reliable
	})
	if counts := child.HintCounts(); counts.Taken < 2 || !child.HintsReliable() {
		t.Errorf("counted %+v, reliable %v", counts, child.HintsReliable())
	}
}

// So do those of a server.
func TestHintsOfAServer(t *testing.T) {
	tr, contents, dir := newTrust(t), newIntents(), t.TempDir()
	assets := jobs(contents, 3)
	running := listenOn(t, tr, dir, "127.0.0.1:0")
	server := dialled(t, tr.address(running.address), contents)
	up(t, server)
	hintsArrive(t, dir, server, assets)
}

// A plugin without hints is asked for them once, and nothing is kept for it.
func TestPluginWithoutHints(t *testing.T) {
	contents := newIntents()
	assets := jobs(contents, 1)
	child := started(t, Options{Run: self(t, "folder", t.TempDir()), Contents: contents})
	session, err := child.connected()
	if err != nil {
		t.Fatal(err)
	}
	eventually(t, "it says that it has none", session.asked.stopped.Load)
	looked(t, child, head, assets)
	if session.asked.has("shop", "job/0") || child.HintsReliable() {
		t.Error("it is remembered what was asked, or hints are relied on")
	}
}

// hintScript is a plugin whose stream of hints does what a test says.
type hintScript struct {
	pluginpb.PluginServiceClient
	mutex   sync.Mutex
	streams int
	opens   error
	say     chan *pluginpb.HintsResponse
	broken  chan error
}

func (h *hintScript) Hints(ctx context.Context, _ *pluginpb.HintsRequest, _ ...grpc.CallOption) (grpc.ServerStreamingClient[pluginpb.HintsResponse], error) {
	h.mutex.Lock()
	defer h.mutex.Unlock()
	h.streams++
	return &scriptedStream{ctx: ctx, script: h}, h.opens
}

func (h *hintScript) opened() int {
	h.mutex.Lock()
	defer h.mutex.Unlock()
	return h.streams
}

type scriptedStream struct {
	grpc.ClientStream
	ctx    context.Context
	script *hintScript
}

func (s *scriptedStream) Recv() (*pluginpb.HintsResponse, error) {
	select {
	case <-s.ctx.Done():
		return nil, s.ctx.Err()
	case message := <-s.script.say:
		return message, nil
	case err := <-s.script.broken:
		return nil, err
	}
}

// scripted runs a test on a session with such a plugin, in a bubble of virtual time. It was
// asked about job/0 to job/1999 of the partition shop.
func scripted(t *testing.T, test func(*hintScript, *session, *ear)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		script := &hintScript{say: make(chan *pluginpb.HintsResponse), broken: make(chan error)}
		c := &caller{done: make(chan struct{})}
		s := &session{options: Options{Name: "scripted", Log: slog.New(slog.NewTextHandler(io.Discard, nil))}, client: script, hints: &c.hints, asked: newAskedAssets()}
		for i := range 2000 {
			s.asked.add("shop", []intent.AssetID{intent.AssetID(fmt.Sprintf("job/%d", i))})
		}
		e := &ear{times: map[intent.AssetID]int{}}
		ctx, cancel := context.WithCancel(t.Context())
		var running sync.WaitGroup
		running.Go(func() { c.WatchHints(ctx, "shop", e.take) })
		running.Go(func() { s.runHints(ctx) })
		synctest.Wait()
		test(script, s, e)
		cancel()
		running.Wait()
	})
}

// beat is a message with hints about jobs of the partition shop.
func beat(jobs ...int) *pluginpb.HintsResponse {
	message := &pluginpb.HintsResponse{}
	for _, job := range jobs {
		message.Hints = append(message.Hints, &pluginpb.Hint{Partition: "shop", Asset: fmt.Sprintf("job/%d", job)})
	}
	return message
}

// Hints about what was not asked are dropped and counted, whatever they say.
func TestForeignHints(t *testing.T) {
	scripted(t, func(script *hintScript, s *session, e *ear) {
		message := beat(1, 2)
		message.Hints = append(message.Hints, nil, &pluginpb.Hint{}, &pluginpb.Hint{Partition: "yard", Asset: "job/1"},
			&pluginpb.Hint{Partition: "shop", Asset: "job/2000"}, &pluginpb.Hint{Partition: "shop", Asset: strings.Repeat("x", 1<<20)})
		script.say <- message
		synctest.Wait()
		if e.heard("job/1") != 1 || e.heard("job/2") != 1 || len(e.times) != 2 || !e.isReliable() {
			t.Errorf("heard %v, reliable %v", e.times, e.isReliable())
		}
		if counts := s.hints.counts; counts != (plugin.HintCounts{Taken: 2, Foreign: 5}) {
			t.Errorf("counted %+v", counts)
		}
	})
}

// More hints than a plugin may give are dropped and counted; since they are lost, nobody
// relies on any until a minute after the last one that was dropped.
func TestFloodOfHints(t *testing.T) {
	scripted(t, func(script *hintScript, s *session, e *ear) {
		all := make([]int, 1500)
		for i := range all {
			all[i] = i
		}
		script.say <- beat(all...)
		synctest.Wait()
		if counts := s.hints.counts; counts != (plugin.HintCounts{Taken: hintBurst, Flood: 500}) || e.isReliable() {
			t.Errorf("counted %+v, reliable %v", counts, e.isReliable())
		}
		for range 9 {
			time.Sleep(5 * time.Second)
			script.say <- beat(all...) // As many as the bucket got in 5 s are taken.
		}
		synctest.Wait()
		if counts := s.hints.counts; counts.Taken != hintBurst+9*5*hintRate || e.isReliable() {
			t.Errorf("counted %+v, reliable %v", counts, e.isReliable())
		}
		for range 13 {
			time.Sleep(5 * time.Second)
			script.say <- beat()
		}
		synctest.Wait()
		if !e.isReliable() {
			t.Error("65 s after the flood hints are not relied on")
		}
	})
}

// A stream that is silent is given up after 15 s, and opened again.
func TestSilentStreamOfHints(t *testing.T) {
	scripted(t, func(script *hintScript, s *session, e *ear) {
		if e.isReliable() {
			t.Error("hints are relied on before the first message")
		}
		for range 5 {
			script.say <- beat()
			time.Sleep(14 * time.Second)
			if synctest.Wait(); !e.isReliable() || script.opened() != 1 {
				t.Fatalf("reliable %v within 15 s, %d streams", e.isReliable(), script.opened())
			}
		}
		time.Sleep(2 * time.Second)
		if synctest.Wait(); e.isReliable() {
			t.Error("after 16 s of silence hints are relied on")
		}
		time.Sleep(2 * time.Second)
		script.say <- beat()
		if synctest.Wait(); !e.isReliable() || script.opened() != 2 {
			t.Errorf("reliable %v after a new message, %d streams", e.isReliable(), script.opened())
		}
	})
}

// A stream that breaks is opened again with growing pauses, and one that the plugin does
// not have is not.
func TestBrokenStreamOfHints(t *testing.T) {
	scripted(t, func(script *hintScript, s *session, e *ear) {
		script.say <- beat()
		script.mutex.Lock()
		script.opens = errors.New("no")
		script.mutex.Unlock()
		script.broken <- io.EOF
		if synctest.Wait(); e.isReliable() {
			t.Error("hints of a broken stream are relied on")
		}
		time.Sleep(10 * time.Minute)
		if streams := script.opened(); streams < 12 || streams > 30 {
			t.Errorf("%d streams in 10 min", streams)
		}
		script.mutex.Lock()
		script.opens = status.Error(codes.Unimplemented, "no hints")
		script.mutex.Unlock()
		time.Sleep(2 * time.Minute)
		streams := script.opened()
		time.Sleep(time.Hour)
		if script.opened() != streams {
			t.Error("a plugin without hints is asked again")
		}
	})
}
