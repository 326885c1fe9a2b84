package enforcer

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/pluginhost/plugin"
	"lehr.dev/internal/store"
)

// remembering is a push that keeps a memo, and says what it was handed.
type remembering struct {
	mutex  sync.Mutex
	handed []string
	errs   []error
}

func (r *remembering) note(push plugin.Push, err error) {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	r.handed, r.errs = append(r.handed, fmt.Sprintf("%s", push.Memos)), append(r.errs, err)
}

func (r *remembering) all() []string {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	return slices.Clone(r.handed)
}

func started(text string) intent.Memo { return intent.Memo{Key: "run", Bytes: []byte(text)} }

// TestMemosAreHandedWhateverThePlan: to the pushes and looks that come after, also of other
// content, and to those of no other asset.
func TestMemosAreHandedWhateverThePlan(t *testing.T) {
	simulate(t, func(w *world) {
		var told remembering
		w.production.does("web", behaviour{push: func(ctx context.Context, apply func(), push plugin.Push) plugin.PushResult {
			err := push.SaveMemo(ctx, started(fmt.Sprintf("run %d", len(told.all())+1)))
			told.note(push, err)
			if len(told.all()) == 1 {
				return plugin.PushResult{Ending: plugin.Failed, Reason: "interrupted", Retryable: true}
			}
			apply()
			return plugin.PushResult{Ending: plugin.Pushed}
		}})
		w.publish(web, db)
		w.inSync(web, db)
		w.publish(webV2)
		w.inSync(webV2)
		if got := strings.Join(told.all(), " "); got != `[] [{run run 1}] [{run run 2}]` {
			t.Errorf("handed to pushes: %s", got)
		}
		for i, err := range told.errs {
			if err != nil {
				t.Errorf("memo %d: %v", i, err)
			}
		}
		if got := fmt.Sprintf("%s", w.production.memos()); got != `map[web:[{run run 3}]]` {
			t.Errorf("the last looks were handed %s", got)
		}
	})
}

// TestAFailoverHandsMemosOn: a push that was cut off left one.
func TestAFailoverHandsMemosOn(t *testing.T) {
	simulate(t, func(w *world) {
		var told remembering
		w.production.does("web", behaviour{push: func(ctx context.Context, apply func(), push plugin.Push) plugin.PushResult {
			if len(push.Memos) == 0 {
				told.note(push, push.SaveMemo(ctx, started("run 1")))
				<-ctx.Done()
				return plugin.PushResult{Ending: plugin.InDoubt}
			}
			told.note(push, nil)
			apply()
			return plugin.PushResult{Ending: plugin.Pushed}
		}})
		w.publish(web)
		w.eventually("a push is under way", func() bool { return len(told.all()) == 1 })
		if told.errs[0] != nil {
			t.Fatal(told.errs[0])
		}
		old := w.lease
		w.stop()
		w.start()
		w.inSync(web)
		if got := strings.Join(told.all(), " "); got != `[] [{run run 1}]` {
			t.Errorf("handed to pushes: %s", got)
		}
		if err := w.store.SaveMemo(w.ctx, old, "shop/1-1", started("late")); !fault.Is(err, fault.Conflict) {
			t.Errorf("the old holder kept a memo: %v", err)
		}
	})
}

// storeWithoutMemos is a store whose memos cannot be read, or kept, while it fails.
type storeWithoutMemos struct {
	Stores
	mutex sync.Mutex
	fails error
}

func (u *storeWithoutMemos) set(err error) {
	u.mutex.Lock()
	defer u.mutex.Unlock()
	u.fails = err
}

func (u *storeWithoutMemos) failure() error {
	u.mutex.Lock()
	defer u.mutex.Unlock()
	return u.fails
}

func (u *storeWithoutMemos) Memos(ctx context.Context, partition intent.PartitionID, assets []intent.AssetID) (map[intent.AssetID][]intent.Memo, error) {
	if err := u.failure(); err != nil {
		return nil, err
	}
	return u.Stores.Memos(ctx, partition, assets)
}

func (u *storeWithoutMemos) SaveMemo(ctx context.Context, lease store.Lease, push intent.PushID, memo intent.Memo) error {
	if err := u.failure(); err != nil {
		return err
	}
	return u.Stores.SaveMemo(ctx, lease, push, memo)
}

// TestWithoutItsMemosAnAssetIsUnknown: those that never had any are looked at, and pushed.
func TestWithoutItsMemosAnAssetIsUnknown(t *testing.T) {
	simulate(t, func(w *world) {
		w.stop()
		flaky := &storeWithoutMemos{Stores: w.store}
		w.stores = flaky
		w.start()
		w.production.does("web", behaviour{push: func(ctx context.Context, apply func(), push plugin.Push) plugin.PushResult {
			if err := push.SaveMemo(ctx, started("run 1")); err != nil {
				return plugin.PushResult{Ending: plugin.Failed, Reason: err.Error()}
			}
			apply()
			return plugin.PushResult{Ending: plugin.Pushed}
		}})
		w.publish(web, db)
		w.inSync(web, db)
		pushed := w.production.pushes("web")
		flaky.set(fault.New(fault.Unavailable, "the store is away"))
		w.publish(webV2, dbV2)
		w.inSync(dbV2)
		if waiting := w.waitsOn("web", intent.WaitUnknown); !strings.Contains(waiting.Reason, "cannot be read") || !strings.Contains(waiting.Reason, "the store is away") {
			t.Errorf("it waits: %q", waiting.Reason)
		}
		w.pass(10 * time.Second)
		if got := w.production.pushes("web"); got != pushed {
			t.Errorf("it was pushed %d times without its memos", got-pushed)
		}
		flaky.set(nil)
		w.inSync(webV2)
	})
}
