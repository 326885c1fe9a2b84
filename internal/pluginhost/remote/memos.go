package remote

import (
	"sync"
	"time"

	pluginpb "lehr.dev/gen/lehr/plugin/v1"
	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/pluginhost/plugin"
)

const (
	// memosPerSecond bounds the memos of one push, for each is a commit; so many may come
	// at once.
	memosPerSecond = 10
	// maxMemosWaiting bounds those of one push that wait for their answer.
	maxMemosWaiting = 4 * memosPerSecond
	// maxMemoBatch bounds the memos that one batch of diffs carries, in bytes.
	maxMemoBatch = maxMessage / 2
)

// memoQueue holds the memos of one push that wait for their answer, in the order in which
// they came. One is saved at a time.
type memoQueue struct {
	mutex   sync.Mutex
	waiting []heldMemo
	saving  bool
	// last is the highest number so far.
	last uint64
	// allowance is how many more may come now, as of then.
	allowance float64
	asOf      time.Time
}

// heldMemo waits to be saved; refused, where it is not empty, to be refused.
type heldMemo struct {
	number  uint64
	memo    intent.Memo
	refused string
}

// add takes a memo in. start: nobody works on the queue, so the caller has to. full: it
// is not answered at all.
func (q *memoQueue) add(set *pluginpb.SetMemo, now time.Time) (start, full bool) {
	q.mutex.Lock()
	defer q.mutex.Unlock()
	if len(q.waiting) >= maxMemosWaiting {
		return false, true
	}
	h := heldMemo{number: set.Number, memo: intent.Memo{Key: intent.ResourceKey(set.ResourceKey), Bytes: set.Memo}}
	if err := q.admit(h, now); err != nil {
		h.memo, h.refused = intent.Memo{}, printable(err.Error(), maxReason)
	}
	q.last = max(q.last, set.Number)
	q.waiting = append(q.waiting, h)
	start = !q.saving
	q.saving = true
	return start, false
}

// admit says why a memo is not to be saved.
func (q *memoQueue) admit(h heldMemo, now time.Time) error {
	if h.number <= q.last {
		return fault.New(fault.Invalid, "memo %d comes after memo %d: the numbers of a push only grow", h.number, q.last)
	}
	if err := h.memo.Check(); err != nil {
		return err
	}
	if q.asOf.IsZero() {
		q.allowance = memosPerSecond
	} else {
		q.allowance = min(memosPerSecond, q.allowance+now.Sub(q.asOf).Seconds()*memosPerSecond)
	}
	q.asOf = now
	if q.allowance < 1 {
		return fault.New(fault.Exhausted, "the push sets more than %d memos a second, and each is a commit; set fewer", memosPerSecond)
	}
	q.allowance--
	return nil
}

// next takes one out; not ok: there is none, and nobody works on the queue any more.
func (q *memoQueue) next() (h heldMemo, ok bool) {
	q.mutex.Lock()
	defer q.mutex.Unlock()
	if len(q.waiting) == 0 {
		q.saving = false
		return h, false
	}
	h = q.waiting[0]
	q.waiting = q.waiting[1:]
	return h, true
}

// takeMemo has a memo of an open push saved, and answers it.
func (l *pushLink) takeMemo(open *openPush, set *pluginpb.SetMemo) {
	start, full := open.memos.add(set, time.Now())
	switch {
	case full:
		l.session.ignore("a memo of a push of which too many wait", "push", open.push.ID)
	case start:
		go l.saveMemos(open)
	}
}

// saveMemos answers what waits. A memo is acknowledged once it is durable, and not before.
func (l *pushLink) saveMemos(open *openPush) {
	for {
		h, ok := open.memos.next()
		if !ok {
			return
		}
		if h.refused == "" && open.push.SaveMemo == nil {
			h.refused = "no memo is kept of this push"
		}
		if h.refused == "" {
			if err := open.push.SaveMemo(open.ctx, h.memo); err != nil {
				h.refused = printable(err.Error(), maxReason)
			}
		}
		l.answerMemo(open, h.number, h.refused)
	}
}

func (l *pushLink) answerMemo(open *openPush, number uint64, refused string) {
	saved := &pluginpb.MemoSaved{Push: string(open.push.ID), Number: number, Refused: refused}
	select {
	case l.queue <- &pluginpb.PushRequest{Message: &pluginpb.PushRequest_MemoSaved{MemoSaved: saved}}:
	case <-l.dead:
	case <-time.After(plugin.PermitPeriod):
		// The plugin does not read, and its permit is over: it begins nothing more.
	}
}

func encodeMemos(asset intent.AssetID, memos []intent.Memo) (encoded []*pluginpb.AssetMemo) {
	for _, memo := range memos {
		encoded = append(encoded, &pluginpb.AssetMemo{Asset: string(asset), ResourceKey: string(memo.Key), Memo: memo.Bytes})
	}
	return encoded
}

// splitByMemos halves a question whose memos are more than one message may carry.
func splitByMemos(wanted plugin.DiffRequest) (first, rest plugin.DiffRequest, ok bool) {
	size := 0
	for _, asset := range wanted.Assets {
		for _, memo := range wanted.Memos[asset] {
			size += len(memo.Key) + len(memo.Bytes)
		}
	}
	half := len(wanted.Assets) / 2
	if size <= maxMemoBatch || half == 0 {
		return first, rest, false
	}
	first, rest = wanted, wanted
	first.Assets, rest.Assets = wanted.Assets[:half], wanted.Assets[half:]
	return first, rest, true
}
