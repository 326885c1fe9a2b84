package app

import (
	"errors"
	"os"
	"strings"

	"lehr.dev/access/oidc"
	"lehr.dev/fault"
)

// logins are how people log in. Without a provider all is nil.
type logins struct {
	exchange *oidc.Exchange
	browsers *oidc.Browsers
}

// openLogins prepares what the policy says of the provider, which is not asked
// yet. What it says later counts from the next start.
func (a *App) openLogins() error {
	policy := a.policy.Load()
	if policy == nil || policy.OIDC.Issuer == "" {
		return nil
	}
	secret, err := a.webSecret(policy.OIDC.WebClientSecretFile)
	if err != nil {
		return err
	}
	provider := oidc.New(policy.OIDC, a.options.Roots, a.runtime.Now)
	sessions := oidc.NewSessions(a.store, a.runtime.Now)
	a.logins.exchange = oidc.NewExchange(provider, sessions, a.options.URLs)
	if len(a.options.URLs) > 0 {
		a.logins.browsers = oidc.NewBrowsers(provider, sessions, a.options.URLs, secret, a.log)
	}
	return nil
}

func (a *App) webSecret(file string) (string, error) {
	if file == "" {
		return "", nil
	}
	text, err := os.ReadFile(file)
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
