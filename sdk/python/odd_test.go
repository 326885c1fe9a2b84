package python_test

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	pluginpb "lehr.dev/gen/lehr/plugin/v1"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/sdk/serve"
)

// What it serves, and what it answers about each kind of state.
func TestAnswersOfEachKind(t *testing.T) {
	c := startChild(t, "odd.py")
	// A store, and another name of what lies beside it.
	if err := errors.Join(os.Mkdir(filepath.Join(c.home, "folder"), 0o700), os.WriteFile(filepath.Join(c.home, "lehr.db-wal"), nil, 0o600),
		os.Link(filepath.Join(c.home, "lehr.db-wal"), filepath.Join(c.home, "link"))); err != nil {
		t.Fatal(err)
	}
	if !isServing(c.context(), c.conn) {
		t.Fatal("it does not say that it is healthy")
	}
	described, err := c.client.Describe(c.context(), &pluginpb.DescribeRequest{Protocol: 1})
	if err != nil {
		t.Fatal(err)
	}
	served := described.Types[0]
	if served.Type != "google.protobuf.Struct" || served.Cadence.AsDuration() != time.Minute || served.LongestEffect.AsDuration() != 2500*time.Millisecond || described.Instance == "" {
		t.Errorf("%+v", described)
	}
	l := c.look()
	answers := l.ask(&pluginpb.DiffBatch{
		Batch: 1, Assets: []string{"good", "pending", "old", "busy", "raises", "exits", "prints", "no text", "wrong", "forged", "store", "link", "memo", "outputs", "no json"},
		Memos: []*pluginpb.AssetMemo{{Asset: "memo", ResourceKey: "odd:memo", Memo: []byte("run 6")}, {Asset: "good", ResourceKey: "odd:memo", Memo: []byte("another's")}},
	})
	for id, want := range map[string]string{
		"busy": "429 too many requests", "raises": "KeyError", "exits": "SystemExit", "no text": "is no text", "wrong": "no State", "forged": "another digest",
		"store": "is a store of Lehr's", "link": "is a store of Lehr's",
		"no json": "the output port is no JSON",
	} {
		if got := answers[id].GetUnknown(); got == nil || !strings.Contains(got.Reason, want) {
			t.Errorf("%s is %+v, want unknown for %q", id, answers[id], want)
		}
	}
	for _, id := range []string{"good", "prints", "old"} {
		if answers[id].GetInSync() == nil || answers[id].Health.State != pluginpb.Health_STATE_UNHEALTHY || answers[id].Health.Reason != `tired\n` || len(answers[id].Current) == 0 {
			t.Errorf("%s is %+v", id, answers[id])
		}
	}
	if told := fmt.Sprint(answers["outputs"].Outputs); !strings.Contains(told, `"hosts"`) || !strings.Contains(told, `["ä", "b"]`) && !strings.Contains(told, `[\"ä\", \"b\"]`) || !strings.Contains(told, `9007199254740993`) {
		t.Errorf("outputs are %s", told)
	}
	if got := answers["busy"].GetUnknown().GetRetryAfter().AsDuration(); got != 90*time.Second {
		t.Errorf("the busy one asks for %s", got)
	}
	if age := answers["old"].Age.AsDuration(); age <= 0 || age > 30*time.Second || answers["good"].Age != nil {
		t.Errorf("ages %s and %v", age, answers["good"].Age)
	}
	pending := answers["pending"].GetPending()
	if pending.GetReason() != "a task runs" || pending.GetEnds() != "its exit" || pending.GetRetryAfter().AsDuration() != time.Minute || pending.GetSince().AsTime() != time.Unix(1700000000, 5e8).UTC() {
		t.Errorf("%+v", pending)
	}
	if changes := answers["memo"].GetDiffers().GetChanges(); len(changes) != 1 || changes[0].Reason != "remembered run 6" {
		t.Errorf("the memo has the difference %+v", changes)
	}
	// Nothing that is older than asked for; and what is held is not sent again.
	answer := l.ask(&pluginpb.DiffBatch{Batch: 2, Assets: []string{"old"}, MaxAge: durationpb.New(time.Second)})["old"]
	if answer.GetPending().GetReason() != "a listing is under way" || l.known != 1 {
		t.Errorf("%+v, and %d were known", answer, l.known)
	}
	c.end()
	if c.stdout.Len() > 0 || !strings.Contains(c.words.String(), "a word on standard output") || !strings.Contains(c.words.String(), "nobody expects it") {
		t.Errorf("standard output %q, log %q", c.stdout, c.words)
	}
}

