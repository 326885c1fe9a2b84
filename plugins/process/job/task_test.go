package job

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// The test binary is also the program that the jobs under test run, and a
// plugin that is killed in the middle of a roll.
func TestMain(m *testing.M) {
	switch {
	case os.Getenv("TEST_TASK") != "":
		os.Exit(runTask(os.Args[1:]))
	case os.Getenv("TEST_ROLLER") != "":
		os.Exit(runRoller())
	}
	os.Exit(m.Run())
}

// endWith ends this process when the test that started it is gone, so that
// not even a killed test leaves anything behind.
func endWith(test string) {
	pid, _ := strconv.Atoi(test)
	pidfd, err := unix.PidfdOpen(pid, 0)
	for err == nil || err == unix.EINTR { // A signal, as SIGTERM, interrupts the call.
		var n int
		if n, err = unix.Poll([]unix.PollFd{{Fd: int32(pidfd), Events: unix.POLLIN}}, -1); n > 0 {
			break
		}
	}
	os.Exit(9)
}

// runTask is a server as a job runs it: runTask(mode, port, version, drain).
func runTask(arguments []string) int {
	go endWith(os.Getenv("TEST_TASK"))
	mode, port, version := arguments[0], arguments[1], arguments[2]
	drain, _ := time.ParseDuration(arguments[3])
	stop := make(chan os.Signal, 1)
	signal.Notify(stop, syscall.SIGTERM)
	switch mode {
	case "crash":
		fmt.Println("first line")
		fmt.Println("cannot find my configuration")
		return 3
	case "hang":
		<-stop
		return 0
	case "stubborn":
		signal.Ignore(syscall.SIGTERM)
	case "fork":
		// A part of the task: it carries the same environment.
		part := exec.Command("sleep", "1000")
		part.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
		if err := part.Start(); err != nil {
			fmt.Println(err)
			return 1
		}
	}
	var draining atomic.Bool
	listener, err := net.Listen("tcp", "127.0.0.1:"+port)
	if err != nil {
		fmt.Println(err)
		return 1
	}
	mux := http.NewServeMux()
	mux.HandleFunc("/healthz", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Lehr-Version", version)
		if draining.Load() {
			http.Error(w, "draining", http.StatusServiceUnavailable)
		}
	})
	mux.HandleFunc("/work", func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprintf(w, "%s %s", version, strings.Join(os.Environ(), ";"))
	})
	server := &http.Server{Handler: mux}
	go server.Serve(listener)
	<-stop
	draining.Store(true)
	time.Sleep(drain)
	server.Shutdown(context.Background())
	return 0
}
