package demo

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"lehr.dev/examples/shakespeare"
)

// replicas of each cluster.
const replicas = 3

// stage is where the demo plays: a folder, two clusters of free ports, and
// the programs under way.
type stage struct {
	options   Options
	directory string
	// service names this run's jobs, so that two demos do not meet.
	service  string
	clusters []cluster
	server   *exec.Cmd
	ended    chan error
	log      *os.File
}

type cluster struct {
	name string
	// port of its first task.
	port int
}

func (c cluster) job(s *stage) string { return s.service + "/" + c.name + "/frontend" }

func (c cluster) asset() string { return "frontend/" + c.name }

func newStage(options Options, directory string) (*stage, error) {
	directory, err := filepath.Abs(directory)
	if err != nil {
		return nil, err
	}
	s := &stage{options: options, directory: directory, service: fmt.Sprintf("shakespeare-%d", os.Getpid())}
	for _, version := range []string{"v1", "v2"} {
		if _, err := os.Stat(s.release(version)); err != nil {
			return nil, fmt.Errorf("the demo needs the example service beside the program: %w; \"make build\" builds it", err)
		}
	}
	for _, name := range []string{"a", "b"} {
		port, err := freePorts(s.clusters)
		if err != nil {
			return nil, err
		}
		s.clusters = append(s.clusters, cluster{name: name, port: port})
	}
	for _, name := range []string{"lehr.yaml", "web.star"} {
		content, err := shakespeare.Files.ReadFile(name)
		if err != nil {
			return nil, err
		}
		if err := os.WriteFile(filepath.Join(directory, name), content, 0o644); err != nil {
			return nil, err
		}
	}
	if err := s.write("service.yaml", s.manifest("v1")); err != nil {
		return nil, err
	}
	if s.log, err = os.Create(filepath.Join(directory, "server.log")); err != nil {
		return nil, err
	}
	return s, nil
}

// freePorts finds a row of free ports below the range that the system hands
// out by itself.
func freePorts(taken []cluster) (int, error) {
	const first, last, tries = 18000, 32000, 200
	for range tries {
		port := first + rand.IntN(last-first-replicas)
		meets := slices.ContainsFunc(taken, func(c cluster) bool { return port < c.port+replicas && c.port < port+replicas })
		if !meets && rowFree(port) {
			return port, nil
		}
	}
	return 0, fmt.Errorf("found no %d free ports in a row between %d and %d", replicas, first, last)
}

func rowFree(port int) bool {
	for i := range replicas {
		listener, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port+i))
		if err != nil {
			return false
		}
		defer listener.Close()
	}
	return true
}

func (s *stage) release(version string) string {
	return filepath.Join(filepath.Dir(s.options.Program), "releases", version, "frontend")
}

func (s *stage) store() string { return filepath.Join(s.directory, ".lehr", "lehr.db") }

// manifest is the service as a person would write it.
func (s *stage) manifest(version string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "service: %s\nbinary: %s\nargs: [\"--port={port}\", \"--version={version}\"]\nversion: %s\nclusters:\n",
		s.service, s.release("{version}"), version)
	for _, c := range s.clusters {
		fmt.Fprintf(&b, "  - name: %s\n    replicas: %d\n    base_port: %d\n", c.name, replicas, c.port)
	}
	return b.String()
}

// write replaces a file at once, as editors do.
func (s *stage) write(name, content string) error {
	path := filepath.Join(s.directory, name)
	if err := os.WriteFile(path+".new", []byte(content), 0o644); err != nil {
		return err
	}
	return os.Rename(path+".new", path)
}

func (s *stage) say(format string, arguments ...any) {
	fmt.Fprintf(s.options.Out, format+"\n", arguments...)
}

