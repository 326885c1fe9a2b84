package access_test

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"lehr.dev/internal/access"
)

// browser is one that keeps cookies, and what it is let in to.
type browser struct {
	*testing.T
	guarded http.Handler
	cookies []*http.Cookie
	// let counts the requests that reached the pages.
	let int
}

const here = "http://127.0.0.1:7474"

func newBrowser(t *testing.T, local access.Local) *browser {
	b := &browser{T: t}
	b.guarded = local.GuardPages(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { b.let++ }))
	return b
}

func (b *browser) ask(method, address string, header ...string) *http.Response {
	request := httptest.NewRequest(method, address, nil)
	for _, cookie := range b.cookies {
		request.AddCookie(cookie)
	}
	for i := 0; i < len(header); i += 2 {
		request.Header.Set(header[i], header[i+1])
	}
	recorder := httptest.NewRecorder()
	b.guarded.ServeHTTP(recorder, request)
	answer := recorder.Result()
	b.cookies = append(b.cookies, answer.Cookies()...)
	return answer
}

func (b *browser) expect(answer *http.Response, status int) {
	b.Helper()
	if answer.StatusCode != status {
		b.Errorf("answered %s, want %d", answer.Status, status)
	}
}

func TestALinkLetsOneBrowserInOnce(t *testing.T) {
	local := access.Local{Token: access.NewToken()}
	b := newBrowser(t, local)
	pages := here + access.PagePath(local.Token)
	b.expect(b.ask("GET", pages+"/"), http.StatusUnauthorized)
	link := access.PageLink(here, local.Token)
	if strings.Contains(link, local.Token) {
		t.Errorf("the link %s shows the token", link)
	}
	b.expect(b.ask("HEAD", link), http.StatusUnauthorized)
	answer := b.ask("GET", link)
	b.expect(answer, http.StatusSeeOther)
	if to := answer.Header.Get("Location"); to != access.PagePath(local.Token)+"/" {
		t.Errorf("led to %q: the ticket must leave the address", to)
	}
	cookie := answer.Cookies()[0]
	if !cookie.HttpOnly || cookie.SameSite != http.SameSiteStrictMode || cookie.Path != access.PagePath(local.Token)+"/" || strings.Contains(cookie.Value, local.Token) {
		t.Errorf("the cookie is %s", cookie)
	}
	for name, want := range map[string]string{"Cache-Control": "no-store", "Referrer-Policy": "same-origin"} {
		if got := answer.Header.Get(name); got != want {
			t.Errorf("%s is %q, want %q", name, got, want)
		}
	}
	b.expect(b.ask("GET", pages+"/partition/shop"), http.StatusOK)
	b.expect(b.ask("GET", link), http.StatusSeeOther) // It is in already.
	other := &browser{T: t, guarded: b.guarded}
	other.expect(other.ask("GET", link), http.StatusUnauthorized)
	if len(other.cookies) > 0 {
		t.Error("a used link gave a cookie")
	}
	if b.let != 1 {
		t.Errorf("%d requests reached the pages, want 1", b.let)
	}
}

