package endpoint

import (
	"crypto/rand"
	"encoding/base64"
	"encoding/pem"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"lehr.dev/sdk/secret"
	"lehr.dev/sdk/secret/resolver"
	"lehr.dev/sdk/serve"
)

// safe is a folder with a list of secrets, and an endpoint that has them in headers.
type safe struct {
	*testing.T
	folder string
	// last are the headers of the last request.
	last     http.Header
	server   *httptest.Server
	settings string
}

func newSafe(t *testing.T) *safe {
	s := &safe{T: t, folder: t.TempDir()}
	s.server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.last = r.Header.Clone()
		_, _ = w.Write([]byte(`{"message": "no right for ` + r.Header.Get("X-Key") + `"}`))
	}))
	t.Cleanup(s.server.Close)
	s.put("key", rand.Text()+rand.Text())
	return s
}

func (s *safe) path(name string) string { return filepath.Join(s.folder, name) }

func (s *safe) put(name, text string) string {
	s.Helper()
	write(s.T, s.path(name), text)
	return s.path(name)
}

// open lists the secrets, and opens the endpoint with those headers.
func (s *safe) open(headers string, secrets ...string) *Endpoint {
	s.Helper()
	text := fmt.Sprintf("lehr-secrets: v1\nkey: %s\n%ssecrets:\n", s.path("key"), s.settings)
	for _, entry := range secrets {
		text += "- {" + entry + ", partitions: [shop], plugins: [lehr-http]}\n"
	}
	path := s.put("list.yaml", strings.Replace(fine, "https://things.example/api/", s.server.URL, 1)+"  headers: ["+headers+"]\n")
	list, err := Open(path, resolver.New(Plugin, s.put("secrets.yaml", text)))
	if err != nil {
		s.Fatal(err)
	}
	e, err := list.Named("things")
	if err != nil {
		s.Fatal(err)
	}
	return e
}

// ask sends a request on behalf of an asset of a partition.
func (s *safe) ask(e *Endpoint, partition string, push *secret.Push) (Answer, error) {
	s.last = nil
	return e.Do(s.Context(), Call{Method: "GET", Path: "/c/a", Secrets: secret.Request{Partition: serve.PartitionID(partition), Push: push}})
}

// TestSecretsOfEachKind are sent in their header, and never shown.
func TestSecretsOfEachKind(t *testing.T) {
	t.Setenv("LEHR_TEST_KEY", "top-secret-7")
	t.Setenv("HTTP_PROXY", "http://127.0.0.1:1")
	s := newSafe(t)
	s.put("token", "token-of-a-file\n")
	cluster := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/api/v1/namespaces/shop/secrets/api" || r.Header.Get("Authorization") != "Bearer of-the-plugin" {
			w.WriteHeader(http.StatusNotFound)
			return
		}
		fmt.Fprintf(w, `{"kind":"Secret","metadata":{"namespace":"shop","name":"api"},"data":{"token":%q}}`, base64.StdEncoding.EncodeToString([]byte("token-of-a-cluster")))
	}))
	t.Cleanup(cluster.Close)
	authority := base64.StdEncoding.EncodeToString(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: cluster.Certificate().Raw}))
	s.settings = "kubernetes: {kubeconfig: " + s.put("kubeconfig", fmt.Sprintf(`apiVersion: v1
kind: Config
current-context: main
contexts: [{name: main, context: {cluster: c, user: u}}]
clusters: [{name: c, cluster: {server: %q, certificate-authority-data: %s, tls-server-name: example.com}}]
users: [{name: u, user: {token: of-the-plugin}}]
`, cluster.URL, authority)) + "}\n"
	copied := func(name string) string {
		content, err := os.ReadFile(filepath.Join("..", "..", "..", "sdk", "secret", "sops", "testdata", name))
		if err != nil {
			t.Fatal(err)
		}
		return s.put(name, string(content))
	}
	copied("default.yaml")
	e := s.open("{name: Authorization, value: 'Bearer {secret}', file: token}, {name: X-Key, env: LEHR_TEST_KEY}, {name: X-Team, value: shop}, "+
		"{name: X-Command, command: vault}, {name: X-Cluster, kubernetes: {namespace: shop, name: api, key: token}}, {name: X-Sops, sops: {file: default.yaml, path: [database, password]}}",
		"file: "+s.path("token"), "env: LEHR_TEST_KEY", "command: vault, run: [/bin/echo, token-of-a-command]", "kubernetes: {namespace: shop, name: api}", "sops: "+copied("identity.txt"))
	answer, err := s.ask(e, "shop", nil)
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{
		"Authorization": "Bearer token-of-a-file", "X-Key": "top-secret-7", "X-Team": "shop", "X-Command": "token-of-a-command",
		"X-Cluster": "token-of-a-cluster", "X-Sops": "correct horse battery staple",
	} {
		if got := s.last.Get(name); got != want {
			t.Errorf("%s is %q, want %q", name, got, want)
		}
	}
	if shown := answer.Redact(string(answer.Body)); shown != `{"message": "no right for (redacted)"}` {
		t.Error(shown)
	}
}

