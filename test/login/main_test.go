// Package login logs people in to the real program, at a real provider, both as
// processes: from a command line and with a browser, also as an attacker would.
// Nothing imports it.
package login

import (
	"bufio"
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"lehr.dev/test/building"
	"lehr.dev/test/canary"
	"lehr.dev/test/freeport"
)

// patience bounds every wait; no test waits for it when all is well.
const patience = 4 * time.Minute

var built struct {
	once   sync.Once
	folder string
	err    error
}

func TestMain(m *testing.M) {
	code := m.Run()
	if built.folder != "" {
		os.RemoveAll(built.folder)
	}
	os.Exit(code)
}

// programs builds lehr and the provider once, and returns their folder.
func programs(t *testing.T) string {
	t.Helper()
	if testing.Short() {
		t.Skip("builds and runs the real programs")
	}
	built.once.Do(func() {
		if built.folder, built.err = os.MkdirTemp("", "lehr-login-"); built.err != nil {
			return
		}
		for program, from := range map[string][2]string{"lehr": {"../..", "./cmd/lehr"}, "oidcprovider": {"../oidcprovider", "."}} {
			if built.err = (building.Program{Of: filepath.Join(from[0], from[1])}).At(filepath.Join(built.folder, program)); built.err != nil {
				return
			}
		}
	})
	if built.err != nil {
		t.Fatal(built.err)
	}
	return built.folder
}

// begin starts a program that ends with the test, and returns its lines.
func begin(t *testing.T, name string, environment []string, arguments ...string) (*exec.Cmd, *bufio.Scanner) {
	t.Helper()
	command := exec.Command(filepath.Join(programs(t), name), arguments...)
	command.Env = append(os.Environ(), environment...)
	command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGTERM}
	var log bytes.Buffer
	command.Stderr = &log
	out, err := command.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		end(command)
		if t.Failed() {
			t.Logf("%s said at last:\n%s", name, log.Bytes()[max(0, log.Len()-2000):])
		}
	})
	return command, bufio.NewScanner(out)
}

// end ends a program, once.
func end(command *exec.Cmd) {
	if command.ProcessState == nil {
		_ = command.Process.Signal(syscall.SIGTERM)
		_ = command.Wait()
	}
}

// provider is a real one.
type provider struct {
	*testing.T
	issuer  string
	process *exec.Cmd
	// redirects are where the web client may be led back to.
	redirects []string
}

func newProvider(t *testing.T) *provider {
	t.Helper()
	p := &provider{T: t}
	p.start("127.0.0.1:0")
	return p
}

func (p *provider) start(listen string) {
	p.Helper()
	var lines *bufio.Scanner
	p.process, lines = begin(p.T, "oidcprovider", nil, "-listen", listen)
	var said struct{ Issuer string }
	if !lines.Scan() || json.Unmarshal(lines.Bytes(), &said) != nil {
		p.Fatalf("the provider says %q", lines.Text())
	}
	p.issuer = said.Issuer
}

// again starts one that was ended, at the same address.
func (p *provider) again() {
	p.Helper()
	p.start(strings.TrimPrefix(p.issuer, "http://"))
	for _, uri := range p.redirects {
		p.told("/test/redirect", url.Values{"uri": {uri}})
	}
}

// allow lets the web client be led back to an address.
func (p *provider) allow(uri string) {
	p.Helper()
	p.redirects = append(p.redirects, uri)
	p.told("/test/redirect", url.Values{"uri": {uri}})
}

// told sends the provider what tests tell it.
func (p *provider) told(path string, values url.Values) {
	p.Helper()
	answer, err := http.PostForm(p.issuer+path, values)
	if err != nil {
		p.Fatal(err)
	}
	answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		p.Fatalf("%s: %s", path, answer.Status)
	}
}

const password = "secret of tests"

// policy lets platform do everything and developers look; ann is of both
// platform and sre, bob of developers.
const policy = `access: v1
grants:
  - {role: admin, to: [group:platform]}
  - {role: viewer, to: [group:developers]}
oidc:
  issuer: %s
  client_id: cli
  web_client_id: web
  web_client_secret_file: %s
  scopes: [openid, email, groups]
`

// world is a server that other machines reach, and people who log in to it.
type world struct {
	*testing.T
	provider *provider
	folder   string
	// url is how people know the server, by TLS.
	url string
	// roots are what they believe, and ca the file of it.
	roots  *x509.CertPool
	ca     string
	server *exec.Cmd
	store  string
	people []*person
	// logs are what its servers said.
	logs []*bytes.Buffer
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{T: t, provider: newProvider(t), folder: t.TempDir(), url: "https://localhost:" + strconv.Itoa(freeport.Row(t, 1))}
	w.store = filepath.Join(w.folder, "lehr.db")
	w.certify("localhost", "lehr.test")
	w.write("secret", "secret of the web client\n")
	w.write("access.yaml", fmt.Sprintf(policy, w.provider.issuer, filepath.Join(w.folder, "secret")))
	w.write("lehr.yaml", definition)
	w.write("web.star", program)
	w.provider.allow(w.url + "/login/callback")
	t.Cleanup(w.searchAll)
	return w
}

