package job

import (
	"context"
	"errors"
	"fmt"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// handle holds one process, so that its number cannot come to mean another
// while it is signalled and waited for.
type handle struct {
	process
	pidfd int
}

// hold takes hold of the very process that was seen; errNoTask when that one
// is gone, whoever has its number now.
func hold(p process) (*handle, error) {
	pidfd, err := unix.PidfdOpen(p.pid, 0)
	if errors.Is(err, unix.ESRCH) {
		return nil, errNoTask
	}
	if err != nil {
		return nil, fmt.Errorf("taking hold of process %d: %w", p.pid, err)
	}
	h := &handle{process: p, pidfd: pidfd}
	// The number was read before the descriptor was taken.
	now, err := readProcess(p.pid)
	if err != nil || now.started != p.started || now.identity != p.identity {
		h.close()
		return nil, errNoTask
	}
	return h, nil
}

func (h *handle) close() { unix.Close(h.pidfd) }

// signal is nil when the process is gone already.
func (h *handle) signal(signal syscall.Signal) error {
	err := unix.PidfdSendSignal(h.pidfd, signal, nil, 0)
	if err != nil && !errors.Is(err, unix.ESRCH) {
		return fmt.Errorf("sending %v to process %d: %w", signal, h.pid, err)
	}
	return nil
}

// ended waits until the process has ended, at most d, and reports whether it
// has.
func (h *handle) ended(ctx context.Context, d time.Duration) (bool, error) {
	const slice = 20 * time.Millisecond
	for deadline := time.Now().Add(d); ; {
		left := min(time.Until(deadline), slice)
		n, err := unix.Poll([]unix.PollFd{{Fd: int32(h.pidfd), Events: unix.POLLIN}}, int(max(left, 0)/time.Millisecond))
		switch {
		case err != nil && !errors.Is(err, unix.EINTR):
			return false, fmt.Errorf("waiting for process %d to end: %w", h.pid, err)
		case n > 0:
			return true, nil
		case ctx.Err() != nil:
			return false, ctx.Err()
		case left <= 0:
			return false, nil
		}
	}
}

// effect is asked before each change of production; an error ends the push.
type effect func(context.Context) error

// stop ends a task's process, then what remains of its parts, each politely:
// the server behind a wrapping script drains too.
func stop(ctx context.Context, p process, grace time.Duration, mayAct effect) error {
	for _, each := range append([]process{p}, p.parts...) {
		if err := end(ctx, each, grace, mayAct); err != nil {
			return err
		}
	}
	return nil
}

// end sends SIGTERM, so that the process drains, and waits until it has
// ended; one that outlives the grace is killed.
func end(ctx context.Context, p process, grace time.Duration, mayAct effect) error {
	h, err := hold(p)
	if errors.Is(err, errNoTask) {
		return nil
	}
	if err != nil {
		return err
	}
	defer h.close()
	for _, step := range []struct {
		signal syscall.Signal
		wait   time.Duration
	}{{syscall.SIGTERM, grace}, {syscall.SIGKILL, 10 * time.Second}} {
		if err := mayAct(ctx); err != nil {
			return err
		}
		if err := h.signal(step.signal); err != nil {
			return err
		}
		if ended, err := h.ended(ctx, step.wait); ended || err != nil {
			return err
		}
	}
	return fmt.Errorf("process %d (task %d of job %s) does not end, even by SIGKILL: the kernel holds it, look at /proc/%d/stack", p.pid, p.task, p.job, p.pid)
}
