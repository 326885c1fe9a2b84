package serve

import (
	"time"

	"golang.org/x/sys/unix"
)

// sinceBoot is a clock that counts the time in which the machine was
// suspended, so that a permit does not outlive a suspension.
func sinceBoot() time.Duration {
	var now unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &now); err != nil {
		panic("reading CLOCK_BOOTTIME: " + err.Error())
	}
	return time.Duration(now.Nano())
}
