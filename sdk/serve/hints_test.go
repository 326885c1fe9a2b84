package serve

import (
	"context"
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"

	pluginpb "lehr.dev/gen/lehr/plugin/v1"
	processpb "lehr.dev/gen/lehr/process/v1"
)

// watchedShelf hints what a test says, until it fails.
type watchedShelf struct {
	*shelf
	hints chan func(hint func(PartitionID, AssetID))
	fails chan error
}

func newWatchedShelf() *watchedShelf {
	return &watchedShelf{shelf: &shelf{jobs: map[string]*processpb.Job{}}, hints: make(chan func(func(PartitionID, AssetID))), fails: make(chan error)}
}

func (w *watchedShelf) Watch(ctx context.Context, hint func(PartitionID, AssetID)) error {
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case err := <-w.fails:
			return err
		case say := <-w.hints:
			say(hint)
		}
	}
}

// served runs a plugin for the length of the test, and returns how to connect with it.
func served(t *testing.T, p Plugin) (connect func() pluginpb.PluginServiceClient) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "s")
	listener, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error)
	go func() { ended <- p.Serve(ctx, listener) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	return func() pluginpb.PluginServiceClient {
		conn, err := grpc.NewClient("unix:"+path, grpc.WithTransportCredentials(insecure.NewCredentials()))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { conn.Close() })
		return pluginpb.NewPluginServiceClient(conn)
	}
}

// ask asks about assets, and waits until that has arrived: the plugin asks for their intent.
func ask(t *testing.T, client pluginpb.PluginServiceClient, partition string, assets ...string) {
	t.Helper()
	stream, err := client.Diff(t.Context())
	if err == nil {
		err = stream.Send(&pluginpb.DiffRequest{Message: &pluginpb.DiffRequest_Batch{Batch: &pluginpb.DiffBatch{Batch: 1, Partition: partition, Incarnation: partition + "@1", Assets: assets}}})
	}
	if err == nil {
		_, err = stream.Recv()
	}
	if err != nil {
		t.Fatal(err)
	}
}

// opened opens a stream of hints, and waits for its first message, which is empty.
func opened(t *testing.T, client pluginpb.PluginServiceClient) pluginpb.PluginService_HintsClient {
	t.Helper()
	stream, err := client.Hints(t.Context(), &pluginpb.HintsRequest{})
	if err != nil {
		t.Fatal(err)
	}
	if message, err := stream.Recv(); err != nil || len(message.Hints) > 0 {
		t.Fatalf("the first message is %v, %v", message, err)
	}
	return stream
}

// next returns the hints of the next message that has some.
func next(t *testing.T, stream pluginpb.PluginService_HintsClient) (hints []string) {
	t.Helper()
	for len(hints) == 0 {
		message, err := stream.Recv()
		if err != nil {
			t.Fatal(err)
		}
		for _, hint := range message.Hints {
			hints = append(hints, hint.Partition+"/"+hint.Asset)
		}
	}
	return hints
}

// Each connection is told of what it asked about, once in a message, and of nothing else.
func TestHintsAreAboutWhatWasAsked(t *testing.T) {
	production := newWatchedShelf()
	connect := served(t, Plugin{Name: "p", Resources: []Kind{For(production, Serving{})}})
	one, other := connect(), connect()
	ask(t, one, "shop", "a", "b")
	ask(t, other, "shop", "c")
	oneStream, otherStream := opened(t, one), opened(t, other)
	production.hints <- func(hint func(PartitionID, AssetID)) {
		for range 100 {
			hint("shop", "a")
			hint("shop", "c")
			hint("yard", "a")
			hint("shop", "never asked about")
		}
	}
	if hints := next(t, oneStream); fmt.Sprint(hints) != "[shop/a]" {
		t.Errorf("who asked about a and b is told of %v", hints)
	}
	if hints := next(t, otherStream); fmt.Sprint(hints) != "[shop/c]" {
		t.Errorf("who asked about c is told of %v", hints)
	}
}

// Many hints come in messages of a bounded size.
func TestManyHints(t *testing.T) {
	production := newWatchedShelf()
	client := served(t, Plugin{Name: "p", Resources: []Kind{For(production, Serving{})}})()
	assets := make([]string, 2500)
	for i := range assets {
		assets[i] = fmt.Sprint("job/", i)
	}
	ask(t, client, "shop", assets...)
	stream := opened(t, client)
	production.hints <- func(hint func(PartitionID, AssetID)) {
		for _, asset := range assets {
			hint("shop", AssetID(asset))
		}
	}
	seen := map[string]bool{}
	for len(seen) < len(assets) {
		hints := next(t, stream)
		if len(hints) > mostHints {
			t.Fatalf("%d hints in a message", len(hints))
		}
		for _, hint := range hints {
			seen[hint] = true
		}
	}
}

// A stream beats while production is watched, ends when it is not, and can be opened when
// it is again.
func TestHintsBeatWhileWatched(t *testing.T) {
	production := newWatchedShelf()
	client := served(t, Plugin{Name: "p", Resources: []Kind{For(production, Serving{})}})()
	stream := opened(t, client)
	if message, err := stream.Recv(); err != nil || len(message.Hints) > 0 {
		t.Errorf("the beat is %v, %v", message, err)
	}
	production.fails <- errors.New("too many open files")
	if _, err := stream.Recv(); status.Code(err) != codes.Unavailable {
		t.Errorf("it ends with %v", err)
	}
	again, err := client.Hints(t.Context(), &pluginpb.HintsRequest{})
	if err == nil {
		_, err = again.Recv()
	}
	if status.Code(err) != codes.Unavailable {
		t.Errorf("while nothing is watched a stream answers %v", err)
	}
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(10 * time.Millisecond) {
		again, err = client.Hints(t.Context(), &pluginpb.HintsRequest{})
		if err == nil {
			if _, err = again.Recv(); err == nil {
				break
			}
		}
		if time.Now().After(deadline) {
			t.Fatalf("it is not watched again: %v", err)
		}
	}
}

func TestNoHints(t *testing.T) {
	client := served(t, Plugin{Name: "p", Resources: []Kind{For(&shelf{}, Serving{})}})()
	stream, err := client.Hints(t.Context(), &pluginpb.HintsRequest{})
	if err == nil {
		_, err = stream.Recv()
	}
	if status.Code(err) != codes.Unimplemented {
		t.Errorf("a plugin that watches nothing answers %v", err)
	}
}

// Hints stand for the whole plugin: a type with a cadence that is not watched would be
// looked at too seldom.
func TestCadenceOfWhatIsNotWatched(t *testing.T) {
	watched := For(newWatchedShelf(), Serving{Cadence: time.Hour})
	other := namedKind{Served{Type: "lehr.process.v1.Other", Cadence: time.Hour}}
	if _, err := (Plugin{Name: "p", Resources: []Kind{watched, other}}).kinds(); err == nil {
		t.Error("it is taken")
	}
	other.served.Cadence = 0
	if _, err := (Plugin{Name: "p", Resources: []Kind{watched, other}}).kinds(); err != nil {
		t.Error(err)
	}
	other.served.Cadence = time.Hour
	if _, err := (Plugin{Name: "p", Resources: []Kind{other}}).kinds(); err != nil {
		t.Error(err)
	}
}

// namedKind is a Kind of its own that looks after nothing.
type namedKind struct{ served Served }

func (k namedKind) Served() Served { return k.served }
func (namedKind) Diff(_ context.Context, assets []Intent) []Difference {
	return make([]Difference, len(assets))
}
func (namedKind) Push(context.Context, Push, Permits) Outcome { return Outcome{} }
