package remote

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"flag"
	"io"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/pluginhost/plugin"
	"lehr.dev/sdk/serve"
	"lehr.dev/test/certificates"
)

// serverPlugin is the folder plugin as a server: a folder, then its flags.
func serverPlugin(arguments []string) int {
	note(arguments[0], "started")
	flags := flag.NewFlagSet("server", flag.ExitOnError)
	listen := serve.Flags(flags)
	_ = flags.Parse(arguments[1:])
	return serve.Main(serve.Plugin{
		Name: "folder", Version: "1", Listen: listen,
		Resources: []serve.Kind{serve.For(watchedFolder{folder(arguments[0])}, serve.Serving{})},
	})
}

// lehrName is the name in the certificate of this Lehr.
const lehrName = "spiffe://example.com/lehr"

// trust is what both ends need: an authority of servers and one of clients.
type trust struct {
	servers, clients *certificates.Authority
	server, client   certificates.Pair
}

func inAnHour() time.Time { return time.Now().Add(time.Hour) }

func newTrust(t *testing.T) trust {
	t.Helper()
	servers, clients := certificates.NewAuthority(t, "servers"), certificates.NewAuthority(t, "clients")
	return trust{servers, clients, servers.Issue(t, inAnHour(), "127.0.0.1"), clients.Issue(t, inAnHour(), lehrName)}
}

func (tr trust) address(hostPort string) Address {
	return Address{HostPort: hostPort, CA: tr.servers.File, Certificate: tr.client.Certificate, Key: tr.client.Key}
}

// pluginServer is one run of a plugin as a server.
type pluginServer struct {
	*exec.Cmd
	address string

	mutex sync.Mutex
	said  string
}

// listenOn starts the folder plugin as a server.
func listenOn(t *testing.T, tr trust, dir, address string) *pluginServer {
	t.Helper()
	arguments := self(t, "server", dir, "--listen", address, "--cert", tr.server.Certificate, "--key", tr.server.Key,
		"--client-ca", tr.clients.File, "--client", "lehr.example.com", "--client", lehrName)
	s := &pluginServer{Cmd: exec.Command(arguments[0], arguments[1:]...)}
	errs, err := s.StderrPipe()
	if err == nil {
		err = s.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.kill)
	up := make(chan string, 1)
	go func() {
		for lines := bufio.NewScanner(errs); lines.Scan(); {
			if found := regexp.MustCompile(`serves on (.*)`).FindStringSubmatch(lines.Text()); found != nil {
				up <- found[1]
			}
			s.mutex.Lock()
			s.said += lines.Text() + "\n"
			s.mutex.Unlock()
		}
		close(up)
	}()
	if s.address = <-up; s.address == "" {
		t.Fatalf("the plugin does not serve: %s", s.saying())
	}
	return s
}

func (s *pluginServer) saying() string {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	return s.said
}

func (s *pluginServer) kill() {
	_ = s.Process.Kill()
	_ = s.Wait()
}

// dialled dials a server for the length of the test.
func dialled(t *testing.T, address Address, contents plugin.Contents) *Server {
	t.Helper()
	server := Dial(t.Context(), address, Options{Contents: contents, MaxBackoff: 100 * time.Millisecond, Log: slog.New(slog.NewTextHandler(t.Output(), nil))})
	t.Cleanup(server.Close)
	return server
}

func up(t *testing.T, server *Server) plugin.Description {
	t.Helper()
	var description plugin.Description
	eventually(t, "the server is connected", func() (ok bool) {
		var err error
		description, err = server.Describe()
		return err == nil
	})
	return description
}

// why waits until the server is known not to be usable, and returns why.
func why(t *testing.T, server *Server) *fault.Error {
	t.Helper()
	var told *fault.Error
	eventually(t, "the refusal is told", func() bool {
		_, err := server.Describe()
		return errors.As(err, &told) && !strings.Contains(told.Message, "is being dialled")
	})
	return told
}