func (s *stage) prologue() {
	s.say("The Shakespeare service: clusters a and b, each a job of %d real processes.", replicas)
	s.say("  folder     %s", s.directory)
	s.say("  manifest   %s/service.yaml", s.directory)
	for _, c := range s.clusters {
		s.say("  cluster %s  http://127.0.0.1:%d … %d/search?q=to+be", c.name, c.port, c.port+replicas-1)
	}
	s.say("  server log %s", s.log.Name())
}

// serve starts the server in the folder.
func (s *stage) serve(ctx context.Context) error {
	s.server = exec.Command(s.options.Program, "serve", "--store", s.store(), "--partition", filepath.Join(s.directory, "lehr.yaml"), "--sweep", "2s")
	s.server.Stdout, s.server.Stderr = s.log, s.log
	// A Ctrl-C in the terminal is for the demo, which ends the server itself.
	s.server.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGTERM}
	if err := s.server.Start(); err != nil {
		return fmt.Errorf("starting the server: %w", err)
	}
	s.ended = make(chan error, 1)
	go func() { s.ended <- s.server.Wait() }()
	return s.until(ctx, 15*time.Second, "the server listens", func(context.Context) string {
		if _, err := os.Stat(s.store() + ".server.json"); err != nil {
			return err.Error()
		}
		return ""
	})
}

// lehr runs the program as a person would, and returns what it printed.
func (s *stage) lehr(ctx context.Context, arguments ...string) (string, error) {
	s.say("    $ lehr %s", quote(arguments))
	return s.quietly(ctx, arguments...)
}

func (s *stage) quietly(ctx context.Context, arguments ...string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	command := exec.CommandContext(ctx, s.options.Program, append(arguments, "--store", s.store())...)
	var out, errs bytes.Buffer
	command.Stdout, command.Stderr = &out, &errs
	if err := command.Run(); err != nil {
		return out.String(), fmt.Errorf("lehr %s: %w: %s", quote(arguments), err, strings.TrimSpace(errs.String()))
	}
	return out.String(), nil
}

func quote(arguments []string) string {
	var words []string
	for _, argument := range arguments {
		if strings.ContainsAny(argument, " '") {
			argument = "'" + argument + "'"
		}
		words = append(words, argument)
	}
	return strings.Join(words, " ")
}

// until waits for something to become so; the error says what it was last.
func (s *stage) until(ctx context.Context, limit time.Duration, what string, unmet func(context.Context) string) error {
	deadline := time.Now().Add(limit)
	for {
		why := unmet(ctx)
		if why == "" {
			return nil
		}
		select {
		case err := <-s.ended:
			s.ended <- err
			return fmt.Errorf("the server ended (%v); its log: %s", err, s.tail())
		default:
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("after %s it is not so that %s: %s", limit, what, why)
		}
		if !sleep(ctx, 50*time.Millisecond) {
			return ctx.Err()
		}
	}
}

// tail is the end of the server's log.
func (s *stage) tail() string {
	content, err := os.ReadFile(s.log.Name())
	if err != nil {
		return err.Error()
	}
	const most = 2000
	if len(content) > most {
		content = content[len(content)-most:]
	}
	return string(content)
}

// clear ends the server, then every process of the service.
func (s *stage) clear() error {
	if s.server != nil && s.server.Process != nil {
		_ = s.server.Process.Signal(syscall.SIGTERM)
		select {
		case <-s.ended:
		case <-time.After(10 * time.Second):
			_ = s.server.Process.Kill()
			<-s.ended
		}
	}
	s.log.Close()
	signals := []syscall.Signal{syscall.SIGTERM, syscall.SIGKILL}
	for _, signal := range signals {
		for _, pid := range s.pids() {
			_ = syscall.Kill(pid, signal)
		}
		for deadline := time.Now().Add(5 * time.Second); time.Now().Before(deadline); time.Sleep(20 * time.Millisecond) {
			if !slices.ContainsFunc(s.pids(), alive) {
				return nil
			}
		}
	}
	return errors.New("some processes of the demo did not end")
}
