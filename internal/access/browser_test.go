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
	b.expect(b.ask("GET", here+"/"), http.StatusUnauthorized)
	link := access.PageLink(here, local.Token)
	if strings.Contains(link, local.Token) {
		t.Errorf("the link %s shows the token", link)
	}
	b.expect(b.ask("HEAD", link), http.StatusUnauthorized)
	answer := b.ask("GET", link)
	b.expect(answer, http.StatusSeeOther)
	if to := answer.Header.Get("Location"); to != "/" {
		t.Errorf("led to %q: the ticket must leave the address", to)
	}
	cookie := answer.Cookies()[0]
	if !cookie.HttpOnly || cookie.SameSite != http.SameSiteStrictMode || cookie.Name != "lehr-7474" || strings.Contains(cookie.Value, local.Token) {
		t.Errorf("the cookie is %s", cookie)
	}
	for name, want := range map[string]string{"Cache-Control": "no-store", "Referrer-Policy": "no-referrer"} {
		if got := answer.Header.Get(name); got != want {
			t.Errorf("%s is %q, want %q", name, got, want)
		}
	}
	b.expect(b.ask("GET", here+"/partition/shop"), http.StatusOK)
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
	tests := map[string]struct {
		method, address string
		header          []string
		cookies         []*http.Cookie
		want            int
	}{
		"read":                     {"GET", here + "/", nil, in.cookies, 200},
		"looked at":                {"HEAD", here + "/", nil, in.cookies, 200},
		"written":                  {"POST", here + "/", nil, in.cookies, 405},
		"login written":            {"POST", ticket.String(), nil, nil, 405},
		"rebound name":             {"GET", "http://evil.example:7474/", nil, in.cookies, 403},
		"login by a rebound name":  {"GET", "http://evil.example:7474/login?" + ticket.RawQuery, nil, nil, 403},
		"image of another site":    {"GET", here + "/", []string{"Sec-Fetch-Site", "cross-site", "Sec-Fetch-Mode", "no-cors", "Sec-Fetch-Dest", "image"}, in.cookies, 403},
		"another port's script":    {"GET", here + "/", []string{"Sec-Fetch-Site", "same-site", "Sec-Fetch-Mode", "cors", "Sec-Fetch-Dest", "empty"}, in.cookies, 403},
		"frame of another site":    {"GET", here + "/", []string{"Sec-Fetch-Site", "cross-site", "Sec-Fetch-Mode", "navigate", "Sec-Fetch-Dest", "iframe"}, in.cookies, 403},
		"link on another site":     {"GET", here + "/", []string{"Sec-Fetch-Site", "cross-site", "Sec-Fetch-Mode", "navigate", "Sec-Fetch-Dest", "document"}, in.cookies, 200},
		"cookie of another server": {"GET", here + "/", nil, foreign.cookies, 401},
		"cookie of another port":   {"GET", "http://127.0.0.1:7475/", nil, in.cookies, 401},
		"ticket as a cookie":       {"GET", here + "/", nil, []*http.Cookie{{Name: "lehr-7474", Value: ticket.Query().Get("ticket")}}, 401},
		"token as a cookie":        {"GET", here + "/", nil, []*http.Cookie{{Name: "lehr-7474", Value: local.Token}}, 401},
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
	if answer.Header.Get("Refresh") != "0; url=/" || len(b.cookies) != 1 {
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
	b.expect(b.ask("GET", here+"/"), http.StatusOK)
	now = now.Add(13 * time.Hour)
	b.expect(b.ask("GET", here+"/"), http.StatusUnauthorized)
}

// TestALaunchHasAHostOfItsOwn: a browser that finds it is led there, and what another port
// of this host is sent lets nobody in here.
func TestALaunchHasAHostOfItsOwn(t *testing.T) {
	local := access.Local{Token: access.NewToken()}
	for _, agent := range []string{"Mozilla/5.0 (X11) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/140.0 Safari/537.36", "Mozilla/5.0 (X11; rv:140.0) Gecko/20100101 Firefox/140.0"} {
		b := newBrowser(t, local)
		led := b.ask("GET", access.PageLink(here, local.Token), "User-Agent", agent, "Sec-Fetch-Mode", "navigate")
		to, err := url.Parse(led.Header.Get("Location"))
		if err != nil || led.StatusCode != http.StatusSeeOther || !strings.HasSuffix(to.Hostname(), ".localhost") || to.Port() != "7474" || len(b.cookies) > 0 {
			t.Fatalf("%s: led to %q with %v", agent, to, b.cookies)
		}
		own := "http://" + to.Host
		b.expect(b.ask("GET", to.String(), "User-Agent", agent, "Sec-Fetch-Mode", "navigate"), http.StatusSeeOther)
		b.expect(b.ask("GET", own+"/"), http.StatusOK)
		// The cookie counts under that name alone, and a name of another launch is none.
		b.expect(b.ask("GET", here+"/"), http.StatusUnauthorized)
		b.expect(b.ask("GET", "http://localhost:7474/"), http.StatusUnauthorized)
		b.expect(b.ask("GET", "http://lehr-0011223344556677.localhost:7474/"), http.StatusUnauthorized)
		b.expect(b.ask("GET", "http://evil.localhost:7474/"), http.StatusForbidden)
		for _, method := range []string{"POST", "PUT", "PATCH", "DELETE", "OPTIONS"} {
			b.expect(b.ask(method, own+"/partition/one"), http.StatusMethodNotAllowed)
		}
	}
	// Whoever does not say that it finds such names stays where it is.
	b := newBrowser(t, local)
	b.expect(b.ask("GET", access.PageLink(here, local.Token)), http.StatusSeeOther)
	b.expect(b.ask("GET", here+"/"), http.StatusOK)
}
