package login

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	apipb "lehr.dev/gen/lehr/api/v1"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/sdk/client"
)

func encode(text string) string { return base64.RawURLEncoding.EncodeToString([]byte(text)) }

// proof is an ID token of the provider's, gotten as a client that asks with a
// nonce of its own choice.
func (p *person) proof(client, nonce string) string {
	p.Helper()
	const back = "http://127.0.0.1/callback"
	query := url.Values{
		"client_id": {client}, "redirect_uri": {back}, "response_type": {"code"}, "scope": {"openid email groups"}, "state": {"s"},
		"code_challenge": {encode(digest("verifier verifier verifier verifier verifier"))}, "code_challenge_method": {"S256"},
	}
	if nonce != "" {
		query.Set("nonce", nonce)
	}
	code := ""
	other := p.person(p.name)
	other.browser.CheckRedirect = func(r *http.Request, _ []*http.Request) error {
		if strings.HasPrefix(r.URL.String(), back) {
			code = r.URL.Query().Get("code")
			return http.ErrUseLastResponse
		}
		return nil
	}
	other.open(p.provider.issuer + "/authorize?" + query.Encode())
	answer := other.read(other.browser.PostForm(p.provider.issuer+"/oauth/token", url.Values{
		"grant_type": {"authorization_code"}, "client_id": {client}, "redirect_uri": {back}, "code": {code},
		"code_verifier": {"verifier verifier verifier verifier verifier"},
	}))
	var token struct {
		ID string `json:"id_token"`
	}
	if err := json.Unmarshal([]byte(answer.text), &token); err != nil || token.ID == "" {
		p.Fatalf("the provider gives no token: %d %s", answer.status, answer.text)
	}
	return token.ID
}

// local runs the program as the user of the server's machine, once it serves
// there.
func (w *world) local(arguments ...string) string {
	w.Helper()
	for deadline := time.Now().Add(patience); ; time.Sleep(50 * time.Millisecond) {
		command := exec.Command(filepath.Join(programs(w.T), "lehr"), append(arguments, "--store", w.store)...)
		command.Env = []string{"HOME=" + w.folder, "PATH=" + os.Getenv("PATH")}
		var errs bytes.Buffer
		command.Stderr = &errs
		out, err := command.Output()
		if err == nil {
			return string(out)
		}
		if time.Now().After(deadline) {
			w.Fatalf("lehr %v: %v: %s", arguments, err, errs.String())
		}
	}
}

func digest(text string) string {
	sum := sha256.Sum256([]byte(text))
	return string(sum[:])
}

// here is a client of the user of the server's machine.
func (w *world) here() *client.Client {
	w.Helper()
	found, err := client.Discover(w.store, intent.Actor{Name: "operator", Origin: "cli"})
	if err != nil {
		w.Fatal(err)
	}
	return found
}

// revoke ends a token from the server's machine.
func (w *world) revoke(id string) {
	w.Helper()
	if _, err := w.here().Auth.RevokeToken(w.Context(), &apipb.RevokeTokenRequest{Id: id, Reason: "she left"}); err != nil {
		w.Fatal(err)
	}
}
