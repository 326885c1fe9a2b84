package job

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Carrier is a live process of this user that was started with a variable of a
// certain value, or whose ancestor was: it inherited that.
type Carrier struct {
	PID         int
	Environment map[string]string
	// started tells it from whoever has its number later.
	started uint64
}

// Carriers of a variable's value, by their numbers.
func Carriers(variable, value string) ([]Carrier, error) {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil, fmt.Errorf("listing the processes of this machine: %w", err)
	}
	var found []Carrier
	for _, entry := range entries {
		pid, err := strconv.Atoi(entry.Name())
		if err != nil {
			continue
		}
		c, err := readCarrier(pid)
		if errors.Is(err, errNoTask) {
			continue
		}
		if err != nil {
			return nil, err
		}
		if c.Environment[variable] == value {
			found = append(found, c)
		}
	}
	return found, nil
}

func readCarrier(pid int) (Carrier, error) {
	info, err := os.Stat(fmt.Sprintf("/proc/%d", pid))
	if err != nil {
		return Carrier{}, errNoTask
	}
	if owner, ok := info.Sys().(*syscall.Stat_t); !ok || int(owner.Uid) != os.Geteuid() {
		return Carrier{}, errNoTask
	}
	environ, err := readMemory(pid, "environ")
	if err != nil {
		return Carrier{}, err
	}
	stat, err := readStat(pid)
	return Carrier{PID: pid, Environment: environment(environ), started: stat.started}, err
}

// StopAll ends the processes that list finds politely, all at once: SIGTERM, and
// SIGKILL for those that live on after the grace. It looks again until none is
// found, for they may have started others meanwhile. May is asked before each
// signal.
func StopAll(ctx context.Context, list func() ([]Carrier, error), grace time.Duration, may func(context.Context) error) error {
	for {
		carriers, err := list()
		if err != nil || len(carriers) == 0 {
			return err
		}
		problems := make([]error, len(carriers))
		var stopping sync.WaitGroup
		for i, c := range carriers {
			stopping.Go(func() { problems[i] = c.stop(ctx, grace, may) })
		}
		stopping.Wait()
		if err := errors.Join(problems...); err != nil {
			return err
		}
	}
}

func (c Carrier) stop(ctx context.Context, grace time.Duration, may effect) error {
	pidfd, err := unix.PidfdOpen(c.PID, 0)
	if errors.Is(err, unix.ESRCH) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("taking hold of process %d: %w", c.PID, err)
	}
	h := &handle{process: process{pid: c.PID}, pidfd: pidfd}
	defer h.close()
	// The number was read before the descriptor was taken.
	if now, err := readStat(c.PID); err != nil || now.started != c.started {
		return nil
	}
	if err := may(ctx); err != nil {
		return err
	}
	if err := h.signal(syscall.SIGTERM); err != nil {
		return err
	}
	return h.outlast(ctx, grace, may)
}
