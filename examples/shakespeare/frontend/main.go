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
	"strconv"
	"sync/atomic"
	"syscall"
	"time"
)

//go:embed hamlet.txt
var hamlet string

// version is set when a release is built.
var version = "dev"

// fails is the share of searches that a release loses: set when a bad one is built.
var fails = "0"

func main() { os.Exit(run()) }

func run() int {
	port := flag.Int("port", 8100, "port to listen on, on the loopback address")
	text := flag.String("text", "", "file of the play (default: the one built in)")
	name := flag.String("version", version, "version to report")
	drain := flag.Duration("drain", 500*time.Millisecond, "how long to go on serving, unhealthy, after SIGTERM")
	searches := flag.String("searches", "", "SQLite database in which searches are recorded (default: they are not)")
	cluster := flag.String("cluster", "", "cluster that it is in, for records and metrics")
	frontend := &frontend{trouble: trouble{began: time.Now()}}
	built, err := strconv.ParseFloat(fails, 64)
	if err != nil {
		fmt.Fprintln(os.Stderr, "frontend: built with a share that is no number:", err)
		return 1
	}
	flag.Float64Var(&frontend.trouble.errors, "fail", built, "share of searches that fail, as a bad release does: 0.05")
	flag.DurationVar(&frontend.trouble.leak, "leak", 0, "by how much searches become slower each second, as a release that leaks: 2ms")
	flag.Parse()
	if t := &frontend.trouble; t.errors < 0 || t.errors > 1 || t.leak < 0 {
		fmt.Fprintln(os.Stderr, "frontend: --fail is a share from 0 to 1, and --leak is not below 0")
		return 2
	}
	var recorder *recorder
	if *searches != "" {
		var err error
		if recorder, err = openRecorder(context.Background(), *searches, *cluster); err != nil {
			fmt.Fprintln(os.Stderr, "frontend:", err)
			return 1
		}
	}
	defer recorder.close()
	frontend.cluster, frontend.recorder = *cluster, recorder
	frontend.answerer = answerer{Version: *name, Task: os.Getenv("LEHR_TASK"), PID: os.Getpid()}
	if err := frontend.serve(*port, *text, *drain); err != nil {
		fmt.Fprintln(os.Stderr, "frontend:", err)
		return 1
	}
	return 0
}

func (f *frontend) serve(port int, text string, drain time.Duration) error {
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
	f.lines = parse(play)
	version := f.answerer.Version
	server := &http.Server{Handler: f.handler(), ReadHeaderTimeout: 5 * time.Second, IdleTimeout: time.Minute}
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	fmt.Printf("frontend %s: task %s listens on %s, %d lines\n", version, f.answerer.Task, listener.Addr(), len(f.lines))
	select {
	case err := <-served:
		return err
	case <-stop:
	}
	// Unhealthy at once, so that clients turn to others; served on meanwhile.
	f.draining.Store(true)
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
	cluster  string
	trouble  trouble
	metrics  metrics
	recorder *recorder
	draining atomic.Bool
}
