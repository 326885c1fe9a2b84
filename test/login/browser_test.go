package login

import (
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"testing"
	"time"

	"lehr.dev/test/freeport"
	"lehr.dev/test/pgserver"
)

const (
	sessionCookie = "__Host-lehr"
	flowCookie    = "__Host-lehr-login"
)

// stops remembers where the browser was led, and stops it before it goes on to
// an address that begins so.
func (p *person) stops(before string) (led *[]*url.URL) {
	led = &[]*url.URL{}
	p.browser.CheckRedirect = func(r *http.Request, _ []*http.Request) error {
		*led = append(*led, r.URL)
		if before != "" && strings.HasPrefix(r.URL.String(), before) {
			return http.ErrUseLastResponse
		}
		return nil
	}
	return led
}

func (p *person) cookie(name string) string {
	p.Helper()
	for _, cookie := range p.browser.Jar.Cookies(p.home()) {
		if cookie.Name == name {
			return cookie.Value
		}
	}
	return ""
}

func TestWithABrowser(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.serve()
	ann := w.person("ann")
	led := ann.stops("")
	shown := ann.open(w.url + "/partition/shop?state=waiting")
	if shown.status != http.StatusOK || shown.at.String() != w.url+"/partition/shop?state=waiting" || !strings.Contains(shown.text, "ann@example.com") {
		t.Fatalf("ann is shown %d at %s: %s", shown.status, shown.at, shown.text)
	}
	asked := (*led)[0].Query()
	if asked.Get("code_challenge_method") != "S256" || asked.Get("nonce") == "" || asked.Get("state") == "" || asked.Get("client_id") != "web" {
		t.Errorf("the login lacks what guards it: %v", asked)
	}
	if ann.cookie(flowCookie) != "" {
		t.Error("the login under way is still kept")
	}
	// The cookie opens pages, and no call; a change of a page is refused.
	request, _ := http.NewRequestWithContext(t.Context(), http.MethodPost, w.url+"/lehr.api.v1.BrakeService/SetStop", strings.NewReader(`{"reason":"x"}`))
	request.Header.Set("Content-Type", "application/json")
	if answer := ann.read(ann.browser.Do(request)); answer.status != http.StatusUnauthorized {
		t.Errorf("a call with the cookie is answered %d", answer.status)
	}
	if answer := ann.read(ann.browser.Post(w.url+"/", "text/plain", nil)); answer.status != http.StatusForbidden {
		t.Errorf("a post to a page is answered %d", answer.status)
	}
	// Who may see nothing is shown nothing.
	stranger := w.person("bob")
	w.write("access.yaml", "") // It says nothing that can be read, so what it said counts.
	if shown := stranger.open(w.url + "/"); shown.status != http.StatusOK {
		t.Errorf("bob is shown %d: %s", shown.status, shown.text)
	}

	// A page of another site logs nobody out.
	cross, _ := http.NewRequestWithContext(t.Context(), http.MethodGet, w.url+"/logout", nil)
	cross.Header.Set("Sec-Fetch-Site", "cross-site")
	cross.Header.Set("Sec-Fetch-Mode", "navigate")
	cross.Header.Set("Sec-Fetch-Dest", "document")
	if shown := ann.read(ann.browser.Do(cross)); !strings.Contains(shown.text, "still logged in") {
		t.Errorf("by another site's link: %s", shown.text)
	}
	secret := ann.cookie(sessionCookie)
	if shown := ann.read(ann.browser.Get(w.url + "/logout")); !strings.Contains(shown.text, "logged out") {
		t.Errorf("logging out: %s", shown.text)
	}
	if ann.cookie(sessionCookie) != "" {
		t.Error("the browser still has the cookie")
	}
	if status := ann.with(sessionCookie, secret, "/"); status != http.StatusFound {
		t.Errorf("the cookie of before is answered %d", status)
	}
}

