package conformance

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	pluginpb "lehr.dev/gen/lehr/plugin/v1"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/pluginhost/plugin"
)

// memos are what the plugin set, over all its lives. They are kept as Lehr does, and lost
// on purpose.
type memos struct {
	mutex sync.Mutex
	kept  map[string][]*pluginpb.AssetMemo
	// set: there ever was one. lost: none is handed.
	set, lost bool
}

// keep answers a memo of the asset.
func (m *memos) keep(asset, push string, set *pluginpb.SetMemo) *pluginpb.MemoSaved {
	saved := &pluginpb.MemoSaved{Push: push, Number: set.Number}
	memo := intent.Memo{Key: intent.ResourceKey(set.ResourceKey), Bytes: set.Memo}
	if err := memo.Check(); err != nil {
		saved.Refused = err.Error()
		return saved
	}
	m.mutex.Lock()
	defer m.mutex.Unlock()
	m.set = true
	if m.kept == nil {
		m.kept = map[string][]*pluginpb.AssetMemo{}
	}
	list := slices.DeleteFunc(m.kept[asset], func(one *pluginpb.AssetMemo) bool { return one.ResourceKey == set.ResourceKey })
	if len(set.Memo) > 0 {
		list = append(list, &pluginpb.AssetMemo{Asset: asset, ResourceKey: set.ResourceKey, Memo: set.Memo})
	}
	m.kept[asset] = list[max(0, len(list)-intent.MaxMemosPerAsset):]
	return saved
}

// handed are those of the assets, unless they are lost.
func (m *memos) handed(assets ...string) (handed []*pluginpb.AssetMemo) {
	m.mutex.Lock()
	defer m.mutex.Unlock()
	if m.lost {
		return nil
	}
	for _, asset := range assets {
		handed = append(handed, m.kept[asset]...)
	}
	return handed
}

func (m *memos) lose(lost bool) {
	m.mutex.Lock()
	defer m.mutex.Unlock()
	m.lost = lost
}

func (m *memos) wasSet() bool {
	m.mutex.Lock()
	defer m.mutex.Unlock()
	return m.set
}

// lostMemo hands no memo while, by what the plugin says when it has them, something is
// under way. Then it must not know better: it is pending or unknown, and a push of what
// differed before begins nothing.
func (s *suite) lostMemo(ctx context.Context) error {
	if !s.memos.wasSet() {
		return skipped("it sets no memo")
	}
	baseline, err := s.pendingDifference(ctx)
	if err != nil {
		return err
	}
	end, err := s.push(ctx, baseline, nil)
	if err != nil {
		return err
	}
	if end.Ending != plugin.Pushed {
		return fmt.Errorf("the push ended as %s", end)
	}
	judged, err := s.withoutMemos(ctx, baseline)
	if err != nil {
		return err
	}
	if _, err := s.diff(ctx, baseline.Incarnation); err != nil {
		return err
	}
	if !judged {
		return skipped("with its memos it never said that something is under way (pending), so nothing could be lost in the middle")
	}
	return nil
}

// withoutMemos looks and pushes without memos. judged: all that was while something was
// under way, by what was said before and after.
func (s *suite) withoutMemos(ctx context.Context, baseline intent.Difference) (judged bool, err error) {
	first, err := s.look(ctx, s.line, baseline.Incarnation, time.Now())
	if err != nil || first.Outcome != intent.Pending {
		return false, err
	}
	s.memos.lose(true)
	lost, err := s.look(ctx, s.line, baseline.Incarnation, time.Now())
	var end ending
	if err == nil {
		end, err = s.push(ctx, baseline, nil)
	}
	s.memos.lose(false)
	if err != nil {
		return false, err
	}
	after, err := s.look(ctx, s.line, baseline.Incarnation, time.Now())
	switch {
	case err != nil || after.Outcome != intent.Pending:
		return false, err // It was over in between, and nothing is known.
	case lost.Outcome == intent.Differs:
		return false, fmt.Errorf("without its memos it says that the example differs (%s), while a change is under way: %s; it must say pending or unknown", fields(lost), first.Reason)
	case lost.Outcome == intent.InSync:
		return false, fmt.Errorf("without its memos it says that the example is in sync, while a change is under way: %s; it must say pending or unknown", first.Reason)
	case end.Ending == plugin.Pushed:
		return false, errors.New("without its memos it carried out a push while a change is under way: the change may have begun twice")
	}
	return true, nil
}
