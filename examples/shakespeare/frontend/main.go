// Command frontend is the Shakespeare service of the example: it searches a
// play, says who answered, and drains before it ends. Lehr's process plugin
// runs it; it knows nothing of Lehr but the name of its task.
package main

import (
	"context"
	_ "embed"
	"errors"
	"flag"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/signal"
	"sync/atomic"
	"syscall"
	"time"
)

//go:embed hamlet.txt
var hamlet string

// version is set when a release is built.
var version = "dev"

func main() { os.Exit(run()) }

func run() int {
	port := flag.Int("port", 8100, "port to listen on, on the loopback address")
	text := flag.String("text", "", "file of the play (default: the one built in)")
	name := flag.String("version", version, "version to report")
	drain := flag.Duration("drain", 500*time.Millisecond, "how long to go on serving, unhealthy, after SIGTERM")
	searches := flag.String("searches", "", "SQLite database in which searches are recorded (default: they are not)")
	cluster := flag.String("cluster", "", "cluster to record them for")
	flag.Parse()
	var recorder *recorder
	if *searches != "" {
		var err error
		if recorder, err = openRecorder(context.Background(), *searches, *cluster); err != nil {
			fmt.Fprintln(os.Stderr, "frontend:", err)
			return 1
		}
	}
	defer recorder.close()
	if err := serve(*port, *text, *name, *drain, recorder); err != nil {
		fmt.Fprintln(os.Stderr, "frontend:", err)
		return 1
	}
	return 0
}

func serve(port int, text, version string, drain time.Duration, recorder *recorder) error {
	play := hamlet
	if text != "" {
		content, err := os.ReadFile(text)
		if err != nil {
			return fmt.Errorf("reading the play: %w", err)
		}
		play = string(content)
	}
	// Asked for before the port is open, so that no early signal is lost; a
	// second SIGTERM while draining changes nothing.
	stop := make(chan os.Signal, 1)
	signal.Notify(stop, syscall.SIGTERM, os.Interrupt)
	listener, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port))
	if err != nil {
		return err
	}
	frontend := &frontend{lines: parse(play), recorder: recorder, answerer: answerer{Version: version, Task: os.Getenv("LEHR_TASK"), PID: os.Getpid()}}
	server := &http.Server{Handler: frontend.handler(), ReadHeaderTimeout: 5 * time.Second, IdleTimeout: time.Minute}
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	fmt.Printf("frontend %s: task %s listens on %s, %d lines\n", version, frontend.answerer.Task, listener.Addr(), len(frontend.lines))
	select {
	case err := <-served:
		return err
	case <-stop:
	}
	// Unhealthy at once, so that clients turn to others; served on meanwhile.
	frontend.draining.Store(true)
	fmt.Printf("frontend %s: draining for %v\n", version, drain)
	time.Sleep(drain)
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	if err := server.Shutdown(ctx); err != nil {
		return fmt.Errorf("finishing the requests under way: %w", err)
	}
	if err := <-served; !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	fmt.Printf("frontend %s: done\n", version)
	return nil
}

// frontend answers searches.
type frontend struct {
	lines    []line
	answerer answerer
	recorder *recorder
	draining atomic.Bool
}