// A memo is durable before what it is of begins; refused, nothing begins.
func TestMemos(t *testing.T) {
	for name, refused := range map[string]string{"saved": "", "refused": "its lease has gone"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := startChild(t, "odd.py")
			stream := c.begin(c.look().ask(&pluginpb.DiffBatch{Batch: 1, Assets: []string{"memo"}})["memo"])
			progress := c.receivePush(stream).GetProgress()
			if progress.GetText() != toldFirst {
				t.Errorf("progress %+v", progress)
			}
			memo := c.receivePush(stream).GetProgress().GetMemo()
			if memo.GetNumber() != 1 || memo.GetResourceKey() != "odd:memo" || string(memo.GetMemo()) != "run 7" {
				t.Fatalf("memo %+v", memo)
			}
			started := filepath.Join(c.home, "started")
			if _, err := os.Stat(started); !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("it began before the memo was saved: %v", err)
			}
			c.push(stream, &pluginpb.PushRequest{Message: &pluginpb.PushRequest_MemoSaved{MemoSaved: &pluginpb.MemoSaved{Push: "p/1-1", Number: 1, Refused: refused}}})
			result := c.receivePush(stream).GetResult()
			_, err := os.Stat(started)
			if refused == "" && (result.GetPushed() == nil || err != nil) {
				t.Errorf("%+v, %v", result, err)
			}
			if refused != "" && (result.GetFailed().GetReason() != "Lehr did not keep the memo of odd:memo: "+refused || !result.GetFailed().GetRetryable() || !errors.Is(err, fs.ErrNotExist)) {
				t.Errorf("%+v, %v", result, err)
			}
		})
	}
}

// What Lehr never keeps is refused before it is sent, in the words of Go.
func TestMemosThatAreNeverKept(t *testing.T) {
	t.Parallel()
	c := startChild(t, "odd.py")
	l := c.look()
	for name, memo := range map[string]intent.Memo{
		"memo of a megabyte":         {Key: "odd:memo of a megabyte", Bytes: make([]byte, 1<<20)},
		"memo of nothing":            {Bytes: []byte("run 7")},
		"memo that is not printable": {Key: "a\ab", Bytes: []byte("run 7")},
		"memo with a long key":       {Key: intent.ResourceKey(strings.Repeat("k", 513)), Bytes: []byte("run 7")},
	} {
		answers := l.ask(&pluginpb.DiffBatch{Batch: 1, Assets: []string{name}})
		stream := c.begin(answers[name])
		if response := c.receivePush(stream); response.GetProgress().GetText() != toldFirst {
			t.Fatalf("%s: %+v", name, response)
		}
		failed := c.receivePush(stream).GetResult().GetFailed()
		if want := fmt.Sprintf("%v: %v", serve.ErrMemoRefused, memo.Check()); failed.GetReason() != want || failed.GetRetryable() {
			t.Errorf("%s: %+v, want failed for good because %q", name, failed, want)
		}
		if _, err := os.Stat(filepath.Join(c.home, "started")); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s: it began: %v", name, err)
		}
	}
}

// What is no memo of the asset is not acted on, by a look and by a push: the same as in Go.
func TestMemosThatLehrNeverHands(t *testing.T) {
	t.Parallel()
	child := startChild(t, "odd.py")
	l := child.look()
	clean := l.ask(&pluginpb.DiffBatch{Batch: 2, Assets: []string{"memo"}})["memo"]
	one := func(asset, key string, size int) *pluginpb.AssetMemo {
		return &pluginpb.AssetMemo{Asset: asset, ResourceKey: key, Memo: make([]byte, size)}
	}
	for name, c := range map[string]struct {
		memos []*pluginpb.AssetMemo
		want  string
	}{
		"a megabyte":  {[]*pluginpb.AssetMemo{one("memo", "k", 1<<20)}, "1048576 bytes, at most 16384 are kept"},
		"no key":      {[]*pluginpb.AssetMemo{one("memo", "", 1)}, "a memo names no resource key"},
		"no text":     {[]*pluginpb.AssetMemo{one("memo", "a\nb", 1)}, "is not printable text"},
		"a long key":  {[]*pluginpb.AssetMemo{one("memo", strings.Repeat("k", 513), 1)}, "513 bytes, at most 512 are allowed"},
		"twice":       {[]*pluginpb.AssetMemo{one("memo", "k", 1), one("memo", "k", 1)}, "two memos of memo and k"},
		"empty":       {[]*pluginpb.AssetMemo{one("memo", "k", 0)}, "an empty one"},
		"five things": {[]*pluginpb.AssetMemo{one("memo", "1", 1), one("memo", "2", 1), one("memo", "3", 1), one("memo", "4", 1), one("memo", "5", 1)}, "5 memos of memo, at most 4"},
	} {
		answers := l.ask(&pluginpb.DiffBatch{Batch: 1, Assets: []string{"memo", "good"}, Memos: c.memos})
		if reason := answers["memo"].GetUnknown().GetReason(); !strings.Contains(reason, c.want) || answers["good"].GetInSync() == nil {
			t.Errorf("%s: %+v, want unknown because %q", name, answers, c.want)
		}
		failed := child.receivePush(child.begin(clean, c.memos...)).GetResult().GetFailed()
		if !strings.Contains(failed.GetReason(), c.want) || !failed.GetRetryable() {
			t.Errorf("%s: %+v, want failed because %q", name, failed, c.want)
		}
	}
	failed := child.receivePush(child.begin(clean, one("good", "k", 1))).GetResult().GetFailed()
	if !strings.Contains(failed.GetReason(), `a memo of "good" with memo`) {
		t.Errorf("another's: %+v", failed)
	}
}

