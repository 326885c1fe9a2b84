package login

import (
	"encoding/json"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	apipb "lehr.dev/gen/lehr/api/v1"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/sdk/client"
)

// whoami is what the server takes somebody for.
func (p *person) whoami() *apipb.WhoAmIResponse {
	p.Helper()
	who, err := client.DialWithRoots(p.url, p.secret(), intent.Actor{}, p.roots).Auth.WhoAmI(p.Context(), &apipb.WhoAmIRequest{})
	if err != nil {
		p.Fatal(err)
	}
	return who
}

// secret is what the person's file holds.
func (p *person) secret() string {
	p.Helper()
	text, err := os.ReadFile(filepath.Join(p.settings, "credentials.json"))
	if err != nil {
		p.Fatal(err)
	}
	var all map[string]struct{ Secret string }
	if err := json.Unmarshal(text, &all); err != nil {
		p.Fatal(err)
	}
	return all[p.url].Secret
}

func TestFromTheCommandLine(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.serve()
	ann, bob, mallory := w.person("ann"), w.person("bob"), w.person("mallory")
	ann.refused(`nobody is logged in to https://localhost:\d+ here`, "get", "partitions")
	ann.logsIn()
	if who := ann.whoami(); who.Name != "ann@example.com" || who.By != "login" || strings.Join(who.Groups, " ") != "platform sre" {
		t.Errorf("ann is taken for %+v", who)
	}
	if out := ann.must("get", "partitions"); !strings.Contains(out, "shop") {
		t.Errorf("ann sees %s", out)
	}
	if link := ann.must("page"); link != w.url+"/\n" {
		t.Errorf("the pages are at %q", link)
	}
	ann.must("stop", "--reason", "ann may")
	if out := ann.must("get", "audit", "--global"); !strings.Contains(out, "ann@example.com") {
		t.Errorf("who stopped is not told: %s", out)
	}
	bob.logsIn()
	bob.must("get", "partitions")
	bob.refused(`bob@example.com has no grant of the role operator`, "resume", "--reason", "enough")

	// Who says that she is ann, and cannot show that the address is hers, is not.
	l := mallory.beginLogin()
	mallory.open(l.address)
	if err := l.wait(); err == nil || !strings.Contains(l.said.String(), "has not verified that ann@example.com is theirs") {
		t.Errorf("mallory is let in: %v: %s", err, l.said.String())
	}
	mallory.refused("nobody is logged in", "get", "partitions")

	// What was kept is told to nobody, and counts nothing once it is given up.
	secret := ann.secret()
	told := ann.must("get", "partitions", "-o", "json") + ann.must("get", "audit", "--global", "-o", "json")
	if secret == "" || strings.Contains(told, strings.Split(secret, "_")[2]) {
		t.Errorf("the secret is told: %s", told)
	}
	ann.must("auth", "logout")
	ann.refused("nobody is logged in", "get", "partitions")
	if status := w.call(secret); status != http.StatusUnauthorized {
		t.Errorf("after the logout the token is answered %d", status)
	}
	bob.must("get", "partitions")
}

// call asks the API with a token.
func (w *world) call(secret string) int {
	w.Helper()
	request, err := http.NewRequestWithContext(w.Context(), http.MethodPost, w.url+"/lehr.api.v1.PartitionService/ListPartitions", strings.NewReader("{}"))
	if err != nil {
		w.Fatal(err)
	}
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("Authorization", "Bearer "+secret)
	answer, err := w.person("somebody").browser.Do(request)
	if err != nil {
		w.Fatal(err)
	}
	answer.Body.Close()
	return answer.StatusCode
}

// exchange asks for a token of Lehr's for an ID token.
func (p *person) exchange(idToken, nonce string) page {
	p.Helper()
	body, _ := json.Marshal(map[string]string{"idToken": idToken, "nonce": nonce})
	return p.read(p.browser.Post(p.url+"/lehr.api.v1.AuthService/Login", "application/json", strings.NewReader(string(body))))
}

func TestByDevice(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.serve()
	ann := w.person("ann")
	l := ann.beginLogin("--device")
	if shown := ann.open(l.address); !strings.Contains(shown.text, "go back to your terminal") {
		t.Errorf("the browser shows at %s: %s", shown.at, shown.text)
	}
	if err := l.wait(); err != nil {
		t.Fatalf("%v: %s", err, l.said.String())
	}
	if who := ann.whoami(); who.Name != "ann@example.com" {
		t.Errorf("ann is taken for %+v", who)
	}
	denied := w.person("bob")
	l = denied.beginLogin("--device")
	form := denied.read(denied.browser.Get(l.address))
	code := hidden.FindStringSubmatch(form.text)[2]
	denied.read(denied.browser.PostForm(w.provider.issuer+"/device", url.Values{"user_code": {code}, "user": {"bob"}, "password": {password}, "deny": {"yes"}}))
	if err := l.wait(); err == nil || !strings.Contains(l.said.String(), "refused the login") {
		t.Errorf("after a denial: %v: %s", err, l.said.String())
	}
}