// searchAll looks for the secrets of people, and of the server as a client of
// the provider, in all that its servers left (S13). Their ends come before.
func (w *world) searchAll() {
	w.Helper()
	var secrets canary.Canaries
	secrets.Know("the web client", "secret of the web client")
	known := 0
	for _, p := range w.people {
		kept, err := os.ReadFile(filepath.Join(p.settings, "credentials.json"))
		if err != nil && !os.IsNotExist(err) {
			w.Error(err)
		}
		bearers := bearer.FindAllStringSubmatch(string(kept), -1)
		for _, cookie := range p.browser.Jar.Cookies(w.home()) {
			bearers = append(bearers, bearer.FindAllStringSubmatch(cookie.Value, -1)...)
		}
		for _, found := range bearers {
			secrets.Know("a token of "+p.name, found[1])
			known++
		}
	}
	w.Logf("%d tokens are searched for", known)
	secrets.SearchFolder(w.T, w.folder, filepath.Join(w.folder, "secret"))
	for _, log := range w.logs {
		secrets.Search(w.T, "the log of a server", log.Bytes())
	}
}

var bearer = regexp.MustCompile(`lehr_[a-z0-9]+_([A-Z0-9]{24,})`)

// home is where cookies of the server go.
func (w *world) home() *url.URL {
	w.Helper()
	parsed, err := url.Parse(w.url)
	if err != nil {
		w.Fatal(err)
	}
	return parsed
}

const definition = `lehr: v1
partition: shop
owner: shop@example.com
sources:
  service: {dir: ., files: [lehr.yaml]}
generate:
  web: {starlark: web.star, from: [service]}
`

const program = `
def generate(ctx):
    return [asset("one", lehr.command.v1.Command(diff = ["true"], push = ["true"]))]
`

func (w *world) write(name, text string) {
	w.Helper()
	if err := os.WriteFile(filepath.Join(w.folder, name), []byte(text), 0o600); err != nil {
		w.Fatal(err)
	}
}

// certify writes a certificate of the names, which w's people believe.
func (w *world) certify(names ...string) {
	w.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		w.Fatal(err)
	}
	serial, _ := rand.Int(rand.Reader, big.NewInt(1<<62))
	template := &x509.Certificate{
		SerialNumber: serial, Subject: pkix.Name{CommonName: "tests of lehr"}, DNSNames: names, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour), IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	made, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		w.Fatal(err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		w.Fatal(err)
	}
	certificate := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: made})
	w.write("key.pem", string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private})))
	w.write("cert.pem", string(certificate))
	w.ca, w.roots = filepath.Join(w.folder, "ca.pem"), x509.NewCertPool()
	w.write("ca.pem", string(certificate))
	w.roots.AppendCertsFromPEM(certificate)
}

// serve starts the server for all who reach this machine.
func (w *world) serve(more ...string) {
	w.Helper()
	var lines *bufio.Scanner
	w.server, lines = begin(w.T, "lehr", []string{"LEHR_CA=" + w.ca}, append([]string{
		"serve", "--store", w.store, "-p", filepath.Join(w.folder, "lehr.yaml"), "--listen", "0.0.0.0:" + w.port(),
		"--tls-cert", filepath.Join(w.folder, "cert.pem"), "--tls-key", filepath.Join(w.folder, "key.pem"),
		"--access", filepath.Join(w.folder, "access.yaml"), "--url", w.url,
	}, more...)...)
	w.logs = append(w.logs, w.server.Stderr.(*bytes.Buffer))
	for lines.Scan() {
		if strings.Contains(lines.Text(), "other machines: https://") {
			go io.Copy(io.Discard, nopReader{lines})
			return
		}
	}
	w.Fatal("the server does not serve")
}

// nopReader reads lines to their end.
type nopReader struct{ lines *bufio.Scanner }

func (r nopReader) Read([]byte) (int, error) {
	if r.lines.Scan() {
		return 0, nil
	}
	return 0, io.EOF
}

func (w *world) port() string { return w.url[strings.LastIndexByte(w.url, ':')+1:] }

// person is somebody at a machine of their own.
type person struct {
	*world
	name     string
	settings string
	browser  *http.Client
}