func TestWhatIsNotLetIn(t *testing.T) {
	local := access.Local{Token: access.NewToken()}
	other := access.Local{Token: access.NewToken()}
	in := newBrowser(t, local)
	in.ask("GET", access.PageLink(here, local.Token))
	foreign := newBrowser(t, other)
	foreign.ask("GET", access.PageLink(here, other.Token))
	ticket, _ := url.Parse(access.PageLink(here, local.Token))
	pages := here + access.PagePath(local.Token)
	const own = "application/x-www-form-urlencoded"
	tests := map[string]struct {
		method, address string
		header          []string
		cookies         []*http.Cookie
		want            int
	}{
		"read":                     {"GET", pages + "/", nil, in.cookies, 200},
		"looked at":                {"HEAD", pages + "/", nil, in.cookies, 200},
		"put":                      {"PUT", pages + "/", nil, in.cookies, 405},
		"deleted":                  {"DELETE", pages + "/partition/one", nil, in.cookies, 405},
		"written without origin":   {"POST", pages + "/", []string{"Content-Type", own}, in.cookies, 403},
		"written by nobody":        {"POST", pages + "/", []string{"Content-Type", own, "Origin", "null"}, in.cookies, 403},
		"written by another port":  {"POST", pages + "/", []string{"Content-Type", own, "Origin", "http://127.0.0.1:7475", "Sec-Fetch-Site", "same-site"}, in.cookies, 403},
		"written by another site":  {"POST", pages + "/", []string{"Content-Type", own, "Origin", "https://evil.example"}, in.cookies, 403},
		"written without a token":  {"POST", pages + "/", []string{"Content-Type", own, "Origin", here}, in.cookies, 403},
		"no form":                  {"POST", pages + "/", []string{"Content-Type", "text/plain", "Origin", here}, in.cookies, 403},
		"login written":            {"POST", ticket.String(), []string{"Content-Type", own, "Origin", here}, nil, 401},
		"another path":             {"GET", here + "/", nil, in.cookies, 401},
		"path of another launch":   {"GET", here + access.PagePath(other.Token) + "/", nil, in.cookies, 401},
		"path that begins so":      {"GET", pages + "x/", nil, in.cookies, 401},
		"rebound name":             {"GET", "http://evil.example:7474" + access.PagePath(local.Token) + "/", nil, in.cookies, 403},
		"name below localhost":     {"GET", "http://evil.localhost:7474" + access.PagePath(local.Token) + "/", nil, in.cookies, 403},
		"login by a rebound name":  {"GET", "http://evil.example:7474/login?" + ticket.RawQuery, nil, nil, 403},
		"image of another site":    {"GET", pages + "/", []string{"Sec-Fetch-Site", "cross-site", "Sec-Fetch-Mode", "no-cors", "Sec-Fetch-Dest", "image"}, in.cookies, 403},
		"another port's script":    {"GET", pages + "/", []string{"Sec-Fetch-Site", "same-site", "Sec-Fetch-Mode", "cors", "Sec-Fetch-Dest", "empty"}, in.cookies, 403},
		"frame of another site":    {"GET", pages + "/", []string{"Sec-Fetch-Site", "cross-site", "Sec-Fetch-Mode", "navigate", "Sec-Fetch-Dest", "iframe"}, in.cookies, 403},
		"link on another site":     {"GET", pages + "/", []string{"Sec-Fetch-Site", "cross-site", "Sec-Fetch-Mode", "navigate", "Sec-Fetch-Dest", "document"}, in.cookies, 200},
		"cookie of another server": {"GET", pages + "/", nil, foreign.cookies, 401},
		"ticket as a cookie":       {"GET", pages + "/", nil, []*http.Cookie{{Name: in.cookies[0].Name, Value: ticket.Query().Get("ticket")}}, 401},
		"token as a cookie":        {"GET", pages + "/", nil, []*http.Cookie{{Name: in.cookies[0].Name, Value: local.Token}}, 401},
		"cookie as a ticket":       {"GET", here + "/login?ticket=" + in.cookies[0].Value, nil, nil, 401},
		"no ticket":                {"GET", here + "/login", nil, nil, 401},
		"made-up ticket":           {"GET", here + "/login?ticket=a.b", nil, nil, 401},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			b := &browser{T: t, guarded: in.guarded, cookies: test.cookies}
			in.let = 0
			b.expect(b.ask(test.method, test.address, test.header...), test.want)
			if (in.let == 1) != (test.want == http.StatusOK) {
				t.Errorf("%d requests reached the pages", in.let)
			}
		})
	}
}

// A browser that comes from a link on another site would not send its cookie
// to where it is redirected.
func TestALinkOnAnotherSiteLeadsOn(t *testing.T) {
	local := access.Local{Token: access.NewToken()}
	b := newBrowser(t, local)
	answer := b.ask("GET", access.PageLink(here, local.Token), "Sec-Fetch-Site", "cross-site", "Sec-Fetch-Mode", "navigate", "Sec-Fetch-Dest", "document")
	b.expect(answer, http.StatusOK)
	if answer.Header.Get("Refresh") != "0; url="+access.PagePath(local.Token)+"/" || len(b.cookies) != 1 {
		t.Errorf("it is not led on: %v", answer.Header)
	}
}

