package app

import (
	"errors"
	"net/http"
	"reflect"
	"strings"

	"lehr.dev/internal/access"
	"lehr.dev/internal/access/oidc"
	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/files"
)

// logins are how people log in, by what the policy and the file of the secret
// said last. Without a provider neither part is there.
type logins struct {
	policy   access.OIDC
	secret   string
	exchange *oidc.Exchange
	browsers *oidc.Browsers
}

// newLogins prepares what the policy says of the provider, which is not asked
// yet. While it says what it said, logins under way go on.
func (a *App) newLogins(policy access.OIDC) (*logins, error) {
	if policy.Issuer == "" {
		policy = access.OIDC{}
	}
	secret, err := a.webSecret(policy.WebClientSecretFile)
	if err != nil {
		return nil, err
	}
	previous := a.logins.Load()
	if previous != nil && previous.secret == secret && reflect.DeepEqual(previous.policy, policy) {
		return previous, nil
	}
	l := &logins{policy: policy, secret: secret}
	if policy.Issuer == "" {
		return l, nil
	}
	provider := oidc.New(policy, a.options.Roots, a.runtime.Now)
	sessions := oidc.NewSessions(a.store, a.runtime.Now, func() int { return a.quotas.Limits().Sessions })
	l.exchange = oidc.NewExchange(provider, sessions, a.options.URLs)
	if len(a.options.URLs) > 0 {
		l.browsers = oidc.NewBrowsers(provider, sessions, a.options.URLs, secret, a.log)
	}
	return l, nil
}

func (a *App) webSecret(file string) (string, error) {
	if file == "" {
		return "", nil
	}
	text, err := files.Read(file, files.MostGiven)
	secret := strings.TrimSpace(string(text))
	if err == nil && secret == "" {
		err = errors.New("it is empty")
	}
	if err != nil {
		return "", fault.New(fault.Unavailable, "reading the web client's secret from %s: %w", file, err).
			WithHint("write what the provider gave into the file that web_client_secret_file names in %s", a.options.Access)
	}
	return secret, nil
}

// exchange is nil while nobody can log in.
func (a *App) exchange() *oidc.Exchange {
	if l := a.logins.Load(); l != nil {
		return l.exchange
	}
	return nil
}

// guardPages lets those browsers in that log in as the policy says now.
func (a *App) guardPages(hosts access.Hosts, pages http.Handler) http.Handler {
	nobody := access.GuardBrowser(hosts, http.HandlerFunc(nobodyLogsIn))
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if l := a.logins.Load(); l != nil && l.browsers != nil {
			l.browsers.Guard(pages).ServeHTTP(w, r)
			return
		}
		nobody.ServeHTTP(w, r)
	})
}