// with asks for a page with one cookie, and is led nowhere.
func (p *person) with(name, value, path string) int {
	p.Helper()
	plain := &http.Client{Transport: p.browser.Transport, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	request, err := http.NewRequestWithContext(p.Context(), http.MethodGet, p.url+path, nil)
	if err != nil {
		p.Fatal(err)
	}
	request.AddCookie(&http.Cookie{Name: name, Value: value})
	return p.read(plain.Do(request)).status
}

// cookies of a login: only for this host, by TLS, unseen by scripts.
func TestCookies(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.serve()
	ann := w.person("ann")
	ann.stops(w.provider.issuer)
	begun := ann.read(ann.browser.Get(w.url + "/"))
	ann.browser.Jar.Cookies(begun.at)
	ann.stops(w.url + "/login/callback")
	back := ann.open(begun.header.Get("Location"))
	ann.browser.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	in := ann.read(ann.browser.Get(back.header.Get("Location")))
	for _, set := range append(begun.header.Values("Set-Cookie"), in.header.Values("Set-Cookie")...) {
		cookie, err := http.ParseSetCookie(set)
		if err != nil || !strings.HasPrefix(cookie.Name, "__Host-") || !cookie.Secure || !cookie.HttpOnly ||
			cookie.SameSite != http.SameSiteLaxMode || cookie.Path != "/" || cookie.Domain != "" {
			t.Errorf("cookie %s", set)
		}
		if cookie.MaxAge > int(12*time.Hour/time.Second) {
			t.Errorf("cookie %s lasts too long", set)
		}
	}
	for name, want := range map[string]string{"Cache-Control": "no-store", "Referrer-Policy": "same-origin", "X-Content-Type-Options": "nosniff"} {
		if got := in.header.Get(name); got != want {
			t.Errorf("%s is %q, want %q", name, got, want)
		}
	}
}

// attack begins a login in ann's browser, up to the provider's code.
func (p *person) upToTheCode() (back string) {
	p.Helper()
	led := p.stops(p.url + "/login/callback")
	p.open(p.url + "/")
	p.browser.CheckRedirect = nil
	last := (*led)[len(*led)-1]
	if last.Query().Get("code") == "" {
		p.Fatalf("the provider led to %s", last)
	}
	return last.String()
}

func TestAttacksOnABrowsersLogin(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.serve()
	change := func(back string, values ...string) string {
		changed, _ := url.Parse(back)
		query := changed.Query()
		for i := 0; i < len(values); i += 2 {
			query.Set(values[i], values[i+1])
		}
		changed.RawQuery = query.Encode()
		return changed.String()
	}
	refused := func(name string, victim *person, back, says string) {
		t.Helper()
		shown := victim.read(victim.browser.Get(back))
		if shown.status < 400 || !strings.Contains(shown.text, says) || victim.cookie(sessionCookie) != "" {
			t.Errorf("%s: %d %s, want %q", name, shown.status, shown.text, says)
		}
	}
	ann, bob := w.person("ann"), w.person("bob")

	// Login CSRF: bob leads ann's browser to the end of his login.
	bobs := bob.upToTheCode()
	refused("end of another's login, nothing begun", ann, bobs, "not in the middle of a login")
	ann.upToTheCode()
	refused("end of another's login", ann, bobs, "another login")
	refused("no state", ann, change(bobs, "state", ""), "another login")

	// Another code with her own state: PKCE binds the code to bob's login.
	state := mustQuery(t, ann.upToTheCode(), "state")
	refused("another's code", ann, change(bobs, "state", state), "refused the login")

	// The code counts once.
	replayed := w.person("ann")
	back := replayed.upToTheCode()
	flow := replayed.cookie(flowCookie)
	if shown := replayed.read(replayed.browser.Get(back)); shown.status != http.StatusOK {
		t.Fatalf("the login itself: %d %s", shown.status, shown.text)
	}
	if status := w.person("bob").with(flowCookie, flow, strings.TrimPrefix(back, w.url)); status != http.StatusForbidden {
		t.Errorf("a replayed code is answered %d", status)
	}

	// Another provider's answer, an error, and a cookie that nobody sealed.
	refused("mixed up", ann, change(ann.upToTheCode(), "iss", "https://evil.example"), "not the provider")
	refused("an error", ann, change(ann.upToTheCode(), "error", "access_denied"), "access_denied")
	back = ann.upToTheCode()
	if status := w.person("bob").with(flowCookie, strings.Repeat("A", 200), strings.TrimPrefix(back, w.url)); status != http.StatusBadRequest {
		t.Errorf("a made-up cookie is answered %d", status)
	}

	// A name that is not hers.
	mallory := w.person("mallory")
	refused("unverified e-mail", mallory, mallory.upToTheCode(), "has not verified that ann@example.com is theirs")

	// Wherever a login begins, it ends here.
	for _, path := range []string{"//evil.example/", "/%2Fevil.example", `/\evil.example`, "/%5Cevil.example/x", "/login?to=https://evil.example", "/login/callback/..//evil.example"} {
		led := w.person("ann")
		seen := led.stops("")
		led.open(w.url + path)
		for _, to := range *seen {
			if strings.Contains(to.Host, "evil") {
				t.Errorf("%s leads to %s", path, to)
			}
		}
		if led.cookie(sessionCookie) == "" {
			t.Errorf("%s does not log in", path)
		}
	}
}

func mustQuery(t *testing.T, address, name string) string {
	t.Helper()
	parsed, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	return parsed.Query().Get(name)
}

// A stream that a page has open ends with the session.
func TestARevokedSessionEndsItsStreams(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.serve()
	ann := w.person("ann")
	ann.open(w.url + "/")
	stream, err := ann.browser.Get(w.url + "/events?of=/partition/shop")
	if err != nil || stream.StatusCode != http.StatusOK {
		t.Fatalf("the stream: %v, %v", stream, err)
	}
	defer stream.Body.Close()
	id := strings.Split(ann.cookie(sessionCookie), "_")[1]
	w.revoke(id)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		buffer := make([]byte, 4096)
		for {
			if _, err := stream.Body.Read(buffer); err != nil {
				return
			}
		}
	}()
	select {
	case <-ended:
	case <-time.After(patience):
		t.Error("the stream goes on")
	}
	if shown := ann.read(ann.browser.Get(w.url + "/events?of=/")); shown.status != http.StatusUnauthorized {
		t.Errorf("a new stream is answered %d", shown.status)
	}
}

