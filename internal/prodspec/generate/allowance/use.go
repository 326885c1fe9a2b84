package allowance

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"
)

// Of is the use of processes, with those that they started and that ended. What is
// there no more is left out.
func Of(pids ...int) Use {
	var all Use
	for _, pid := range pids {
		all.Had += Had(pid)
		wanted, ok := wanted(pid)
		all.Wanted += wanted
		all.Known = all.Known || ok
	}
	return all
}

// Had returns the core time of a process and of its children that ended. It reads one file.
func Had(pid int) time.Duration {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0
	}
	// The name in parentheses may hold anything. User time is the 14th field; system
	// time, and both of children that were waited for, follow.
	fields := strings.Fields(string(text[bytes.LastIndexByte(text, ')')+1:]))
	if len(fields) < 15 {
		return 0
	}
	ticks := 0
	for _, field := range fields[11:15] {
		n, _ := strconv.Atoi(field)
		ticks += n
	}
	const tick = 10 * time.Millisecond // Linux says so to programs, whatever its own are.
	return time.Duration(ticks) * tick
}

// wanted is how long the threads of a process that live waited for a core.
func wanted(pid int) (all time.Duration, ok bool) {
	threads, err := os.ReadDir(fmt.Sprintf("/proc/%d/task", pid))
	if err != nil {
		return 0, false
	}
	for _, thread := range threads {
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%s/schedstat", pid, thread.Name()))
		if err != nil {
			continue
		}
		var ran, waited int64
		if _, err := fmt.Sscan(string(text), &ran, &waited); err == nil {
			all, ok = all+time.Duration(waited), true
		}
	}
	return all, ok
}