// Both ends show a certificate, and each refuses one that it should not take.
func TestCertificates(t *testing.T) {
	t.Parallel()
	good := newTrust(t)
	stranger := certificates.NewAuthority(t, "a stranger")
	expired := time.Now().Add(-time.Hour)
	for name, c := range map[string]struct {
		alter func(*trust)
		name  string
		want  string
	}{
		"good":                      {func(*trust) {}, "", ""},
		"another name, said":        {func(tr *trust) { tr.server = tr.servers.Issue(t, inAnHour(), "plugin.example.com") }, "plugin.example.com", ""},
		"client by a DNS name":      {func(tr *trust) { tr.client = tr.clients.Issue(t, inAnHour(), "lehr.example.com") }, "", ""},
		"server of a stranger":      {func(tr *trust) { tr.server = stranger.Issue(t, inAnHour(), "127.0.0.1") }, "", `nobody in .*authority\.pem vouches`},
		"server expired":            {func(tr *trust) { tr.server = tr.servers.Issue(t, expired, "127.0.0.1") }, "", `certificate of plugin server .* is not valid: .*expired`},
		"server with another name":  {func(tr *trust) { tr.server = tr.servers.Issue(t, inAnHour(), "plugin.example.com") }, "other.example.com", `not for the name other\.example\.com`},
		"server of the clients' CA": {func(tr *trust) { tr.server = tr.clients.Issue(t, inAnHour(), "127.0.0.1") }, "", `nobody in`},
		"client of a stranger":      {func(tr *trust) { tr.client = stranger.Issue(t, inAnHour(), lehrName) }, "", `refused the certificate in .*certificate\.pem \(for spiffe`},
		"client expired":            {func(tr *trust) { tr.client = tr.clients.Issue(t, expired, lehrName) }, "", `refused the certificate.*until`},
		"client with another name":  {func(tr *trust) { tr.client = tr.clients.Issue(t, inAnHour(), "spiffe://example.com/other") }, "", `refused the certificate`},
		"client without a name":     {func(tr *trust) { tr.client = tr.clients.Issue(t, inAnHour()) }, "", `refused the certificate`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tr := good
			c.alter(&tr)
			plugged := listenOn(t, tr, t.TempDir(), "127.0.0.1:0")
			address := tr.address(plugged.address)
			address.Name = c.name
			server := dialled(t, address, newIntents())
			if c.want == "" {
				if description := up(t, server); description.Name != "folder" || description.Instance == "" {
					t.Errorf("%+v", description)
				}
				return
			}
			told := why(t, server)
			if !regexp.MustCompile(c.want).MatchString(told.Message) || told.Kind != fault.Denied || told.Hint == "" || !strings.Contains(told.Message, plugged.address) {
				t.Errorf("told %q (%v), hint %q; want %s", told.Message, told.Kind, told.Hint, c.want)
			}
		})
	}
}

// Who shows no certificate, or speaks an older TLS, is not let in.
func TestClientsWithoutCertificate(t *testing.T) {
	t.Parallel()
	tr := newTrust(t)
	plugged := listenOn(t, tr, t.TempDir(), "127.0.0.1:0")
	authority, err := os.ReadFile(tr.servers.File)
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(authority)
	own, err := tls.LoadX509KeyPair(tr.client.Certificate, tr.client.Key)
	if err != nil {
		t.Fatal(err)
	}
	for name, config := range map[string]*tls.Config{
		"no certificate": {},
		"TLS 1.2":        {MaxVersion: tls.VersionTLS12, Certificates: []tls.Certificate{own}},
	} {
		config.RootCAs, config.ServerName, config.NextProtos = pool, "127.0.0.1", []string{"h2"}
		conn, err := tls.Dial("tcp", plugged.address, config)
		if err == nil {
			_, err = conn.Read(make([]byte, 1))
			conn.Close()
		}
		if !isAlert(err) {
			t.Errorf("%s: %v, want a refusal", name, err)
		}
	}
	eventually(t, "the server tells of it", func() bool { return strings.Contains(plugged.saying(), "was not let in") })
}

// A server that lacks something does not serve at all.
func TestListenNeedsAll(t *testing.T) {
	t.Parallel()
	for _, l := range []serve.Listen{
		{Address: ":0"},
		{Address: ":0", Certificate: "c", Key: "k", ClientCA: "a"},
		{Address: ":0", Certificate: "c", Key: "k", Clients: []string{"n"}},
	} {
		if err := l.Validate(); !fault.Is(err, fault.Invalid) {
			t.Errorf("%+v: %v", l, err)
		}
	}
}

// Renewed files count from the next connection on, on both sides, and nothing
// is started again.
func TestRotation(t *testing.T) {
	t.Parallel()
	tr := newTrust(t)
	plugged := listenOn(t, tr, t.TempDir(), "127.0.0.1:0")
	through := newRelay(t, plugged.address)
	server := dialled(t, tr.address(through.address), newIntents())
	before := up(t, server)
	next := newTrust(t)
	replace(t, next.servers.File, tr.servers.File)
	replace(t, next.clients.File, tr.clients.File)
	next.servers.Renew(t, tr.server, inAnHour(), "127.0.0.1")
	through.cut()
	eventually(t, "the certificate of before is refused", func() bool {
		_, err := server.Describe()
		return err != nil && strings.Contains(err.Error(), "refused the certificate")
	})
	next.clients.Renew(t, tr.client, inAnHour(), lehrName)
	if after := up(t, server); after.Instance != before.Instance {
		t.Error("the plugin was started again")
	}
}