// A login at one replica is one at all, also one that began at another; and so
// is its end.
func TestSessionsAreEveryReplicas(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	database := pgserver.New(t)
	database.Start()
	shared := database.Database()
	w.serve("--database", shared)
	other := *w
	other.url, other.store = "https://localhost:"+strconv.Itoa(freeport.Row(t, 1)), w.store+".other"
	// Both go by one URL, as behind a balancer.
	other.serve("--database", shared, "--url", w.url)
	ann := w.person("ann")
	back := ann.upToTheCode()
	elsewhere := strings.Replace(back, ":"+w.port()+"/", ":"+other.port()+"/", 1)
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, elsewhere, nil)
	if err != nil {
		t.Fatal(err)
	}
	request.Host = "localhost:" + w.port()
	ann.browser.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	if shown := ann.read(ann.browser.Do(request)); shown.status != http.StatusSeeOther {
		t.Fatalf("the other replica does not end the login: %d %s", shown.status, shown.text)
	}
	secret := ann.cookie(sessionCookie)
	for _, at := range []*world{w, &other} {
		if status := at.person("ann").with(sessionCookie, secret, "/"); status != http.StatusOK {
			t.Errorf("%s answers %d", at.url, status)
		}
	}
	if shown := ann.read(ann.browser.Get(w.url + "/logout")); !strings.Contains(shown.text, "logged out") {
		t.Errorf("logging out: %s", shown.text)
	}
	for _, at := range []*world{w, &other} {
		if status := at.person("ann").with(sessionCookie, secret, "/"); status != http.StatusFound {
			t.Errorf("after the logout %s answers %d", at.url, status)
		}
	}
}
