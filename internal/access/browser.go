package access

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"maps"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/store"
)

// A browser cannot bear a token by itself, and a token in an address stays in
// histories. So a browser is let in by a link that holds a ticket, which
// counts once, and is given a cookie, which opens pages and never the API.
// Both are made of the server's token, so that they end with the server and
// nothing is kept; whoever knows the token can make a ticket. Both end after a while.
//
// Cookies do not know ports: a browser sends one to whatever listens on the same host.
// So the pages of each launch are below a path that nobody guesses, and the cookie is
// bound to that path. The cookie alone changes nothing: see form.go.

// loginPath is where a ticket is taken.
const loginPath = "/login"

// PageLink is a link that lets one browser in, once.
func PageLink(url, token string) string {
	return url + loginPath + "?ticket=" + newTicket(token, time.Now())
}

// How long a ticket, and a cookie, counts.
const (
	ticketPeriod = 10 * time.Minute
	cookiePeriod = 12 * time.Hour
)

func newTicket(token string, now time.Time) string { return seal(token, "ticket", dated(now)) }

// dated is an unguessable text that says when it was made.
func dated(now time.Time) string { return strconv.FormatInt(now.Unix(), 36) + "-" + rand.Text() }

// counts reports whether a value was made for a purpose, not longer ago than a period.
func counts(token, purpose, value string, now time.Time, period time.Duration) bool {
	if !sealed(token, purpose, value) {
		return false
	}
	text, _, _ := strings.Cut(value, "-")
	issuedAt, err := strconv.ParseInt(text, 36, 64)
	age := now.Sub(time.Unix(issuedAt, 0))
	return err == nil && age < period && age > -ticketPeriod
}

// PagePath is the path below which a launch has its pages, without a slash at its end.
func PagePath(token string) string {
	sum := sha256.Sum256([]byte("lehr page path " + token))
	return "/page-" + hex.EncodeToString(sum[:16])
}

// GuardPages lets browsers that have the cookie through to pages, which are asked for
// below PagePath and see paths without it.
func (l Local) GuardPages(pages http.Handler) http.Handler { return l.pageGuard()(pages) }

// pageGuard guards several handlers, which a browser is let in to at once.
func (l Local) pageGuard() func(pages http.Handler) http.Handler {
	admitted := &browsers{token: l.Token, path: PagePath(l.Token), now: l.Now, used: map[string]time.Time{}}
	if admitted.now == nil {
		admitted.now = time.Now
	}
	return func(pages http.Handler) http.Handler {
		return GuardBrowser(nil, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { admitted.serve(w, r, pages) }))
	}
}

type browsers struct {
	token, path string
	now         func() time.Time

	mutex sync.Mutex
	// used are the tickets that were taken, and when, for as long as they would count.
	used map[string]time.Time
}

func (b *browsers) serve(w http.ResponseWriter, r *http.Request, pages http.Handler) {
	if r.URL.Path == loginPath {
		b.login(w, r)
		return
	}
	if !strings.HasPrefix(r.URL.Path, b.path+"/") || !b.isAdmitted(r) {
		http.Error(w, "This browser was not let in yet, or the server was started anew.\n\n"+howToGetIn, http.StatusUnauthorized)
		return
	}
	r, err := AdmitForm(w, r, sessionOf(r))
	if err != nil {
		http.Error(w, err.Error(), http.StatusForbidden)
		return
	}
	actor := intent.Actor{Name: "local user", Origin: "page"}
	r = withCaller(r, store.Caller{Actor: actor, Local: true, From: r.RemoteAddr})
	http.StripPrefix(b.path, pages).ServeHTTP(w, r)
}