// Whoever else reaches the socket that waits for the browser changes nothing.
func TestTheWaitingSocketTakesOneAnswer(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.serve()
	ann, eve := w.person("ann"), w.person("bob")
	l := ann.beginLogin()
	asked, err := url.Parse(l.address)
	if err != nil {
		t.Fatal(err)
	}
	query := asked.Query()
	if query.Get("code_challenge_method") != "S256" || query.Get("code_challenge") == "" || query.Get("nonce") == "" || len(query.Get("state")) < 20 {
		t.Errorf("the login lacks what guards it: %v", query)
	}
	// Eve logs in herself, and sends ann's command her own code.
	back := query.Get("redirect_uri")
	for name, values := range map[string]url.Values{
		"no state":      {"code": {"x"}},
		"another state": {"code": {"x"}, "state": {"guess"}},
	} {
		if shown := eve.read(eve.browser.Get(back + "?" + values.Encode())); shown.status != http.StatusBadRequest {
			t.Errorf("%s: %d %s", name, shown.status, shown.text)
		}
	}
	rebound, _ := http.NewRequestWithContext(t.Context(), http.MethodGet, back+"?code=x&state="+query.Get("state"), nil)
	rebound.Host = "evil.example"
	if shown := eve.read(eve.browser.Do(rebound)); shown.status != http.StatusNotFound {
		t.Errorf("by another name: %d %s", shown.status, shown.text)
	}
	var last string
	ann.browser.CheckRedirect = func(r *http.Request, _ []*http.Request) error { last = r.URL.String(); return nil }
	if shown := ann.open(l.address); !strings.Contains(shown.text, "You are logged in") {
		t.Errorf("the browser shows at %s: %s", shown.at, shown.text)
	}
	if err := l.wait(); err != nil {
		t.Fatalf("%v: %s", err, l.said.String())
	}
	if _, err := eve.browser.Get(last); err == nil {
		t.Error("the socket is still open")
	}
}

// A proof is for the server that a person meant, for the client that asked, and
// counts once.
func TestAProofIsForOneLogin(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.serve()
	ann := w.person("ann")
	get := func(client, nonce string) string { return ann.proof(client, nonce) }
	mine := "r." + encode(w.url)
	good := get("cli", mine)
	for name, c := range map[string]struct{ token, nonce, says string }{
		"another client's":   {get("other", mine), mine, "audience"},
		"another nonce":      {get("cli", mine), "q." + encode(w.url), "nonce"},
		"no nonce":           {get("cli", ""), mine, "nonce"},
		"for another server": {get("cli", "r."+encode("https://evil.example")), "r." + encode("https://evil.example"), "for another server"},
		"for no server":      {get("cli", "r"), "r", "for another server"},
		"nonce taken off":    {get("cli", mine), "", "nonce"},
		"nothing":            {"", "", "malformed"},
	} {
		if shown := ann.exchange(c.token, c.nonce); shown.status == http.StatusOK || !strings.Contains(shown.text, c.says) {
			t.Errorf("%s: %d %s, want %q", name, shown.status, shown.text, c.says)
		}
	}
	if shown := ann.exchange(good, mine); shown.status != http.StatusOK {
		t.Errorf("a good one: %d %s", shown.status, shown.text)
	}
	if shown := ann.exchange(good, mine); shown.status == http.StatusOK || !strings.Contains(shown.text, "exchanged before") {
		t.Errorf("a second time: %d %s", shown.status, shown.text)
	}
}

// Nobody can log in while the provider is down; all else goes on, also a start.
// Once it is there, also with other keys, people log in again.
func TestTheProviderIsDown(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	end(w.provider.process)
	w.serve()
	ann := w.person("ann")
	_, errs, err := ann.lehr("auth", "login")
	if err == nil || !strings.Contains(errs, "asking the login provider "+w.provider.issuer) {
		t.Errorf("while it is down: %v: %s", err, errs)
	}
	if shown := ann.read(ann.browser.Get(w.url + "/")); shown.status != http.StatusServiceUnavailable || !strings.Contains(shown.text, "asking the login provider") {
		t.Errorf("a page while it is down: %d %s", shown.status, shown.text)
	}
	made, err := w.here().Auth.CreateToken(t.Context(), &apipb.CreateTokenRequest{Owner: "ci"})
	if err != nil || w.call(made.Secret) != http.StatusOK {
		t.Errorf("a token made while it is down does not count: %v", err)
	}
	w.local("stop", "--reason", "the provider is down, and stop stops (S18)")
	w.provider.again()
	for deadline := time.Now().Add(patience); ; { // It is asked once a second.
		if shown := ann.read(ann.browser.Get(w.url + "/")); shown.status == http.StatusOK && strings.HasPrefix(shown.at.String(), w.provider.issuer) {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal("the provider is not asked again")
		}
	}
	ann.logsIn()
	w.provider.told("/test/rotate", nil)
	ann.logsIn()
	secret := ann.secret()
	end(w.provider.process)
	if status := w.call(secret); status != http.StatusOK {
		t.Errorf("who is logged in is answered %d while the provider is down", status)
	}
}
