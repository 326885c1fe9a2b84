package demo

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
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

// replicas of each cluster at first.
const replicas = 4

// row is how many ports in a row a cluster has: one for each task, one to
// spare, its balancer's and that one's admin endpoint.
const row = replicas + 3

// stage is where the demo plays: a folder, two clusters on free ports, and the
// programs under way.
type stage struct {
	options   Options
	directory string
	// service names this run's jobs, so that two demos do not meet.
	service string
	// port of the balancer before all clusters; its admin endpoint is the next.
	port     int
	clusters []cluster
	// reader is the first port of the reader's tasks, which prober searches on.
	reader   int
	prober   *prober
	manifest manifest
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

func (c cluster) proxy(s *stage) string { return s.service + "/" + c.name + "/proxy" }

func (c cluster) asset() string { return "frontend/" + c.name }

func (c cluster) balancer() int { return c.port + replicas + 1 }

func (c cluster) admin() int { return c.port + replicas + 2 }

func newStage(options Options, directory string) (*stage, error) {
	directory, err := filepath.Abs(directory)
	if err != nil {
		return nil, err
	}
	s := &stage{options: options, directory: directory, service: fmt.Sprintf("shakespeare-%d", os.Getpid())}
	for _, needed := range []string{s.release("v1"), s.release("v2"), s.release("v3"), s.release("v4"), s.beside("lehr-caddy"), s.beside("lehr-sqlschema"), s.beside("lehr-process")} {
		if _, err := os.Stat(needed); err != nil {
			return nil, fmt.Errorf("the demo needs the example service and the plugins beside the program: %w; \"make build\" builds them", err)
		}
	}
	var taken []int
	for _, name := range []string{"a", "b", "", readerCanary} {
		port, err := freePorts(taken)
		if err != nil {
			return nil, err
		}
		taken = append(taken, port)
		switch name {
		case "":
			s.port = port
		case readerCanary:
			s.reader = port
		default:
			s.clusters = append(s.clusters, cluster{name: name, port: port})
		}
	}
	if s.prober, err = newProber(); err != nil {
		return nil, err
	}
	s.manifest = manifest{version: "v1", needsSchema: "1"}
	for _, c := range s.clusters {
		s.manifest.clusters = append(s.manifest.clusters, wanted{cluster: c, replicas: replicas})
	}
	if err := s.set(); err != nil {
		return nil, err
	}
	if err := s.setReader(); err != nil {
		return nil, err
	}
	// A database is made by who runs the machine; what is in it, by Lehr.
	if err := os.WriteFile(s.database(), nil, 0o644); err != nil {
		return nil, err
	}
	if s.log, err = os.Create(filepath.Join(directory, "server.log")); err != nil {
		return nil, err
	}
	return s, nil
}

// set writes the example's files into the folder.
func (s *stage) set() error {
	return fs.WalkDir(shakespeare.Files, ".", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		content, err := shakespeare.Files.ReadFile(path)
		if err != nil {
			return err
		}
		text := string(content)
		switch path {
		case "service.yaml":
			text = s.text(s.manifest)
		case schemaFile:
			text = s.schema(text)
		}
		return s.write(path, text)
	})
}

// freePorts finds a row of free ports below the range that the system hands
// out by itself.
func freePorts(taken []int) (int, error) {
	const first, last, tries = 18000, 32000, 200
	for range tries {
		port := first + rand.IntN(last-first-row)
		meets := slices.ContainsFunc(taken, func(other int) bool { return port < other+row && other < port+row })
		if !meets && rowFree(port) {
			return port, nil
		}
	}
	return 0, fmt.Errorf("found no %d free ports in a row between %d and %d", row, first, last)
}

func rowFree(port int) bool {
	for i := range row {
		listener, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port+i))
		if err != nil {
			return false
		}
		defer listener.Close()
	}
	return true
}

func (s *stage) beside(program string) string {
	return filepath.Join(filepath.Dir(s.options.Program), program)
}

func (s *stage) release(version string) string {
	return s.beside(filepath.Join("releases", version, "frontend"))
}

func (s *stage) store() string { return filepath.Join(s.directory, ".lehr", "lehr.db") }

func (s *stage) say(format string, arguments ...any) {
	fmt.Fprintf(s.options.Out, format+"\n", arguments...)
}

func (s *stage) prologue() {
	s.say("The Shakespeare service: clusters a and b, each a job of %d real processes behind a", replicas)
	s.say("balancer of its own, a balancer before both, and a database of what was searched. Beside")
	s.say("it the reader, a small service in test, staging and production, to which delivery brings versions.")
	s.say("  folder     %s", s.directory)
	s.say("  manifest   %s/service.yaml", s.directory)
	s.say("  search     http://127.0.0.1:%d/search?q=to+be", s.port)
	for _, c := range s.clusters {
		s.say("  cluster %s  balancer :%d, tasks :%d … :%d", c.name, c.balancer(), c.port, c.port+replicas-1)
	}
	for _, place := range readerPlaces {
		s.say("  reader     %s: tasks %s", place, strings.Trim(fmt.Sprint(s.readerPorts(place)), "[]"))
	}
	s.say("  server log %s", s.log.Name())
}

// serve starts the server in the folder.
func (s *stage) serve(ctx context.Context) error {
	s.server = exec.Command(s.options.Program, "serve", "--store", s.store(), "--partition", filepath.Join(s.directory, "lehr.yaml"), "--sweep", "2s",
		"--external-checks", filepath.Join(s.directory, checksFile))
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
	var text, errs bytes.Buffer
	command.Stdout, command.Stderr = &text, &errs
	if err := command.Run(); err != nil {
		return text.String(), fmt.Errorf("lehr %s: %w: %s", quote(arguments), err, strings.TrimSpace(errs.String()))
	}
	return text.String(), nil
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
		reason := unmet(ctx)
		if reason == "" {
			return nil
		}
		select {
		case err := <-s.ended:
			s.ended <- err
			return fmt.Errorf("the server ended (%v); its log: %s", err, s.tail())
		default:
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("after %s it is not so that %s: %s", limit, what, reason)
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
	defer s.prober.close()
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