// TestSecretsThatCannotBeSent: nothing is sent, and the reason names the reference and no
// value.
func TestSecretsThatCannotBeSent(t *testing.T) {
	t.Setenv("LEHR_TEST_KEY", "")
	s := newSafe(t)
	file := "file: " + s.path("token")
	for name, c := range map[string]struct{ content, header, entry, partition, want string }{
		"empty":             {"", "file: token", file, "shop", "token"},
		"no line":           {"two\nlines-of-it", "file: token", file, "shop", "cannot be sent"},
		"not listed":        {"sword-fish", "file: token", "env: LEHR_OTHER", "shop", "not listed"},
		"another partition": {"sword-fish", "file: token", file, "elsewhere", "not listed for partition elsewhere"},
		"no variable":       {"sword-fish", "env: LEHR_TEST_NONE", "env: LEHR_TEST_NONE", "shop", "LEHR_TEST_NONE"},
		"an empty variable": {"sword-fish", "env: LEHR_TEST_KEY", "env: LEHR_TEST_KEY", "shop", "LEHR_TEST_KEY"},
		"a command fails":   {"sword-fish", "command: vault", "command: vault, run: [/bin/false]", "shop", "vault"},
		"no document":       {"sword-fish", "sops: {file: none.yaml, path: [a]}", "sops: " + s.path("token"), "shop", "none.yaml"},
	} {
		s.put("token", c.content)
		_, err := s.ask(s.open("{name: X-Key, "+c.header+"}", c.entry), c.partition, nil)
		if err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "lines-of-it") || strings.Contains(err.Error(), "sword-fish") {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
		if s.last != nil {
			t.Errorf("%s: a request was sent", name)
		}
	}
	list, err := Open(s.path("list.yaml"), nil)
	if err != nil {
		t.Fatal(err)
	}
	e, _ := list.Named("things")
	if _, err := s.ask(e, "shop", nil); err == nil || !strings.Contains(err.Error(), "--secret-list") {
		t.Errorf("without a list of secrets: %v", err)
	}
}

// TestAPushReadsItsSecretAnew: a look may take what was read within 30 s.
func TestAPushReadsItsSecretAnew(t *testing.T) {
	s := newSafe(t)
	s.put("token", "first-token\n")
	e := s.open("{name: X-Key, file: token}", "file: "+s.path("token"))
	if _, err := s.ask(e, "shop", nil); err != nil || s.last.Get("X-Key") != "first-token" {
		t.Fatal(err, s.last)
	}
	s.put("token", "second-token\n")
	if _, err := s.ask(e, "shop", secret.NewPush(time.Now())); err != nil || s.last.Get("X-Key") != "second-token" {
		t.Error(err, s.last)
	}
}
