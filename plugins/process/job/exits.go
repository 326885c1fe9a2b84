package job

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"

	"golang.org/x/sys/unix"

	"lehr.dev/sdk/serve"
)

// mostWatched is how many processes are watched at once, each by a descriptor. The exit of
// any other is found by the next look at its job.
const mostWatched = 4096

// Exits watches the processes of tasks that were seen, and hints their jobs when one ends.
// It sees nothing else: neither that a task becomes unhealthy, nor that somebody starts
// one. So types that it is for declare no cadence, and are looked at each sweep as well.
type Exits struct {
	mutex   sync.Mutex
	watched map[life]*watchedLife
	// hint is nil while nobody wants hints.
	hint func(serve.PartitionID, serve.AssetID)
	// problem is why a process could not be watched, until it is told.
	problem error
	failed  chan struct{}
}

// NewExits returns one that watches nothing yet.
func NewExits() *Exits {
	return &Exits{watched: map[life]*watchedLife{}, failed: make(chan struct{}, 1)}
}

// life is a process and no other.
type life struct {
	pid     int
	started uint64
}

// owner is whom a process belongs to.
type owner struct {
	partition serve.PartitionID
	asset     serve.AssetID
}

// watchedLife is a process that is watched, for its owners.
type watchedLife struct {
	owners map[owner]bool
}

// Watch implements serve.Watcher. It ends with an error when a process cannot be watched
// any more, but for being one too many.
func (e *Exits) Watch(ctx context.Context, hint func(serve.PartitionID, serve.AssetID)) error {
	if e == nil {
		return errors.New("no exits are watched here")
	}
	e.mutex.Lock()
	e.hint, e.problem = hint, nil
	e.mutex.Unlock()
	defer func() {
		e.mutex.Lock()
		defer e.mutex.Unlock()
		e.hint = nil
	}()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-e.failed:
		e.mutex.Lock()
		defer e.mutex.Unlock()
		return e.problem
	}
}

// watch has the exit of each process of a job hinted as that of its asset.
func (e *Exits) watch(partition serve.PartitionID, asset serve.AssetID, current sighting) {
	if e == nil {
		return
	}
	for _, task := range current.tasks {
		for _, p := range task.processes {
			e.watchProcess(owner{partition, asset}, p)
		}
	}
}

func (e *Exits) watchProcess(o owner, p process) {
	e.mutex.Lock()
	defer e.mutex.Unlock()
	key := life{p.pid, p.started}
	if w := e.watched[key]; w != nil {
		w.owners[o] = true
		return
	}
	if len(e.watched) >= mostWatched {
		return
	}
	file, err := exitFile(p)
	switch {
	case errors.Is(err, errNoTask):
		e.tell(o) // It ended after it was seen.
		return
	case err != nil:
		e.fail(err)
		return
	}
	w := &watchedLife{owners: map[owner]bool{o: true}}
	e.watched[key] = w
	go e.await(key, w, file)
}

// exitFile is readable when the process has ended; errNoTask: it has ended.
func exitFile(p process) (*os.File, error) {
	pidfd, err := unix.PidfdOpen(p.pid, unix.PIDFD_NONBLOCK)
	if errors.Is(err, unix.ESRCH) {
		return nil, errNoTask
	}
	if err != nil {
		return nil, fmt.Errorf("watching process %d: %w", p.pid, err)
	}
	// The number was read before the descriptor was taken.
	if now, err := readStat(p.pid); err != nil || now.started != p.started {
		unix.Close(pidfd)
		return nil, errNoTask
	}
	return os.NewFile(uintptr(pidfd), fmt.Sprintf("process %d", p.pid)), nil
}

// await waits for the end of a process, without a thread of its own.
func (e *Exits) await(key life, w *watchedLife, file *os.File) {
	defer file.Close()
	conn, err := file.SyscallConn()
	if err == nil {
		err = conn.Read(func(fd uintptr) bool {
			n, _ := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, 0)
			return n > 0
		})
	}
	e.mutex.Lock()
	defer e.mutex.Unlock()
	delete(e.watched, key)
	if err != nil {
		e.fail(fmt.Errorf("watching process %d: %w", key.pid, err))
		return
	}
	for o := range w.owners {
		e.tell(o)
	}
}

// tell hints an asset, if anybody wants hints.
func (e *Exits) tell(o owner) {
	if e.hint != nil {
		e.hint(o.partition, o.asset)
	}
}

// fail ends Watch.
func (e *Exits) fail(err error) {
	e.problem = err
	select {
	case e.failed <- struct{}{}:
	default:
	}
}
