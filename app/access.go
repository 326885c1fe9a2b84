package app

import (
	"context"
	"errors"
	"net/http"
	"os"
	"strings"

	"lehr.dev/access"
	"lehr.dev/access/oidc"
	"lehr.dev/client"
	"lehr.dev/fault"
	"lehr.dev/intent"
	"lehr.dev/store"
	"lehr.dev/web"
)

// logins are how people log in. Without a provider all is nil.
type logins struct {
	sessions *oidc.Sessions
	exchange *oidc.Exchange
	browsers *oidc.Browsers
}

// openAccess reads the policy, puts it into force, and prepares the provider,
// which is not asked yet.
func (a *App) openAccess(ctx context.Context) error {
	if a.options.Access == "" {
		return nil
	}
	policy, err := access.ReadPolicy(a.options.Access)
	if err != nil {
		return err
	}
	by := intent.Actor{Name: a.holder, Origin: "server"}
	if err := a.store.SetPolicy(ctx, policy.Grants, by); err != nil || policy.OIDC.Issuer == "" {
		return err
	}
	secret := ""
	if file := policy.OIDC.WebClientSecretFile; file != "" {
		text, err := os.ReadFile(file)
		if err == nil && strings.TrimSpace(string(text)) == "" {
			err = errors.New("it is empty")
		}
		if err != nil {
			return fault.New(fault.Unavailable, "reading the web client's secret from %s: %w", file, err).
				WithHint("write what the provider gave into the file that web_client_secret_file names in %s", a.options.Access)
		}
		secret = strings.TrimSpace(string(text))
	}
	provider := oidc.New(policy.OIDC, a.options.Roots, a.runtime.Now)
	a.logins.sessions = oidc.NewSessions(a.store, a.runtime.Now)
	a.logins.exchange = oidc.NewExchange(provider, a.logins.sessions, a.options.URLs)
	if len(a.options.URLs) > 0 {
		a.logins.browsers = oidc.NewBrowsers(provider, a.logins.sessions, a.options.URLs, secret)
	}
	return nil
}

// remoteSite serves the API to bearers of the store's tokens, and pages to
// browsers that log in.
func (a *App) remoteSite() http.Handler {
	api := access.Remote{Hosts: access.HostsOf(a.options.URLs), Tokens: a.store, Now: a.runtime.Now}.Guard(a.api.Handler())
	options := web.DefaultOptions(client.InProcess(a.api.Handler()))
	options.Viewer = func(ctx context.Context) web.Viewer {
		caller, _ := store.CallerOf(ctx)
		return web.Viewer{Key: caller.Token, Name: caller.Actor.Name}
	}
	pages := access.OnlyRead(access.HostsOf(a.options.URLs), http.HandlerFunc(nobodyLogsIn))
	if a.logins.browsers != nil {
		pages = a.logins.browsers.Guard(web.New(options).Handler())
	}
	return byPath(api, pages)
}

func nobodyLogsIn(w http.ResponseWriter, _ *http.Request) {
	http.Error(w, "Nobody can log in to these pages: the server's access policy names no provider (oidc), or the server was given no --url.\n\n"+
		"On the server's machine, lehr page prints a link to them.", http.StatusForbidden)
}

// byPath tells calls from pages.
func byPath(api, pages http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasPrefix(r.URL.Path, apiPrefix) {
			api.ServeHTTP(w, r)
			return
		}
		pages.ServeHTTP(w, r)
	})
}
