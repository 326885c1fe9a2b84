package oidc

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/subtle"
	"errors"
	"html/template"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
	"golang.org/x/oauth2"

	"lehr.dev/internal/access"
	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/store"
)

// A browser that has no session is led to the provider, and comes back with a
// code that counts once. What it needs to redeem the code (state, nonce, PKCE's
// verifier, the page it asked for) waits, sealed, in a cookie of its own: nothing
// is kept for a browser that never comes back, and who leads somebody else's
// browser back here, to log it in as himself, has no such cookie there.

const (
	callbackPath = "/login/callback"
	logoutPath   = "/logout"
	// sessionCookie holds the secret of a login token, flowCookie a login that
	// is under way. Browsers take a name with this prefix only by TLS, for this
	// very host.
	sessionCookie = "__Host-lehr"
	flowCookie    = "__Host-lehr-login"
	// maxLogin is how long a login may take.
	maxLogin = 10 * time.Minute
	// recheck is how often a page's open stream asks whether its session lasts.
	recheck = 2 * time.Second
)

// Browsers lets browsers in that log in at the provider.
type Browsers struct {
	provider *Provider
	sessions *Sessions
	// urls are those of this server.
	urls []*url.URL
	// client and secret are of this server at the provider.
	client, secret string
	seal           seal
	log            *slog.Logger
}

// NewBrowsers returns what guards the pages of the server that is reached by the
// URLs, one at least. Secret is the web client's; replicas that share one can
// finish each other's logins. It is empty for a public client.
func NewBrowsers(provider *Provider, sessions *Sessions, urls []*url.URL, secret string, log *slog.Logger) *Browsers {
	return &Browsers{
		provider: provider, sessions: sessions, urls: urls,
		client: cmp.Or(provider.config.WebClientID, provider.config.ClientID), secret: secret, seal: newSeal(secret), log: log,
	}
}

// Guard lets requests with a session through to pages.
func (b *Browsers) Guard(pages http.Handler) http.Handler {
	return access.GuardBrowser(access.HostsOf(b.urls), http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		base := b.base(r)
		switch {
		case base == nil:
			// By another name there are neither cookies nor a way back.
			http.Redirect(w, r, b.urls[0].JoinPath(r.URL.Path).String(), http.StatusFound)
		case r.URL.Path == callbackPath:
			b.callback(w, r, base)
		case r.URL.Path == logoutPath:
			b.logout(w, r)
		default:
			b.enter(w, r, base, pages)
		}
	}))
}

// base is the URL that the browser reached this server by.
func (b *Browsers) base(r *http.Request) *url.URL {
	for _, u := range b.urls {
		if strings.EqualFold(u.Host, r.Host) {
			return u
		}
	}
	return nil
}

// enter shows a page to who has a session.
func (b *Browsers) enter(w http.ResponseWriter, r *http.Request, base *url.URL, pages http.Handler) {
	caller, err := b.sessions.enter(r)
	switch {
	case err == nil:
		if r, err = access.AdmitForm(w, r, cookie(r, sessionCookie)); err != nil {
			tell(w, http.StatusForbidden, err, "")
			return
		}
		ctx, cancel := context.WithCancel(store.WithCaller(r.Context(), caller))
		defer cancel()
		r = r.WithContext(ctx)
		go b.follow(r, cancel)
		pages.ServeHTTP(w, r)
	case !fault.Is(err, fault.Denied):
		tell(w, http.StatusServiceUnavailable, err, "")
	case !isPage(r):
		http.Error(w, "You are not logged in any more. Load the page again.", http.StatusUnauthorized)
	default:
		b.begin(w, r, base)
	}
}

// follow cuts off a page's stream when the session ends.
func (b *Browsers) follow(r *http.Request, cancel context.CancelFunc) {
	ticker := time.NewTicker(recheck)
	defer ticker.Stop()
	for {
		select {
		case <-r.Context().Done():
			return
		case <-ticker.C:
			if _, err := b.sessions.enter(r); fault.Is(err, fault.Denied) {
				cancel()
			}
		}
	}
}

