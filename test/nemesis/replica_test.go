package nemesis

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"lehr.dev/internal/access"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/sdk/client"
)

// replica is one machine: a network of its own whose only ways out are a proxy
// to the database and one by which people come in, a small disk, and a server,
// one life after the other.
type replica struct {
	w    *world
	name string
	*place
	// folder is the place of the store, on a disk of its own if that may be had.
	folder   string
	disk     *volume
	database *proxy
	api      *proxy
	lives    int
	life     *life
}

// life of a replica: one process.
type life struct {
	// name is unique: "b.3".
	name   string
	binary string
	*exec.Cmd
	// monotonic and wall are how far its clocks are ahead of the machine's.
	monotonic, wall time.Duration
	ended           chan struct{}
	err             error
	paused          []int
}

func (w *world) newReplica(name string) *replica {
	r := &replica{w: w, name: name, place: newPlace(), folder: filepath.Join(w.folder, name)}
	if err := os.Mkdir(r.folder, 0o755); err != nil {
		w.Fatal(err)
	}
	const small = 1 << 20
	if disk, err := newVolume(r.folder, small); err == nil {
		r.disk = disk
	}
	var inside net.Listener
	var err error
	r.do(func() { inside, err = net.Listen("tcp", "127.0.0.1:0") })
	if err != nil {
		w.Fatal(err)
	}
	r.database = newProxy(inside, func() (net.Conn, error) { return net.Dial("tcp", w.database.address()) })
	outside, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		w.Fatal(err)
	}
	r.api = newProxy(outside, r.dial)
	return r
}

// dial reaches the server from inside.
func (r *replica) dial() (conn net.Conn, err error) {
	found, err := access.ReadRendezvous(r.store())
	if err != nil {
		return nil, err
	}
	at, err := url.Parse(found.URL)
	if err != nil {
		return nil, err
	}
	r.do(func() { conn, err = net.Dial("tcp", at.Host) })
	return conn, err
}

func (r *replica) store() string { return filepath.Join(r.folder, "lehr.db") }

// person is a client who came in from outside, with a name of their own.
func (r *replica) person(name string) (*client.Client, error) {
	found, err := access.ReadRendezvous(r.store())
	if err != nil {
		return nil, err
	}
	return client.Dial("http://"+r.api.listener.Addr().String(), found.Token, intent.Actor{Name: name, Origin: "api"}), nil
}

// server is the process that serves now; 0: none.
func (r *replica) server() int {
	found, err := access.ReadRendezvous(r.store())
	if err != nil {
		return 0
	}
	return found.PID
}

// start begins a life with a binary and clocks that are ahead by so much.
func (r *replica) start(binary string, monotonic, wall time.Duration) {
	w := r.w
	w.Helper()
	r.lives++
	l := &life{name: fmt.Sprintf("%s.%d", r.name, r.lives), binary: binary, wall: wall, ended: make(chan struct{})}
	where := r.database.listener.Addr().String()
	arguments := []string{filepath.Join(w.programs, binary), "serve", "-v", "--store", r.store(), "--sweep", "2s",
		"--database", "postgres://owner@" + where + "/postgres?sslmode=disable"}
	for _, p := range w.partitions {
		arguments = append(arguments, "-p", p.definition())
	}
	if monotonic != 0 && w.shifts {
		l.monotonic = monotonic
		seconds := strconv.FormatInt(int64(monotonic/time.Second), 10)
		arguments = append([]string{"unshare", "--time", "--boottime", seconds, "--monotonic", seconds, "--"}, arguments...)
	}
	l.Cmd = exec.Command(arguments[0], arguments[1:]...)
	log, err := os.OpenFile(filepath.Join(w.records, r.name+".log"), os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o600)
	if err != nil {
		w.Fatal(err)
	}
	defer log.Close()
	fmt.Fprintf(log, "---- %s: %s, clocks ahead by %s and %s, at %s\n", l.name, binary, l.monotonic, wall, w.now())
	l.Stdout, l.Stderr, l.Dir = log, log, w.folder
	l.Env = append(os.Environ(), targetVariable+"="+w.socket, lifeVariable+"="+l.name, fmt.Sprintf("%s=%d", shiftVariable, l.monotonic),
		wallVariable+"="+wall.String(), "GOMAXPROCS=2", "LEHR_MUTANTS="+w.mutants)
	l.Env = append(l.Env, w.environment...)
	l.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	r.do(func() { err = l.Start() })
	if err != nil {
		w.Fatal(err)
	}
	go func() {
		l.err = l.Wait()
		close(l.ended)
	}()
	r.life = l
	w.lived[l.Process.Pid] = l
}

// answers waits until the server does.
func (r *replica) answers() {
	r.w.Helper()
	r.w.await(r.name+" answers", patience, func() string {
		select {
		case <-r.life.ended:
			return "it ended: " + fmt.Sprint(r.life.err)
		default:
		}
		found, err := access.ReadRendezvous(r.store())
		if err != nil {
			return err.Error()
		}
		if found.PID != r.life.Process.Pid {
			return "its place is another's"
		}
		return ""
	})
}

// kill ends it as a power cut would.
func (r *replica) kill() {
	if r.life == nil {
		return
	}
	at := r.w.now()
	_ = r.life.Process.Kill()
	<-r.life.ended
	r.w.history.Deaths[r.life.name] = max(at, r.w.now())
	r.life = nil
}

// end tells it to.
func (r *replica) end() {
	r.w.Helper()
	_ = r.life.Process.Signal(syscall.SIGTERM)
	select {
	case <-r.life.ended:
		if r.life.err != nil {
			r.w.Errorf("%s ended badly when told to end: %v", r.life.name, r.life.err)
		}
	case <-time.After(patience):
		r.w.Errorf("%s did not end within %s", r.life.name, patience)
		r.kill()
		return
	}
	r.life = nil
}

// pause stops the process, and its plugins too if they are to stand still.
func (r *replica) pause(plugins bool) {
	if plugins {
		r.life.paused = r.plugins()
	}
	for _, pid := range append(r.life.paused, r.life.Process.Pid) {
		_ = unix.Kill(pid, unix.SIGSTOP)
	}
}

func (r *replica) wake() {
	if r.life == nil {
		return
	}
	for _, pid := range append(r.life.paused, r.life.Process.Pid) {
		_ = unix.Kill(pid, unix.SIGCONT)
	}
	r.life.paused = nil
}

// plugins of its server, by their process ids. Each is looked for among the
// children of this very process.
func (r *replica) plugins() (found []int) {
	if r.life == nil {
		return nil
	}
	lists, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", r.life.Process.Pid))
	for _, list := range lists {
		children, err := os.ReadFile(list)
		if err != nil {
			continue
		}
		for text := range strings.FieldsSeq(string(children)) {
			pid, err := strconv.Atoi(text)
			line, reading := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
			if errors.Join(err, reading) == nil && strings.Contains(string(line), "\x00"+pluginArgument+"\x00") {
				found = append(found, pid)
			}
		}
	}
	slices.Sort(found)
	return found
}

func (r *replica) close() {
	r.wake()
	r.kill()
	r.database.close()
	r.api.close()
	r.place.close()
	if r.disk != nil {
		if err := r.disk.close(); err != nil {
			r.w.Error(err)
		}
	}
}
