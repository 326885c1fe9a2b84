package world

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/pluginhost/plugin"
)

// A push of several steps is a run, which begins at most once. Its plugin has Lehr keep
// the run's number, and begins once that is kept. Production tells of a run only once it
// is long over.

// runLasts is how long after its begin production does not tell of a run.
const runLasts = 2 * time.Minute

// Run is one that a push has begun.
type Run struct {
	Asset  intent.AssetID
	Key    intent.ResourceKey
	Push   intent.PushID
	Number uint64
	At     time.Time
}

// runPlace is where runs are numbered.
type runPlace struct {
	asset intent.AssetID
	key   intent.ResourceKey
}

// memoBytes say which run of an asset is begun.
func memoBytes(asset intent.AssetID, number uint64) []byte {
	return fmt.Appendf(nil, "%s %d", asset, number)
}

// MemoAsset is the asset that a memo's bytes name.
func MemoAsset(bytes []byte) intent.AssetID {
	asset, _, _ := strings.Cut(string(bytes), " ")
	return intent.AssetID(asset)
}

// runIn is the number of the run that the memo of a resource tells of; not ok: there is
// none.
func runIn(memos []intent.Memo, key intent.ResourceKey) (number uint64, ok bool) {
	for _, memo := range memos {
		if memo.Key == key {
			_, text, _ := strings.Cut(string(memo.Bytes), " ")
			number, err := strconv.ParseUint(text, 10, 64)
			return number, err == nil
		}
	}
	return 0, false
}

// lostRun says why a plugin cannot tell and must not act: a run was begun lately, and
// what Lehr kept of it is lost; empty: all is known.
func (w *World) lostRun(asset intent.AssetID, key intent.ResourceKey, memos []intent.Memo) string {
	last, begun := w.runs[runPlace{asset, key}]
	if _, ok := runIn(memos, key); ok || !begun || w.now().Sub(last.At) >= runLasts {
		return ""
	}
	return "a run was begun on " + string(key) + ", and what was kept of it is lost"
}

// beginRun begins the run of a push; not ok: it must not, and the push ends so.
func (c *carried) beginRun(wanted *wanted) (result plugin.PushResult, ok bool) {
	w, push := c.life.world, c.start.push
	failed := func(reason string) (plugin.PushResult, bool) {
		return plugin.PushResult{Ending: plugin.Failed, Reason: reason, Retryable: true}, false
	}
	if lost := w.lostRun(wanted.ID, wanted.key, push.Memos); lost != "" {
		return failed(lost)
	}
	place := runPlace{wanted.ID, wanted.key}
	number, known := runIn(push.Memos, wanted.key)
	if !known {
		number = w.runs[place].Number // It is long over, so production tells.
	}
	number++
	if refused, stopped := c.remember(intent.Memo{Key: wanted.key, Bytes: memoBytes(wanted.ID, number)}); refused != "" {
		if stopped {
			return plugin.PushResult{Ending: plugin.Stopped, Reason: refused}, false
		}
		return failed(refused)
	}
	if refused := c.permit(); refused != "" {
		return plugin.PushResult{Ending: plugin.Stopped, Reason: refused}, false
	}
	run := Run{Asset: wanted.ID, Key: wanted.key, Push: push.ID, Number: number, At: w.now()}
	w.runs[place] = run
	if w.OnRun != nil {
		w.OnRun(run)
	}
	return plugin.PushResult{}, true
}

// memoAnswer is what Lehr says of a memo.
type memoAnswer struct{ err error }

// remember returns "" once a memo is kept, else why it may not be. stopped: there is no
// permit any more.
func (c *carried) remember(memo intent.Memo) (refused string, stopped bool) {
	l := c.life
	c.kept = nil
	const patience = 30 * time.Second
	deadline := l.world.now().Add(patience)
	l.out.send(func() { l.saveMemo(c.start.push.ID, memo) })
	for {
		now := l.world.now()
		end := c.until
		if c.ignores || end.After(deadline) {
			end = deadline
		}
		switch {
		case c.kept != nil && c.kept.err != nil:
			return "the memo was not kept: " + c.kept.err.Error(), false
		case c.kept != nil:
			return "", false
		case c.refused != "" && !c.ignores:
			return c.refused, true
		case end.Sub(now) < permitTick:
			return "the permit ran out, or much time passed, before a memo was kept", true
		}
		_ = l.process.Wait(context.Background(), end.Sub(now)-permitTick+time.Millisecond, c.changed)
	}
}

// saveMemo has the owner of a push keep a memo, and answers once it is kept, and not
// before.
func (l *life) saveMemo(id intent.PushID, memo intent.Memo) {
	w, open := l.world, l.find(id)
	if open == nil {
		return
	}
	const often = 24
	refuses, loses, late := w.memoFault(often), w.memoFault(often), w.memoFault(often)
	var delay time.Duration
	if late {
		const most = 25 * time.Second
		delay = time.Duration(w.memoFaults.Int64N(int64(most)))
	}
	l.child.replica.Go("memo", func() {
		ctx := open.ctx
		if late { // It is on its way to the store, and whatever becomes of the push does not end it.
			ctx = context.WithoutCancel(ctx)
			w.process.Scheduler().Note("a memo of " + string(open.push.Asset) + " is late")
			_ = l.child.replica.Wait(ctx, delay, nil)
		}
		var answer error
		switch {
		case refuses:
			answer = fault.New(fault.Exhausted, "the push sets too many memos")
		case open.push.SaveMemo == nil:
			answer = fault.New(fault.Invalid, "no memo is kept of this push")
		default:
			answer = open.push.SaveMemo(ctx, memo)
		}
		if answer == nil && w.OnMemoSaved != nil {
			w.OnMemoSaved(open.push.Asset, memo)
		}
		if loses {
			w.process.Scheduler().Note("the answer to a memo of " + string(open.push.Asset) + " is lost")
			return
		}
		l.in.send(func() { l.memoAnswered(id, memoAnswer{answer}) })
	})
}

func (l *life) memoAnswered(id intent.PushID, answer memoAnswer) {
	for _, c := range l.carrying {
		if c.start.push.ID == id && !c.over {
			c.kept = &answer
			notify(c.changed)
		}
	}
}

// memoFault reports, once in so often, that something goes wrong with a memo.
func (w *World) memoFault(often int) bool {
	return w.memoFaults != nil && w.memoFaults.IntN(often) == 0
}

// handed are the memos that a plugin gets: what Lehr hands it, unless they are lost.
func (c *child) handed(ctx context.Context, asset intent.AssetID, memos []intent.Memo, push intent.PushID) []intent.Memo {
	w := c.world
	if w.OnMemos != nil && ctx.Err() == nil {
		w.OnMemos(asset, memos, push, c.replica.Name())
	}
	const often = 48
	if len(memos) > 0 && w.memoFault(often) {
		w.process.Scheduler().Note("the memos of " + string(asset) + " are lost")
		if push != "" && w.OnMemosLost != nil {
			w.OnMemosLost(asset)
		}
		return nil
	}
	return memos
}
