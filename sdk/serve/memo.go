package serve

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	pluginpb "lehr.dev/gen/lehr/plugin/v1"
	"lehr.dev/internal/ground/intent"
)

// memoPatience is how long an answer to a memo is waited for, while permits come.
const memoPatience = 30 * time.Second

// ErrMemoRefused is what SaveMemo returns, wrapped, when Lehr keeps the memo for certain
// not. A push that ends with it is worth trying again soon, unless the memo is one that
// Lehr never keeps.
var ErrMemoRefused = errors.New("Lehr did not keep the memo")

// noPush is SaveMemo where nothing is pushed.
func noPush(context.Context, ResourceKey, []byte) error {
	return fmt.Errorf("%w: only a push sets memos, and nothing is pushed now", ErrMemoRefused)
}

// memoAnswers waits for what Lehr says of the memos of one push.
type memoAnswers struct {
	stream *pushStream
	push   string

	mutex sync.Mutex
	// last is the number of the last memo, waiting those that have no answer yet.
	last    uint64
	waiting map[uint64]chan *pluginpb.MemoSaved
}

func newMemoAnswers(p *pushStream, push string) *memoAnswers {
	return &memoAnswers{stream: p, push: push, waiting: map[uint64]chan *pluginpb.MemoSaved{}}
}

// save returns when Lehr has answered, or when the call, the push's permit or the stream
// has ended: push ends with both.
func (m *memoAnswers) save(call, push context.Context, memo Memo) error {
	if err := memo.Check(); err != nil {
		return fmt.Errorf("%w: %w", ErrMemoRefused, err)
	}
	if push.Err() != nil {
		return noPermit(context.Cause(push))
	}
	number, answer, err := m.send(memo)
	defer m.forget(number)
	if err != nil {
		return fmt.Errorf("setting the memo of %s: %w", memo.Key, err)
	}
	timer := time.NewTimer(memoPatience)
	defer timer.Stop()
	select {
	case saved := <-answer:
		if saved.Refused != "" {
			return Retryable(fmt.Errorf("%w of %s: %s", ErrMemoRefused, memo.Key, saved.Refused))
		}
		return nil
	case <-push.Done():
		return noPermit(context.Cause(push))
	case <-timer.C:
		return Retryable(fmt.Errorf("Lehr did not say within %s whether it keeps the memo of %s", memoPatience, memo.Key))
	case <-call.Done():
		return fmt.Errorf("waiting until the memo of %s is kept: %w", memo.Key, context.Cause(call))
	}
}

// send numbers a memo and sends it. The numbers grow in the order of sending.
func (m *memoAnswers) send(memo Memo) (number uint64, answer <-chan *pluginpb.MemoSaved, err error) {
	m.mutex.Lock()
	defer m.mutex.Unlock()
	m.last++
	waiting := make(chan *pluginpb.MemoSaved, 1)
	m.waiting[m.last] = waiting
	progress := &pluginpb.PushProgress{Push: m.push, Memo: &pluginpb.SetMemo{Number: m.last, ResourceKey: string(memo.Key), Memo: memo.Bytes}}
	return m.last, waiting, m.stream.send(&pluginpb.PushResponse{Message: &pluginpb.PushResponse_Progress{Progress: progress}})
}

func (m *memoAnswers) forget(number uint64) {
	m.mutex.Lock()
	defer m.mutex.Unlock()
	delete(m.waiting, number)
}

// take hands on an answer. One that nobody waits for, or a second one, is left alone.
func (m *memoAnswers) take(saved *pluginpb.MemoSaved) {
	m.mutex.Lock()
	defer m.mutex.Unlock()
	if waiting := m.waiting[saved.Number]; waiting != nil {
		waiting <- saved
		delete(m.waiting, saved.Number)
	}
}

func (p *pushStream) memoSaved(saved *pluginpb.MemoSaved) {
	p.mutex.Lock()
	memos := p.memos[PushID(saved.Push)]
	p.mutex.Unlock()
	if memos != nil {
		memos.take(saved)
	}
}

func memosByAsset(memos []*pluginpb.AssetMemo) map[AssetID][]*pluginpb.AssetMemo {
	byAsset := make(map[AssetID][]*pluginpb.AssetMemo, len(memos))
	for _, memo := range memos {
		byAsset[AssetID(memo.Asset)] = append(byAsset[AssetID(memo.Asset)], memo)
	}
	return byAsset
}

// decodeMemos refuses what is no memo of the asset: whoever acted without what Lehr kept
// might repeat what must happen once.
func decodeMemos(asset AssetID, encoded []*pluginpb.AssetMemo) ([]Memo, error) {
	if len(encoded) == 0 {
		return nil, nil
	}
	if len(encoded) > intent.MaxMemosPerAsset {
		return nil, fmt.Errorf("Lehr handed %d memos of %s, at most %d are kept: a defect of Lehr", len(encoded), asset, intent.MaxMemosPerAsset)
	}
	memos := make([]Memo, 0, len(encoded))
	for _, one := range encoded {
		memo := Memo{Key: ResourceKey(one.ResourceKey), Bytes: one.Memo}
		switch err := memo.Check(); {
		case one.Asset != string(asset):
			return nil, fmt.Errorf("Lehr handed a memo of %q with %s: a defect of Lehr", one.Asset, asset)
		case err != nil:
			return nil, fmt.Errorf("reading the memos of %s: %w", asset, err)
		case len(memo.Bytes) == 0 || slices.ContainsFunc(memos, func(m Memo) bool { return m.Key == memo.Key }):
			return nil, fmt.Errorf("Lehr handed two memos of %s and %s, or an empty one: a defect of Lehr", asset, memo.Key)
		}
		memos = append(memos, memo)
	}
	slices.SortFunc(memos, func(a, b Memo) int { return cmp.Compare(a.Key, b.Key) })
	return memos, nil
}
