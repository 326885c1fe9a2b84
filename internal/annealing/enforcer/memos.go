package enforcer

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/ground/loop"
	"lehr.dev/internal/pluginhost/plugin"
	"lehr.dev/internal/store"
)

// memoBook reads and keeps memos. It remembers which assets may have some, and never lacks
// one that has, so that looks at the others, nearly all, ask the store nothing. Many
// goroutines use it.
type memoBook struct {
	store     Stores
	partition intent.PartitionID
	runtime   loop.Runtime

	mutex  sync.Mutex
	assets map[intent.AssetID]bool
}

func newMemoBook(o Options) *memoBook {
	return &memoBook{store: o.Store, partition: o.Partition, runtime: o.Runtime, assets: map[intent.AssetID]bool{}}
}

func (m *memoBook) add(assets ...intent.AssetID) {
	m.mutex.Lock()
	defer m.mutex.Unlock()
	for _, asset := range assets {
		m.assets[asset] = true
	}
}

// mayHave lists those of the assets that may have memos.
func (m *memoBook) mayHave(assets []intent.AssetID) (some []intent.AssetID) {
	m.mutex.Lock()
	defer m.mutex.Unlock()
	for _, asset := range assets {
		if m.assets[asset] {
			some = append(some, asset)
		}
	}
	return some
}

// load finds out which assets have memos. Nobody else sets any while the lease is held.
func (m *memoBook) load(ctx context.Context) error {
	for page := (intent.AssetID)(""); ; {
		assets, err := m.store.MemoAssets(ctx, m.partition, page, pageSize)
		if err != nil {
			return err
		}
		m.add(assets...)
		if len(assets) < pageSize {
			return nil
		}
		page = assets[len(assets)-1]
	}
}

// save keeps a memo of a push, and returns when it is durable.
func (m *memoBook) save(ctx context.Context, lease store.Lease, asset intent.AssetID, push intent.PushID, memo intent.Memo) error {
	m.add(asset)
	return m.store.SaveMemo(ctx, lease, push, memo)
}

// read returns what the store has of the assets.
func (m *memoBook) read(ctx context.Context, assets ...intent.AssetID) (map[intent.AssetID][]intent.Memo, error) {
	some := m.mayHave(assets)
	if len(some) == 0 {
		return nil, nil
	}
	memos, err := m.store.Memos(ctx, m.partition, some)
	if err != nil {
		return nil, fmt.Errorf("what its plugin has Lehr remember of it cannot be read: %w", err)
	}
	return memos, nil
}

// diff asks the plugin about assets, and hands it their memos. Those whose memos cannot be
// read are unknown, and it is not asked about them: it would act as if it had set none.
func (m *memoBook) diff(ctx context.Context, asked plugin.Plugin, request plugin.DiffRequest) ([]intent.Difference, error) {
	memos, err := m.read(ctx, request.Assets...)
	if err == nil {
		request.Memos = memos
		return asked.Diff(ctx, request)
	}
	unread := m.mayHave(request.Assets)
	var unknown []intent.Difference
	for _, id := range unread {
		unknown = append(unknown, intent.Difference{Asset: id, Incarnation: request.Incarnation, Outcome: intent.Unknown, Reason: err.Error(), At: m.runtime.Now()})
	}
	request.Assets = slices.DeleteFunc(slices.Clone(request.Assets), func(id intent.AssetID) bool { return slices.Contains(unread, id) })
	if len(request.Assets) == 0 {
		return unknown, nil
	}
	differences, err := asked.Diff(ctx, request)
	return append(differences, unknown...), err
}

// push begins a push with the memos of its asset. Where they cannot be read, nothing begins.
func (m *memoBook) push(ctx context.Context, order plugin.Push, begin func(plugin.Push) plugin.PushResult) plugin.PushResult {
	memos, err := m.read(ctx, order.Asset)
	if err != nil {
		return plugin.PushResult{Ending: plugin.Failed, Retryable: true, Reason: "not begun: " + err.Error()}
	}
	order.Memos = memos[order.Asset]
	return begin(order)
}
