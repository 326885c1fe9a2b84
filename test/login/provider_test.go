package login

import (
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// A server that runs is told of a provider, of another client and of another
// secret: each counts without a restart, and what cannot be read changes nothing.
func TestTheProviderIsChanged(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	whole := fmt.Sprintf(policy, w.provider.issuer, filepath.Join(w.folder, "secret"))
	without, _, _ := strings.Cut(whole, "oidc:")
	w.write("access.yaml", without)
	w.serve()
	ann := w.person("ann")
	ann.refused("believes no provider|nobody can log in", "auth", "login")
	if shown := ann.read(ann.browser.Get(w.url + "/")); shown.status != http.StatusForbidden || !strings.Contains(shown.text, "Nobody can log in") {
		t.Errorf("without a provider a page is answered %d: %s", shown.status, shown.text)
	}
	// led waits until browsers are led to the provider as the client; "": nowhere.
	led := func(client string) {
		t.Helper()
		other, at := w.person("ann"), ""
		for deadline := time.Now().Add(patience); time.Now().Before(deadline); time.Sleep(20 * time.Millisecond) {
			other.browser.CheckRedirect = func(r *http.Request, _ []*http.Request) error {
				at = r.URL.Query().Get("client_id")
				return http.ErrUseLastResponse
			}
			at = ""
			if other.read(other.browser.Get(w.url + "/")); at == client {
				return
			}
		}
		t.Fatalf("browsers are led to the provider as client %q, not %q", at, client)
	}
	w.write("access.yaml", strings.Replace(whole, "web_client_id: web", "web_client_id: other", 1))
	led("other")
	w.write("access.yaml", whole)
	led("web")
	ann.logsIn()
	if shown := ann.open(w.url + "/"); shown.status != http.StatusOK || !strings.HasPrefix(shown.at.String(), w.url) {
		t.Errorf("ann's browser is shown %d at %s", shown.status, shown.at)
	}
	// A secret that the provider does not know, and then its own again.
	w.write("secret", "another\n")
	w.until("the secret is read", func() bool { return w.person("ann").open(w.url+"/").status != http.StatusOK })
	w.write("secret", "secret of the web client\n")
	w.until("the secret is read again", func() bool { return w.person("ann").open(w.url+"/").status == http.StatusOK })
	// Who was logged in still is.
	if status := w.call(ann.secret()); status != http.StatusOK {
		t.Errorf("who is logged in is answered %d", status)
	}
	w.write("access.yaml", without)
	led("")
	if _, errs, err := w.person("ann").lehr("auth", "login"); err == nil {
		t.Errorf("without a provider a person logs in: %s", errs)
	}
}

func (w *world) until(what string, so func() bool) {
	w.Helper()
	for deadline := time.Now().Add(patience); !so(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			w.Fatalf("not within %s: %s", patience, what)
		}
	}
}
