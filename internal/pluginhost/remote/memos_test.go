package remote

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	pluginpb "lehr.dev/gen/lehr/plugin/v1"
	processpb "lehr.dev/gen/lehr/process/v1"
	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/pluginhost/plugin"
	"lehr.dev/sdk/serve"
)

// remember sets memos, and fails with what became of them.
func remember(ctx context.Context, change serve.Change[*processpb.Job]) error {
	count := 1
	if change.Target.Version == "apply-memo-flood" {
		count = 30
	}
	saved, refused, last := 0, 0, error(nil)
	for i := range count {
		if err := change.SaveMemo(ctx, "run/1", fmt.Appendf(nil, "started %d", i)); err == nil {
			saved++
		} else if last = err; errors.Is(err, serve.ErrMemoRefused) {
			refused++
		} else {
			return err
		}
	}
	tooLarge := change.SaveMemo(ctx, "run/1", make([]byte, 1<<20))
	return fmt.Errorf("handed %q; %d saved, %d refused (%v); then: %v", change.Asset.Memos, saved, refused, last, tooLarge)
}

// notebook keeps memos as an owner of pushes does.
type notebook struct {
	mutex sync.Mutex
	memos []intent.Memo
	fails error
}

func (n *notebook) save(_ context.Context, memo intent.Memo) error {
	n.mutex.Lock()
	defer n.mutex.Unlock()
	if n.fails == nil {
		n.memos = append(n.memos, memo)
	}
	return n.fails
}

func TestMemosAreHandedAndKept(t *testing.T) {
	t.Parallel()
	child, _, push := troubled(t, "apply-memo")
	var book notebook
	push.SaveMemo, push.Memos = book.save, []intent.Memo{{Key: "run/1", Bytes: []byte("older")}}
	result := child.Push(t.Context(), push)
	for _, words := range []string{`handed [{"run/1" "older"}]`, "1 saved, 0 refused", "1048576 bytes, at most 16384 are kept"} {
		if result.Ending != plugin.Failed || !strings.Contains(result.Reason, words) {
			t.Errorf("%+v says nothing of %q", result, words)
		}
	}
	if len(book.memos) != 1 || book.memos[0].Key != "run/1" || string(book.memos[0].Bytes) != "started 0" {
		t.Errorf("kept %q", book.memos)
	}
}

// TestAMemoThatIsNotKeptIsNotAcknowledged: the store is away, or nobody keeps any.
func TestAMemoThatIsNotKeptIsNotAcknowledged(t *testing.T) {
	t.Parallel()
	child, _, push := troubled(t, "apply-memo")
	book := notebook{fails: fault.New(fault.Unavailable, "the store is away")}
	push.SaveMemo = book.save
	if result := child.Push(t.Context(), push); !strings.Contains(result.Reason, "0 saved, 1 refused (Lehr did not keep the memo of run/1: the store is away") {
		t.Errorf("%+v", result)
	}
	push.ID, push.SaveMemo = "another", nil
	if result := child.Push(t.Context(), push); !strings.Contains(result.Reason, "0 saved, 1 refused") {
		t.Errorf("%+v", result)
	}
}

// TestAMemoIsNotWaitedForLongerThanThePermit: then the push has ended, and began nothing.
func TestAMemoIsNotWaitedForLongerThanThePermit(t *testing.T) {
	t.Parallel()
	child, _, push := troubled(t, "apply-memo")
	waits := make(chan struct{})
	var once sync.Once
	push.SaveMemo = func(ctx context.Context, _ intent.Memo) error {
		once.Do(func() { close(waits) })
		<-ctx.Done()
		return ctx.Err()
	}
	push.Permit = func(context.Context, string) error {
		select {
		case <-waits:
			return errors.New("the lease was lost")
		default:
			return nil
		}
	}
	if result := child.Push(t.Context(), push); result.Ending != plugin.Stopped || !strings.Contains(result.Reason, "the lease was lost") {
		t.Errorf("%+v", result)
	}
}

func TestMemosOfAPushAreBoundedInTime(t *testing.T) {
	t.Parallel()
	child, _, push := troubled(t, "apply-memo-flood")
	var book notebook
	push.SaveMemo = book.save
	began := time.Now()
	result := child.Push(t.Context(), push)
	allowed := memosPerSecond + int(time.Since(began).Seconds()*memosPerSecond)
	if len(book.memos) < memosPerSecond || len(book.memos) > allowed || !strings.Contains(result.Reason, "memos a second") {
		t.Errorf("%d memos were kept, at most %d are allowed: %+v", len(book.memos), allowed, result)
	}
}

