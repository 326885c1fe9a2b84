package resolver

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"strings"
	"testing"
	"time"

	intentpb "lehr.dev/gen/lehr/intent/v1"
	"lehr.dev/internal/ground/fault"
	"lehr.dev/sdk/secret"
)

// api is a cluster's API, over TLS, that knows one token and, if it asks for them, its
// own certificate.
type api struct {
	*httptest.Server
	token  string
	answer func(w http.ResponseWriter, path string)
}

func newAPI(t *testing.T, clientAuth tls.ClientAuthType) *api {
	t.Helper()
	a := &api{token: "token-of-the-plugin"}
	a.answer = func(w http.ResponseWriter, path string) {
		if path != "/api/v1/namespaces/shop/secrets/db" {
			w.WriteHeader(http.StatusNotFound)
			return
		}
		fmt.Fprintf(w, `{"kind":"Secret","metadata":{"namespace":"shop","name":"db"},"data":{"password":%q,"user":%q}}`,
			base64.StdEncoding.EncodeToString([]byte("of the cluster\n")), base64.StdEncoding.EncodeToString([]byte("lehr")))
	}
	a.Server = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer "+a.token && len(r.TLS.PeerCertificates) == 0 {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		a.answer(w, r.URL.Path)
	}))
	a.TLS = &tls.Config{ClientAuth: clientAuth}
	a.StartTLS()
	t.Cleanup(a.Close)
	return a
}

func (a *api) authority() string {
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: a.Certificate().Raw}))
}

func (a *api) kubeconfig(user string) string {
	return fmt.Sprintf(`apiVersion: v1
kind: Config
current-context: main
contexts: [{name: main, context: {cluster: c, user: u}}, {name: lost, context: {cluster: none, user: u}}]
clusters: [{name: c, cluster: {server: %q, certificate-authority-data: %s, tls-server-name: example.com}}]
users: [{name: u, user: {%s}}]
`, a.URL, base64.StdEncoding.EncodeToString([]byte(a.authority())), user)
}

func ofSecret(key string) *intentpb.SecretRef {
	return &intentpb.SecretRef{Source: &intentpb.SecretRef_Kubernetes{Kubernetes: &intentpb.KubernetesSecret{Namespace: "shop", Name: "db", Key: key}}}
}

// permitCluster lists the Secret shop/db of the cluster of a kubeconfig.
func (d *desk) permitCluster(settings string) *Resolver {
	d.t.Helper()
	d.write("lehr-secrets.yaml", fmt.Sprintf("lehr-secrets: v1\nkey: %s\n%ssecrets:\n- {kubernetes: {namespace: shop, name: db}, partitions: [shop], plugins: ['*']}\n", d.path("key"), settings))
	return New("lehr-test", d.list)
}

func push() secret.Request {
	return secret.Request{Partition: "shop", Push: secret.NewPush(time.Now())}
}

func TestASecretOfTheClusterIsReadAsItsServiceAccount(t *testing.T) {
	d, a := newDesk(t), newAPI(t, tls.NoClientCert)
	address, err := url.Parse(a.URL)
	if err != nil {
		t.Fatal(err)
	}
	host, port, err := net.SplitHostPort(address.Host)
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("KUBERNETES_SERVICE_HOST", host)
	t.Setenv("KUBERNETES_SERVICE_PORT", port)
	r := d.permitCluster("")
	r.reader.serviceAccount = d.folder
	d.write("token", a.token+"\n")
	d.write("ca.crt", a.authority())
	if got := text(t, r, push(), ofSecret("password")); got != "of the cluster\n" {
		t.Errorf("%q", got)
	}
	d.write("token", "another token")
	if _, err := r.Resolve(t.Context(), push(), ofSecret("password")); !fault.Is(err, fault.Denied) || strings.Contains(err.Error(), "another token") {
		t.Errorf("by another token: %v", err)
	}
	d.write("ca.crt", string(otherAuthority(t)))
	if _, err := r.Resolve(t.Context(), push(), ofSecret("password")); !fault.Is(err, fault.Unavailable) || !strings.Contains(err.Error(), "certificate") {
		t.Errorf("of another authority: %v", err)
	}
	t.Setenv("KUBERNETES_SERVICE_HOST", "")
	if _, err := r.Resolve(t.Context(), push(), ofSecret("password")); !fault.Is(err, fault.Denied) || !strings.Contains(err.Error(), "kubeconfig") {
		t.Errorf("outside of a cluster: %v", err)
	}
}

// otherAuthority vouches for nothing here.
func otherAuthority(t *testing.T) []byte {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true}
	raw, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: raw})
}

