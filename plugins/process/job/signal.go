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
		remaining := min(time.Until(deadline), slice)
		n, err := unix.Poll([]unix.PollFd{{Fd: int32(h.pidfd), Events: unix.POLLIN}}, int(max(remaining, 0)/time.Millisecond))
		switch {
		case err != nil && !errors.Is(err, unix.EINTR):
			return false, fmt.Errorf("waiting for process %d to end: %w", h.pid, err)
		case n > 0:
			return true, nil
		case ctx.Err() != nil:
			return false, ctx.Err()
		case remaining <= 0:
			return false, nil
		}
	}
}

// effect is asked before each change of production; an error ends the push.
type effect func(context.Context) error

// stop ends a task's process, then what remains of its parts, each politely:
// the server behind a wrapping script drains too.
func stop(ctx context.Context, p process, grace time.Duration, mayAct effect) error {
	h, err := terminate(ctx, p, mayAct)
	if err != nil {
		return err
	}
	return finish(ctx, p, h, grace, mayAct)
}

// terminate sends SIGTERM, so that the process drains. The handle is nil when
// it is gone already; finish takes it.
func terminate(ctx context.Context, p process, mayAct effect) (*handle, error) {
	h, err := hold(p)
	if errors.Is(err, errNoTask) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	err = mayAct(ctx)
	if err == nil {
		err = h.signal(syscall.SIGTERM)
	}
	if err != nil {
		h.close()
		return nil, err
	}
	return h, nil
}

// finish waits until a process that was told to end has done so, and then
// ends its parts.
func finish(ctx context.Context, p process, h *handle, grace time.Duration, mayAct effect) error {
	if h != nil {
		defer h.close()
		if err := h.outlast(ctx, grace, mayAct); err != nil {
			return err
		}
	}
	for _, part := range p.parts {
		if err := stop(ctx, part, grace, mayAct); err != nil {
			return err
		}
	}
	return nil
}

// outlast waits for the process to end, and kills it when that takes longer
// than the grace.
func (h *handle) outlast(ctx context.Context, grace time.Duration, mayAct effect) error {
	if ended, err := h.ended(ctx, grace); ended || err != nil {
		return err
	}
	if err := mayAct(ctx); err != nil {
		return err
	}
	if err := h.signal(syscall.SIGKILL); err != nil {
		return err
	}
	if ended, err := h.ended(ctx, 10*time.Second); ended || err != nil {
		return err
	}
	return fmt.Errorf("process %d (task %d of job %s) does not end, even by SIGKILL: the kernel holds it, look at /proc/%d/stack", h.pid, h.task, h.job, h.pid)
}
