package faults

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"lehr.dev/test/certificates"
)

// dialledPlugin is a plugin that runs as a server of its own, and the way to it.
type dialledPlugin struct {
	*world
	program          string
	servers, clients *certificates.Authority
	server, client   certificates.Pair
	process          *exec.Cmd
	// way is what Lehr dials.
	way  *relay
	list string
}

// relay carries connections to an address.
type relay struct {
	net.Listener

	mutex   sync.Mutex
	to      string
	open    []net.Conn
	severed bool
}

func newRelay(t *testing.T, to string) *relay {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	r := &relay{Listener: listener, to: to}
	t.Cleanup(func() {
		r.Close()
		r.cut()
	})
	go r.carry()
	return r
}

// dialledWorld is a world whose plugin was started by somebody else.
func dialledWorld(t *testing.T, name, kind, program string) *dialledPlugin {
	t.Helper()
	way := newRelay(t, "")
	d := &dialledPlugin{program: program, way: way, servers: certificates.NewAuthority(t, "servers"), clients: certificates.NewAuthority(t, "clients")}
	d.world = newWorld(t, partition{name: name, plugins: fmt.Sprintf("%s: {dial: %q}", kind, way.Addr())})
	until := time.Now().Add(time.Hour)
	d.server, d.client = d.servers.Issue(t, until, "plugin.example.com"), d.clients.Issue(t, until, "lehr.example.com")
	d.list = filepath.Join(t.TempDir(), "servers.yaml")
	d.allow("somebody-else")
	d.run("127.0.0.1:0")
	t.Cleanup(d.stop)
	return d
}

// allow writes the list of plugin servers.
func (d *dialledPlugin) allow(partition string) {
	d.Helper()
	d.write(d.list, fmt.Sprintf("plugin-servers: v1\ncertificate: %s\nkey: %s\nservers:\n- {dial: %q, name: plugin.example.com, ca: %s, partitions: [%s]}\n",
		d.client.Certificate, d.client.Key, d.way.Addr(), d.servers.File, partition))
}

// run starts the plugin.
func (d *dialledPlugin) run(address string) {
	d.Helper()
	d.process = exec.Command(filepath.Join(d.programs, d.program), "--listen", address, "--cert", d.server.Certificate, "--key", d.server.Key,
		"--client-ca", d.clients.File, "--client", "lehr.example.com")
	d.process.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	d.process.Env = append(os.Environ(), "HOME="+d.production)
	errs, err := d.process.StderrPipe()
	if err == nil {
		err = d.process.Start()
	}
	if err != nil {
		d.Fatal(err)
	}
	lines := bufio.NewScanner(errs)
	for lines.Scan() {
		if found := regexp.MustCompile(`serves on (.*)`).FindStringSubmatch(lines.Text()); found != nil {
			d.way.lead(found[1])
			go func() { _, _ = io.Copy(io.Discard, errs) }()
			return
		}
	}
	d.Fatal("the plugin does not serve")
}

func (d *dialledPlugin) stop() {
	_ = d.process.Process.Kill()
	_ = d.process.Wait()
}

// carry takes connections.
func (r *relay) carry() {
	for {
		near, err := r.Accept()
		if err != nil {
			return
		}
		r.take(near)
	}
}

func (r *relay) take(near net.Conn) {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	far, err := net.Dial("tcp", r.to)
	if err != nil || r.severed {
		near.Close()
		return
	}
	r.open = append(r.open, near, far)
	go func() { _, _ = io.Copy(near, far); near.Close() }()
	go func() { _, _ = io.Copy(far, near); far.Close() }()
}

// lead carries to another address from now on.
func (r *relay) lead(to string) {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	r.to = to
}

// address is where it leads to.
func (r *relay) address() string {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	return r.to
}

// sever lets nothing through, or everything again.
func (r *relay) sever(severed bool) {
	r.mutex.Lock()
	r.severed = severed
	r.mutex.Unlock()
	r.cut()
}

// cut ends all connections.
func (r *relay) cut() {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	for _, conn := range r.open {
		conn.Close()
	}
	r.open = nil
}