// isPage tells what a person asked for from what a page asks for by itself.
func isPage(r *http.Request) bool {
	if destination := r.Header.Get("Sec-Fetch-Dest"); destination != "" {
		return destination == "document"
	}
	return !strings.HasPrefix(r.URL.Path, "/static/") && r.URL.Path != "/events"
}

// flow is a login that is under way.
type flow struct {
	State, Nonce, Verifier string
	// To is the page that was asked for.
	To    string
	Until time.Time
}

// begin leads the browser to the provider.
func (b *Browsers) begin(w http.ResponseWriter, r *http.Request, base *url.URL) {
	config, err := b.config(r.Context(), base)
	if err != nil {
		tell(w, http.StatusServiceUnavailable, err, "")
		return
	}
	f := flow{State: rand.Text(), Nonce: rand.Text(), Verifier: oauth2.GenerateVerifier(), To: local(r.URL), Until: b.provider.now().Add(maxLogin)}
	http.SetCookie(w, &http.Cookie{
		Name: flowCookie, Value: b.seal.close(f), Path: "/", MaxAge: int(maxLogin / time.Second),
		HttpOnly: true, Secure: true, SameSite: http.SameSiteLaxMode,
	})
	http.Redirect(w, r, config.AuthCodeURL(f.State, oidc.Nonce(f.Nonce), oauth2.S256ChallengeOption(f.Verifier)), http.StatusFound)
}

func (b *Browsers) config(ctx context.Context, base *url.URL) (*oauth2.Config, error) {
	return b.provider.oauth(ctx, b.client, b.secret, base.String()+callbackPath)
}