// GuardBrowser lets requests through to next that are meant for this server, and that no
// other site's page makes. They read, or are forms of our own pages: see AdmitForm.
func GuardBrowser(hosts Hosts, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		header := w.Header()
		header.Set("Cache-Control", "no-store")
		// To other origins a browser tells nothing, and to forms of this one their origin.
		header.Set("Referrer-Policy", "same-origin")
		header.Set("X-Content-Type-Options", "nosniff")
		header.Set("Cross-Origin-Resource-Policy", "same-origin")
		header.Set("Cross-Origin-Opener-Policy", "same-origin")
		header.Set("Content-Security-Policy", "default-src 'none'; frame-ancestors 'none'")
		switch {
		case !hosts.Has(r.Host):
			http.Error(w, hosts.refusal(), http.StatusForbidden)
		case r.Method == http.MethodPost && !fromOwnPage(r):
			http.Error(w, "only a form of this server's own pages is taken here; the API is at /lehr.api.v1.…, and the command line is lehr", http.StatusForbidden)
		case r.Method != http.MethodGet && r.Method != http.MethodHead && r.Method != http.MethodPost:
			header.Set("Allow", "GET, HEAD, POST")
			http.Error(w, "pages are read, and take forms; the API is at /lehr.api.v1.…, and the command line is lehr", http.StatusMethodNotAllowed)
		case embeds(r):
			http.Error(w, "this page is not part of another site's", http.StatusForbidden)
		default:
			next.ServeHTTP(w, r)
		}
	})
}

const howToGetIn = "A link lets a browser in, once. This prints one:\n\n    lehr page\n\n(with --store FILE, if the server was started with it)"

// embeds tells a request that another site's page makes by itself, as for an
// image or a frame, rather than a person who follows a link.
func embeds(r *http.Request) bool {
	switch r.Header.Get("Sec-Fetch-Site") {
	case "cross-site", "same-site":
		return r.Header.Get("Sec-Fetch-Mode") != "navigate" || r.Header.Get("Sec-Fetch-Dest") != "document"
	}
	return false
}

// login takes a ticket, gives a cookie, and leads away, so that the ticket
// leaves the address.
func (b *browsers) login(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodGet || !b.isAdmitted(r) && !b.take(r.URL.Query().Get("ticket")) {
		http.Error(w, "This link was used before, or belongs to a server that has ended.\n\n"+howToGetIn, http.StatusUnauthorized)
		return
	}
	if !b.isAdmitted(r) {
		http.SetCookie(w, &http.Cookie{
			Name: localCookie, Value: seal(b.token, "cookie", dated(b.now())), Path: b.path + "/", HttpOnly: true, SameSite: http.SameSiteStrictMode,
			MaxAge: int(cookiePeriod.Seconds()),
		})
	}
	if r.Header.Get("Sec-Fetch-Site") == "cross-site" {
		// A browser sends no strict cookie to where a link on another site
		// redirects it, but does when this page leads it there.
		w.Header().Set("Refresh", "0; url="+b.path+"/")
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		_, _ = w.Write([]byte(`<!doctype html><title>Lehr</title><p><a href="` + b.path + `/">Go on</a>`))
		return
	}
	http.Redirect(w, r, b.path+"/", http.StatusSeeOther)
}

// take reports whether a ticket counts, which it does once.
func (b *browsers) take(ticket string) bool {
	now := b.now()
	if !counts(b.token, "ticket", ticket, now, ticketPeriod) {
		return false
	}
	b.mutex.Lock()
	defer b.mutex.Unlock()
	if _, used := b.used[ticket]; used {
		return false
	}
	maps.DeleteFunc(b.used, func(_ string, at time.Time) bool { return now.Sub(at) > 3*ticketPeriod })
	b.used[ticket] = now
	return true
}

// isAdmitted reports whether a browser was let in.
func (b *browsers) isAdmitted(r *http.Request) bool {
	return counts(b.token, "cookie", sessionOf(r), b.now(), cookiePeriod)
}

// localCookie is the cookie of browsers on this machine.
const localCookie = "lehr-page"

// sessionOf is what a browser's cookie holds.
func sessionOf(r *http.Request) string {
	cookie, err := r.Cookie(localCookie)
	if err != nil {
		return ""
	}
	return cookie.Value
}

// seal makes a value that only who knows the token can make, for one purpose.
func seal(token, purpose, nonce string) string {
	mac := hmac.New(sha256.New, []byte(token))
	mac.Write([]byte("lehr page " + purpose + " " + nonce))
	return nonce + "." + base64.RawURLEncoding.EncodeToString(mac.Sum(nil))
}

func sealed(token, purpose, value string) bool {
	nonce, _, ok := strings.Cut(value, ".")
	return ok && token != "" && hmac.Equal([]byte(value), []byte(seal(token, purpose, nonce)))
}