// A real server dials a real plugin once it may, tells why while it cannot, and
// goes on where it was when the plugin comes back.
func TestDialledPlugin(t *testing.T) {
	t.Parallel()
	d := dialledWorld(t, "dialled", "Job", "lehr-process")
	d.jobs = map[string]job{"web": {Replicas: 2}}
	d.want(values{})
	d.serve("--plugin-servers", d.list)
	t.Log(d.awaitTold("job/web", `partition dialled may not have .* dialled`, `--plugin-servers`))
	if told, err := d.lehr("plan", d.definition); err == nil || !strings.Contains(told+err.Error(), "may not have") {
		t.Errorf("a plan without a list: %s %v", told, err)
	}
	d.allow("dialled")
	d.await("the processes run", d.runs(2))
	if told, err := d.lehr("plan", "--plugin-servers", d.list, d.definition); err != nil || !strings.Contains(told, "1 the same") {
		t.Errorf("a plan: %s %v", told, err)
	}
	// Its end is told, and tasks go on.
	d.stop()
	d.jobs["web"] = job{Replicas: 3}
	d.want(values{})
	t.Log(d.awaitTold("job/web", `plugin server 127\.0\.0\.1:\d+`, `no connection by TLS|ended|cannot be reached`))
	if missing := d.runs(2)(); missing != "" {
		t.Error(missing)
	}
	d.run(d.way.address())
	d.await("the processes run", d.runs(3))
	// A certificate that is refused is told, and its renewal suffices.
	d.clients.Renew(t, d.client, time.Now().Add(-time.Hour), "lehr.example.com")
	d.way.cut()
	t.Log(d.awaitTold("job/web", `refused the certificate in .*until`, `--client-ca`))
	d.clients.Renew(t, d.client, time.Now().Add(time.Hour), "lehr.example.com")
	d.jobs["web"] = job{Replicas: 1}
	d.want(values{})
	d.await("the processes run", d.runs(1))
	// What may not be dialled any more is not, though it is connected.
	const read = "the list of plugin servers was read"
	before := strings.Count(d.logged(), read)
	d.allow("somebody-else")
	d.await("the list is read", func() string {
		if strings.Count(d.logged(), read) == before {
			return "not yet"
		}
		return ""
	})
	d.jobs["web"] = job{Replicas: 2}
	d.want(values{})
	t.Log(d.awaitTold("job/web", `may not have .* dialled`))
	if missing := d.runs(1)(); missing != "" {
		t.Error(missing)
	}
	d.end()
	if d.process.Process.Signal(syscall.Signal(0)) != nil {
		t.Error("the plugin ended with lehr")
	}
}

// Connections are cut in the middle of pushes, and the plugin is killed in
// others: no two pushes of a resource are ever at work at once, none is carried
// out twice, nothing older comes after anything newer, and all comes about.
func TestConnectionCutDuringPushes(t *testing.T) {
	t.Parallel()
	d := dialledWorld(t, "cut", "Command", "lehr-command")
	d.allow("cut")
	wanted := values{}
	for n := range 6 {
		wanted[fmt.Sprintf("r%d", n)] = 1
	}
	d.want(wanted)
	d.serve("--plugin-servers", d.list)
	d.converges(wanted)
	for round := range 3 {
		for name := range wanted {
			wanted[name] = round + 2
		}
		d.want(wanted)
		d.await("a push is at work", func() string {
			if len(d.pushes()) == 0 && d.holds(wanted)() != "" {
				return "none"
			}
			return ""
		})
		if round == 1 {
			d.stop()
			d.run(d.way.address())
		} else {
			d.way.cut()
		}
		d.converges(wanted)
	}
	newest, seen := map[string]int{}, map[string]bool{}
	for _, e := range readEffects(t, d.production) {
		switch {
		case e.Step == "contended":
			t.Errorf("S3: push %+v began while another of the resource was at work", e)
		case e.Step == "start" && (seen[e.Push] || e.Value < newest[e.Resource]):
			t.Errorf("S2: push %+v was carried out twice, or after something newer", e)
		case e.Step == "start":
			seen[e.Push], newest[e.Resource] = true, e.Value
		}
	}
	if told := d.logged(); !strings.Contains(told, "plugin server is up") || !strings.Contains(told, "restarted=true") {
		t.Error("the log does not tell that the server was restarted")
	}
}