// A blob comes in parts, and is verified whole.
func TestBlobs(t *testing.T) {
	t.Parallel()
	answers := startChild(t, "odd.py").look().ask(&pluginpb.DiffBatch{Batch: 1, Assets: []string{"blob", "blob that is not there", "blob that was damaged"}})
	if answers["blob"].GetHealth().GetReason() != "a blob of 2400000 bytes" {
		t.Errorf("%+v", answers["blob"])
	}
	for id, want := range map[string]string{"blob that is not there": "no asset names it", "blob that was damaged": "have another digest"} {
		if got := answers[id].GetUnknown().GetReason(); !strings.Contains(got, want) {
			t.Errorf("%s: %+v, want unknown because %q", id, answers[id], want)
		}
	}
}

// Hints name what changed, once, and a message comes at least each 5 s without any.
func TestHints(t *testing.T) {
	if testing.Short() {
		t.Skip("waits for a beat")
	}
	t.Parallel()
	c := startChild(t, "odd.py")
	stream, err := c.client.Hints(c.context(), &pluginpb.HintsRequest{})
	if err != nil {
		t.Fatal(err)
	}
	var hints []*pluginpb.Hint
	beats := 0
	for beats < 2 || len(hints) == 0 {
		message, err := stream.Recv()
		if err != nil {
			t.Fatal(err)
		}
		if len(message.Hints) == 0 {
			beats++
		}
		hints = append(hints, message.Hints...)
	}
	for _, hint := range hints {
		if hint.Partition != "p" || hint.Asset != "memo" {
			t.Errorf("%+v", hint)
		}
	}
}

// A look that never ends holds up no other, and its asset is soon unknown at once.
func TestHangHoldsUpNoOther(t *testing.T) {
	if testing.Short() {
		t.Skip("waits until a look counts as stuck")
	}
	t.Parallel()
	c := startChild(t, "odd.py")
	l := c.look()
	l.send(&pluginpb.DiffBatch{Batch: 1, Assets: []string{"hangs"}})
	if answer := l.ask(&pluginpb.DiffBatch{Batch: 2, Assets: []string{"good"}})["good"]; answer.GetInSync() == nil {
		t.Fatalf("beside one that hangs: %+v", answer)
	}
	// Each time that it is asked again it is answered, or hangs too.
	ticker := time.NewTicker(time.Second)
	defer ticker.Stop()
	for batch := uint64(3); ; batch++ {
		select {
		case answer := <-l.answers:
			if answer.Asset != "hangs" || !strings.Contains(answer.GetUnknown().GetReason(), "has not ended") {
				t.Fatalf("%+v", answer)
			}
			both := l.ask(&pluginpb.DiffBatch{Batch: batch, Assets: []string{"hangs", "good"}})
			if both["good"].GetInSync() == nil || both["hangs"].GetUnknown() == nil {
				t.Errorf("%+v", both)
			}
			return
		case <-ticker.C:
			l.send(&pluginpb.DiffBatch{Batch: batch, Assets: []string{"hangs"}})
		case <-l.stream.Context().Done():
			t.Fatal("it did not say that the look is stuck")
		}
	}
}

// A plugin that leaks ends before it takes the machine with it. Lehr starts it anew.
func TestLeakEndsTheProcess(t *testing.T) {
	t.Parallel()
	c := startChild(t, "odd.py")
	c.look().send(&pluginpb.DiffBatch{Batch: 1, Assets: []string{"leaks"}})
	select {
	case <-c.exited:
	case <-c.context().Done():
		t.Fatal("it goes on with more memory than it may have")
	}
	if words := c.words.String(); !strings.Contains(words, "MiB of memory, more than the 200") {
		t.Errorf("its last words: %s", words)
	}
}

// toldFirst is what each push of odd.py tells first: two lines, of which one is not printable.
const toldFirst = `half\x1b way` + "\nstarting"