func replace(t *testing.T, from, to string) {
	t.Helper()
	content, err := os.ReadFile(from)
	if err == nil {
		err = os.WriteFile(to, content, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// relay carries connections to a server, until it cuts them.
type relay struct {
	net.Listener
	address, to string

	mutex sync.Mutex
	open  []net.Conn
}

func newRelay(t *testing.T, to string) *relay {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	r := &relay{Listener: listener, address: listener.Addr().String(), to: to}
	t.Cleanup(func() { listener.Close(); r.cut() })
	go func() {
		for {
			near, err := listener.Accept()
			if err != nil {
				return
			}
			far, err := net.Dial("tcp", r.to)
			if err != nil {
				near.Close()
				continue
			}
			r.mutex.Lock()
			r.open = append(r.open, near, far)
			r.mutex.Unlock()
			go func() { _, _ = io.Copy(near, far); near.Close() }()
			go func() { _, _ = io.Copy(far, near); far.Close() }()
		}
	}()
	return r
}

func (r *relay) cut() {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	for _, conn := range r.open {
		conn.Close()
	}
	r.open = nil
}

// looping begins a push that goes on as long as it may, and returns when it has
// had an effect.
func looping(t *testing.T, dir string, server *Server) <-chan plugin.PushResult {
	t.Helper()
	differences, err := server.Diff(t.Context(), plugin.DiffRequest{Incarnation: head, Assets: []intent.AssetID{"job/1"}})
	if err != nil {
		t.Fatal(err)
	}
	_, before := notes(t, dir, "effect")
	ended := make(chan plugin.PushResult, 1)
	go func() { ended <- server.Push(context.WithoutCancel(t.Context()), admitted(differences[0])) }()
	eventually(t, "the push has an effect", func() bool { _, effects := notes(t, dir, "effect"); return len(effects) > len(before) })
	return ended
}

func inDoubt(t *testing.T, ended <-chan plugin.PushResult) {
	t.Helper()
	select {
	case result := <-ended:
		if result.Ending != plugin.InDoubt || result.Gone != nil {
			t.Errorf("the push ended as %+v, want in doubt, without a proof that it is over", result)
		}
		t.Log(result.Reason)
	case <-time.After(20 * time.Second):
		t.Fatal("the push does not end")
	}
}

func loop(t *testing.T) *intents {
	contents := newIntents()
	payload := job(1)
	payload.Version = "apply-loop"
	contents.put("job/1", payload)
	return contents
}

// A connection that ends proves nothing of the push under way, whether it was
// cut or its server was killed; the next one tells who serves there now.
func TestLostConnectionLeavesDoubt(t *testing.T) {
	t.Parallel()
	tr, dir := newTrust(t), t.TempDir()
	plugged := listenOn(t, tr, dir, "127.0.0.1:0")
	through := newRelay(t, plugged.address)
	server := dialled(t, tr.address(through.address), loop(t))
	first := up(t, server)
	if _, ok := any(server).(interface{ Alone() <-chan struct{} }); ok {
		t.Error("a server is said to be alone")
	}
	ended := looping(t, dir, server)
	old, _ := server.connected()
	through.cut()
	inDoubt(t, ended)
	eventually(t, "the same server is connected again", func() bool {
		again, err := server.connected()
		return err == nil && again != old && again.description.Instance == first.Instance
	})
	// The server heard of it as well, and its push has stopped.
	eventually(t, "the push stops", func() bool { _, stops := notes(t, dir, "stopped"); return len(stops) == 1 })
	ended = looping(t, dir, server)
	plugged.kill()
	inDoubt(t, ended)
	eventually(t, "the loss is told", func() bool { _, err := server.Describe(); return err != nil })
	listenOn(t, tr, dir, plugged.address)
	eventually(t, "the new server is known as such", func() bool {
		again, err := server.Describe()
		return err == nil && again.Instance != first.Instance
	})
	if processes, _ := notes(t, dir, "started"); len(processes) != 2 {
		t.Errorf("servers were started %d times", len(processes))
	}
}

// Two Lehrs whose stores hold other content under one name each get their own
// compared: what a server holds, it holds for a connection.
func TestContentIsHeldForAConnection(t *testing.T) {
	t.Parallel()
	tr := newTrust(t)
	plugged := listenOn(t, tr, t.TempDir(), "127.0.0.1:0")
	for _, name := range []string{"shop/one", "shop/other"} {
		contents, payload := newIntents(), job(1)
		payload.Name = name
		contents.put("job/1", payload)
		server := dialled(t, tr.address(plugged.address), contents)
		up(t, server)
		differences, err := server.Diff(t.Context(), plugin.DiffRequest{Incarnation: head, Assets: []intent.AssetID{"job/1"}})
		if err != nil {
			t.Fatal(err)
		}
		for _, change := range differences[0].Plan.Changes {
			if change.Path == "name" && change.Target != `"`+name+`"` {
				t.Errorf("for %s the server compares %s", name, change.Target)
			}
		}
		if len(differences[0].Plan.Changes) == 0 {
			t.Errorf("%+v", differences[0])
		}
	}
}
