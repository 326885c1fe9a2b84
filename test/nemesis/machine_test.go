package nemesis

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// sinceBoot is the one clock of a history. It counts suspensions.
func sinceBoot() time.Duration {
	var now unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &now); err != nil {
		panic("reading CLOCK_BOOTTIME: " + err.Error())
	}
	return time.Duration(now.Nano())
}

// place is a thread in a network of its own, in which nothing else is: what
// listens, dials or is started there reaches only what does likewise.
type place struct {
	work chan func()
	// alone: the kernel let it have a network of its own.
	alone bool
}

func newPlace() *place {
	p := &place{work: make(chan func())}
	ready := make(chan struct{})
	go func() {
		// Never unlocked, so that the thread ends with the goroutine. Children
		// die with the thread that started them.
		runtime.LockOSThread()
		p.alone = isolate() == nil
		close(ready)
		for f := range p.work {
			f()
		}
	}()
	<-ready
	return p
}

// isolate gives this thread a network of its own, with loopback.
func isolate() error {
	if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
		return err
	}
	socket, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM, 0)
	if err != nil {
		return err
	}
	defer unix.Close(socket)
	request, err := unix.NewIfreq("lo")
	if err != nil {
		return err
	}
	request.SetUint16(unix.IFF_UP | unix.IFF_RUNNING)
	return unix.IoctlIfreq(socket, unix.SIOCSIFFLAGS, request)
}

// do runs a function there.
func (p *place) do(f func()) {
	done := make(chan struct{})
	p.work <- func() {
		defer close(done)
		f()
	}
	<-done
}

func (p *place) close() { close(p.work) }

// volume is a small file system of its own, which can be filled.
type volume struct{ path string }

// newVolume mounts one, if that is permitted.
func newVolume(path string, bytes int64) (*volume, error) {
	err := unix.Mount("nemesis", path, "tmpfs", 0, fmt.Sprintf("size=%d,mode=755", bytes))
	return &volume{path}, err
}

func (v *volume) close() error { return unix.Unmount(v.path, unix.MNT_DETACH) }

// fill takes all space that is left.
func (v *volume) fill() error {
	file, err := unix.Open(v.path+"/filler", unix.O_CREAT|unix.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer unix.Close(file)
	for chunk := make([]byte, 64<<10); ; {
		if _, err := unix.Write(file, chunk); errors.Is(err, unix.ENOSPC) {
			if len(chunk) == 1 {
				return nil
			}
			chunk = chunk[:len(chunk)/2]
		} else if err != nil {
			return err
		}
	}
}

func (v *volume) free() error { return unix.Unlink(v.path + "/filler") }

// vigil notices when the machine itself stands still: what takes long then is
// not of Lehr's making.
type vigil struct {
	mutex  sync.Mutex
	stalls []stall
	ended  chan struct{}
	group  sync.WaitGroup
}

// stall is time in which a thread that wanted to run did not.
type stall struct{ from, to time.Duration }

// Each of a few threads wakes every beat; one that wakes much later was kept
// from it. What is usual under load does not count.
const (
	beat      = 10 * time.Millisecond
	unstalled = 100 * time.Millisecond
)

func newVigil() *vigil {
	v := &vigil{ended: make(chan struct{})}
	for range runtime.NumCPU() {
		v.group.Go(v.watch)
	}
	return v
}

func (v *vigil) watch() {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	ticker := time.NewTicker(beat)
	defer ticker.Stop()
	for before := sinceBoot(); ; {
		select {
		case <-v.ended:
			return
		case <-ticker.C:
		}
		now := sinceBoot()
		if now-before > unstalled {
			v.mutex.Lock()
			v.stalls = append(v.stalls, stall{before, now})
			v.mutex.Unlock()
		}
		before = now
	}
}

// between is how long the machine stood still within a period.
func (v *vigil) between(from, to time.Duration) (total time.Duration) {
	v.mutex.Lock()
	defer v.mutex.Unlock()
	counted := from
	for _, s := range v.stalls {
		// What two threads felt at a time is one stall.
		begin, end := max(s.from, counted), min(s.to, to)
		if end > begin {
			total += end - begin
			counted = end
		}
	}
	return total
}

// starved is for how long threads wanted to run and did not, by thread, in
// nanoseconds: the second field of schedstat, see proc(5).
func starved(pids []int) map[string]time.Duration {
	delays := map[string]time.Duration{}
	for _, pid := range pids {
		threads, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/schedstat", pid))
		for _, thread := range threads {
			text, err := os.ReadFile(thread)
			fields := strings.Fields(string(text))
			if err != nil || len(fields) < 2 {
				continue // It ended meanwhile.
			}
			delay, _ := strconv.ParseInt(fields[1], 10, 64)
			delays[thread] = time.Duration(delay)
		}
	}
	return delays
}

// starvedSince is the most that one of the threads starved for: it hides less
// than all of them did.
func starvedSince(before map[string]time.Duration, pids []int) (most time.Duration) {
	for thread, delay := range starved(pids) {
		most = max(most, delay-before[thread])
	}
	return most
}

func (v *vigil) close() {
	close(v.ended)
	v.group.Wait()
}
