package faults

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"

	"lehr.dev/test/faults/production"
)

// startReaper starts a process that outlives the tests, however they end, and
// then takes away what they left: the tasks of jobs, which nothing else ends,
// and the folder of the programs.
func startReaper(folder string) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	reaper := exec.Command(self, "production:reap", strconv.Itoa(os.Getpid()), folder)
	reaper.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	return reaper.Start()
}

// reapProgram: TEST FOLDER.
func reapProgram(arguments []string) int {
	test, _ := strconv.Atoi(arguments[0])
	if err := production.AwaitEnd(test); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	for _, prefix := range []string{"shakespeare-", "faults-"} {
		killAll(processes(func(p process) bool {
			environment, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(p.pid), "environ"))
			return err == nil && (bytes.Contains(environment, fmt.Appendf(nil, "LEHR_JOB=%s%d/", prefix, test)) ||
				bytes.Contains(environment, fmt.Appendf(nil, "LEHR_JOB=%s%d-", prefix, test)))
		}))
	}
	os.RemoveAll(arguments[1])
	return 0
}
