package tasks

import (
	"context"
	"sync"
	"time"

	"lehr.dev/plugins/task/runrecord"
	"lehr.dev/sdk/serve"
)

const (
	// endInterval is how often it is asked whether a keeper is gone, while one is at work.
	endInterval = 250 * time.Millisecond
	// longestRest bounds how long nothing is compared with the clock, which may be set.
	longestRest = 15 * time.Second
)

// wakes knows when each task is to be looked at again: when its keeper is gone, and when its
// time has come.
type wakes struct {
	mutex sync.Mutex
	tasks map[identity]wake
	// changed is readable when tasks has changed.
	changed chan struct{}
}

type identity struct {
	partition serve.PartitionID
	asset     serve.AssetID
}

// wake is what is waited for.
type wake struct {
	folder runrecord.Folder
	// isLive: a keeper was at work.
	isLive bool
	// at is when the task is to be looked at; zero: at no time.
	at time.Time
}

func newWakes() *wakes {
	return &wakes{tasks: map[identity]wake{}, changed: make(chan struct{}, 1)}
}

// set has a task looked at when what is waited for comes; nothing is, of one without a wait.
func (w *wakes) set(id identity, wait wake) {
	w.mutex.Lock()
	if wait.isLive || !wait.at.IsZero() {
		w.tasks[id] = wait
	} else {
		delete(w.tasks, id)
	}
	w.mutex.Unlock()
	select {
	case w.changed <- struct{}{}:
	default:
	}
}

// Watch hints what is to be looked at.
func (w *wakes) Watch(ctx context.Context, hint func(serve.PartitionID, serve.AssetID)) error {
	for ctx.Err() == nil {
		rest := w.hintDue(time.Now(), hint)
		timer := time.NewTimer(rest)
		select {
		case <-ctx.Done():
		case <-w.changed:
		case <-timer.C:
		}
		timer.Stop()
	}
	return nil
}

// hintDue hints what is due, once, and returns how long nothing else is.
func (w *wakes) hintDue(now time.Time, hint func(serve.PartitionID, serve.AssetID)) time.Duration {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	rest := longestRest
	for id, wait := range w.tasks {
		isDue := !wait.at.IsZero() && !now.Before(wait.at)
		if wait.isLive && !isDue {
			record, err := wait.folder.Load()
			isDue = err != nil || !record.IsLive
		}
		if isDue {
			hint(id.partition, id.asset)
			delete(w.tasks, id)
			continue
		}
		if wait.isLive {
			rest = min(rest, endInterval)
		}
		if !wait.at.IsZero() {
			rest = min(rest, max(wait.at.Sub(now), time.Millisecond))
		}
	}
	return rest
}