func TestDiffsAreHandedMemos(t *testing.T) {
	t.Parallel()
	contents := newIntents()
	var ids []intent.AssetID
	memos := map[intent.AssetID][]intent.Memo{}
	for i := range 300 { // More than one message carries.
		payload, id := job(i), intent.AssetID(fmt.Sprintf("job/%d", i))
		payload.Version = "read-memo"
		contents.put(id, payload)
		ids = append(ids, id)
		if i > 0 {
			memos[id] = []intent.Memo{{Key: "run", Bytes: append(fmt.Appendf(nil, "of %d ", i), bytes.Repeat([]byte("x"), intent.MaxMemoBytes-10)...)}}
		}
	}
	child, _ := folderChild(t, Options{Contents: contents})
	differences, err := child.Diff(t.Context(), plugin.DiffRequest{Incarnation: head, Assets: ids, Memos: memos})
	if err != nil || len(differences) != len(ids) {
		t.Fatalf("%d differences, %v", len(differences), err)
	}
	for _, d := range differences {
		i := strings.TrimPrefix(string(d.Asset), "job/")
		want := `handed [{"run" "of ` + i + " x"
		if i == "0" {
			want = "handed []"
		}
		if !strings.HasPrefix(d.Reason, want) {
			t.Fatalf("%s says %.60q, want %q", d.Asset, d.Reason, want)
		}
	}
}

// forgetful sets memos that Lehr does not keep, and ends the push with the answers.
type forgetful struct{ liar }

func (f *forgetful) Push(stream pluginpb.PluginService_PushServer) error {
	send := func(response *pluginpb.PushResponse) { _ = stream.Send(response) }
	send(&pluginpb.PushResponse{Message: &pluginpb.PushResponse_PermitRequest{PermitRequest: &pluginpb.PermitRequest{Request: 1}}})
	request, err := stream.Recv()
	if err != nil {
		return err
	}
	push := request.GetStart().GetPush()
	set := func(push string, memo *pluginpb.SetMemo) {
		send(&pluginpb.PushResponse{Message: &pluginpb.PushResponse_Progress{Progress: &pluginpb.PushProgress{Push: push, Memo: memo}}})
	}
	set("of nobody", &pluginpb.SetMemo{Number: 1, ResourceKey: "k", Memo: []byte("of another push")})
	memos := []*pluginpb.SetMemo{
		{Number: 1, ResourceKey: "k", Memo: []byte("good")},
		{Number: 1, ResourceKey: "k", Memo: []byte("a second time")},
		{Number: 3, ResourceKey: "k", Memo: make([]byte, 1<<20)},
		{Number: 2, ResourceKey: "k", Memo: []byte("back")},
		{Number: 4, ResourceKey: strings.Repeat("k", 513), Memo: []byte("x")},
		{Number: 5, ResourceKey: "a\x1b[2Jb", Memo: []byte("x")},
		{Number: 6, Memo: []byte("x")},
		{Number: 9, ResourceKey: "k", Memo: []byte("last")},
	}
	for _, memo := range memos {
		set(push, memo)
	}
	var answers []string
	for len(answers) < len(memos) {
		request, err := stream.Recv()
		if err != nil {
			return err
		}
		if saved := request.GetMemoSaved(); saved != nil {
			answers = append(answers, fmt.Sprintf("%d of %s: %.60s", saved.Number, saved.Push, saved.Refused))
		}
	}
	send(&pluginpb.PushResponse{Message: &pluginpb.PushResponse_Result{Result: &pluginpb.PushResult{
		Push: push, Outcome: &pluginpb.PushResult_Failed{Failed: &pluginpb.PushFailed{Reason: strings.Join(answers, "; ")}},
	}}})
	_, err = stream.Recv()
	return err
}

// TestBadMemosAreRefused: each has its answer, in order, and only good ones are kept.
func TestBadMemosAreRefused(t *testing.T) {
	t.Parallel()
	contents := newIntents()
	contents.put("job/1", job(1))
	child := started(t, Options{Run: self(t, "forgetful"), Contents: contents})
	var book notebook
	result := child.Push(t.Context(), plugin.Push{
		ID: "p", Asset: "job/1", Incarnation: head, Permit: func(context.Context, string) error { return nil }, SaveMemo: book.save,
	})
	want := []string{
		"1 of p: ", "1 of p: memo 1 comes after memo 1", "3 of p: the memo of k has 1048576 bytes", "2 of p: memo 2 comes after memo 3",
		"4 of p: the resource key of a memo has 513 bytes", "5 of p: the resource key of a memo is not printable", "6 of p: a memo names no resource key", "9 of p: ",
	}
	answers := strings.Split(result.Reason, "; ")
	if len(answers) != len(want) {
		t.Fatalf("%+v", result)
	}
	for i := range want {
		if !strings.HasPrefix(answers[i], want[i]) || strings.HasSuffix(want[i], ": ") && answers[i] != want[i] {
			t.Errorf("answer %d is %q, want %q", i, answers[i], want[i])
		}
	}
	if len(book.memos) != 2 || string(book.memos[0].Bytes) != "good" || string(book.memos[1].Bytes) != "last" {
		t.Errorf("kept %q", book.memos)
	}
}