// local is an address on this server, whatever was asked for.
func local(requested *url.URL) string {
	target := url.URL{Path: "/" + strings.TrimLeft(requested.Path, `/\`), RawQuery: requested.RawQuery}
	return target.String()
}

// callback takes the browser back from the provider.
func (b *Browsers) callback(w http.ResponseWriter, r *http.Request, base *url.URL) {
	f, err := b.returned(r)
	if err != nil {
		if _, unknown := b.sessions.enter(r); unknown == nil {
			http.Redirect(w, r, "/", http.StatusSeeOther) // It is in already, by another window.
			return
		}
		b.refuse(w, r, http.StatusBadRequest, err)
		return
	}
	http.SetCookie(w, &http.Cookie{Name: flowCookie, Path: "/", MaxAge: -1, HttpOnly: true, Secure: true, SameSite: http.SameSiteLaxMode})
	session, secret, err := b.redeem(r.Context(), base, f, r.URL.Query().Get("code"))
	if err != nil {
		b.refuse(w, r, statusOf(err), err)
		return
	}
	http.SetCookie(w, &http.Cookie{
		Name: sessionCookie, Value: secret, Path: "/", MaxAge: int(session.Until.Sub(b.provider.now()) / time.Second),
		HttpOnly: true, Secure: true, SameSite: http.SameSiteLaxMode,
	})
	http.Redirect(w, r, f.To, http.StatusSeeOther)
}

// refuse tells of a login that failed, there and here.
func (b *Browsers) refuse(w http.ResponseWriter, r *http.Request, status int, err error) {
	b.log.Warn("denied", "call", callbackPath, "from", r.RemoteAddr, "why", err)
	tell(w, status, err, "/")
}

// returned is the login that a browser comes back from.
func (b *Browsers) returned(r *http.Request) (f flow, err error) {
	query := r.URL.Query()
	if r.Method != http.MethodGet || !b.seal.open(cookie(r, flowCookie), &f) || f.State == "" {
		return flow{}, fault.New(fault.Denied, "this browser is not in the middle of a login here")
	}
	switch {
	case subtle.ConstantTimeCompare([]byte(f.State), []byte(query.Get("state"))) != 1:
		return flow{}, fault.New(fault.Denied, "this is the end of another login than this browser began last")
	case b.provider.now().After(f.Until):
		return flow{}, fault.New(fault.Denied, "the login took more than %s", maxLogin)
	}
	return f, b.provider.answered(query)
}

// answered checks what the provider says besides the code.
func (p *Provider) answered(query url.Values) error {
	switch issuer := query.Get("iss"); { // RFC 9207
	case issuer != "" && issuer != p.config.Issuer:
		return fault.New(fault.Denied, "the login was answered by %.200q, which is not the provider", issuer)
	case query.Get("error") != "":
		return fault.New(fault.Denied, "the provider %s refused the login: %.300s", p.config.Issuer, cmp.Or(query.Get("error_description"), query.Get("error")))
	case query.Get("code") == "":
		return fault.New(fault.Denied, "the provider %s answered the login with nothing", p.config.Issuer)
	}
	return nil
}

// redeem makes a session of the provider's code.
func (b *Browsers) redeem(ctx context.Context, base *url.URL, f flow, code string) (_ store.Token, secret string, err error) {
	config, err := b.config(ctx, base)
	if err != nil {
		return store.Token{}, "", err
	}
	token, err := b.provider.redeem(ctx, config, code, f.Verifier)
	if err != nil {
		return store.Token{}, "", err
	}
	audience := b.client
	if b.client == b.provider.config.ClientID {
		audience = b.provider.config.Audience
	}
	person, err := b.provider.verify(ctx, token, f.Nonce, b.client, audience)
	if err != nil {
		return store.Token{}, "", err
	}
	return b.sessions.Begin(ctx, person, token)
}

// logout ends the session, when it is a person on these pages who asks.
func (b *Browsers) logout(w http.ResponseWriter, r *http.Request) {
	if site := r.Header.Get("Sec-Fetch-Site"); site != "" && site != "same-origin" && site != "none" || r.Method != http.MethodGet {
		write(w, http.StatusOK, plainPage{Message: "You are still logged in.", Link: logoutPath, Text: "Log out"})
		return
	}
	if err := b.sessions.end(r); err != nil && !fault.Is(err, fault.Denied) {
		tell(w, statusOf(err), err, "")
		return
	}
	http.SetCookie(w, &http.Cookie{Name: sessionCookie, Path: "/", MaxAge: -1, HttpOnly: true, Secure: true, SameSite: http.SameSiteLaxMode})
	write(w, http.StatusOK, plainPage{Message: "You are logged out of Lehr.", Hint: "Your login at the provider goes on.", Link: "/", Text: "Log in"})
}

func cookie(r *http.Request, name string) string {
	if c, err := r.Cookie(name); err == nil {
		return c.Value
	}
	return ""
}

func statusOf(err error) int {
	switch fault.KindOf(err) {
	case fault.Denied:
		return http.StatusForbidden
	case fault.Unavailable:
		return http.StatusServiceUnavailable
	default:
		return http.StatusInternalServerError
	}
}

// plainPage is what a page without script or style tells.
type plainPage struct{ Message, Hint, Link, Text string }

var plain = template.Must(template.New("").Parse(`<!doctype html><html lang="en"><title>Lehr</title>
<p>{{.Message}}</p>{{with .Hint}}<p>{{.}}</p>{{end}}{{if .Link}}<p><a href="{{.Link}}">{{.Text}}</a></p>{{end}}
`))

// tell shows an error, and where to begin again.
func tell(w http.ResponseWriter, status int, err error, again string) {
	page := plainPage{Message: err.Error(), Link: again, Text: "Log in again"}
	if cause, ok := errors.AsType[*fault.Error](err); ok {
		page.Message, page.Hint = cause.Message, cause.Hint
	}
	write(w, status, page)
}

func write(w http.ResponseWriter, status int, page plainPage) {
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(status)
	_ = plain.Execute(w, page)
}
