package external_test

import (
	"encoding/pem"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"lehr.dev/internal/external"
	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/intent"
)

func read(t *testing.T, text string) (*external.Policy, error) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "checks.yaml")
	if err := os.WriteFile(file, []byte("external-checks: v1\n"+text), 0o600); err != nil {
		t.Fatal(err)
	}
	return external.ReadPolicy(file)
}

func TestMonitoringIsSaidWhole(t *testing.T) {
	for text, words := range map[string]string{
		"{name: a, kind: grafana, url: \"http://a\", partitions: [shop]}":                                    "not known",
		"{name: a, kind: prometheus, url: a, partitions: [shop]}":                                            "no URL",
		"{name: a, kind: prometheus, url: \"http://u:p@a\", partitions: [shop]}":                             "holds a user",
		"{name: a, kind: prometheus, url: \"http://a?x=1\", partitions: [shop]}":                             "a query",
		"{kind: prometheus, url: \"http://a\", partitions: [shop]}":                                          "no name",
		"{name: a, kind: prometheus, url: \"http://a\"}":                                                     "no partition may use it",
		"{name: a, kind: prometheus, url: \"http://a\", user: x, partitions: [shop]}":                        "a user and a password",
		"{name: a, kind: prometheus, url: \"http://a\", token: {env: A, file: b}, partitions: [shop]}":       "in one place",
		"{name: a, kind: prometheus, url: \"http://a\", token: {env: A}, user: x, partitions: [shop]}":       "a token, or a user",
		"{name: a, kind: prometheus, url: \"http://a\", tokens: {env: A}, partitions: [shop]}":               "tokens",
		"{name: a, kind: prometheus, url: \"http://a\", password: {env: A}, user: x, partitions: [\"S S\"]}": "S S",
	} {
		if _, err := read(t, "monitoring: ["+text+"]"); err == nil || !strings.Contains(err.Error(), words) {
			t.Errorf("%s: %v", text, err)
		}
	}
}

// TestSecretsAreShownToTheirMonitoringAlone, and to those partitions that may ask it.
func TestSecretsAreShownToTheirMonitoringAlone(t *testing.T) {
	seen := ""
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		seen = r.Header.Get("Authorization")
		if r.URL.Path == "/away" {
			http.Redirect(w, r, "http://169.254.169.254/", http.StatusFound)
		}
	}))
	defer server.Close()
	folder := t.TempDir()
	for name, text := range map[string]string{
		"token": "t0ken\n", "password": "pa:ss\n",
		"ca.pem": string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})),
		"checks.yaml": `external-checks: v1
monitoring:
  - {name: main, kind: prometheus, url: "` + server.URL + `", token: {file: token}, ca: ca.pem, partitions: [shop]}
  - {name: old, kind: prometheus, url: "` + server.URL + `", user: lehr, password: {file: password}, ca: ca.pem, partitions: [shop]}
  - {name: lost, kind: prometheus, url: "` + server.URL + `", token: {env: NO_SUCH_TOKEN}, ca: ca.pem, partitions: [shop]}
  - {name: strange, kind: prometheus, url: "` + server.URL + `", partitions: [shop]}
`,
	} {
		if err := os.WriteFile(filepath.Join(folder, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	policy, err := external.ReadPolicy(filepath.Join(folder, "checks.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{"main": "Bearer t0ken", "old": "Basic bGVocjpwYTpzcw=="} {
		request, err := policy.Place("shop", external.Prometheus, name)
		if err != nil {
			t.Fatal(err)
		}
		request.URL = request.URL.JoinPath("away")
		// It is the operator's, so it may be of this machine.
		if status, _, err := external.Fetch(t.Context(), request); err != nil || status != http.StatusFound || seen != want {
			t.Errorf("%s: %d %v, was shown %q", name, status, err, seen)
		}
	}
	for _, of := range []struct {
		partition  intent.PartitionID
		kind, name string
	}{{"other", external.Prometheus, "main"}, {"shop", external.Alertmanager, "main"}, {"shop", external.Prometheus, "none"}} {
		if _, err := policy.Place(of.partition, of.kind, of.name); !fault.Is(err, fault.Denied) {
			t.Errorf("%v: %v", of, err)
		}
	}
	if _, err := policy.Place("shop", external.Prometheus, "lost"); err == nil || !strings.Contains(err.Error(), "the token of lost is empty") {
		t.Errorf("a secret that is not there: %v", err)
	}
	request, err := policy.Place("shop", external.Prometheus, "strange")
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err = external.Fetch(t.Context(), request); err == nil || !strings.Contains(err.Error(), "certificate") {
		t.Errorf("a certificate that nobody vouches for: %v", err)
	}
	// What tenants name may lead to public addresses and listed networks only.
	request, err = policy.Place("shop", external.Prometheus, server.URL)
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err = external.Fetch(t.Context(), request); !fault.Is(err, fault.Denied) {
		t.Errorf("this machine is reached: %v", err)
	}
	for _, place := range []string{"ftp://a", "http://u:p@a", "http://a?b", "http://", "localhost:9090", "a b", ""} {
		if err := external.CheckPlace(place); err == nil {
			t.Errorf("%s can be asked", place)
		}
	}
}