func TestASecretIsReadByAKubeconfig(t *testing.T) {
	d, a := newDesk(t), newAPI(t, tls.RequestClientCert)
	r := d.permitCluster("kubernetes: {kubeconfig: " + d.path("config") + "}\n")
	pair := a.TLS.Certificates[0]
	raw, err := x509.MarshalPKCS8PrivateKey(pair.PrivateKey)
	if err != nil {
		t.Fatal(err)
	}
	key := pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: raw})
	d.write("client.pem", a.authority())
	d.write("client.key", string(key))
	d.write("token.txt", a.token)
	for name, user := range map[string]string{
		"token": "token: " + a.token, "file of a token": "tokenFile: token.txt",
		"certificate": "client-certificate: client.pem, client-key: " + d.path("client.key"),
	} {
		d.write("config", a.kubeconfig(user))
		if got := text(t, r, push(), ofSecret("user")); got != "lehr" {
			t.Errorf("%s: %q", name, got)
		}
	}
	whole := a.kubeconfig("token: " + a.token)
	for name, test := range map[string]struct{ content, want string }{
		"no YAML":       {"token: [" + a.token, "cannot be read"},
		"no context":    {strings.Replace(whole, "current-context: main", "current-context: lost", 1), `no context "lost"`},
		"none at all":   {"{}", "no context"},
		"plain HTTP":    {strings.Replace(whole, "https://", "http://", 1), "no https address"},
		"no check":      {strings.Replace(whole, "tls-server-name", "insecure-skip-tls-verify: true, tls-server-name", 1), "insecure-skip-tls-verify"},
		"a proxy":       {strings.Replace(whole, "tls-server-name", "proxy-url: http://proxy, tls-server-name", 1), "proxy-url"},
		"a program":     {a.kubeconfig("exec: {command: aws}"), "exec"},
		"a password":    {a.kubeconfig("username: a, password: b"), "username"},
		"another name":  {strings.Replace(whole, "example.com", "other.test", 1), "certificate"},
		"no such file":  {a.kubeconfig("tokenFile: none.txt"), "none.txt"},
		"no such pair":  {a.kubeconfig("client-certificate: client.pem, client-key: token.txt"), "do not fit"},
		"no base64":     {strings.Replace(whole, base64.StdEncoding.EncodeToString([]byte(a.authority())), "'*'", 1), "no base64"},
		"nobody's word": {a.kubeconfig("token: wrong"), "does not let the plugin read it"},
	} {
		d.write("config", test.content)
		_, err := r.Resolve(t.Context(), push(), ofSecret("user"))
		if err == nil || !strings.Contains(err.Error(), test.want) || strings.Contains(err.Error(), a.token) {
			t.Errorf("%s: %v, want %q", name, err, test.want)
		}
	}
	d.write("config", whole)
	if err := os.Chmod(d.path("config"), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := r.Resolve(t.Context(), push(), ofSecret("user")); !fault.Is(err, fault.Denied) || !strings.Contains(err.Error(), "chmod o=") {
		t.Errorf("a kubeconfig that all can read: %v", err)
	}
}

// TestAnswersOfAClusterThatAreNoSecret: nothing of them is told.
func TestAnswersOfAClusterThatAreNoSecret(t *testing.T) {
	d, a := newDesk(t), newAPI(t, tls.NoClientCert)
	r := d.permitCluster("kubernetes: {kubeconfig: " + d.path("config") + ", context: main}\n")
	d.write("config", a.kubeconfig("token: "+a.token))
	elsewhere := newAPI(t, tls.NoClientCert)
	for name, test := range map[string]struct {
		answer func(http.ResponseWriter, string)
		kind   fault.Kind
		want   string
	}{
		"not there": {func(w http.ResponseWriter, _ string) { w.WriteHeader(http.StatusNotFound) }, fault.NotFound, "does not have it"},
		"forbidden": {func(w http.ResponseWriter, _ string) {
			w.WriteHeader(http.StatusForbidden)
			fmt.Fprint(w, "hunter2")
		}, fault.Denied, "resourceNames"},
		"broken":  {func(w http.ResponseWriter, _ string) { w.WriteHeader(http.StatusInternalServerError) }, fault.Unavailable, "answered 500"},
		"no JSON": {func(w http.ResponseWriter, _ string) { fmt.Fprint(w, "hunter2") }, fault.Unavailable, "not this Secret"},
		"no base64": {func(w http.ResponseWriter, _ string) {
			fmt.Fprint(w, `{"kind":"Secret","metadata":{"namespace":"shop","name":"db"},"data":{"user":"hunter2!"}}`)
		}, fault.Unavailable, "not this Secret"},
		"another one": {func(w http.ResponseWriter, _ string) {
			fmt.Fprint(w, `{"kind":"Secret","metadata":{"namespace":"shop","name":"other"},"data":{"user":"aHVudGVyMg=="}}`)
		}, fault.Unavailable, "not this Secret"},
		"no such key": {func(w http.ResponseWriter, _ string) {
			fmt.Fprint(w, `{"kind":"Secret","metadata":{"namespace":"shop","name":"db"},"data":{"other":"aHVudGVyMg=="}}`)
		}, fault.NotFound, "no such key"},
		"elsewhere": {func(w http.ResponseWriter, path string) {
			w.Header().Set("Location", elsewhere.URL+path)
			w.WriteHeader(http.StatusFound)
		}, fault.Unavailable, "elsewhere"},
		"large": {func(w http.ResponseWriter, _ string) { _, _ = w.Write(make([]byte, maxAnswer+10)) }, fault.Unavailable, "cut short"},
	} {
		a.answer = test.answer
		_, err := r.Resolve(t.Context(), push(), ofSecret("user"))
		if !fault.Is(err, test.kind) || !strings.Contains(err.Error(), test.want) || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s: %v, want %v %q", name, err, test.kind, test.want)
		}
	}
}
