package tasks

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	intentpb "lehr.dev/gen/lehr/intent/v1"
	taskpb "lehr.dev/gen/lehr/task/v1"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/plugins/task/runkeeper"
	"lehr.dev/sdk/serve"
)

// The test's own program is the keepers'.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == runkeeper.Command {
		os.Exit(runkeeper.Keep(os.Stdin, os.Stdout))
	}
	os.Exit(m.Run())
}

// machine is this machine with one task on it, and what Lehr keeps of that.
type machine struct {
	t     *testing.T
	tasks *Tasks
	task  *taskpb.Task
	memos []serve.Memo
	// ahead is how far the plugin's clock is before this machine's.
	ahead  time.Duration
	addons []proto.Message
	pushes int
	// onSave is called before a memo is kept; an error refuses it.
	onSave func(serve.Memo) error
}

// newMachine has a task whose program writes a line to a file each time that it runs.
func newMachine(t *testing.T) *machine {
	t.Helper()
	if testing.Short() {
		t.Skip("starts real processes")
	}
	m := &machine{t: t, onSave: func(serve.Memo) error { return nil }}
	folder := t.TempDir()
	m.tasks = New(Options{
		Folder: filepath.Join(folder, "records"), Program: runkeeper.Self, Host: "here", Await: time.Minute,
		Now: func() time.Time { return time.Now().Add(m.ahead) },
	})
	m.task = &taskpb.Task{
		Name: "a/task", Command: script(`echo "$LEHR_RUN $LEHR_DAY$LEHR_ITEM" >>"$RAN"; ` + `eval "$THEN"`),
		Env: map[string]string{"RAN": filepath.Join(folder, "ran"), "THEN": "exit 0"},
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		if err := runkeeper.Stop(ctx, m.look().folder); err != nil {
			t.Error(err)
		}
	})
	return m
}

func (m *machine) asset() serve.Intent {
	m.t.Helper()
	pack := func(message proto.Message) serve.Message {
		content, err := proto.Marshal(message)
		if err != nil {
			m.t.Fatal(err)
		}
		return serve.Message{Type: serve.TypeName(message.ProtoReflect().Descriptor().FullName()), Bytes: content}
	}
	asset := intent.Asset{ID: "task/a", Payload: pack(m.task)}
	for _, addon := range m.addons {
		asset.Addons = append(asset.Addons, pack(addon))
	}
	return serve.Intent{Asset: asset, Incarnation: serve.IncarnationID{Partition: "shop", Sequence: 1}, Memos: m.memos}
}

func (m *machine) look() look {
	m.t.Helper()
	l, err := m.tasks.look(m.asset())
	if err != nil {
		m.t.Fatal(err)
	}
	return l
}

func (m *machine) diff() serve.Difference {
	m.t.Helper()
	return m.tasks.Diff(m.t.Context(), []serve.Intent{m.asset()})[0]
}

// Effect and Cover permit all.
func (m *machine) Effect(ctx context.Context) error          { return ctx.Err() }
func (m *machine) Cover(ctx context.Context, _ string) error { return ctx.Err() }

// push pushes what differs now.
func (m *machine) push(ctx context.Context) serve.Outcome {
	m.t.Helper()
	return m.pushOf(ctx, m.diff())
}

func (m *machine) pushOf(ctx context.Context, d serve.Difference) serve.Outcome {
	m.t.Helper()
	if d.Outcome != serve.Differs {
		m.t.Fatalf("nothing is due: %v, %s", d.Outcome, d.Reason)
	}
	m.pushes++
	return m.tasks.Push(ctx, serve.Push{
		ID: serve.PushID(fmt.Sprintf("push-%d", m.pushes)), Asset: m.asset(), Plan: d.Plan.Digest(), Base: d.Base,
		Progress: func(text string) { m.t.Log(text) }, SaveMemo: m.save,
	}, m)
}

// save keeps a memo as Lehr does: one for each key.
func (m *machine) save(_ context.Context, key serve.ResourceKey, bytes []byte) error {
	memo := serve.Memo{Key: key, Bytes: bytes}
	if err := memo.Check(); err != nil {
		return err
	}
	if err := m.onSave(memo); err != nil {
		return err
	}
	m.memos = nil
	if len(bytes) > 0 {
		m.memos = []serve.Memo{memo}
	}
	return nil
}

func (m *machine) mustPush() {
	m.t.Helper()
	if outcome := m.push(m.t.Context()); outcome.Ending != serve.Pushed {
		m.t.Fatalf("push ended %s: %s", outcome.Ending, outcome.Reason)
	}
}

// is holds the difference to an outcome, with words in its reason, or in its plan's.
func (m *machine) is(outcome intent.Outcome, words ...string) serve.Difference {
	m.t.Helper()
	d := m.diff()
	text := d.Reason
	for _, change := range d.Plan.Changes {
		text += fmt.Sprintf("\n%s: %s → %s %s", change.Path, change.Current, change.Target, change.Reason)
	}
	if d.Outcome != outcome {
		m.t.Fatalf("outcome %v, want %v: %s", d.Outcome, outcome, text)
	}
	for _, word := range words {
		if !strings.Contains(text, word) {
			m.t.Errorf("it does not say %q: %s", word, text)
		}
	}
	return d
}

// ran are the lines that runs wrote.
func (m *machine) ran() (lines []string) {
	m.t.Helper()
	text, err := os.ReadFile(m.task.Env["RAN"])
	if err != nil && !os.IsNotExist(err) {
		m.t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		lines = append(lines, strings.TrimSpace(line))
	}
	return lines
}

func (m *machine) ranTimes(want int) {
	m.t.Helper()
	if ran := m.ran(); len(ran) != want {
		m.t.Fatalf("it ran %d times, want %d: %q", len(ran), want, ran)
	}
}

// begin pushes a run that goes on, and leaves it once its program is at work.
func (m *machine) begin() {
	m.t.Helper()
	before := len(m.ran())
	m.tasks.Await = time.Nanosecond
	defer func() { m.tasks.Await = time.Minute }()
	m.mustPush()
	m.until("the program to be at work", func() bool { return len(m.ran()) > before })
}

func (m *machine) until(what string, isSo func() bool) {
	m.t.Helper()
	for deadline := time.Now().Add(time.Minute); !isSo(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			m.t.Fatalf("waited in vain for %s", what)
		}
	}
}

func (m *machine) turnDown() {
	m.addons = []proto.Message{&intentpb.Turndown{Reason: "not needed"}}
}