func (w *world) person(name string) *person {
	w.Helper()
	jar, err := cookiejar.New(nil)
	if err != nil {
		w.Fatal(err)
	}
	browser := &http.Client{Jar: jar, Timeout: patience, Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: w.roots}}}
	w.Cleanup(browser.CloseIdleConnections)
	p := &person{world: w, name: name, settings: w.TempDir(), browser: browser}
	w.people = append(w.people, p)
	return p
}

// lehr runs the program to its end.
func (p *person) lehr(arguments ...string) (out, errs string, err error) {
	p.Helper()
	command := p.command(arguments...)
	var o, e bytes.Buffer
	command.Stdout, command.Stderr = &o, &e
	err = command.Run()
	return o.String(), e.String(), err
}

func (p *person) command(arguments ...string) *exec.Cmd {
	command := exec.CommandContext(p.Context(), filepath.Join(programs(p.T), "lehr"), append(arguments, "--server", p.url)...)
	command.Env = []string{"LEHR_CONFIG_DIR=" + p.settings, "LEHR_CA=" + p.ca, "HOME=" + p.settings, "PATH=" + os.Getenv("PATH")}
	return command
}

// must runs the program, which must succeed, and returns what it printed.
func (p *person) must(arguments ...string) string {
	p.Helper()
	out, errs, err := p.lehr(arguments...)
	if err != nil {
		p.Fatalf("lehr %v: %v: %s", arguments, err, errs)
	}
	return out
}

// refused runs the program, which must fail and say why.
func (p *person) refused(says string, arguments ...string) {
	p.Helper()
	out, errs, err := p.lehr(arguments...)
	if err == nil || !regexp.MustCompile(says).MatchString(errs) {
		p.Errorf("lehr %v: %v, want it refused with %q: %s%s", arguments, err, says, out, errs)
	}
}

var address = regexp.MustCompile(`(?m)^    (https?://\S+)$`)

// login is `lehr auth login`, under way.
type login struct {
	*person
	command *exec.Cmd
	// address that it wants opened.
	address string
	errs    *bufio.Reader
	said    bytes.Buffer
	out     bytes.Buffer
}

// beginLogin runs `lehr auth login` until it has printed an address.
func (p *person) beginLogin(more ...string) *login {
	p.Helper()
	l := &login{person: p, command: p.command(append([]string{"auth", "login"}, more...)...)}
	pipe, err := l.command.StderrPipe()
	if err != nil {
		p.Fatal(err)
	}
	l.command.Stdout = &l.out
	if err := l.command.Start(); err != nil {
		p.Fatal(err)
	}
	p.Cleanup(func() { _ = l.command.Process.Kill() })
	l.errs = bufio.NewReader(pipe)
	for l.address == "" {
		line, err := l.errs.ReadString('\n')
		l.said.WriteString(line)
		if found := address.FindStringSubmatch(strings.TrimRight(line, "\n")); found != nil {
			l.address = found[1]
		}
		if err != nil {
			p.Fatalf("lehr auth login ended: %v: %s", l.command.Wait(), l.said.String())
		}
	}
	return l
}

// wait is the end of the program.
func (l *login) wait() error {
	_, _ = io.Copy(&l.said, l.errs)
	return l.command.Wait()
}

var (
	hidden = regexp.MustCompile(`name="(id|user_code)" value="([^"]*)"`)
	action = regexp.MustCompile(`action="([^"]*)"`)
)

// page is what a browser got in the end.
type page struct {
	status int
	at     *url.URL
	text   string
	header http.Header
}

func (p *person) read(answer *http.Response, err error) page {
	p.Helper()
	if err != nil {
		p.Fatal(err)
	}
	defer answer.Body.Close()
	text, _ := io.ReadAll(answer.Body)
	return page{answer.StatusCode, answer.Request.URL, string(text), answer.Header}
}

// open opens an address, and fills in the provider's form when led to it.
func (p *person) open(address string) page {
	p.Helper()
	return p.submit(p.read(p.browser.Get(address)))
}

// submit fills in the provider's form, if a page is one.
func (p *person) submit(shown page) page {
	p.Helper()
	found := hidden.FindStringSubmatch(shown.text)
	if found == nil {
		return shown
	}
	to, err := shown.at.Parse(action.FindStringSubmatch(shown.text)[1])
	if err != nil {
		p.Fatal(err)
	}
	return p.read(p.browser.PostForm(to.String(), url.Values{found[1]: {found[2]}, "user": {p.name}, "password": {password}}))
}

// logsIn logs in from the command line.
func (p *person) logsIn() {
	p.Helper()
	l := p.beginLogin()
	if shown := p.open(l.address); !strings.Contains(shown.text, "You are logged in") {
		p.Errorf("the browser shows at %s: %s", shown.at, shown.text)
	}
	if err := l.wait(); err != nil {
		p.Fatalf("%v: %s", err, l.said.String())
	}
}