// The cookie opens pages, not the API.
func TestACookieDoesNotOpenTheAPI(t *testing.T) {
	local := access.Local{Token: access.NewToken()}
	b := newBrowser(t, local)
	b.ask("GET", access.PageLink(here, local.Token))
	b.guarded = local.Guard(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("let in") }))
	b.expect(b.ask("POST", here+"/lehr.api.v1.BrakeService/SetStop", "Sec-Fetch-Site", "same-origin"), http.StatusUnauthorized)
}

func TestNobodyIsLetInWithoutAToken(t *testing.T) {
	b := newBrowser(t, access.Local{})
	b.expect(b.ask("GET", access.PageLink(here, "")), http.StatusUnauthorized)
}

// TestTicketsAndCookiesEnd: a link that lies about lets nobody in, nor does a browser that
// was left open.
func TestTicketsAndCookiesEnd(t *testing.T) {
	now := time.Now()
	local := access.Local{Token: access.NewToken(), Now: func() time.Time { return now }}
	b, link := newBrowser(t, local), access.PageLink(here, local.Token)
	now = now.Add(11 * time.Minute)
	b.expect(b.ask("GET", link), http.StatusUnauthorized)
	now = now.Add(-11 * time.Minute)
	b.expect(b.ask("GET", link), http.StatusSeeOther)
	b.expect(b.ask("GET", here+access.PagePath(local.Token)+"/"), http.StatusOK)
	now = now.Add(13 * time.Hour)
	b.expect(b.ask("GET", here+access.PagePath(local.Token)+"/"), http.StatusUnauthorized)
}

// TestAFormIsOfItsSession: who was let in sends the form that a page of that session has,
// and no other; a cookie alone changes nothing.
func TestAFormIsOfItsSession(t *testing.T) {
	local := access.Local{Token: access.NewToken()}
	var tokens []string
	reached := 0
	guarded := local.GuardPages(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		if reached++; r.Method == http.MethodGet {
			tokens = append(tokens, access.FormToken(r.Context()))
		}
	}))
	address := here + access.PagePath(local.Token) + "/partition/shop/act/stop"
	var sessions []*browser
	for range 2 {
		b := &browser{T: t, guarded: guarded}
		b.ask("GET", access.PageLink(here, local.Token))
		b.expect(b.ask("GET", address), http.StatusOK)
		sessions = append(sessions, b)
	}
	if tokens[0] == "" || tokens[0] == tokens[1] || strings.Contains(sessions[0].cookies[0].Value, tokens[0]) {
		t.Fatalf("the sessions' forms hold %q", tokens)
	}
	send := func(b *browser, body string) int {
		request := httptest.NewRequest("POST", address, strings.NewReader(body))
		request.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		request.Header.Set("Origin", here)
		request.AddCookie(b.cookies[0])
		recorder := httptest.NewRecorder()
		b.guarded.ServeHTTP(recorder, request)
		return recorder.Code
	}
	reached = 0
	for name, c := range map[string]struct {
		body string
		want int
	}{
		"its own":      {"token=" + tokens[0] + "&reason=x", http.StatusOK},
		"another's":    {"token=" + tokens[1] + "&reason=x", http.StatusForbidden},
		"none":         {"reason=x", http.StatusForbidden},
		"empty":        {"token=&reason=x", http.StatusForbidden},
		"too much":     {"token=" + tokens[0] + "&reason=" + strings.Repeat("x", 65<<10), http.StatusForbidden},
		"no form":      {"%zz", http.StatusForbidden},
		"in a query":   {"reason=x", http.StatusForbidden},
		"twice, wrong": {"token=a&token=" + tokens[0], http.StatusForbidden},
	} {
		if got := send(sessions[0], c.body); got != c.want {
			t.Errorf("%s: answered %d, want %d", name, got, c.want)
		}
	}
	if reached != 1 {
		t.Errorf("%d forms reached the pages, want 1", reached)
	}
}
