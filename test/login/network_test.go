package login

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"lehr.dev/internal/access"
)

// What listens beyond this machine believes nobody without a token, goes by its
// own names, and speaks TLS that people's programs verify.
func TestBeyondThisMachine(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.serve()
	ann := w.person("ann")
	ann.logsIn()

	launch, err := access.ReadRendezvous(w.store)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(launch.URL, "http://127.0.0.1:") {
		t.Errorf("this machine's user is told %s", launch.URL)
	}
	if status := w.call(launch.Token); status != http.StatusUnauthorized {
		t.Errorf("the launch token is answered %d over the network", status)
	}
	link := strings.Replace(access.PageLink(launch.URL, launch.Token), launch.URL, w.url, 1)
	stranger := w.person("bob")
	stranger.stops(w.provider.issuer)
	if shown := stranger.read(stranger.browser.Get(link)); shown.status != http.StatusFound || stranger.cookie(sessionCookie) != "" {
		t.Errorf("this machine's link is answered %d over the network", shown.status)
	}
	w.local("get", "partitions")

	for host, want := range map[string]int{"localhost:" + w.port(): 200, "127.0.0.1:" + w.port(): 200, "evil.example": 403} {
		request, _ := http.NewRequestWithContext(t.Context(), http.MethodPost, w.url+"/lehr.api.v1.PartitionService/ListPartitions", strings.NewReader("{}"))
		request.Header.Set("Content-Type", "application/json")
		request.Header.Set("Authorization", "Bearer "+ann.secret())
		request.Host = host
		if shown := ann.read(ann.browser.Do(request)); shown.status != want {
			t.Errorf("host %q is answered %d, want %d: %s", host, shown.status, want, shown.text)
		}
	}
	request, _ := http.NewRequestWithContext(t.Context(), http.MethodGet, w.url+"/", nil)
	request.Host = "evil.example"
	if shown := ann.read(ann.browser.Do(request)); shown.status != http.StatusForbidden {
		t.Errorf("a page by another name is answered %d", shown.status)
	}

	// Old TLS, no TLS, and a certificate that nobody vouches for.
	if _, err := tls.Dial("tcp", "localhost:"+w.port(), &tls.Config{RootCAs: w.roots, MinVersion: tls.VersionTLS10, MaxVersion: tls.VersionTLS11}); err == nil {
		t.Error("it speaks TLS 1.1")
	}
	if answer, err := http.Get("http://localhost:" + w.port() + "/"); err == nil {
		answer.Body.Close()
		if answer.StatusCode != http.StatusBadRequest {
			t.Errorf("without TLS it answers %s", answer.Status)
		}
	}
	empty := w.folder + "/other.pem"
	other := newCertificate(t)
	if err := os.WriteFile(empty, other, 0o600); err != nil {
		t.Fatal(err)
	}
	doubting := *w
	doubting.ca = empty
	someone := doubting.person("ann")
	someone.settings = ann.settings
	someone.refused("the server's certificate is not believed(?s).*LEHR_CA", "get", "partitions")
}

// newCertificate is one that vouches for nobody here.
func newCertificate(t *testing.T) []byte {
	t.Helper()
	w := &world{T: t, folder: t.TempDir()}
	w.certify("other.example")
	text, err := os.ReadFile(w.ca)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// A renewed certificate is used without a start.
func TestTheCertificateIsRenewed(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.serve()
	before := w.presented()
	w.certify("localhost")
	for deadline := time.Now().Add(patience); w.presented().Equal(before); time.Sleep(50 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("the certificate of before is used")
		}
	}
	answer := w.person("ann").read(w.person("ann").browser.Get(w.url + "/static/style.css"))
	if answer.status != http.StatusUnauthorized {
		t.Errorf("who believes the new one is answered %d", answer.status)
	}
}

// presented is the server's certificate.
func (w *world) presented() *x509.Certificate {
	w.Helper()
	// What it presents is looked at, not believed.
	connection, err := tls.Dial("tcp", "localhost:"+w.port(), &tls.Config{InsecureSkipVerify: true})
	if err != nil {
		w.Fatal(err)
	}
	defer connection.Close()
	return connection.ConnectionState().PeerCertificates[0]
}

func TestWhatWouldServeOthersUnguardedIsRefused(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	encrypted := []string{"--tls-cert", w.folder + "/cert.pem", "--tls-key", w.folder + "/key.pem"}
	policed := []string{"--access", w.folder + "/access.yaml"}
	for name, c := range map[string]struct {
		arguments []string
		says      string
	}{
		"in the clear":      {policed, "without TLS everybody on the way"},
		"without a policy":  {encrypted, "no access policy says who may do what"},
		"without a name":    {slices.Concat(encrypted, policed), "by which name they know this one"},
		"without a key":     {slices.Concat(encrypted[:2], policed), "a certificate needs its key"},
		"with no URL":       {slices.Concat(encrypted, policed, []string{"--url", "http://lehr.example.com"}), "is not the URL of a server"},
		"with no such file": {slices.Concat(encrypted[:3], []string{w.folder + "/gone"}, policed, []string{"--url", w.url}), "reading the certificate"},
		"with no secret":    {slices.Concat(encrypted, []string{"--access", w.folder + "/bare.yaml", "--url", w.url}), "the web client's secret"},
	} {
		w.write("bare.yaml", fmt.Sprintf(policy, w.provider.issuer, w.folder+"/gone"))
		command := exec.CommandContext(t.Context(), filepath.Join(programs(t), "lehr"), append([]string{"serve", "--store", w.store, "--listen", "0.0.0.0:0"}, c.arguments...)...)
		out, err := command.CombinedOutput()
		if err == nil || !strings.Contains(string(out), c.says) {
			t.Errorf("%s: %v, want it refused with %q: %s", name, err, c.says, out)
		}
	}
}
